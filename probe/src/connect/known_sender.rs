//! The identity that the cloud attested to an earlier run. A probe that restarts while the cloud
//! does not answer uses it, so that it observes the node in the meantime.

use std::path::Path;

use ebb_cloud::ports::{CloudError, CloudResult};
use ebb_telemetry::identity::{BootId, attested};
use serde::{Deserialize, Serialize};

use crate::durable::{self, DiskError, failed};

/// The file's name in the state folder.
const NAME: &str = "sender.json";

/// Limit when reading the file, which has about 150 bytes.
const MAX_BYTES: u64 = 4 << 10;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KnownSender {
    /// A disk image can contain the file of another machine, which had another boot.
    boot: BootId,
    sender: String,
}

/// The sender in `answer`, which is stored in `folder` if it identifies a node. If the cloud did
/// not answer, the sender that an earlier run stored since this boot.
///
/// # Errors
/// The error in `answer`, if the cloud denied it or no sender is known.
pub(super) fn sender_or_known(
    answer: CloudResult<String>,
    folder: &Path,
    boot: &BootId,
) -> CloudResult<String> {
    match answer {
        Ok(sender) => {
            let known = KnownSender {
                boot: boot.clone(),
                sender,
            };
            if attested(&known.sender).is_ok()
                && let Err(error) = store(folder, &known)
            {
                tracing::warn!(
                    error = %error.source,
                    "{error}; the probe cannot restart while AWS does not answer"
                );
            }
            Ok(known.sender)
        }
        Err(error @ CloudError::Failed { .. }) => {
            let Some(sender) = read(folder, boot) else {
                return Err(error);
            };
            tracing::warn!(%error, sender, "failed to get the identity from AWS; the earlier one is used");
            Ok(sender)
        }
        Err(error) => Err(error),
    }
}

fn store(folder: &Path, known: &KnownSender) -> Result<(), DiskError> {
    let path = folder.join(NAME);
    let bytes = serde_json::to_vec(known).map_err(|error| failed(&path, "write")(error.into()))?;
    durable::make_own_folder(folder)?;
    durable::write_file(&path, &bytes)
}

fn read(folder: &Path, boot: &BootId) -> Option<String> {
    let bytes = durable::read_file(&folder.join(NAME), MAX_BYTES).ok()??;
    let known: KnownSender = serde_json::from_slice(&bytes).ok()?;
    (known.boot == *boot).then_some(known.sender)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_without_an_answer_uses_the_sender_of_the_same_boot() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("state");
        let check = |answer: CloudResult<&str>, boot: &str, expect: Option<&str>| {
            let boot = BootId::new(boot).expect("valid");
            let got = sender_or_known(answer.map(str::to_owned), &folder, &boot);
            assert_eq!(got.ok().as_deref(), expect);
        };
        let operation = || "sts:GetCallerIdentity".to_owned();
        let no_answer = || CloudError::Failed {
            operation: operation(),
            message: "timed out".to_owned(),
        };
        let denied = || CloudError::Denied {
            operation: operation(),
            message: "no".to_owned(),
        };
        check(Err(no_answer()), "a", None);
        check(Ok("AROAX:i-1"), "a", Some("AROAX:i-1"));
        check(Err(no_answer()), "a", Some("AROAX:i-1"));
        check(Err(denied()), "a", None);
        check(Err(no_answer()), "b", None);
        // A new role replaces the known one.
        check(Ok("AROAY:i-1"), "a", Some("AROAY:i-1"));
        check(Err(no_answer()), "a", Some("AROAY:i-1"));
        // A user's key names no node and is not stored.
        check(Ok("123456789012"), "a", Some("123456789012"));
        check(Err(no_answer()), "a", Some("AROAY:i-1"));
        std::fs::write(folder.join(NAME), "{").expect("written");
        check(Err(no_answer()), "a", None);
    }

    #[test]
    fn a_disk_that_fails_does_not_hide_the_answer() {
        let boot = BootId::new("a").expect("valid");
        let answer = Ok("AROAX:i-1".to_owned());
        let got = sender_or_known(answer, Path::new("/proc/nowhere"), &boot);
        assert_eq!(got.expect("answered"), "AROAX:i-1");
    }
}
