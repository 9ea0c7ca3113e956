//! Where people's decisions about findings lie: one object of the bucket, read by
//! every sweep and changed by the terminal and the API. A change is written on
//! condition that nobody else wrote in the meantime, and made again where one did.

use ebb_model::decision::{DecisionError, Decisions};
use thiserror::Error;

use crate::ports::{CloudError, Objects, PutIf, PutOptions};

/// The object's key.
pub const KEY: &str = "decisions/v1/findings.json";

/// What all decisions that fit take at most, escaped.
const MAX_BYTES: u64 = 32 << 20;

/// Two people rarely decide at the same moment, and never five times in a row.
const ATTEMPTS: u32 = 5;

/// Why decisions were not read or changed.
#[derive(Debug, Error)]
pub enum DecisionsError {
    /// The bucket.
    #[error("the decisions {KEY}")]
    Cloud(#[source] CloudError),
    /// The object is not what it should be.
    #[error(
        "the decisions {KEY} cannot be understood: restore an earlier version of the object, or delete it"
    )]
    Garbled(#[source] serde_json::Error),
    /// The object is of another program.
    #[error("the decisions {KEY} are of schema {0}: update Ebb")]
    Schema(String),
    /// The decision itself.
    #[error(transparent)]
    Refused(#[from] DecisionError),
    /// Others were faster each time.
    #[error("the decisions {KEY} were changed by others {ATTEMPTS} times in a row: try again")]
    Contended,
}

/// Reads them; none where nobody decided yet.
///
/// # Errors
/// When the bucket does not answer, or with something else.
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

/// Changes them, and gives back what `change` does.
///
/// # Errors
/// As [`load`]; what `change` refuses; `Contended`.
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
                // Between this one's read and its write.
                futures::executor::block_on(other());
            }
            all.decide("a", dismissal("ana"))
        };
        change(&bucket, slow).await.expect("decided");
        assert_eq!(runs.load(Ordering::Relaxed), 2, "it was made again");
        let all = load(&bucket).await.expect("read");
        assert_eq!(all.findings.keys().collect::<Vec<_>>(), ["a", "b"]);
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
        check(b"no JSON", "cannot be understood").await;
        let newer = br#"{"schema": "ebb.decisions/2.0", "findings": {}}"#;
        check(newer, "schema ebb.decisions/2.0").await;
    }
}
