//! Whether sweeps before this one are missing.

use std::time::Duration;

use ebb_model::visibility_gap::Gap;
use ebb_telemetry::units::HumanDuration;
use jiff::Timestamp;

/// Intervals after which a sweep is missing for certain. Two evaluations may be almost two intervals
/// apart without a missing sweep, because a sweep first reads what arrived.
const LATE_INTERVALS: u32 = 2;

/// A gap if the previous evaluation was too long before this one. `None` if it was not, or if either
/// time or the schedule is not known.
pub(crate) fn gap(
    previous: Option<Timestamp>,
    now: Timestamp,
    interval: Option<Duration>,
) -> Option<Gap> {
    let interval = interval?;
    let since = Duration::try_from(now.duration_since(previous?)).ok()?;
    (since > interval * LATE_INTERVALS).then(|| {
        Gap::new(
            "schedule of sweeps",
            format!(
                "the previous sweep was {} before this one, and one is due every {}: sweeps did not \
                 start or failed, so findings and notifications were late",
                HumanDuration(since),
                HumanDuration(interval)
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_two_intervals_between_sweeps_are_late() {
        let check = |previous: Option<i64>, interval: Option<u64>, expect: Option<&str>| {
            let at = |second: i64| Timestamp::from_second(second).expect("a time");
            let interval = interval.map(Duration::from_secs);
            let gap = gap(previous.map(at), at(10_000), interval);
            let reason = gap.as_ref().map(|gap| gap.reason.as_str());
            match expect {
                None => assert_eq!(reason, None),
                Some(words) => assert!(reason.is_some_and(|r| r.contains(words)), "{reason:?}"),
            }
        };
        check(Some(9_400), Some(600), None);
        check(Some(8_800), Some(600), None);
        check(Some(8_799), Some(600), Some("was 20 min before"));
        check(Some(0), Some(600), Some("due every 10 min"));
        // Without a schedule or a previous sweep, no sweep counts as late.
        check(None, Some(600), None);
        check(Some(0), None, None);
        // A clock that went backwards.
        check(Some(20_000), Some(600), None);
    }
}
