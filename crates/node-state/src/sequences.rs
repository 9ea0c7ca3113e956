//! The accepted sequence numbers of one probe run, as ranges.

use serde::{Deserialize, Serialize};

use crate::ranges::Ranges;

/// A set of sequence numbers. A probe counts up, so that one range is typical. A gap stays until
/// its number arrives.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sequences {
    /// Inclusive, sorted, neither touching nor overlapping.
    ranges: Ranges<u64>,
}

impl Sequences {
    /// True if the number is in the set.
    pub fn contains(&self, sequence: u64) -> bool {
        let ranges = self.ranges.as_slice();
        let after = ranges.partition_point(|(first, _)| *first <= sequence);
        after > 0 && ranges[after - 1].1 >= sequence
    }

    /// Adds the numbers of another set.
    pub fn absorb(&mut self, other: &Self) {
        for range in other.ranges.as_slice() {
            self.put(*range);
        }
    }

    /// Adds a number; returns whether the number is new.
    pub fn insert(&mut self, sequence: u64) -> bool {
        let is_new = !self.contains(sequence);
        if is_new {
            self.put((sequence, sequence));
        }
        is_new
    }

    fn put(&mut self, (first, last): (u64, u64)) {
        // Ranges that touch or overlap the new one are merged with it.
        let ranges = self.ranges.as_slice();
        let from = ranges.partition_point(|(_, end)| end.saturating_add(1) < first);
        let to = ranges.partition_point(|(begin, _)| *begin <= last.saturating_add(1));
        self.ranges.put(from..to, (first, last));
    }

    /// Closes the lowest gaps, so that at most `max` ranges are left. The missing numbers count as
    /// accepted and are refused from then on. A probe counts up, so these are the oldest gaps.
    pub fn give_up_gaps(&mut self, max: usize) {
        let ranges = self.ranges.as_slice();
        let Some(excess) = ranges.len().checked_sub(max.max(1)) else {
            return;
        };
        if let (Some(first), Some(last)) = (ranges.first(), ranges.get(excess)) {
            self.put((first.0, last.1));
        }
    }

    /// Number of missing numbers between the smallest and the largest. The probe dropped their
    /// data, or the network still delays it.
    pub fn missing(&self) -> u64 {
        let ranges = self.ranges.as_slice();
        ranges
            .windows(2)
            .map(|pair| pair[1].0 - pair[0].1 - 1)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_gaps_are_given_up_first() {
        let numbers = [1, 3, 5, 7, 8, 20];
        let check = |max: usize, expect: &[(u64, u64)]| {
            let mut set = Sequences::default();
            for n in numbers {
                set.insert(n);
            }
            set.give_up_gaps(max);
            assert_eq!(set.ranges.as_slice(), expect, "{max}");
        };
        check(9, &[(1, 1), (3, 3), (5, 5), (7, 8), (20, 20)]);
        check(3, &[(1, 5), (7, 8), (20, 20)]);
        check(1, &[(1, 20)]);
        check(0, &[(1, 20)]);
    }

    #[test]
    fn holes_close_when_their_number_arrives() {
        let of = |numbers: &[u64]| {
            numbers.iter().fold(Sequences::default(), |mut set, n| {
                set.insert(*n);
                set
            })
        };
        assert_eq!(of(&[0, 1, 2, 3]).ranges.as_slice(), vec![(0, 3)]);
        assert_eq!(of(&[3, 0, 2]).ranges.as_slice(), vec![(0, 0), (2, 3)]);
        assert_eq!(of(&[3, 0, 2]).missing(), 1);
        assert_eq!(of(&[3, 0, 2, 1]).ranges.as_slice(), vec![(0, 3)]);
        assert_eq!(of(&[1, 1, 1]).ranges.as_slice(), vec![(1, 1)]);
        let mut both = of(&[2, 3, 7, 9]);
        both.absorb(&of(&[1, 4, 5, 6, 20]));
        assert_eq!(both.ranges.as_slice(), vec![(1, 7), (9, 9), (20, 20)]);
        assert_eq!(
            of(&[u64::MAX, 0]).ranges.as_slice(),
            vec![(0, 0), (u64::MAX, u64::MAX)]
        );
        assert!(of(&[5, 9]).contains(9) && !of(&[5, 9]).contains(7));
    }
}
