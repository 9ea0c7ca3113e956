//! The decisions of people about findings: one object in the bucket, which every sweep reads and
//! the terminal and the API change. A change is a conditional write, and is repeated after a
//! conflict.

use ebb_model::decision::{DecisionError, Decisions};
use thiserror::Error;

use crate::ports::{CloudError, Objects, PutIf, PutOptions};

/// The key of the object.
pub const KEY: &str = "decisions/v1/findings.json";

/// Maximum size of the object.
const MAX_BYTES: u64 = 32 << 20;

/// Maximum number of attempts. Two people rarely decide at the same time, and never five times in a
/// row.
const ATTEMPTS: u32 = 5;

/// Why decisions could not be read or changed.
#[derive(Debug, Error)]
pub enum DecisionsError {
    /// The bucket failed.
    #[error("failed to read or write the decisions {KEY}")]
    Cloud(#[source] CloudError),
    /// The object is not valid.
    #[error(
        "failed to decode the decisions {KEY}; restore an earlier version of the object, or delete \
         it"
    )]
    Garbled(#[source] serde_json::Error),
    /// The object has an unknown schema.
    #[error("the decisions {KEY} have the newer schema {0}; update Ebb")]
    Schema(String),
    /// The decision was refused.
    #[error(transparent)]
    Refused(#[from] DecisionError),
    /// Every attempt had a conflict.
    #[error("others changed the decisions {KEY} {ATTEMPTS} times in a row; try again")]
    Contended,
}

/// Reads the decisions; empty if there are none.
///
/// # Errors
/// If the bucket fails, or the object is not valid.
pub async fn load(objects: &dyn Objects) -> Result<Decisions, DecisionsError> {
    Ok(read(objects).await?.0)
}

async fn read(objects: &dyn Objects) -> Result<(Decisions, PutIf), DecisionsError> {
    let object = match objects.get(KEY, MAX_BYTES).await {
        Ok(object) => object,
        Err(CloudError::Missing { .. }) => return Ok((Decisions::default(), PutIf::Absent)),
        Err(error) => return Err(DecisionsError::Cloud(error)),
    };
    let decisions: Decisions =
        serde_json::from_slice(&object.bytes).map_err(DecisionsError::Garbled)?;
    match decisions.schema.starts_with("ebb.decisions/1.") {
        true => Ok((decisions, PutIf::Matches(object.etag))),
        false => Err(DecisionsError::Schema(decisions.schema)),
    }
}

/// Changes the decisions, and returns the result of `change`.
///
/// # Errors
/// As for [`load`]; an error of `change`; `Contended`.
pub async fn change<T>(
    objects: &dyn Objects,
    change: impl Fn(&mut Decisions) -> Result<T, DecisionError>,
) -> Result<T, DecisionsError> {
    for _ in 0..ATTEMPTS {
        let (mut decisions, condition) = read(objects).await?;
        let done = change(&mut decisions)?;
        let bytes = serde_json::to_vec(&decisions).map_err(DecisionsError::Garbled)?;
        let options = PutOptions {
            condition,
            content_type: Some("application/json"),
            ..PutOptions::default()
        };
        match objects.put(KEY, bytes, options).await {
            Ok(_) => return Ok(done),
            Err(CloudError::Conflict { .. }) => {}
            Err(error) => return Err(DecisionsError::Cloud(error)),
        }
    }
    Err(DecisionsError::Contended)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use crate::fake::clock::FakeClock;
    use crate::fake::objects::FakeObjects;
    use ebb_model::decision::{Decision, Verb};
    use jiff::Timestamp;

    use super::*;

    fn bucket() -> FakeObjects {
        FakeObjects::new(FakeClock::at(Timestamp::UNIX_EPOCH))
    }

    fn dismissal(by: &str) -> Decision {
        Decision {
            verb: Verb::Dismiss,
            reason: "a course".to_owned(),
            by: by.to_owned(),
            at: Timestamp::UNIX_EPOCH,
            until: None,
        }
    }

    #[tokio::test]
    async fn two_who_decide_at_once_both_hold() {
        let bucket = bucket();
        let runs = AtomicU32::new(0);
        let other = async || {
            let decide = |all: &mut Decisions| all.decide("b", dismissal("ben"));
            change(&bucket, decide).await.expect("decided");
        };
        let slow = |all: &mut Decisions| {
            if runs.fetch_add(1, Ordering::Relaxed) == 0 {
                // Between the read and the write of this change.
                futures::executor::block_on(other());
            }
            all.decide("a", dismissal("ana"))
        };
        change(&bucket, slow).await.expect("decided");
        assert_eq!(runs.load(Ordering::Relaxed), 2, "it was made again");
        let all = load(&bucket).await.expect("read");
        assert_eq!(all.findings.keys().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[cfg(feature = "stores")]
    #[tokio::test]
    async fn five_who_decide_at_once_in_a_folder_all_hold() {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("file://{}", folder.path().display());
        let objects = crate::store::StoreObjects::open(&url).expect("a place");
        let objects = &objects;
        let all = ["a", "b", "c", "d", "e"].map(|id| async move {
            let decide = |all: &mut Decisions| all.decide(id, dismissal("ana"));
            change(objects, decide).await.expect("decided");
        });
        futures::future::join_all(all).await;
        let all = load(objects).await.expect("read");
        let ids: Vec<_> = all.findings.keys().collect();
        assert_eq!(ids, ["a", "b", "c", "d", "e"]);
    }

    #[tokio::test]
    async fn none_is_no_error_and_another_programs_is_left_alone() {
        let bucket = bucket();
        assert_eq!(load(&bucket).await.ok(), Some(Decisions::default()));
        let check = async |bytes: &[u8], expect: &str| {
            bucket.insert(KEY, bytes);
            let decide = |all: &mut Decisions| all.decide("a", dismissal("ana"));
            let error = change(&bucket, decide).await.expect_err(expect);
            assert!(error.to_string().contains(expect), "{error}");
            assert_eq!(bucket.stored(KEY).expect("there").bytes, bytes);
        };
        check(b"no JSON", "failed to decode").await;
        let newer = br#"{"schema": "ebb.decisions/2.0", "findings": {}}"#;
        check(newer, "schema ebb.decisions/2.0").await;
    }
}
