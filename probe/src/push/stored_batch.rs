//! A batch of finished tasks on the disk, with the clocks at the time of storing. Tasks contain no
//! wall clock time. With these clocks, they have a time also after the node has booted again.

use ebb_telemetry::arrival::Sent;
use ebb_telemetry::step::StepBatch;
use ebb_telemetry::time::BootClock;
use serde::{Deserialize, Serialize};

/// A batch, and the clocks when it was stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoredBatch {
    /// The batch.
    #[serde(flatten)]
    pub batch: StepBatch,
    /// The clocks in the boot of the batch; `None` in records of earlier versions.
    pub stored: Option<Sent>,
}

impl StoredBatch {
    /// Parses a record. The parts are read one after the other, because reading with `flatten`
    /// changes the types of the values.
    ///
    /// # Errors
    /// If it is no batch.
    pub fn from_json(bytes: &[u8]) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        struct Clocks {
            stored: Option<Sent>,
        }
        let batch = serde_json::from_slice(bytes)?;
        let Clocks { stored } = serde_json::from_slice(bytes)?;
        Ok(Self { batch, stored })
    }

    /// The clocks for sending it, in the boot of the batch; `now` contains those of the current boot.
    /// The clock of an earlier boot goes on by the wall clock. `None` if the time of the tasks is
    /// unknown: the record has no clocks, or the wall clock was set back.
    pub(super) fn sent(&self, now: &Sent) -> Option<Sent> {
        if self.batch.boot == now.boot {
            return Some(now.clone());
        }
        let of_boot = |stored: &&Sent| stored.boot == self.batch.boot;
        let stored = self.stored.as_ref().filter(of_boot)?;
        let since = now.wall.as_nanosecond() - stored.wall.as_nanosecond();
        let clock = stored
            .clock
            .as_nanos()
            .checked_add(u64::try_from(since).ok()?)?;
        Some(Sent {
            boot: stored.boot.clone(),
            clock: BootClock::from_nanos(clock),
            wall: now.wall,
        })
    }
}

#[cfg(test)]
mod tests {
    use ebb_telemetry::arrival::Arrival;
    use jiff::Timestamp;

    use super::super::tests::batch;
    use super::*;

    const BEFORE_S: i64 = 1_790_000_000;

    fn clocks(boot: &str, clock_s: u64, wall_s: i64) -> Sent {
        Sent {
            boot: boot.parse().expect("valid"),
            clock: BootClock::from_nanos(clock_s * 1_000_000_000),
            wall: Timestamp::from_second(wall_s).expect("a time"),
        }
    }

    #[test]
    fn tasks_that_are_sent_in_the_next_boot_have_the_time_at_which_they_ran() {
        let stored = StoredBatch {
            batch: batch("i-1"),
            stored: Some(clocks("boot", 100, BEFORE_S)),
        };
        let now = clocks("next", 7, BEFORE_S + 600);
        let sent = stored.sent(&now).expect("a known time");
        assert_eq!(sent, clocks("boot", 700, BEFORE_S + 600));
        let arrival = Arrival {
            attested: &stored.batch.node,
            at: now.wall,
            sent: &sent,
        };
        let observed = BootClock::from_nanos(90_000_000_000);
        let placed = arrival.place(&stored.batch.boot, observed, None);
        assert_eq!(placed, Ok(clocks("x", 0, BEFORE_S - 10).wall));
    }

    #[test]
    fn the_time_of_an_earlier_boot_is_unknown_without_its_clocks_or_after_the_wall_clock_went_back()
    {
        let check = |stored: Option<Sent>, now: Sent, is_known: bool| {
            let batch = batch("i-1");
            let stored = StoredBatch { batch, stored };
            assert_eq!(stored.sent(&now).is_some(), is_known, "{stored:?}");
        };
        let before = || Some(clocks("boot", 100, BEFORE_S));
        check(before(), clocks("next", 7, BEFORE_S + 1), true);
        check(before(), clocks("next", 7, BEFORE_S - 1), false);
        check(None, clocks("next", 7, BEFORE_S), false);
        check(
            Some(clocks("another", 1, BEFORE_S)),
            clocks("next", 7, BEFORE_S),
            false,
        );
        // In the same boot, the wall clock has no effect.
        check(None, clocks("boot", 107, BEFORE_S), true);
    }

    #[test]
    fn a_record_is_read_again_with_its_clocks_and_one_of_an_earlier_version_without() {
        let stored = StoredBatch {
            batch: batch("i-1"),
            stored: Some(clocks("boot", 100, BEFORE_S)),
        };
        let bytes = serde_json::to_vec(&stored).expect("JSON");
        let read = StoredBatch::from_json(&bytes).expect("readable");
        assert_eq!(read, stored);
        let earlier = serde_json::to_vec(&stored.batch).expect("JSON");
        let read = StoredBatch::from_json(&earlier).expect("readable");
        assert_eq!((read.batch, read.stored), (stored.batch, None));
    }
}
