//! Time limits of a sweep for reading arrivals and list prices. The caller provides the clock.

use std::time::Duration;

use jiff::Timestamp;

/// Share of the time limit in percent after which a sweep reads no more arrivals. The remaining
/// time is for evaluation and publishing.
const TAKING_PERCENT: i64 = 60;

/// Share of the time limit in percent for list prices and machine types. Prices can wait for the
/// next sweep; the evaluation cannot.
const LISTS_PERCENT: u32 = 10;

/// Share of the time limit in percent for the upkeep of the lake, which comes last. It can wait for
/// the next sweep.
const UPKEEP_PERCENT: u32 = 10;

/// The time at which a sweep stops reading arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    taking_until: Timestamp,
    end: Timestamp,
    whole: Duration,
}

impl Deadline {
    /// For a program that starts at `start` and is stopped at `end`.
    pub fn within(start: Timestamp, end: Timestamp) -> Self {
        let whole_ms = end.as_millisecond().saturating_sub(start.as_millisecond());
        let taking_ms = whole_ms.max(0) / 100 * TAKING_PERCENT;
        let until = start.as_millisecond().saturating_add(taking_ms);
        Self {
            taking_until: Timestamp::from_millisecond(until).unwrap_or(end),
            end,
            whole: Duration::from_millis(u64::try_from(whole_ms).unwrap_or_default()),
        }
    }

    /// Maximum wait for list prices.
    pub fn for_lists(&self) -> Duration {
        self.whole * LISTS_PERCENT / 100
    }

    /// When the upkeep of the lake must begin no further step, if it begins at `now`. As much time
    /// remains for the step that has begun.
    pub fn upkeep_until(&self, now: Timestamp) -> Timestamp {
        let share = self.whole * UPKEEP_PERCENT / 100;
        let last = self.end.saturating_sub(share).unwrap_or(now);
        now.saturating_add(share)
            .map_or(last, |until| until.min(last))
    }

    /// Whether the time for reading arrivals is over.
    pub fn has_passed(&self, now: Timestamp) -> bool {
        now >= self.taking_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_passes_after_three_fifths_of_the_time() {
        let at = |second| Timestamp::from_second(second).expect("a small number");
        let check = |start, end, now, passed| {
            let deadline = Deadline::within(at(start), at(end));
            assert_eq!(deadline.has_passed(at(now)), passed, "{start} {end} {now}");
            let tenth = u64::try_from(end - start).unwrap_or_default() * 100;
            assert_eq!(deadline.for_lists(), Duration::from_millis(tenth));
        };
        check(1_000, 1_100, 1_059, false);
        check(1_000, 1_100, 1_060, true);
        check(1_000, 900, 1_000, true);
    }

    #[test]
    fn upkeep_has_a_tenth_of_the_time_and_ends_a_tenth_before_the_end() {
        let at = |second| Timestamp::from_second(second).expect("a small number");
        let deadline = Deadline::within(at(1_000), at(1_100));
        let check = |now, until| assert_eq!(deadline.upkeep_until(at(now)), at(until), "{now}");
        check(1_020, 1_030);
        check(1_085, 1_090);
        check(1_095, 1_090);
    }
}
