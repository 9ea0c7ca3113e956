//! The role of each node. AWS derives a session name from the instance only for an instance
//! profile; any other principal that assumes the role chooses the name. Therefore the first role
//! that sends data for a node keeps the node while it continues to send.

use std::collections::BTreeMap;

use ebb_telemetry::identity::{NodeId, RoleId};
use ebb_telemetry::shard::Shard;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// Another role may replace a role that was silent for this time. A probe sends every few minutes,
/// and an instance may get another profile.
const HELD_FOR: SignedDuration = SignedDuration::from_hours(1);

/// Roles of nodes that were silent for this time are removed.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(14 * 24);

/// Limit on stored nodes; for further nodes every role is accepted.
const MAX_NODES: usize = 200_000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RoleOfNode {
    role: RoleId,
    /// Seconds since 1970, on the clock of the cloud.
    last_arrival: i64,
}

/// The role of each node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roles(BTreeMap<NodeId, RoleOfNode>);

impl Roles {
    /// Checks whether `role` may send data for `node` in an arrival at `at`.
    ///
    /// # Errors
    /// The role that sent data for the node less than an hour before.
    pub(crate) fn claim(
        &mut self,
        node: &NodeId,
        role: &RoleId,
        at: Timestamp,
    ) -> Result<(), RoleId> {
        let at = at.as_second();
        let Some(known) = self.0.get_mut(node) else {
            if self.0.len() < MAX_NODES {
                let role = role.clone();
                let of_node = RoleOfNode {
                    role,
                    last_arrival: at,
                };
                self.0.insert(node.clone(), of_node);
            }
            return Ok(());
        };
        if known.role != *role {
            if at.saturating_sub(known.last_arrival) < HELD_FOR.as_secs() {
                return Err(known.role.clone());
            }
            known.role = role.clone();
        }
        known.last_arrival = known.last_arrival.max(at);
        Ok(())
    }

    /// Removes nodes that were silent for 14 days before `now`.
    pub(crate) fn forget(&mut self, now: Timestamp) {
        let oldest = now.as_second() - KEPT_FOR.as_secs();
        self.0.retain(|_, known| known.last_arrival >= oldest);
    }

    pub(crate) fn keep(&mut self, is_kept: impl Fn(&NodeId) -> bool) {
        self.0.retain(|node, _| is_kept(node));
    }

    pub(crate) fn keep_shard(&mut self, shard: Shard) {
        self.keep(|node| shard.holds(node));
    }

    pub(crate) fn join(&mut self, other: Self) {
        for (node, theirs) in other.0 {
            let known = self.0.entry(node).or_insert_with(|| theirs.clone());
            if known.last_arrival < theirs.last_arrival {
                *known = theirs;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ebb_telemetry::identity::attested;

    use super::*;

    #[test]
    fn a_role_keeps_its_node_while_it_speaks() {
        let mut roles = Roles::default();
        let mut check = |sender: &str, minute: i64, is_accepted: bool| {
            let sender = attested(sender).expect("a role session");
            let at = Timestamp::from_second(minute * 60).expect("a time");
            let claim = roles.claim(&sender.node, &sender.role, at);
            assert_eq!(claim.is_ok(), is_accepted, "minute {minute}");
        };
        check("AROAFIRST:i-1", 0, true);
        check("AROAOTHER:i-1", 5, false);
        check("AROAOTHER:i-2", 5, true);
        check("AROAFIRST:i-1", 50, true);
        check("AROAOTHER:i-1", 109, false);
        check("AROAOTHER:i-1", 110, true);
        check("AROAFIRST:i-1", 111, false);
    }
}
