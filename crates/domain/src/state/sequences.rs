//! Which sequence numbers of one probe run were accepted, as ranges.

use serde::{Deserialize, Serialize};

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

    /// Both sets together.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        let mut all = self.ranges;
        all.extend(other.ranges);
        all.sort_unstable();
        let mut ranges: Vec<(u64, u64)> = Vec::with_capacity(all.len());
        for (first, last) in all {
            match ranges.last_mut() {
                Some(open) if first <= open.1.saturating_add(1) => open.1 = open.1.max(last),
                _ => ranges.push((first, last)),
            }
        }
        Self { ranges }
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
            numbers
                .iter()
                .fold(Sequences::default(), |set, n| set.union(Sequences::one(*n)))
        };
        assert_eq!(of(&[0, 1, 2, 3]).ranges, vec![(0, 3)]);
        assert_eq!(of(&[3, 0, 2]).ranges, vec![(0, 0), (2, 3)]);
        assert_eq!(of(&[3, 0, 2]).missing(), 1);
        assert_eq!(of(&[3, 0, 2, 1]).ranges, vec![(0, 3)]);
        assert_eq!(
            of(&[u64::MAX, 0]).ranges,
            vec![(0, 0), (u64::MAX, u64::MAX)]
        );
        assert!(of(&[5, 9]).contains(9) && !of(&[5, 9]).contains(7));
    }
}
