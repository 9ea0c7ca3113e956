//! Observations that one sweep stores for the next, because neither cloud nor probe reports them.

use std::collections::BTreeMap;

use ebb_model::report::probe_problem::GROWN_SPOOL;
use ebb_model::sweep_memory::{Jobless, Memory, ProbeMark};
use ebb_node_state::node_state::Latest;
use ebb_telemetry::identity::NodeId;
use jiff::Timestamp;

use crate::facts::Facts;
use crate::rules::batch::lost_agent::may_be_hidden;
use crate::rules::batch::orphan_container::jobless;

/// Maximum number of addresses, and of workers, that are remembered without being listed: one account
/// may refuse for ever, and the deleted resources of the others would stay.
const MAX_UNLISTED: usize = 10_000;

/// The call that lists addresses.
const ADDRESSES: [&str; 1] = ["ec2:DescribeAddresses"];

/// The call that lists machines.
const INSTANCES: [&str; 1] = ["ec2:DescribeInstances"];

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
        unassociated_since: unassociated_since.chain(hidden_addresses(facts)).collect(),
        disconnected_since: disconnected_since.chain(hidden_workers(facts)).collect(),
        jobless: jobless.collect(),
        probes: probe_marks(facts),
        // The evaluation adds the days that closed.
        spend: before.spend.clone(),
        // The sweep adds the days that it writes.
        costs: before.costs.clone(),
        node_hours: before.node_hours,
    }
}

/// Addresses of earlier sweeps that a failed call may hide. Without a listed address, its account
/// and region are unknown, so a gap of any region counts.
fn hidden_addresses<'a>(facts: &Facts<'a>) -> impl Iterator<Item = (String, Timestamp)> + use<'a> {
    let listed = &facts.inventory.storage.addresses;
    let mut gaps = facts.inventory.gaps.iter();
    let is_hidden = gaps.any(|gap| gap.may_hide_anywhere(&ADDRESSES));
    let before = facts.memory.unassociated_since.iter();
    before
        .filter(move |(id, _)| is_hidden && !listed.contains_key(*id))
        .map(|(id, since)| (id.clone(), *since))
        .take(MAX_UNLISTED)
}

/// Workers with a disconnected agent in earlier sweeps that a failed call may hide. Without a listed
/// machine, its account and region are unknown, so a gap of any region counts.
fn hidden_workers<'a>(facts: &Facts<'a>) -> impl Iterator<Item = (NodeId, Timestamp)> + use<'a> {
    let facts = *facts;
    let mut gaps = facts.inventory.gaps.iter();
    let lacks_machines = gaps.any(|gap| gap.may_hide_anywhere(&INSTANCES));
    let workers = &facts.inventory.batch.container_instances;
    let is_hidden = move |node: &NodeId| match facts.instance(node) {
        Some(instance) => may_be_hidden(&facts, instance),
        None => lacks_machines && workers.on(node).is_none(),
    };
    let before = facts.memory.disconnected_since.iter();
    before
        .filter(move |(node, _)| is_hidden(node))
        .map(|(node, since)| (node.clone(), *since))
        .take(MAX_UNLISTED)
}

fn probe_marks(facts: &Facts<'_>) -> BTreeMap<NodeId, ProbeMark> {
    let nodes = facts.state.nodes.iter();
    let marks = nodes.filter_map(|(node, state)| {
        let latest = state.latest.as_ref()?;
        let mark = probe_mark(latest, facts.memory.probes.get(node));
        // Almost every spool has a few records, and marks of all nodes would take room in the state.
        let is_empty = mark.lost == [0, 0] && mark.spool <= GROWN_SPOOL;
        (!is_empty).then(|| (node.clone(), mark))
    });
    marks.collect()
}

/// Compares the newest heartbeat with that of the previous sweep. A counter begins again with each
/// start of the probe.
fn probe_mark(latest: &Latest, before: Option<&ProbeMark>) -> ProbeMark {
    let probe = latest.detail().probe;
    let lost = [probe.events_lost, probe.records_dropped];
    if let Some(same) = before.filter(|before| before.heard_at == latest.end) {
        return *same;
    }
    let grown = |which: usize| {
        let earlier = before.map_or(0, |before| before.lost[which]);
        let has_grown = lost[which] > 0 && lost[which] != earlier;
        let known = before.and_then(|before| before.lost_at[which]);
        has_grown.then_some(latest.end).or(known)
    };
    ProbeMark {
        heard_at: latest.end,
        lost,
        lost_at: [grown(0), grown(1)],
        spool: probe.spool,
        spool_grows: before.is_some_and(|before| probe.spool > before.spool),
    }
}
