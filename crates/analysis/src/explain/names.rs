//! Finds the ids of all resources with a name that a report shows.

use ebb_model::inventory::instance::{Instance, name_of};
use ebb_model::report::Report;

use crate::facts::Facts;
use crate::step_history::by_step::Profiles;

/// Prefixes of the ids of pipelines and runs, which have only a name.
const PIPELINE: &str = "pipeline/";

const RUN: &str = "run/";

/// Unique ids of all resources with this id or name; empty if none match.
pub(crate) fn ids(
    facts: &Facts<'_>,
    report: &Report,
    profiles: &Profiles<'_>,
    asked: &str,
) -> Vec<String> {
    let mut ids = Vec::new();
    let mut add = |id: String| {
        if !ids.contains(&id) {
            ids.push(id);
        }
    };
    let inventory = facts.inventory;
    let is_named = |name: Option<&str>| name == Some(asked);
    for (id, machine) in &inventory.instances {
        let is_it = id.as_str() == asked || is_named(Instance::name(machine));
        is_it.then(|| add(id.to_string()));
    }
    for (id, job) in &inventory.batch.jobs {
        let is_it = id.as_str() == asked || job.name == asked;
        is_it.then(|| add(id.as_str().to_owned()));
    }
    let storage = &inventory.storage;
    let kept = storage.volumes.iter().map(|(id, one)| (id, &one.tags));
    let kept = kept.chain(storage.snapshots.iter().map(|(id, one)| (id, &one.tags)));
    let kept = kept.chain(storage.addresses.iter().map(|(id, one)| (id, &one.tags)));
    for (id, tags) in kept {
        let is_it = id == asked || is_named(name_of(tags));
        is_it.then(|| add(id.clone()));
    }
    for (id, address) in &storage.addresses {
        is_named(address.public_ip.as_deref()).then(|| add(id.clone()));
    }
    for paid in &inventory.markets.commitments {
        (paid.id == asked).then(|| add(paid.id.clone()));
    }
    let named = |kind: &str, name: &str| {
        let id = format!("{kind}/{name}");
        (name == asked || id == asked).then_some(id)
    };
    let environments = inventory.batch.environments.iter();
    environments
        .filter_map(|one| named("environment", &one.name))
        .for_each(&mut add);
    let queues = inventory.batch.queues.iter();
    queues
        .filter_map(|one| named("queue", &one.name))
        .for_each(&mut add);
    let is_step = |name: &String| *name == asked;
    let steps = profiles.by_step.keys().map(|key| key.name.clone());
    steps.filter(is_step).for_each(&mut add);
    let groups = groups(report).filter(|id| {
        let name = id.split_once('/').map(|(_, name)| name);
        id == asked || is_named(name)
    });
    groups.for_each(&mut add);
    // Nodes that only their probe reports, and resources that only an adviser of the cloud names.
    for node in &report.nodes {
        let is_it = node.id == asked || is_named(node.name.as_deref());
        is_it.then(|| add(node.id.clone()));
    }
    for said in &report.second_opinions {
        (said.resource == asked).then(|| add(said.resource.clone()));
    }
    // Other resources of findings and rules, such as containers.
    let of_findings = report.findings.iter().map(|finding| &finding.resource);
    let of_findings = of_findings.map(|one| (&one.id, one.name.as_deref()));
    let left = report.not_judged.iter();
    let left = left.map(|one| (&one.resource, one.name.as_deref()));
    for (id, name) in of_findings.chain(left) {
        (id == asked || is_named(name)).then(|| add(id.clone()));
    }
    ids
}

/// Short description of a pipeline or a run; `None` for other ids.
pub(crate) fn group(report: &Report, id: &str) -> Option<&'static str> {
    let is_known = groups(report).any(|group| group == id);
    is_known.then_some(match id.starts_with(PIPELINE) {
        true => "a pipeline; `ebb tune pipeline NAME` shows its recommendations",
        false => "a run of a pipeline",
    })
}

/// Short description of a resource that the inventory does not contain.
pub(crate) fn beyond_the_inventory(report: &Report, id: &str) -> Option<&'static str> {
    let is_node = report.nodes.iter().any(|node| node.id == id);
    let is_advised = || report.second_opinions.iter().any(|one| one.resource == id);
    match is_node {
        true => Some("a node that only its probe reports"),
        false => is_advised()
            .then_some("a resource that only a recommendation of the cloud provider names"),
    }
}

fn groups(report: &Report) -> impl Iterator<Item = String> {
    let pipelines = report.targets.pipelines.iter().map(|group| &group.name);
    let pipelines = pipelines.chain(
        report
            .runs
            .runs
            .iter()
            .filter_map(|run| run.pipeline.as_ref()),
    );
    let runs = report.runs.runs.iter().filter(|run| run.by.is_some());
    pipelines
        .map(|name| format!("{PIPELINE}{name}"))
        .chain(runs.map(|run| format!("{RUN}{}", run.run)))
}
