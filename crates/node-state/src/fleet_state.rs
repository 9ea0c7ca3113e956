//! The stored state of each node between sweeps: a cache of the lake.
//!
//! States form a semilattice: [`FleetState::merge`] is commutative, associative and idempotent.
//! Folding a heartbeat equals merging with the state of that heartbeat, so that order and repeats
//! change nothing. Limits drop entries by rules that commute with merging: the newest ticks, probe
//! runs and steps stay. There is one exception without effect. A probe start that was forgotten and
//! returns lacks its earlier sequence numbers, but data with such a number is refused by its age.
//!
//! A node that no longer sends data is forgotten. Data that is older than the maximum age is
//! refused, so that a week becomes closed. After a closed week without data, the node begins a new
//! life with its next data, and the state from before is dropped. As no closed week can receive
//! data, the time of dropping does not matter.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use ebb_telemetry::activity::ActivityPolicy;
use ebb_telemetry::arrival::{MAX_AGE, PlaceError, Placed};
use ebb_telemetry::identity::{BootId, NodeId, ProbeStart};
use ebb_telemetry::shard::Shard;
use ebb_telemetry::step::PlacedStep;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

use crate::node_state::NodeState;
use crate::probe_run::Stream;
use crate::retention::take_oldest;
use crate::weeks;
use crate::weeks::Weeks;

/// The state of all nodes of one shard.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FleetState {
    /// By node, since its last whole week without data. The values are boxed, because a growing map
    /// moves its values and reserves more space than it needs.
    #[serde(deserialize_with = "with_shared_names")]
    pub nodes: BTreeMap<NodeId, Box<NodeState>>,
    /// The state from before such a week, oldest first, while late data may still fill the week.
    earlier: BTreeMap<NodeId, Vec<NodeState>>,
    /// The newest time of any node; `None` without data.
    #[serde(with = "ebb_telemetry::time::nanos::option")]
    newest: Option<Timestamp>,
}

impl FleetState {
    /// Adds heartbeats. Consecutive heartbeats of one node, as in a message, need only one lookup.
    pub fn fold_heartbeats(&mut self, mut placed: &[Placed], policy: &ActivityPolicy) {
        while let [first, rest @ ..] = placed {
            let known = self.nodes.entry(first.node.clone());
            let known = known.or_insert_with(|| Box::new(NodeState::begun(first.end)));
            let goes_on = |next: &&Placed| {
                next.node == first.node && known.weeks.go_on_in(Weeks::from_time(next.end))
            };
            match placed.iter().take_while(goes_on).count() {
                0 => {
                    self.take(&first.node, NodeState::of_heartbeat(first, policy));
                    placed = rest;
                }
                own => {
                    let (own, rest) = placed.split_at(own);
                    known.fold(own, policy);
                    self.newest = self.newest.max(own.iter().map(|next| next.end).max());
                    placed = rest;
                }
            }
        }
    }

    /// Adds one heartbeat.
    pub fn fold_heartbeat(&mut self, placed: &Placed, policy: &ActivityPolicy) {
        self.fold_heartbeats(std::slice::from_ref(placed), policy);
    }

    /// Adds one step from an uploaded object.
    pub fn fold_step(&mut self, step: &PlacedStep) {
        self.take(&step.node, NodeState::of_step(step));
    }

    /// All states of a node: the present one, and those before a week without data.
    pub fn lives(&self, node: &NodeId) -> impl Iterator<Item = &NodeState> + Clone {
        let latest = self.nodes.get(node).map(Box::as_ref);
        let earlier = self.earlier.get(node).into_iter().flatten();
        latest.into_iter().chain(earlier)
    }

    /// True if a batch of steps was accepted before.
    pub fn accepted_steps(
        &self,
        node: &NodeId,
        boot: &BootId,
        probe_start: &ProbeStart,
        sequence: u64,
    ) -> bool {
        let key = (boot, probe_start, Stream::Steps);
        self.lives(node).any(|life| life.accepted(key, sequence))
    }

    /// True if a heartbeat was accepted before.
    pub fn accepted_heartbeat(&self, placed: &Placed) -> bool {
        self.lives(&placed.node)
            .any(|life| life.accepted_heartbeat(&placed.heartbeat))
    }

    /// All nodes with a state, also those without a present one.
    pub fn node_ids(&self) -> impl Iterator<Item = &NodeId> {
        self.nodes.keys().chain(self.earlier.keys())
    }

    /// A copy with these nodes only.
    #[must_use]
    pub fn of_nodes(&self, is_in: impl Fn(&NodeId) -> bool) -> Self {
        let nodes = self.nodes.iter().filter(|(node, _)| is_in(node));
        let earlier = self.earlier.iter().filter(|(node, _)| is_in(node));
        Self {
            nodes: nodes.map(|(id, node)| (id.clone(), node.clone())).collect(),
            earlier: earlier
                .map(|(id, lives)| (id.clone(), lives.clone()))
                .collect(),
            newest: self.newest,
        }
    }

    /// All recent steps of all nodes, including ended ones.
    pub fn steps(&self) -> Vec<PlacedStep> {
        let kept = self.nodes.values().map(|node| node.steps.len()).sum();
        let mut steps = Vec::with_capacity(kept);
        steps.extend(self.nodes.iter().flat_map(|(id, node)| node.steps(id)));
        steps
    }

    /// Merges two states; see the module.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        let earlier = other.earlier.into_iter();
        let earlier = earlier
            .flat_map(|(node, lives)| lives.into_iter().map(move |life| (node.clone(), life)));
        for (node, state) in earlier {
            self.take(&node, state);
        }
        for (node, state) in other.nodes {
            self.take(&node, *state);
        }
        // Its newest node may have been removed by a limit.
        self.newest = self.newest.max(other.newest);
        self
    }

    /// Refuses data that is too old: its week is closed, or the node has forgotten what it accepted
    /// then, so that the data may be a repeat.
    ///
    /// # Errors
    /// `TooLate`, with its age before the newest known time, or `Forgotten`.
    pub fn check_age(&self, node: &NodeId, at: Timestamp) -> Result<(), PlaceError> {
        self.lives(node)
            .try_for_each(|life| life.check_forgotten(at))?;
        let is_closed = |closed| weeks::week_of(at) <= closed;
        let Some(newest) = self.newest.filter(|_| self.closed().is_some_and(is_closed)) else {
            return Ok(());
        };
        Err(PlaceError::TooLate {
            age_hours: newest.duration_since(at).as_hours().unsigned_abs(),
            max_hours: MAX_AGE.as_secs() / 3600,
        })
    }

    /// Drops the lives that a closed week has ended: nodes without data for three weeks, or four at
    /// most. The time of the call does not change the result.
    pub fn forget(&mut self) {
        let Some(closed) = self.closed() else { return };
        self.nodes.retain(|_, life| !life.weeks.ended(closed));
        self.earlier.retain(|_, lives| {
            lives.retain(|life| !life.weeks.ended(closed));
            !lives.is_empty()
        });
    }

    /// Keeps the `max` nodes with the newest data, and returns the number of removed nodes.
    pub fn keep_newest(&mut self, max: usize) -> usize {
        let gone = take_oldest(&mut self.nodes, max, |node| node.newest());
        for id in &gone {
            self.earlier.remove(id);
        }
        gone.len()
    }

    /// Keeps the nodes of one shard.
    pub fn keep_shard(&mut self, shard: Shard) {
        self.nodes.retain(|id, _| shard.holds(id));
        self.earlier.retain(|id, _| shard.holds(id));
    }

    fn closed(&self) -> Option<i32> {
        weeks::closed(self.newest?)
    }

    fn take(&mut self, node: &NodeId, state: NodeState) {
        self.newest = self.newest.max(state.newest());
        match self.nodes.get_mut(node) {
            Some(known) if known.weeks.go_on_in(state.weeks) => known.absorb(state),
            Some(_) => self.rejoin(node, state),
            None => {
                self.nodes.insert(node.clone(), Box::new(state));
            }
        }
    }

    /// Adds a state from before a life, or from after a week without data.
    fn rejoin(&mut self, node: &NodeId, state: NodeState) {
        let mut lives = self.earlier.remove(node).unwrap_or_default();
        lives.extend(self.nodes.remove(node).map(|life| *life));
        lives.push(state);
        lives.sort_by_key(|life| life.weeks.first());
        let mut lives = lives.into_iter();
        let (mut before, Some(mut latest)) = (Vec::new(), lives.next()) else {
            return;
        };
        for life in lives {
            match latest.weeks.go_on_in(life.weeks) {
                true => latest.absorb(life),
                false => before.push(std::mem::replace(&mut latest, life)),
            }
        }
        if !before.is_empty() {
            self.earlier.insert(node.clone(), before);
        }
        self.nodes.insert(node.clone(), Box::new(latest));
    }
}

/// Shares the names after reading: the stored form repeats them in each record.
fn with_shared_names<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<NodeId, Box<NodeState>>, D::Error> {
    let mut nodes = BTreeMap::<NodeId, Box<NodeState>>::deserialize(from)?;
    nodes.values_mut().for_each(|node| node.share_names());
    Ok(nodes)
}
