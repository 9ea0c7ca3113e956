//! The source of the rules: a file, the bucket, or the program itself.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ebb_cloud::ports::{CloudError, Objects};
use thiserror::Error;

use super::{Rules, RulesError};

/// The key of the rules in the bucket.
const KEY: &str = "config/rules.toml";

/// Maximum size of a rules file; a thousand rules take about a tenth of it.
const MAX_BYTES: u64 = 1 << 20;

/// A source of rules.
pub enum RulesSource {
    /// No source: only the built-in rules apply.
    BuiltIn,
    /// A file on this machine.
    File(PathBuf),
    /// The deployment's bucket.
    Bucket(Box<dyn Objects>),
}

impl RulesSource {
    /// How often rules are read again. Reading a file costs nothing, and a change takes effect
    /// within a minute. Reading a bucket each minute would cost 0.02 USD a month, as much as all
    /// other requests of a node.
    pub const fn period(&self) -> Duration {
        match self {
            Self::BuiltIn | Self::File(_) => Duration::from_secs(30),
            Self::Bucket(_) => Duration::from_secs(600),
        }
    }
}

/// Why rules could not be read.
#[derive(Debug, Error)]
pub enum SourceError {
    /// The file could not be read.
    #[error("failed to read the rules {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The bucket could not be read.
    #[error("failed to read the rules from the bucket")]
    Bucket(#[from] CloudError),
    /// The file is too large.
    #[error("the rules {path} are larger than {MAX_BYTES} bytes")]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The rules are not UTF-8.
    #[error("the rules are not UTF-8")]
    NotText,
    /// The rules are not valid.
    #[error("the rules have an error")]
    Refused(#[from] RulesError),
    /// The bucket did not answer.
    #[error("timed out reading the rules after {seconds} s")]
    NoAnswer {
        /// The time limit in seconds.
        seconds: u64,
    },
}

/// The result of reading a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RulesLookup {
    /// Rules that are tried before the built-in ones, and their text.
    Rules(Rules, String),
    /// No rules; only the built-in ones apply.
    Nothing,
    /// Either there are no rules, or reading them is denied: without the right to list, S3
    /// answers "denied" in both cases.
    Denied,
}

impl RulesSource {
    /// The rules as they are now.
    ///
    /// # Errors
    /// If they cannot be read or have an error.
    pub async fn read(&self) -> Result<RulesLookup, SourceError> {
        let bytes = match self {
            Self::BuiltIn => return Ok(RulesLookup::Nothing),
            Self::File(path) => bounded(path)?,
            Self::Bucket(objects) => match objects.get(KEY, MAX_BYTES).await {
                Ok(object) => object.bytes,
                Err(CloudError::Missing { .. }) => return Ok(RulesLookup::Nothing),
                Err(CloudError::Denied { .. }) => return Ok(RulesLookup::Denied),
                Err(error) => return Err(error.into()),
            },
        };
        found_in(bytes)
    }
}

/// Parses the bytes of a rules file.
fn found_in(bytes: Vec<u8>) -> Result<RulesLookup, SourceError> {
    let text = String::from_utf8(bytes).map_err(|_| SourceError::NotText)?;
    Ok(RulesLookup::Rules(
        Rules::parse(&text)?.before(Rules::built_in()),
        text,
    ))
}

/// Reads a rules file of this machine.
///
/// # Errors
/// If it cannot be read or has an error.
pub(super) fn read_file(path: &Path) -> Result<RulesLookup, SourceError> {
    found_in(bounded(path)?)
}

/// The content of a file, if it is not larger than the limit.
fn bounded(path: &Path) -> Result<Vec<u8>, SourceError> {
    let failed = |source| SourceError::File {
        path: path.into(),
        source,
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    if read.map_err(failed)? as u64 > MAX_BYTES {
        return Err(SourceError::TooLarge { path: path.into() });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use ebb_cloud::fake::{FakeClock, FakeObjects};
    use jiff::Timestamp;

    use super::*;

    const OWN: &str = "[[rule]]\nname = \"ours\"\nprogram = [\"cron\"]\nclass = \"workload\"";

    fn bucket_with(rules: Option<&[u8]>) -> RulesSource {
        let objects = FakeObjects::new(FakeClock::at(Timestamp::UNIX_EPOCH));
        if let Some(bytes) = rules {
            objects.insert(KEY, bytes);
        }
        RulesSource::Bucket(Box::new(objects))
    }

    #[tokio::test(flavor = "current_thread")]
    async fn rules_are_the_buckets_before_the_built_in_ones() {
        let own = Rules::parse(OWN).expect("valid").before(Rules::built_in());
        let own = RulesLookup::Rules(own, OWN.to_owned());
        let check = async |source: RulesSource, expect: Result<RulesLookup, &str>| {
            let got = source.read().await.map_err(|error| error.to_string());
            assert_eq!(got, expect.map_err(str::to_owned));
        };
        check(RulesSource::BuiltIn, Ok(RulesLookup::Nothing)).await;
        check(bucket_with(None), Ok(RulesLookup::Nothing)).await;
        check(bucket_with(Some(OWN.as_bytes())), Ok(own.clone())).await;
        check(
            bucket_with(Some(b"rule = 3")),
            Err("the rules have an error"),
        )
        .await;
        check(bucket_with(Some(&[0xff])), Err("the rules are not UTF-8")).await;
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("rules.toml");
        std::fs::write(&file, OWN).expect("a file");
        check(RulesSource::File(file), Ok(own)).await;
        let large = folder.path().join("large.toml");
        std::fs::write(&large, "# a line\n".repeat(200_000)).expect("a file");
        let words = format!(
            "the rules {} are larger than 1048576 bytes",
            large.display()
        );
        check(RulesSource::File(large), Err(&words)).await;
        let nowhere = RulesSource::File("/nowhere".into());
        check(nowhere, Err("failed to read the rules /nowhere")).await;
    }
}
