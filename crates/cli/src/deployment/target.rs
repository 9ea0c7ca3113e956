//! Which deployment a command asks. Arguments win over the user's file.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use ebb_cloud::endpoint::Endpoint;
use ebb_telemetry::identity::Region;

use super::config_file::ConfigFile;
use crate::args::DeploymentArgs;

/// The name of the entry that is used without a name.
const DEFAULT: &str = "default";

/// The place of a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// A bucket of AWS.
    Bucket(String),
    /// The place of `ebb sweep`.
    Lake(String),
    /// An HTTP API.
    Api(Endpoint),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bucket(name) => write!(f, "bucket {name}"),
            Self::Lake(url) => write!(f, "lake {url}"),
            Self::Api(url) => write!(f, "API {}", url.as_str()),
        }
    }
}

/// Where a value was set, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ValueSource {
    /// An option of the command line.
    CommandLine,
    /// A line of the user's file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The name of the entry.
        entry: String,
    },
}

impl fmt::Display for ValueSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandLine => f.write_str("command line"),
            Self::File { path, line, entry } => {
                write!(f, "{}:{line}, [{entry}]", path.display())
            }
        }
    }
}

/// A value with its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting<T> {
    pub(crate) value: T,
    pub(crate) source: ValueSource,
}

impl<T> Setting<T> {
    fn from_command_line(value: T) -> Self {
        let source = ValueSource::CommandLine;
        Self { value, source }
    }
}

/// `VALUE`, followed by its source unless the user can see it on the command line.
impl<T: fmt::Display> fmt::Display for Setting<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            ValueSource::CommandLine => write!(f, "{}", self.value),
            source => write!(f, "{} ({source})", self.value),
        }
    }
}

/// The deployment that a command asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) place: Setting<Place>,
    pub(crate) region: Option<Setting<Region>>,
    /// The profile of the AWS configuration file.
    pub(crate) profile: Option<Setting<String>>,
    /// The policy file for evaluations on this machine.
    pub(crate) policy: Option<Setting<PathBuf>>,
    /// Whether the user named the deployment, or it is the default.
    pub(crate) is_default: bool,
}

/// The deployment that the arguments name, otherwise the entry of `EBB_DEPLOYMENT` (`variable`),
/// otherwise the entry `[default]`; `None` if there is none. The file at `path` is read only if it is
/// needed, so that an error in the file does not stop a complete command line.
pub(crate) fn choose(
    args: &DeploymentArgs,
    variable: Option<&str>,
    path: Option<&Path>,
    load: impl FnOnce() -> Result<Option<ConfigFile>>,
) -> Result<Option<Target>> {
    let region = args.region.clone().map(Setting::from_command_line);
    let profile = args.profile.clone().map(Setting::from_command_line);
    if let Some(place) = place_of(args) {
        return Ok(Some(Target {
            place: Setting::from_command_line(place),
            region,
            profile,
            policy: None,
            is_default: false,
        }));
    }
    let name = args.deployment.as_deref().or(variable);
    let file = load()?;
    let entry = match (file, name) {
        (Some(file), Some(name)) => file.entry(name)?,
        (Some(file), None) if file.has(DEFAULT) => file.entry(DEFAULT)?,
        (Some(_), None) | (None, None) => return Ok(None),
        (None, Some(name)) => anyhow::bail!(
            "no deployment '{name}': {} does not exist\n  write it with: ebb init --name {name} \
             --bucket NAME, or --lake URL, or --api URL",
            path.unwrap_or(Path::new("the file of deployments"))
                .display()
        ),
    };
    Ok(Some(Target {
        region: region.or(entry.region),
        profile: profile.or(entry.profile),
        is_default: args.deployment.is_none(),
        ..entry
    }))
}

fn place_of(args: &DeploymentArgs) -> Option<Place> {
    let bucket = args.bucket.clone().map(Place::Bucket);
    let lake = args.lake.clone().map(Place::Lake);
    bucket.or(lake).or(args.api.clone().map(Place::Api))
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    const FILE: &str = "[default]\nbucket = \"b\"\nregion = \"eu-central-1\"\n\
        [lab]\nlake = \"file:///srv/ebb\"\n";

    fn args(deployment: Option<&str>, bucket: Option<&str>) -> DeploymentArgs {
        DeploymentArgs {
            deployment: deployment.map(str::to_owned),
            bucket: bucket.map(str::to_owned),
            ..DeploymentArgs::default()
        }
    }

    #[test]
    fn arguments_win_then_the_variable_then_the_default() {
        let check = |args: &DeploymentArgs, variable: Option<&str>, expect: Result<&str, &str>| {
            let load = || ConfigFile::parse(Path::new("c.toml"), FILE).map(Some);
            let got = choose(args, variable, None, load);
            let got = got.map(|target| target.map(|target| target.place.to_string()));
            match (got, expect) {
                (Ok(Some(got)), Ok(expect)) => assert_eq!(got, expect),
                (Err(got), Err(expect)) => assert!(got.to_string().contains(expect), "{got}"),
                (got, expect) => panic!("{got:?} should be {expect:?}"),
            }
        };
        let none = args(None, None);
        check(&none, None, Ok("bucket b (c.toml:2, [default])"));
        let lab = Ok("lake file:///srv/ebb (c.toml:5, [lab])");
        check(&none, Some("lab"), lab);
        check(&args(Some("lab"), None), Some("default"), lab);
        check(&args(None, Some("x")), Some("lab"), Ok("bucket x"));
        check(&args(Some("no"), None), None, Err("has no deployment 'no'"));
    }

    #[test]
    fn a_region_of_the_command_line_wins_over_that_of_the_file() {
        let mut args = args(None, None);
        args.region = Some(Region::new("us-east-1").expect("a region"));
        let load = || ConfigFile::parse(Path::new("c.toml"), FILE).map(Some);
        let target = choose(&args, None, None, load).expect("it is valid");
        let region = target.and_then(|target| target.region).expect("a region");
        assert_eq!(region.to_string(), "us-east-1");
    }

    #[test]
    fn the_file_is_not_read_if_the_place_is_on_the_command_line() {
        let target = choose(&args(None, Some("b")), Some("lab"), None, || {
            bail!("it is invalid")
        });
        assert!(target.expect("it is not read").is_some());
        let path = Some(Path::new("/home/ana/.config/ebb/config.toml"));
        let nothing = choose(&args(None, None), None, path, || Ok(None));
        assert_eq!(nothing.expect("no file is no error"), None);
        let error = choose(&args(None, None), Some("lab"), path, || Ok(None)).expect_err("a name");
        let error = error.to_string();
        assert!(error.contains("ebb init --name lab"), "{error}");
        let expect = "no deployment 'lab': /home/ana/.config/ebb/config.toml does not exist";
        assert!(error.starts_with(expect), "{error}");
    }
}
