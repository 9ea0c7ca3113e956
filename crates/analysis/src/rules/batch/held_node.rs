//! Nodes of which all running jobs are stuck. Nothing else uses such a node, and Batch does not scale it
//! in. Its jobs therefore share its whole price.

use std::collections::BTreeMap;

use ebb_model::finding::Finding;
use ebb_model::finding::evidence::Evidence;
use ebb_model::inventory::batch::job::JobStatus;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::money::{Usd, UsdPerHour};

use crate::facts::Facts;
use crate::rules::verdict::Verdict;

/// Raises the costs of jobs that hold a whole node, each in proportion to its request.
pub(crate) fn charge(facts: &Facts<'_>, verdicts: &mut [Verdict]) {
    let mut by_node: BTreeMap<NodeId, Vec<&mut Finding>> = BTreeMap::new();
    for verdict in verdicts {
        if let Verdict::Waste(finding) = verdict
            && is_running_job(finding)
            && let Some(node) = finding
                .resource
                .node
                .as_ref()
                .and_then(|id| NodeId::new(id).ok())
        {
            by_node.entry(node).or_default().push(finding);
        }
    }
    for (node, findings) in by_node {
        let worker = facts.inventory.batch.container_instances.on(&node);
        let tasks = worker.and_then(|(_, worker)| worker.running_tasks);
        let instance = facts.instance(&node);
        let price = instance.and_then(|instance| facts.price_of(instance));
        let costs = findings.iter().filter_map(|finding| finding.cost.as_ref());
        let all = UsdPerHour(costs.map(|cost| cost.per_hour.0).sum());
        let is_held = tasks.is_some_and(|tasks| tasks as usize == findings.len());
        let Some(price) = price.filter(|_| is_held && all.0 > Usd::ZERO) else {
            continue;
        };
        for finding in findings {
            let own = finding.cost.as_ref().map(|cost| cost.per_hour);
            finding.cost = own.map(|own| price.scaled(own, all).wasted_over(finding.window));
        }
    }
}

fn is_running_job(finding: &Finding) -> bool {
    let Evidence::StuckJob(stuck) = &finding.evidence else {
        return false;
    };
    stuck.status == Some(JobStatus::Running)
}
