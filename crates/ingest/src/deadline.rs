//! How long a sweep may take in what arrived, and wait for list prices. The clock is the
//! caller's.

use std::time::Duration;

use jiff::Timestamp;

/// The share of the time limit after which nothing more is taken in, in percent:
/// the rest is for judging and publishing.
const TAKING_PERCENT: i64 = 60;

/// The share of it that is waited for list prices and machine types at the most, in
/// percent: they can wait for another sweep, and judging cannot.
const LISTS_PERCENT: u32 = 10;

/// When to take in no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    taking_until: Timestamp,
    whole: Duration,
}

impl Deadline {
    /// For a program that started at `start` and is stopped at `end`.
    pub fn within(start: Timestamp, end: Timestamp) -> Self {
        let whole_ms = end.as_millisecond().saturating_sub(start.as_millisecond());
        let taking_ms = whole_ms.max(0) / 100 * TAKING_PERCENT;
        let until = start.as_millisecond().saturating_add(taking_ms);
        Self {
            taking_until: Timestamp::from_millisecond(until).unwrap_or(end),
            whole: Duration::from_millis(u64::try_from(whole_ms).unwrap_or_default()),
        }
    }

    /// How long lists may be waited for.
    pub fn for_lists(&self) -> Duration {
        self.whole * LISTS_PERCENT / 100
    }

    /// True when nothing more may be taken in.
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
}
