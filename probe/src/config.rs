//! The probe's configuration: one struct with the defaults in one place. The environment takes
//! precedence over the file. Unknown keys are refused with their line or variable.

#[cfg(test)]
mod tests;

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ebb_telemetry::identity::{NodeId, Region};
use ebb_telemetry::shard::Shard;
use ebb_telemetry::units::Bytes;
use ebb_wire::MAX_HEARTBEATS;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use thiserror::Error;

use crate::label_rules::line_of;

/// The path at which `infra/install` writes the file.
pub const DEFAULT_PATH: &str = "/etc/ebb/probe.toml";

/// The prefix of the environment variables; the key follows in capitals.
const VARIABLE: &str = "EBB_PROBE_";

/// The variable with the folders of `RuntimeDirectory=`, separated by colons.
///
/// Source: `systemd.exec(5)`.
const RUNTIME_FOLDER: &str = "RUNTIME_DIRECTORY";

fn usual_watch_socket(folders: Option<&OsStr>) -> Option<PathBuf> {
    let first = folders?.to_str()?.split(':').next()?;
    (!first.is_empty()).then(|| Path::new(first).join("watch.sock"))
}

/// Why a configuration was refused.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error(
        "failed to read {path}; set another file with --config, or create it with infra/install"
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// It is not TOML, or contains an unknown key or value.
    #[error("{path}, line {line}: {reason}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The cause.
        reason: String,
    },
    /// An environment variable names an unknown key, or has an invalid value.
    #[error("{name} in the environment: {reason}")]
    Variable {
        /// The variable.
        name: String,
        /// The cause.
        reason: String,
    },
    /// A value is outside the valid range.
    #[error("{key} is {value}: {problem}")]
    Value {
        /// The key.
        key: &'static str,
        /// The configured value.
        value: u64,
        /// Why the value is not valid.
        problem: &'static str,
    },
    /// The queue or bucket is not configured.
    #[error(
        "{key} is not set; set it from `terraform output`, or use `place` or `--sink` without AWS"
    )]
    Missing {
        /// The key.
        key: &'static str,
    },
}

/// All settings. Times are in seconds, as their names show.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// An object store that receives all records, instead of queue and bucket: `file:///srv/ebb`,
    /// `s3://bucket/ebb` or `gs://bucket/ebb`. It can also be an OpenTelemetry collector:
    /// `otlp+http://127.0.0.1:4318`.
    pub place: Option<String>,
    /// The queue for heartbeats. With several shards, the list contains the queues of all shards in
    /// their order, separated by commas.
    pub queue_url: Option<String>,
    /// The bucket for finished tasks, which may also contain rules.
    pub bucket: Option<String>,
    /// The region of both; by default the region from the environment or the machine.
    #[serde(deserialize_with = "region")]
    pub region: Option<Region>,
    /// The directory for records until they are sent.
    pub spool_dir: PathBuf,
    /// The maximum size of the spool: 64 MiB store a week of heartbeats of a busy node.
    pub spool_max_bytes: u64,
    /// The length of an interval, which is the finest resolution of reports.
    pub interval_seconds: u64,
    /// The number of heartbeats that make a message, unless a node or task changed. Each message is
    /// a request to SQS: five a message cost about 0.004 USD a node and month, and one 0.021.
    pub heartbeats_per_message: u64,
    /// The time between two scans of all processes. It sets the resolution of peaks; totals are
    /// exact for any value.
    pub sample_seconds: u64,
    /// The longest time that a finished task waits for others before it is sent; by default one
    /// interval with a folder. One message every 15 minutes costs 0.0014 USD a month, and one object
    /// 0.0144.
    pub steps_seconds: u64,
    /// A rules file; by default `config/rules.toml` of the bucket, if it exists.
    pub rules: Option<PathBuf>,
    /// The socket to which schedulers send labels for tasks, such as `/run/ebb/label.sock`; none by
    /// default.
    pub label_socket: Option<PathBuf>,
    /// The socket at which `ebb top` reads running tasks. By default `watch.sock` in the folder that
    /// systemd creates for the unit; none without such a folder, and none if it is empty.
    pub watch_socket: Option<PathBuf>,
    /// The socket of Docker, such as `/run/docker.sock`, to read names, images and some labels of
    /// containers; none by default.
    pub docker_socket: Option<PathBuf>,
    /// True to name tasks of Nextflow by the first lines of their scripts `.command.run`.
    pub task_headers: bool,
    /// True to report the arguments of each task's first process, masked by the rules.
    pub export_args: bool,
    /// Number of path segments to which the paths of open files are cut in reports; 0 disables
    /// reports of open files.
    pub files_depth: u8,
    /// Where `ebb-probe update` finds newer programs; none by default. The daemon does not use it.
    pub update: Option<UpdateSettings>,
}

/// The settings of `ebb-probe update`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpdateSettings {
    /// The address of the manifest: `s3://`, `gs://` or `file:///`. Its signature and the programs are
    /// in the same folder.
    pub manifest: String,
    /// The public key of minisign that signs manifests.
    pub public_key: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            place: None,
            queue_url: None,
            bucket: None,
            region: None,
            spool_dir: "/var/lib/ebb".into(),
            spool_max_bytes: Bytes::mib(64).0,
            interval_seconds: 60,
            heartbeats_per_message: MAX_HEARTBEATS as u64,
            sample_seconds: 10,
            steps_seconds: 900,
            rules: None,
            label_socket: None,
            watch_socket: None,
            docker_socket: None,
            task_headers: false,
            export_args: false,
            files_depth: 0,
            update: None,
        }
    }
}

/// The queue and the bucket.
#[derive(Debug, Clone, Copy)]
pub struct Cloud<'a> {
    /// The queue for heartbeats, or several; see [`Cloud::queue_of`].
    pub queue_url: &'a str,
    /// The bucket for finished tasks.
    pub bucket: &'a str,
}

impl<'a> Cloud<'a> {
    /// The queue that a node sends to. If there are several, separated by commas, it is the queue
    /// of the node's shard.
    pub fn queue_of(&self, node: &NodeId) -> &'a str {
        let all: Vec<&str> = self.queue_url.split(',').map(str::trim).collect();
        let shards = u16::try_from(all.len()).unwrap_or(u16::MAX);
        let own = Shard::of_node(node, shards).index;
        all.get(usize::from(own)).unwrap_or(&self.queue_url)
    }
}

/// The value of a key. The manifest for Kubernetes contains empty values.
fn required<'a>(key: &'static str, value: Option<&'a str>) -> Result<&'a str, ConfigError> {
    let value = value.filter(|value| !value.is_empty());
    value.ok_or(ConfigError::Missing { key })
}

/// Reads a region. An empty one has the same remedy as an empty bucket.
fn region<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Region>, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.is_empty() {
        true => Err(D::Error::custom(ConfigError::Missing { key: "region" })),
        false => Region::new(text).map(Some).map_err(D::Error::custom),
    }
}

/// The environment variables of this process that set a key.
fn variables() -> Vec<(String, String)> {
    env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| name.starts_with(VARIABLE))
        .map(|(name, value)| (name, value.to_string_lossy().into_owned()))
        .collect()
}

impl Config {
    /// Reads the file at `path` and applies the environment variables of this process. If there are
    /// such variables, the file is optional.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let variables = variables();
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == ErrorKind::NotFound && !variables.is_empty() => {
                String::new()
            }
            read => read.map_err(|source| ConfigError::Read {
                path: path.into(),
                source,
            })?,
        };
        let mut config = Self::parse(&text, path, variables)?;
        let folder = env::var_os(RUNTIME_FOLDER);
        config.watch_socket =
            (config.watch_socket).or_else(|| usual_watch_socket(folder.as_deref()));
        Ok(config)
    }

    fn parse(
        text: &str,
        path: &Path,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let syntax = |error: toml::de::Error| ConfigError::Syntax {
            path: path.into(),
            line: line_of(text, error.span().map_or(0, |span| span.start)),
            reason: error.message().to_owned(),
        };
        // Parsed as the struct, because its errors contain the line number.
        let mut config: Self = toml::from_str(text).map_err(syntax)?;
        let mut table: toml::Table = text.parse().map_err(syntax)?;
        for (name, value) in variables {
            let key = name.replacen(VARIABLE, "", 1).to_lowercase();
            config =
                Self::set(&mut table, &key, &value).map_err(|error| ConfigError::Variable {
                    name,
                    reason: error.message().to_owned(),
                })?;
        }
        config.checked()
    }

    /// Sets one key to the value of a variable: a number or boolean if the key has that type,
    /// otherwise the text.
    fn set(table: &mut toml::Table, key: &str, text: &str) -> Result<Self, toml::de::Error> {
        let literal = match (text.parse(), text.parse()) {
            (Ok(number), _) => toml::Value::Integer(number),
            (_, Ok(truth)) => toml::Value::Boolean(truth),
            _ => toml::Value::String(text.to_owned()),
        };
        table.insert(key.to_owned(), literal);
        Self::deserialize(table.clone()).or_else(|refused| {
            // The name of a bucket can be a number.
            table.insert(key.to_owned(), toml::Value::String(text.to_owned()));
            Self::deserialize(table.clone()).map_err(|_| refused)
        })
    }

    /// The environment variables of this process with `place` as the only destination, without a
    /// file. The spool is in the directory too, or at its default path for a URL.
    ///
    /// # Errors
    /// If a variable is not valid, or if the path is relative and there is no current directory.
    pub fn of_place(place: &str) -> Result<Self, ConfigError> {
        let config = Self::parse("", Path::new(""), variables())?;
        if place.contains("://") {
            let place = Some(place.to_owned());
            return Self { place, ..config }.checked();
        }
        let read = |source| ConfigError::Read {
            path: place.into(),
            source,
        };
        let folder = std::path::absolute(place).map_err(read)?;
        let has_spool = config.spool_dir != Self::default().spool_dir;
        let spool = folder.join("spool");
        Self {
            place: Some(folder.to_string_lossy().into_owned()),
            spool_dir: if has_spool { config.spool_dir } else { spool },
            ..config
        }
        .checked()
    }

    /// The same configuration with another interval length, and with scans at least as often.
    pub fn with_interval(mut self, seconds: u64) -> Result<Self, ConfigError> {
        self.interval_seconds = seconds;
        self.sample_seconds = self.sample_seconds.min(seconds);
        if self.is_in_folder() {
            self.steps_seconds = self.steps_seconds.min(seconds);
        }
        self.checked()
    }

    /// Whether all records go to a folder of this machine.
    fn is_in_folder(&self) -> bool {
        let is_folder = |place: &String| place.starts_with('/') || place.starts_with("file:");
        self.place.as_ref().is_some_and(is_folder)
    }

    fn checked(mut self) -> Result<Self, ConfigError> {
        // The default must not make a short interval an error.
        if self.sample_seconds == Self::default().sample_seconds {
            self.sample_seconds = self.sample_seconds.min(self.interval_seconds.max(1));
        }
        // The default is for a cloud, where each request costs money.
        if self.steps_seconds == Self::default().steps_seconds && self.is_in_folder() {
            self.steps_seconds = self.interval_seconds.max(1);
        }
        let check = |key, value: u64, least: u64, most: u64, problem| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            Err(ConfigError::Value {
                key,
                value,
                problem,
            })
        };
        check(
            "interval_seconds",
            self.interval_seconds,
            1,
            3_600,
            "an interval has 1 to 3600 seconds",
        )?;
        check(
            "heartbeats_per_message",
            self.heartbeats_per_message,
            1,
            MAX_HEARTBEATS as u64,
            "a message has 1 to 5 heartbeats",
        )?;
        check(
            "sample_seconds",
            self.sample_seconds,
            1,
            self.interval_seconds,
            "scans are 1 second to interval_seconds apart",
        )?;
        check(
            "steps_seconds",
            self.steps_seconds,
            1,
            86_400,
            "finished steps wait 1 second to a day",
        )?;
        check(
            "spool_max_bytes",
            self.spool_max_bytes,
            Bytes::mib(1).0,
            u64::MAX,
            "the spool holds 1 MiB (1048576) at least",
        )?;
        Ok(self)
    }

    /// Directory for state that survives a restart.
    pub fn state_dir(&self) -> PathBuf {
        self.spool_dir.join("state")
    }

    /// The number of scans in one interval and the time between them. The last scan is at the end
    /// of the interval.
    pub fn scans(&self) -> (u32, Duration) {
        let count = self
            .interval_seconds
            .div_ceil(self.sample_seconds.max(1))
            .max(1);
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        (count, Duration::from_secs(self.interval_seconds) / count)
    }

    /// The queue and the bucket.
    pub fn cloud(&self) -> Result<Cloud<'_>, ConfigError> {
        Ok(Cloud {
            queue_url: required("queue_url", self.queue_url.as_deref())?,
            bucket: required("bucket", self.bucket.as_deref())?,
        })
    }
}
