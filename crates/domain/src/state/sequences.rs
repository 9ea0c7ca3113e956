//! Which sequence numbers of one probe run were accepted, as ranges.

use serde::{Deserialize, Serialize};

use super::ranges;

/// A set of sequence numbers. A probe counts up, so one range is the rule; a
/// hole stays until its number arrives.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sequences {
    /// Inclusive, sorted, neither touching nor overlapping.
    ranges: Vec<(u64, u64)>,
}

impl Sequences {
    /// Just this one.
    pub fn one(sequence: u64) -> Self {
        Self {
            ranges: vec![(sequence, sequence)],
        }
    }

    /// True when it is in the set.
    pub fn contains(&self, sequence: u64) -> bool {
        let after = self.ranges.partition_point(|(first, _)| *first <= sequence);
        after > 0 && self.ranges[after - 1].1 >= sequence
    }

    /// Takes in the other set.
    pub fn absorb(&mut self, other: Self) {
        if self.ranges.is_empty() {
            self.ranges = other.ranges;
            return;
        }
        for range in other.ranges {
            self.insert(range);
        }
    }

    fn insert(&mut self, (first, last): (u64, u64)) {
        // Ranges that touch or overlap the new one become one with it.
        let from = self
            .ranges
            .partition_point(|(_, end)| end.saturating_add(1) < first);
        let to = self
            .ranges
            .partition_point(|(begin, _)| *begin <= last.saturating_add(1));
        ranges::put(&mut self.ranges, from..to, (first, last));
    }

    /// Numbers between the least and the greatest that have not arrived: what
    /// the probe dropped or the network still holds.
    pub fn missing(&self) -> u64 {
        self.ranges
            .windows(2)
            .map(|pair| pair[1].0 - pair[0].1 - 1)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_close_when_their_number_arrives() {
        let of = |numbers: &[u64]| {
            numbers.iter().fold(Sequences::default(), |mut set, n| {
                set.absorb(Sequences::one(*n));
                set
            })
        };
        assert_eq!(of(&[0, 1, 2, 3]).ranges, vec![(0, 3)]);
        assert_eq!(of(&[3, 0, 2]).ranges, vec![(0, 0), (2, 3)]);
        assert_eq!(of(&[3, 0, 2]).missing(), 1);
        assert_eq!(of(&[3, 0, 2, 1]).ranges, vec![(0, 3)]);
        assert_eq!(of(&[1, 1, 1]).ranges, vec![(1, 1)]);
        let mut both = of(&[2, 3, 7, 9]);
        both.absorb(of(&[1, 4, 5, 6, 20]));
        assert_eq!(both.ranges, vec![(1, 7), (9, 9), (20, 20)]);
        assert_eq!(
            of(&[u64::MAX, 0]).ranges,
            vec![(0, 0), (u64::MAX, u64::MAX)]
        );
        assert!(of(&[5, 9]).contains(9) && !of(&[5, 9]).contains(7));
    }
}
