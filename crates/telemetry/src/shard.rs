//! Division of the nodes among several sweeps.

use serde::{Deserialize, Serialize};

use crate::identity::NodeId;
use crate::stable_hash::stable_hash;

/// One of several shards that divide the nodes by the hash of their id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Shard {
    /// The number of this shard, counted from 0.
    pub index: u16,
    /// The number of shards.
    pub of: u16,
}

impl Shard {
    /// The only shard, which contains all nodes.
    pub const ONLY: Self = Self { index: 0, of: 1 };

    /// Maximum number of shards. A shard handles 100,000 nodes.
    pub const MOST: u16 = 99;

    /// The shard of a node if there are `of` shards, by the hash of its id.
    pub fn of_node(node: &NodeId, of: u16) -> Self {
        let hash = stable_hash(node.as_str().bytes());
        let index = u16::try_from(hash % u64::from(of.max(1))).unwrap_or(0);
        Self { index, of }
    }

    /// Whether a node belongs to this shard.
    pub fn holds(self, node: &NodeId) -> bool {
        self.of == 1 || Self::of_node(node, self.of) == self
    }

    /// Whether a node can belong to both shards, which may be of different shard counts. Two
    /// remainders of one hash agree modulo the greatest common divisor of the counts.
    pub fn meets(self, other: Self) -> bool {
        let (mut a, mut b) = (self.of.max(1), other.of.max(1));
        while b > 0 {
            (a, b) = (b, a % b);
        }
        self.index % a == other.index % a
    }

    /// All shards of the same shard count.
    pub fn all(self) -> impl Iterator<Item = Self> {
        (0..self.of).map(move |index| Self { index, ..self })
    }

    /// Whether this shard reports for all shards.
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
