//! The observed ticks of the recent past, as ranges.

use std::time::Duration;

use ebb_telemetry::units::Share;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ranges::Ranges;

/// A set of ticks since 1970; only those of the newest [`KEPT`] are stored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ticks {
    /// The first tick and one past the last; sorted, neither touching nor overlapping.
    ranges: Ranges<i64>,
}

/// With a tick of one minute, the last 24.5 hours. At worst, with every other tick observed, the
/// set needs 12 KB.
const KEPT: i64 = 1_472;

impl Ticks {
    /// Adds the ticks whose middle is in `from..to`. Every middle is in exactly one of two adjacent
    /// intervals. Intervals without a gap therefore leave no gap, and no tick counts twice.
    pub(crate) fn add(&mut self, from: Timestamp, to: Timestamp, tick: Duration) {
        let (first, end) = middles(from, to, tick);
        if first < end {
            self.insert((first, end));
            self.trim();
        }
    }

    /// Adds the ticks of another set.
    pub fn absorb(&mut self, other: &Self) {
        for range in other.ranges.as_slice() {
            self.insert(*range);
        }
        self.trim();
    }

    /// The share of the ticks with their middle in `from..to` that are in the set. Ticks before the
    /// stored past count on neither side. `None` when no middle is in the interval.
    pub fn coverage(&self, from: Timestamp, to: Timestamp, tick: Duration) -> Option<Share> {
        let (first, end) = middles(from, to, tick);
        let newest_end = self.ranges.as_slice().last().map_or(0, |range| range.1);
        let first = first.max(newest_end - KEPT);
        let ranges = self.ranges.as_slice().iter();
        let held: i64 = ranges
            .map(|(begin, over)| ((*over).min(end) - (*begin).max(first)).max(0))
            .sum();
        Share::from_parts(u64::try_from(held).ok()?, u64::try_from(end - first).ok()?)
    }

    /// The start of the longest time up to `to` of which at least the share `least` is in the set.
    /// `None` without such a time.
    pub fn covered_since(&self, to: Timestamp, tick: Duration, least: Share) -> Option<Timestamp> {
        let begins = self.ranges.as_slice().iter().map(|(begin, _)| {
            let nanos = i128::from(*begin) * i128::try_from(tick.as_nanos()).ok()?;
            Timestamp::from_nanosecond(nanos).ok()
        });
        let is_covered = |from: &Timestamp| self.coverage(*from, to, tick) >= Some(least);
        begins.flatten().find(is_covered)
    }

    fn insert(&mut self, (first, end): (i64, i64)) {
        let ranges = self.ranges.as_slice();
        let from = ranges.partition_point(|range| range.1 < first);
        let to = ranges.partition_point(|range| range.0 <= end);
        self.ranges.put(from..to, (first, end));
    }

    fn trim(&mut self) {
        let Some(newest_end) = self.ranges.as_slice().last().map(|range| range.1) else {
            return;
        };
        let oldest = newest_end.saturating_sub(KEPT);
        let is_old = |range: &(i64, i64)| range.0 < oldest;
        match &mut self.ranges {
            Ranges::One(one) => one.0 = one.0.max(oldest),
            Ranges::Many(many) if many.first().is_some_and(is_old) => {
                let kept = many.iter().filter(|range| range.1 > oldest);
                let kept = kept.map(|range| (range.0.max(oldest), range.1));
                self.ranges = Ranges::from(kept.collect::<Vec<_>>());
            }
            Ranges::Many(_) => {}
        }
    }
}

/// The first tick with its middle at or after `from`, and the first one at or after `to`.
fn middles(from: Timestamp, to: Timestamp, tick: Duration) -> (i64, i64) {
    let length = i128::try_from(tick.as_nanos().max(1)).unwrap_or(i128::MAX);
    let first = |at: Timestamp| {
        let half_back = at.as_nanosecond() - length / 2;
        i64::try_from(half_back.div_euclid(length) + i128::from(half_back.rem_euclid(length) != 0))
            .unwrap_or(i64::MAX)
    };
    let (start, end) = (first(from), first(to));
    (start, end.max(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_790_000_040 + seconds).expect("a time of this century")
    }

    #[test]
    fn touching_intervals_cover_all_and_a_gap_shows() {
        let check = |intervals: &[(i64, i64)], expect_ppm: u32| {
            let observed_ticks =
                intervals
                    .iter()
                    .fold(Ticks::default(), |mut ticks, (from, to)| {
                        ticks.add(at(*from), at(*to), MINUTE);
                        ticks
                    });
            let coverage = observed_ticks
                .coverage(at(0), at(600), MINUTE)
                .map(Share::ppm);
            assert_eq!(coverage, Some(expect_ppm), "{intervals:?}");
        };
        check(&[(0, 600)], 1_000_000);
        check(&[(0, 47), (47, 131), (131, 602)], 1_000_000);
        check(&[(-13, 290), (290, 620)], 1_000_000);
        check(&[(0, 300)], 500_000);
        check(&[(0, 271), (331, 600)], 900_000);
        check(&[(0, 270), (360, 600)], 800_000);
        check(&[], 0);
    }

    #[test]
    fn the_end_after_an_outage_is_covered() {
        let check = |intervals: &[(i64, i64)], expect: Option<i64>| {
            let mut ticks = Ticks::default();
            for (from, to) in intervals {
                ticks.add(at(*from), at(*to), MINUTE);
            }
            let least = Share::from_ppm(900_000);
            let since = ticks.covered_since(at(1_200), MINUTE, least);
            assert_eq!(since, expect.map(at), "{intervals:?}");
        };
        check(&[(0, 1_200)], Some(0));
        check(&[(0, 300), (360, 1_200)], Some(0));
        check(&[(0, 300), (900, 1_200)], Some(900));
        check(&[(0, 300)], None);
        check(&[], None);
    }

    #[test]
    fn a_window_without_a_middle_has_no_coverage() {
        assert_eq!(Ticks::default().coverage(at(0), at(0), MINUTE), None);
        assert_eq!(Ticks::default().coverage(at(600), at(0), MINUTE), None);
    }

    #[test]
    fn only_the_newest_day_is_kept() {
        let mut week = Ticks::default();
        week.add(at(0), at(7 * 86_400), MINUTE);
        let kept: i64 = week
            .ranges
            .as_slice()
            .iter()
            .map(|(first, end)| end - first)
            .sum();
        assert_eq!(kept, KEPT);
        let coverage = week.coverage(at(0), at(7 * 86_400), MINUTE);
        assert_eq!(coverage, Some(Share::ALL));
    }
}
