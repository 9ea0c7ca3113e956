//! History of findings and of notifications between sweeps, stored as one object next to the state.
//! Its loss causes repeated messages, but never stops a sweep.

use std::collections::{BTreeMap, BTreeSet};

use ebb_cloud::documents::decisions;
use ebb_cloud::documents::inflate::inflate;
use ebb_cloud::error_chain::reason;
use ebb_cloud::ports::{CloudError, CloudResult, Objects, PutIf, PutOptions};
use ebb_model::decision::Decisions;
use ebb_model::finding_history::Lives;
use ebb_model::finding_history::trend::Trend;
use ebb_model::visibility_gap::Gap;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::diff::ChannelHistory;
use crate::retry::Failure;
use crate::weekly::WeeklyState;

const SCHEMA: &str = "ebb.findings/1\n";

const ZSTD_LEVEL: i32 = 3;

/// 100,000 findings take about a quarter of this size.
const MAX_PACKED_BYTES: u64 = 32 << 20;

const MAX_BYTES: u64 = 256 << 20;

/// Time during which no other sweep sends. A sweep needs less, unless many receivers do not respond.
/// After a crash of the sender, the first sweep after this time sends the rest.
const SENDING_FOR: SignedDuration = SignedDuration::from_mins(4);

/// The stored history. Fields may be added; a field that an older sweep did not write is empty.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Remembered {
    /// Known findings with their stages.
    pub lives: Lives,
    /// Totals of earlier reports.
    pub trend: Trend,
    /// History of each channel.
    #[serde(rename = "told")]
    pub channels: BTreeMap<String, ChannelHistory>,
    /// Channels that received the welcome message.
    pub greeted: BTreeSet<String>,
    /// Channels that failed in the last sweep, with the reason.
    pub failed: BTreeMap<String, String>,
    /// When each channel last received a message.
    pub delivered: BTreeMap<String, Timestamp>,
    /// Channels of earlier sweeps that the last sweeps did not have, with the time of the first of
    /// these.
    pub absent: BTreeMap<String, Timestamp>,
    /// Weekly digests.
    pub weekly: WeeklyState,
    /// Decisions as last read, for a sweep that cannot read them.
    pub decisions: Decisions,
    /// Until this time a sweep sends what is due, and no other does.
    pub sending_until: Option<Timestamp>,
}

/// Key of the history of a shard.
pub fn key(shard: u16) -> String {
    format!("state/v1/findings/shard={shard:02}.zst")
}

/// Reads the history and the condition for its replacement; the history is empty if it cannot be
/// decoded.
///
/// # Errors
/// If the bucket does not respond.
pub async fn load(objects: &dyn Objects, shard: u16) -> CloudResult<(Remembered, PutIf)> {
    let object = match objects.get(&key(shard), MAX_PACKED_BYTES).await {
        Ok(object) => object,
        Err(CloudError::Missing { .. }) => return Ok((Remembered::default(), PutIf::Absent)),
        Err(error) => return Err(error),
    };
    let remembered = unpack(&object.bytes).unwrap_or_else(|why| {
        tracing::warn!(
            why,
            "failed to decode the delivery state; notifications are sent again"
        );
        Remembered::default()
    });
    Ok((remembered, PutIf::Matches(object.etag)))
}

/// Result of storing the history.
#[derive(Debug)]
pub enum Stored {
    /// The history is stored; the next write needs this condition.
    Done(PutIf),
    /// Another sweep stored its history first, and that history is kept.
    Overtaken,
    /// The history is not stored.
    Failed(Failure),
}

/// Stores the history. If another sweep was faster, the history of that sweep is kept.
pub async fn save(
    objects: &dyn Objects,
    shard: u16,
    remembered: &Remembered,
    condition: PutIf,
) -> Stored {
    let key = key(shard);
    let bytes = match pack(remembered) {
        Ok(bytes) => bytes,
        Err(why) => {
            tracing::warn!(why, "failed to encode the delivery state");
            return Stored::Failed(Failure {
                channel: key,
                reason: why,
            });
        }
    };
    let options = PutOptions {
        condition,
        ..PutOptions::default()
    };
    match objects.put(&key, bytes, options).await {
        Ok(etag) => Stored::Done(PutIf::Matches(etag)),
        Err(CloudError::Conflict { .. }) => {
            tracing::warn!("another sweep sent notifications first");
            Stored::Overtaken
        }
        Err(error) => Stored::Failed(Failure::new(&key, &error)),
    }
}

fn unpack(bytes: &[u8]) -> Result<Remembered, String> {
    let packed = bytes
        .strip_prefix(SCHEMA.as_bytes())
        .ok_or("unsupported schema")?;
    serde_json::from_slice(&inflate(packed, MAX_BYTES)?).map_err(|e| e.to_string())
}

fn pack(remembered: &Remembered) -> Result<Vec<u8>, String> {
    let plain = serde_json::to_vec(remembered).map_err(|e| e.to_string())?;
    let packed = zstd::bulk::compress(&plain, ZSTD_LEVEL).map_err(|e| e.to_string())?;
    match packed.len() as u64 <= MAX_PACKED_BYTES {
        true => Ok([SCHEMA.as_bytes(), &packed].concat()),
        false => Err(format!(
            "the delivery state has {} bytes, which is too large",
            packed.len()
        )),
    }
}

impl Remembered {
    /// Whether another sweep sends notifications at this time.
    pub fn is_being_sent(&self, now: Timestamp) -> bool {
        // A clock that was wrong must not stop notifications for good.
        let left = self.sending_until.map(|until| until.duration_since(now));
        left.is_some_and(|left| left > SignedDuration::ZERO && left <= SENDING_FOR)
    }

    /// Prevents notifications of other sweeps while this one sends.
    pub fn begin_sending(&mut self, now: Timestamp) {
        self.sending_until = now.checked_add(SENDING_FOR).ok();
    }

    /// Reads the decisions of users. If they cannot be read, those of the last sweep stay in
    /// effect, and the function returns a gap.
    pub async fn decide(&mut self, objects: &dyn Objects) -> Option<Gap> {
        match decisions::load(objects).await {
            Ok(decisions) => {
                self.decisions = decisions;
                None
            }
            Err(error) => Some(Gap::new(
                "decisions about findings",
                format!(
                    "{}; the decisions of the last sweep stay in effect",
                    reason(&error)
                ),
            )),
        }
    }

    /// Channels that failed in the last sweep, as gaps of the report.
    pub fn failed_channels(&self) -> impl Iterator<Item = Gap> {
        self.failed.iter().map(|(channel, why)| {
            Gap::new(
                format!("channel {channel}"),
                format!("failed to send the last notification: {why}"),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use ebb_cloud::failing::{Failing, Fault};
    use ebb_cloud::fake::clock::FakeClock;
    use ebb_cloud::fake::objects::FakeObjects;
    use ebb_model::decision::{Decision, Verb};
    use jiff::Timestamp;

    use super::*;

    fn bucket() -> FakeObjects {
        FakeObjects::new(FakeClock::at(Timestamp::UNIX_EPOCH))
    }

    #[tokio::test]
    async fn what_is_kept_is_remembered_and_the_first_of_two_writers_stands() {
        let bucket = bucket();
        let (mut one, absent) = load(&bucket, 0).await.expect("it answers");
        one.greeted.insert("slack".to_owned());
        let first = save(&bucket, 0, &one, absent.clone()).await;
        let Stored::Done(condition) = first else {
            panic!("{first:?}")
        };
        let second = save(&bucket, 0, &Remembered::default(), absent).await;
        assert!(matches!(second, Stored::Overtaken), "{second:?}");
        let replaced = save(&bucket, 0, &one, condition).await;
        assert!(matches!(replaced, Stored::Done(_)), "{replaced:?}");
        let again = load(&bucket, 0).await.expect("it answers");
        assert_eq!(again.0, one);
        bucket.insert(key(0), *b"garbage");
        let garbage = load(&bucket, 0).await.expect("it answers");
        assert_eq!(garbage.0, Remembered::default());
    }

    #[tokio::test]
    async fn decisions_that_cannot_be_read_hold_on_and_that_is_said() {
        let bucket = bucket();
        let decide = |all: &mut Decisions| {
            let decision = Decision {
                verb: Verb::Dismiss,
                reason: "a course".to_owned(),
                by: "ana".to_owned(),
                at: Timestamp::UNIX_EPOCH,
                until: None,
            };
            all.decide("a", decision)
        };
        decisions::change(&bucket, decide).await.expect("decided");
        let mut remembered = Remembered::default();
        assert_eq!(remembered.decide(&bucket).await, None);
        let down = Failing::new(bucket, &Fault::always("objects.get"));
        let gap = remembered.decide(&down).await.expect("a gap");
        assert!(gap.reason.ends_with("stay in effect"), "{}", gap.reason);
        assert_eq!(remembered.decisions.findings.len(), 1);
    }
}
