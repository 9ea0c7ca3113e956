//! Summary of every node, with or without findings.

use std::collections::{BTreeMap, BTreeSet};

use ebb_model::finding::Finding;
use ebb_model::inventory::instance::{Instance, InstanceState};
use ebb_model::report::node_summary::NodeSummary;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::origin::{Origin, labelled};

use crate::facts::Facts;

/// Limit on nodes that a report lists; they take 4 MB.
pub const MAX_NODES: usize = 10_000;

/// Returns all nodes, the most expensive first, then by id, and the number of nodes left out.
pub(crate) fn nodes(facts: &Facts<'_>, findings: &[Finding]) -> (Vec<NodeSummary>, usize) {
    let mut by_node: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for finding in findings {
        let resource = &finding.resource;
        let node = resource.node.as_ref().unwrap_or(&resource.id);
        by_node.entry(node).or_default().push(finding.id.clone());
    }
    let there = facts.inventory.instances.values();
    let there = there.filter(|instance| instance.state != InstanceState::Terminated);
    let heard = facts.state.nodes.iter();
    let heard = heard.filter(|(_, node)| node.latest.is_some());
    let ids: BTreeSet<&NodeId> = there
        .map(|instance| &instance.id)
        .chain(heard.map(|(id, _)| id))
        .collect();
    let mut nodes: Vec<NodeSummary> = ids
        .into_iter()
        .filter_map(|id| {
            let findings = by_node.remove(id.as_str()).unwrap_or_default();
            node(facts, id, findings)
        })
        .collect();
    nodes.sort_by(|a, b| (b.per_hour, &a.id).cmp(&(a.per_hour, &b.id)));
    let left_out = nodes.len().saturating_sub(MAX_NODES);
    nodes.truncate(MAX_NODES);
    (nodes, left_out)
}

/// `None` for a terminated node.
fn node(facts: &Facts<'_>, id: &NodeId, findings: Vec<String>) -> Option<NodeSummary> {
    let latest = facts.state.nodes.get(id).and_then(|n| n.latest.as_ref());
    let instance = facts.instance(id);
    if instance.is_some_and(|instance| instance.state == InstanceState::Terminated) {
        return None;
    }
    let price = instance.and_then(|instance| facts.price_of(instance));
    let label = instance.map(|instance| labelled(&instance.tags));
    let origins = label.into_iter().chain(latest.map(|latest| latest.origin));
    Some(NodeSummary {
        id: id.to_string(),
        name: instance.and_then(Instance::name).map(str::to_owned),
        region: instance.map(|instance| instance.region.clone()),
        instance_type: instance.map(|instance| instance.instance_type.clone()),
        market: instance.map(|instance| instance.market),
        state: instance.map(|instance| instance.state),
        owner: instance.and_then(Instance::owner).map(str::to_owned),
        controller: instance.and_then(|instance| facts.controller(instance)),
        origin: origins.max().unwrap_or(Origin::Measured),
        heard_at: latest.map(|latest| latest.end),
        per_hour: price.map(|price| price.per_hour),
        basis: price.map(|price| price.basis),
        price_as_of: price.and_then(|price| price.as_of),
        findings,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, instance};
    use ebb_telemetry::testing::node as id;

    #[test]
    fn every_node_is_told_with_its_price_and_its_findings() {
        let mut world = World::with([instance(1), instance(2)]);
        world.watch(1, 0, 24 * 60, |_, _| {});
        let report = world.evaluate();
        let ids: Vec<_> = report.nodes.iter().map(|n| n.id.as_str()).collect();
        assert_eq!(ids, [id(1).as_str(), id(2).as_str()]);
        let [one, two] = &report.nodes[..] else {
            panic!("two nodes")
        };
        assert_eq!(one.findings.len(), report.findings.len());
        assert!(one.heard_at.is_some() && two.heard_at.is_none());
        assert!(two.per_hour.is_some() && two.findings.is_empty());
        assert_eq!(two.owner.as_deref(), Some("ada"));
    }

    #[test]
    fn one_that_is_gone_is_not_told_and_one_without_a_cloud_is() {
        let mut gone = instance(1);
        gone.state = InstanceState::Terminated;
        let mut world = World::with([gone]);
        world.watch(1, 0, 60, |_, _| {});
        world.watch(2, 0, 60, |_, _| {});
        let report = world.evaluate();
        let [only] = &report.nodes[..] else {
            panic!("one node")
        };
        assert_eq!(only.id, id(2).as_str());
        assert!(only.region.is_none() && only.per_hour.is_none());
    }
}
