//! What one sweep tells the next, because neither cloud nor probe says it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Facts;
use crate::identity::NodeId;
use crate::rules::batch::jobless;

/// What one sweep tells the next.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Memory {
    /// Since when every sweep has found an ECS agent disconnected.
    pub disconnected_since: BTreeMap<NodeId, Timestamp>,
    /// Containers of which neither Batch nor ECS knew, by the resource that a finding
    /// about one names. No more than the state holds steps of.
    pub jobless: BTreeMap<String, Jobless>,
}

/// A container of which nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jobless {
    /// The first sweep that found it so.
    pub since: Timestamp,
    /// How many have in a row, that one included.
    pub sweeps: u32,
}

/// What is remembered after a sweep with these facts, which hold what the one before
/// remembered.
pub fn next_memory(facts: &Facts<'_>) -> Memory {
    let (before, now) = (facts.memory, facts.now);
    let workers = facts.inventory.batch.container_instances.values();
    let disconnected = workers.filter(|worker| worker.agent_connected == Some(false));
    let disconnected_since = disconnected.map(|worker| {
        let since = before.disconnected_since.get(&worker.node);
        (worker.node.clone(), since.copied().unwrap_or(now))
    });
    let jobless = jobless(facts).map(|id| {
        let first = Jobless {
            since: now,
            sweeps: 1,
        };
        let again = before.jobless.get(&id).map(|known| Jobless {
            sweeps: known.sweeps.saturating_add(1),
            ..*known
        });
        (id, again.unwrap_or(first))
    });
    Memory {
        disconnected_since: disconnected_since.collect(),
        jobless: jobless.collect(),
    }
}
