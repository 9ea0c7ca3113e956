//! Which ticks of the recent past were seen, as bits.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::units::Share;

/// A set of ticks since 1970, of which only the newest 23 words of 64 are kept:
/// at a tick of a minute the last 24.5 hours, in 184 bytes of bits.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ticks {
    words: BTreeMap<i64, u64>,
}

const WORD: i64 = 64;
const KEPT_WORDS: i64 = 23;

impl Ticks {
    /// The ticks whose middle lies in `from..to`. Every middle lies in exactly
    /// one of two intervals that touch, so intervals without a gap leave none,
    /// and nothing is counted twice.
    pub fn with_middle_in(from: Timestamp, to: Timestamp, tick: Duration) -> Self {
        let mut ticks = Self::default();
        let (first, end) = middles(from, to, tick);
        // Only what is kept in the end is worth setting.
        for n in first.max(end - WORD * KEPT_WORDS)..end {
            *ticks.words.entry(n.div_euclid(WORD)).or_default() |= 1 << n.rem_euclid(WORD);
        }
        ticks.trimmed()
    }

    /// Both sets together.
    #[must_use]
    pub fn union(mut self, other: &Self) -> Self {
        for (word, bits) in &other.words {
            *self.words.entry(*word).or_default() |= bits;
        }
        self.trimmed()
    }

    /// The share of the ticks with their middle in `from..to` that are in the
    /// set. What lies before the kept past is left out on both sides; `None`
    /// when no middle lies there at all.
    pub fn coverage(&self, from: Timestamp, to: Timestamp, tick: Duration) -> Option<Share> {
        let (first, end) = middles(from, to, tick);
        let newest = self.words.keys().next_back().copied().unwrap_or(0);
        let first = first.max((newest - KEPT_WORDS + 1) * WORD);
        let held = (first..end).filter(|n| self.contains(*n)).count();
        Share::of(u64::try_from(held).ok()?, u64::try_from(end - first).ok()?)
    }

    fn contains(&self, tick: i64) -> bool {
        let bits = self.words.get(&tick.div_euclid(WORD)).copied().unwrap_or(0);
        bits & (1 << tick.rem_euclid(WORD)) != 0
    }

    fn trimmed(mut self) -> Self {
        if let Some(newest) = self.words.keys().next_back().copied() {
            self.words = self.words.split_off(&(newest - KEPT_WORDS + 1));
        }
        self
    }
}

/// The first tick with its middle at or after `from`, and the first at or after
/// `to`.
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
            let seen = intervals
                .iter()
                .fold(Ticks::default(), |ticks, (from, to)| {
                    ticks.union(&Ticks::with_middle_in(at(*from), at(*to), MINUTE))
                });
            let coverage = seen.coverage(at(0), at(600), MINUTE).map(Share::ppm);
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
    fn a_window_without_a_middle_has_no_coverage() {
        assert_eq!(Ticks::default().coverage(at(0), at(0), MINUTE), None);
        assert_eq!(Ticks::default().coverage(at(600), at(0), MINUTE), None);
    }

    #[test]
    fn only_the_newest_day_is_kept() {
        let week = Ticks::with_middle_in(at(0), at(7 * 86_400), MINUTE);
        assert!(week.words.len() <= 23);
        let coverage = week.coverage(at(0), at(7 * 86_400), MINUTE);
        assert_eq!(coverage, Some(Share::ALL));
    }
}
