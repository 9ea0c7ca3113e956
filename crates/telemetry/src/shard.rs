//! Which nodes one of several sweeps remembers.

use serde::{Deserialize, Serialize};

use crate::identity::NodeId;

/// One of several shards that share the nodes by the hash of their id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Shard {
    /// Which one, counted from 0.
    pub index: u16,
    /// How many there are.
    pub of: u16,
}

impl Shard {
    /// The shard that holds all nodes.
    pub const ONLY: Self = Self { index: 0, of: 1 };

    /// Shards at most: of 100,000 nodes each, more than anybody runs.
    pub const MOST: u16 = 99;

    /// The shard of `of` that a node belongs to: FNV-1a of its id, which is the same on
    /// every machine and for ever.
    pub fn of_node(node: &NodeId, of: u16) -> Self {
        let hash = node
            .as_str()
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        let index = u16::try_from(hash % u64::from(of.max(1))).unwrap_or(0);
        Self { index, of }
    }

    /// Whether a node belongs to it.
    pub fn holds(self, node: &NodeId) -> bool {
        self.of == 1 || Self::of_node(node, self.of) == self
    }

    /// Whether there can be nodes of both, which are one of the same number of shards or
    /// of two: the rests of a hash by two numbers agree in the rest by their divisor.
    pub fn meets(self, other: Self) -> bool {
        let (mut a, mut b) = (self.of.max(1), other.of.max(1));
        while b > 0 {
            (a, b) = (b, a % b);
        }
        self.index % a == other.index % a
    }

    /// All of as many as it is one of.
    pub fn all(self) -> impl Iterator<Item = Self> {
        (0..self.of).map(move |index| Self { index, ..self })
    }

    /// Whether it is the one that reports for all of them.
    pub fn reports(self) -> bool {
        self.index == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_shards_meet_where_a_node_is_of_both() {
        let nodes = (0..500).map(|n| NodeId::new(format!("i-{n}")).expect("a name"));
        let nodes: Vec<NodeId> = nodes.collect();
        let shards = |of| Shard { index: 0, of }.all();
        for (one, other) in [(1, 4), (2, 4), (4, 4), (4, 6), (3, 4)] {
            for (a, b) in shards(one).flat_map(|a| shards(other).map(move |b| (a, b))) {
                let both = nodes.iter().any(|node| a.holds(node) && b.holds(node));
                assert_eq!(a.meets(b), both, "{a:?} {b:?}");
            }
        }
    }
}
