//! Finds the ids of all resources with a name that a report shows.

use ebb_model::inventory::instance::name_of;
use ebb_model::report::Report;
use ebb_model::report::cost_shares::CostDimension;
use ebb_model::spend_history::SpendSubject;

use crate::facts::Facts;
use crate::rules::trace::Check;
use crate::step_history::by_step::Profiles;

/// Prefixes of the ids of pipelines and runs, which have only a name.
const PIPELINE: &str = "pipeline/";

const RUN: &str = "run/";

/// Why no rule evaluated a pipeline or a run.
pub(crate) const WHY_NO_GROUP: &str = "rules evaluate steps, jobs, machines, and the costs of pipelines \
     on closed days; they do not evaluate runs";

/// Unique ids of all resources with this id or name; empty if none match.
pub(crate) fn ids(
    facts: &Facts<'_>,
    report: &Report,
    profiles: &Profiles<'_>,
    id_or_name: &str,
) -> Vec<String> {
    let mut ids = Vec::new();
    let matching = inventory_resources(facts)
        .chain(step_names(profiles))
        .chain(report_resources(report))
        .filter(|resource| resource.is_called(id_or_name));
    for resource in matching {
        if !ids.contains(&resource.id) {
            ids.push(resource.id);
        }
    }
    ids
}

/// A resource that `--explain` finds by its id or by its name.
struct NamedResource<'a> {
    id: String,
    name: Option<&'a str>,
}

impl<'a> NamedResource<'a> {
    fn new(id: impl ToString, name: Option<&'a str>) -> Self {
        Self {
            id: id.to_string(),
            name,
        }
    }

    fn is_called(&self, id_or_name: &str) -> bool {
        self.id == id_or_name || self.name == Some(id_or_name)
    }
}

fn inventory_resources<'a>(facts: &Facts<'a>) -> impl Iterator<Item = NamedResource<'a>> {
    let inventory = facts.inventory;
    let instances = inventory.instances.iter();
    let instances = instances.map(|(id, machine)| NamedResource::new(id, machine.name()));
    let jobs = inventory.batch.jobs.iter();
    let jobs = jobs.map(|(id, job)| NamedResource::new(id.as_str(), Some(&job.name)));
    let commitments = inventory.markets.commitments.iter();
    let commitments = commitments.map(|paid| NamedResource::new(&paid.id, None));
    let environments = inventory.batch.environments.iter();
    let environments = environments.map(|one| kind_and_name("environment", &one.name));
    let queues = inventory.batch.queues.iter();
    let queues = queues.map(|one| kind_and_name("queue", &one.name));
    instances
        .chain(jobs)
        .chain(stored_resources(facts))
        .chain(commitments)
        .chain(environments)
        .chain(queues)
}

/// Volumes, snapshots and addresses.
fn stored_resources<'a>(facts: &Facts<'a>) -> impl Iterator<Item = NamedResource<'a>> {
    let storage = &facts.inventory.storage;
    let volumes = storage.volumes.iter().map(|(id, one)| (id, &one.tags));
    let snapshots = storage.snapshots.iter().map(|(id, one)| (id, &one.tags));
    let addresses = storage.addresses.iter().map(|(id, one)| (id, &one.tags));
    let public_ips = storage.addresses.iter();
    let public_ips = public_ips.map(|(id, one)| NamedResource::new(id, one.public_ip.as_deref()));
    volumes
        .chain(snapshots)
        .chain(addresses)
        .map(|(id, tags)| NamedResource::new(id, name_of(tags)))
        .chain(public_ips)
}

/// A resource whose id consists of its kind and its name.
fn kind_and_name<'a>(kind: &str, name: &'a str) -> NamedResource<'a> {
    NamedResource::new(format!("{kind}/{name}"), Some(name))
}

fn step_names<'a>(profiles: &'a Profiles<'_>) -> impl Iterator<Item = NamedResource<'a>> {
    let steps = profiles.by_step.keys();
    steps.map(|key| NamedResource::new(&key.name, None))
}

/// Pipelines, runs, and resources that only the report contains.
fn report_resources(report: &Report) -> impl Iterator<Item = NamedResource<'_>> {
    let groups = groups(report);
    // Nodes that only their probe reports, and resources that only an adviser of the cloud names.
    let nodes = report.nodes.iter();
    let nodes = nodes.map(|node| NamedResource::new(&node.id, node.name.as_deref()));
    let opinions = report.second_opinions.iter();
    let opinions = opinions.map(|opinion| NamedResource::new(&opinion.resource, None));
    // Other resources of findings and rules, such as containers.
    let of_findings = report.findings.iter().map(|finding| &finding.resource);
    let of_findings = of_findings.map(|one| NamedResource::new(&one.id, one.name.as_deref()));
    let left = report.not_evaluated.iter();
    let left = left.map(|one| NamedResource::new(&one.resource, one.name.as_deref()));
    groups
        .chain(nodes)
        .chain(opinions)
        .chain(of_findings)
        .chain(left)
}

/// Short description of a pipeline or a run; `None` for other ids.
pub(crate) fn group(report: &Report, id: &str) -> Option<&'static str> {
    let is_known = groups(report).any(|group| group.id == id);
    is_known.then_some(match id.starts_with(PIPELINE) {
        true => "a pipeline; `ebb tune pipeline NAME` shows its recommendations",
        false => "a run of a pipeline",
    })
}

/// Short description of a pipeline or cost centre that only its costs name; `None` for other ids.
pub(crate) fn spender(id: &str, checks: &[Check]) -> Option<&'static str> {
    let subject = SpendSubject::of_id(id)?;
    (!checks.is_empty()).then_some(match subject.dimension {
        CostDimension::CostCentre => "a cost centre",
        _ => "a pipeline",
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

fn groups(report: &Report) -> impl Iterator<Item = NamedResource<'_>> {
    let advised = report.targets.pipelines.iter().map(|group| &group.name);
    let runs = &report.runs.runs;
    let observed = runs.iter().filter_map(|run| run.pipeline.as_ref());
    let pipelines = advised.chain(observed).map(|name| NamedResource {
        id: format!("{PIPELINE}{name}"),
        name: Some(name),
    });
    let runs = runs.iter().filter(|run| run.by.is_some());
    let runs = runs.map(|run| NamedResource {
        id: format!("{RUN}{}", run.run),
        name: Some(&run.run),
    });
    pipelines.chain(runs)
}
