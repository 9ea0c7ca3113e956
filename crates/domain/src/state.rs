//! What is remembered of each node between sweeps: a cache of the lake, folded.
//!
//! States form a semilattice: [`FleetState::merge`] is commutative, associative
//! and idempotent, and folding is merging with the state of one heartbeat, so
//! order and repeats change nothing. What is dropped to keep a bound is dropped
//! by rules that commute with merging: the newest ticks, runs and steps stay.

pub(crate) mod nanos;
mod node;
mod ranges;
mod sequences;
#[cfg(test)]
pub(crate) mod testing;
mod ticks;

pub use node::{Latest, NodeState, Run, Stream};
pub use sequences::Sequences;
pub use ticks::Ticks;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::heartbeat::Placed;
use crate::identity::{BootId, NodeId, ProbeStart};
use crate::policy::ActivityPolicy;
use crate::step::PlacedStep;

/// All nodes of one shard.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FleetState {
    /// By node.
    pub nodes: BTreeMap<NodeId, NodeState>,
}

impl FleetState {
    /// Takes in one heartbeat.
    pub fn fold_heartbeat(&mut self, placed: &Placed, policy: &ActivityPolicy) {
        self.take(&placed.node, NodeState::of_heartbeat(placed, policy));
    }

    /// Takes in one step as an object carried it.
    pub fn fold_step(&mut self, step: &PlacedStep) {
        self.take(&step.node, NodeState::of_step(step));
    }

    /// True when this very heartbeat was taken in before.
    pub fn accepted_heartbeat(&self, placed: &Placed) -> bool {
        let h = &placed.heartbeat;
        self.accepted(
            Stream::Heartbeats,
            &placed.node,
            &h.boot,
            &h.probe_start,
            h.sequence,
        )
    }

    /// True when the steps of this very batch were taken in before.
    pub fn accepted_steps(
        &self,
        node: &NodeId,
        boot: &BootId,
        probe_start: &ProbeStart,
        sequence: u64,
    ) -> bool {
        self.accepted(Stream::Steps, node, boot, probe_start, sequence)
    }

    /// Joins two states; see the module.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        for (node, state) in other.nodes {
            self.take(&node, state);
        }
        self
    }

    /// The shard of `shards` that a node belongs to: FNV-1a of its id, which is
    /// the same on every machine and for ever.
    pub fn shard_of(node: &NodeId, shards: u16) -> u16 {
        let hash = node
            .as_str()
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        u16::try_from(hash % u64::from(shards.max(1))).unwrap_or(0)
    }

    fn take(&mut self, node: &NodeId, state: NodeState) {
        match self.nodes.get_mut(node) {
            Some(known) => known.absorb(state),
            None => {
                self.nodes.insert(node.clone(), state);
            }
        }
    }

    fn accepted(
        &self,
        stream: Stream,
        node: &NodeId,
        boot: &BootId,
        probe_start: &ProbeStart,
        sequence: u64,
    ) -> bool {
        let state = self.nodes.get(node);
        state.is_some_and(|state| state.accepted((boot, probe_start, stream), sequence))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::testing::{placed, placed_step};
    use super::*;

    fn folded(heartbeats: &[(u8, u64)], steps: &[(u8, u64)]) -> FleetState {
        let mut state = FleetState::default();
        for (node, sequence) in heartbeats {
            state.fold_heartbeat(&placed(*node, *sequence), &ActivityPolicy::default());
        }
        for (node, sequence) in steps {
            state.fold_step(&placed_step(*node, *sequence));
        }
        state
    }

    type Arrivals = Vec<(u8, u64)>;

    fn arrivals() -> impl Strategy<Value = Arrivals> {
        proptest::collection::vec((0u8..3, 0u64..3_000), 0..40)
    }

    proptest! {
        #[test]
        fn merging_is_commutative_associative_and_idempotent(
            a in (arrivals(), arrivals()), b in (arrivals(), arrivals()), c in (arrivals(), arrivals()),
        ) {
            let [a, b, c] = [a, b, c].map(|(h, s)| folded(&h, &s));
            prop_assert_eq!(a.clone().merge(b.clone()), b.clone().merge(a.clone()));
            prop_assert_eq!(
                a.clone().merge(b.clone()).merge(c.clone()),
                a.clone().merge(b.clone().merge(c))
            );
            prop_assert_eq!(a.clone().merge(a.clone()), a);
        }

        #[test]
        fn order_and_repeats_change_nothing(mut arrived in arrivals(), steps in arrivals()) {
            let once = folded(&arrived, &steps);
            arrived.reverse();
            let again: Arrivals = arrived.iter().chain(&arrived).copied().collect();
            prop_assert_eq!(folded(&again, &steps), once);
        }

        #[test]
        fn what_was_folded_is_known_as_accepted(arrived in arrivals()) {
            let state = folded(&arrived, &[]);
            for (node, sequence) in arrived {
                prop_assert!(state.accepted_heartbeat(&placed(node, sequence)));
            }
        }
    }

    #[test]
    fn a_node_always_falls_into_the_same_shard() {
        let shard = |name: &str| FleetState::shard_of(&NodeId::new(name).expect("a node id"), 16);
        assert_eq!(shard("i-0abc"), shard("i-0abc"));
        let used: std::collections::BTreeSet<u16> =
            (0..200).map(|i| shard(&format!("i-{i:017x}"))).collect();
        assert_eq!(used.len(), 16);
    }
}
