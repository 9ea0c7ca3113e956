//! Observations that one sweep stores for the next, because neither cloud nor probe reports them.

use ebb_model::sweep_memory::{Jobless, Memory};

use crate::facts::Facts;
use crate::rules::batch::orphan_container::jobless;

/// Memory after a sweep; `facts` contain the memory of the previous sweep.
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
    let addresses = facts.inventory.storage.addresses.values();
    let unassociated = addresses.filter(|address| address.association.is_none());
    let unassociated_since = unassociated.map(|address| {
        let since = before.unassociated_since.get(&address.id);
        (address.id.clone(), since.copied().unwrap_or(now))
    });
    Memory {
        first_sweep: before.first_sweep.or(Some(now)),
        unassociated_since: unassociated_since.collect(),
        disconnected_since: disconnected_since.collect(),
        jobless: jobless.collect(),
    }
}
