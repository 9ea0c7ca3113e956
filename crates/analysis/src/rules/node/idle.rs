//! Idle node: a running, billed node without any activity of a workload.

pub mod by_metrics;
pub mod idle_time;
pub mod keeper;
pub mod last_steps;
pub mod remedy;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use ebb_model::confidence::{Confidence, Level};
use ebb_model::cost::Cost;
use ebb_model::finding::evidence::Evidence;
use ebb_model::finding::evidence::idle::{IdleNode, KeptAliveBy, SeenBy};
use ebb_model::finding::{Finding, Resource};
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::batch::job::JobStatus;
use ebb_model::inventory::instance::{Instance, InstanceState};
use ebb_node_state::node_state::{Latest, NodeState};
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::time::Window;
use ebb_telemetry::units::HumanDuration;
use jiff::Timestamp;

use crate::activity_history::ActivityHistory;
use crate::coverage;
use crate::facts::Facts;
use crate::rules::node::idle::idle_time::{Projection, Quiet};
use crate::rules::node::idle::keeper::{BatchFleet, Patience};
use crate::rules::node::recurring_idle::{IdlePattern, find_idle_pattern};
use crate::rules::trace::{Check, RuleTrace};
use crate::rules::verdict::Verdict;

const KIND: FindingKind = FindingKind::IdleNode;

/// Evaluates every running instance.
pub fn evaluate(facts: &Facts<'_>) -> Vec<Verdict> {
    let known = ByBatch::from_facts(facts);
    let instances = facts.inventory.instances.values();
    instances
        .filter_map(|i| evaluate_instance(facts, i, &known, &mut RuleTrace::unwritten(KIND)))
        .collect()
}

/// Questions about one machine.
pub(crate) fn explain(facts: &Facts<'_>, instance: &Instance, known: &ByBatch<'_>) -> Vec<Check> {
    RuleTrace::written(KIND, |q| evaluate_instance(facts, instance, known, q))
}

/// Data of Batch about machines, collected once for all machines.
pub(crate) struct ByBatch<'a> {
    /// Machines that the rule about Batch evaluates.
    nodes: BTreeSet<&'a NodeId>,
    fleet: BatchFleet<'a>,
}

impl<'a> ByBatch<'a> {
    pub(crate) fn from_facts(facts: &Facts<'a>) -> Self {
        Self {
            nodes: nodes_with_batch_rule(facts),
            fleet: BatchFleet::from_facts(facts),
        }
    }
}

/// Machines with a RUNNING job or a lost agent, and machines that never joined. The rule about
/// Batch reports them; a second finding would count the same cost twice. It reports no lost agent that
/// a failed call hides.
fn nodes_with_batch_rule<'a>(facts: &Facts<'a>) -> BTreeSet<&'a NodeId> {
    let batch = &facts.inventory.batch;
    let jobs = batch.jobs.values();
    let running = jobs.filter(|job| job.status == JobStatus::Running);
    let lost = facts.memory.disconnected_since.keys();
    running
        .filter_map(|job| batch.node_of(job))
        .chain(lost.filter(|node| batch.container_instances.on(node).is_some()))
        .chain(crate::rules::batch::never_joined::nodes(facts).map(|instance| &instance.id))
        .collect()
}

fn evaluate_instance(
    facts: &Facts<'_>,
    instance: &Instance,
    known: &ByBatch<'_>,
    q: &mut RuleTrace,
) -> Option<Verdict> {
    let is_batchs = known.nodes.contains(&instance.id);
    let applies = q.holds(
        "Is the instance running?",
        (instance.state, "running"),
        instance.state == InstanceState::Running,
    ) && q.holds(
        "Does a Batch job run on this node, or is its ECS agent disconnected?",
        (
            if is_batchs {
                "yes: the stuck Batch job rule applies"
            } else {
                "no"
            },
            "",
        ),
        !is_batchs,
    );
    if !applies {
        return None;
    }
    match quiet(facts, instance, &known.fleet, q) {
        Ok(quiet) => Some(Verdict::Waste(Box::new(make_finding(
            facts, instance, quiet?,
        )))),
        Err(reason) => {
            let (id, name) = (instance.id.as_str(), instance.name());
            Some(Verdict::undetermined(KIND, id, name, reason))
        }
    }
}

/// `None` for a node in use. The error is the reason why the node was not evaluated.
fn quiet(
    facts: &Facts<'_>,
    instance: &Instance,
    fleet: &BatchFleet<'_>,
    q: &mut RuleTrace,
) -> Result<Option<Quiet>, String> {
    if let Some(tag) = check_standby(facts, instance, q) {
        return Err(format!("standby node: tag {tag}"));
    }
    let node = facts.state.nodes.get(&instance.id);
    match node.and_then(|node| Some((node, node.latest.as_ref()?))) {
        None => by_metrics::quiet(facts, instance, q),
        Some((node, latest)) => by_probe(facts, instance, (node, latest), fleet, q),
    }
}

/// Asks whether a machine is on standby; returns the tag that marks the standby.
pub(crate) fn check_standby(
    facts: &Facts<'_>,
    instance: &Instance,
    q: &mut RuleTrace,
) -> Option<String> {
    let tag = standby_tag(facts, instance);
    let wanted = std::fmt::from_fn(|f| {
        f.write_str("none of:")?;
        let mut tags = facts.policy.idle.standby_tags.iter();
        tags.try_for_each(|tag| write!(f, " {tag}"))
    });
    q.holds(
        "Does a tag mark this node as standby?",
        (tag.as_deref().unwrap_or("no"), wanted),
        tag.is_none().then_some(true),
    );
    tag
}

pub(crate) fn standby_tag(facts: &Facts<'_>, instance: &Instance) -> Option<String> {
    let wanted = &facts.policy.idle.standby_tags;
    let is_wanted = |key: &str, value: &str| {
        let names = |wanted: &String| match wanted.strip_prefix(key) {
            Some("") => true,
            Some(rest) => rest.strip_prefix('=') == Some(value),
            None => false,
        };
        wanted.iter().any(names)
    };
    let mut carried = instance.tags.iter();
    let (key, value) = carried.find(|(key, value)| is_wanted(key, value))?;
    Some(format!("{key}={value}"))
}

fn by_probe(
    facts: &Facts<'_>,
    instance: &Instance,
    (node, latest): (&NodeState, &Latest),
    fleet: &BatchFleet<'_>,
    q: &mut RuleTrace,
) -> Result<Option<Quiet>, String> {
    let policy = &facts.policy.idle;
    // The node is in use, even if it is idle now; another rule reports a schedule or low use.
    let history = ActivityHistory::from_probe(facts, instance, node);
    let usual = history.and_then(|history| find_idle_pattern(facts, instance, &history));
    if !q.holds(
        "Does the idle time match the usual pattern of the node?",
        (usual.map_or("no", IdlePattern::words), ""),
        usual.is_none(),
    ) {
        return Ok(None);
    }
    let silent = elapsed(latest.end, facts.now).unwrap_or_default();
    if !q.holds(
        "When did its probe last send a heartbeat?",
        (
            format_args!("{} ago", HumanDuration(silent)),
            format_args!("at most {} ago", HumanDuration(policy.after())),
        ),
        (silent <= policy.after()).then_some(true),
    ) {
        return Err(probe_silent(facts, instance, silent));
    }
    let Some(from) = quiet_since(instance, node) else {
        return Ok(None);
    };
    let whole = observed_end(facts, &instance.id, node, (from, latest.end));
    let is_cut = whole.from > from;
    let was_active = node.active_until.is_some() && !is_cut;
    let observation = (node, whole, was_active);
    let Some(kept_alive_by) = rests_long(facts, instance, observation, fleet, q)? else {
        return Ok(None);
    };
    sees_all(facts, instance, latest, q).map_err(str::to_owned)?;
    let (window, coverage) = coverage::observed(facts, &instance.id, node, whole);
    let least = policy.min_coverage();
    let shown = coverage.compared_with(least);
    if !q.holds(
        "Which share of that time did the probe observe?",
        (&shown, format_args!("at least {least}")),
        (coverage >= least).then_some(true),
    ) {
        return Err(format!(
            "the probe observed only {shown} of the last {}",
            HumanDuration(window.length())
        ));
    }
    Ok(Some(Quiet {
        window,
        coverage,
        evidence: IdleNode {
            is_longer: coverage::is_cut_by_storage(facts, &instance.id, (whole, window)),
            never_active: (node.active_until.is_none() && !is_cut).then(|| whole.length()),
            ..evidence(latest, window, kept_alive_by)
        },
        origin: latest.origin,
        confidence: Confidence {
            level: Level::High,
            reason: format!("the probe observed all processes for {coverage} of that time"),
        },
        projection: Projection::Month,
    }))
}

/// The idle time of a node, or only its end if the rest was not observed well enough, as after an
/// outage of the probe.
fn observed_end(
    facts: &Facts<'_>,
    id: &NodeId,
    node: &NodeState,
    (from, to): (Timestamp, Timestamp),
) -> Window {
    let whole = Window { from, to };
    let patience = facts.policy.idle.after();
    let least = facts.policy.idle.min_coverage();
    if whole.length() < patience || coverage::observed(facts, id, node, whole).1 >= least {
        return whole;
    }
    let tick = facts.policy.activity.tick();
    let since = node.seen.covered_since(whole.to, tick, least);
    let end = since.map(|from| Window { from, ..whole });
    end.filter(|end| end.from > whole.from && end.length() >= patience)
        .unwrap_or(whole)
}

/// Returns the cause that keeps a node alive, once it was idle for its patience. The outer `None`
/// is a shorter idle time. Errors: the node waits on purpose, or was not observed for long enough.
fn rests_long(
    facts: &Facts<'_>,
    instance: &Instance,
    (node, window, was_active): (&NodeState, Window, bool),
    fleet: &BatchFleet<'_>,
    q: &mut RuleTrace,
) -> Result<Option<Option<KeptAliveBy>>, String> {
    const HOW_LONG: &str = "How long has the node been idle?";
    let rested = window.length();
    let least = keeper::least_patience(facts);
    // Most nodes are active, so this check avoids the search for what keeps them alive.
    if was_active && rested < least {
        let after = HumanDuration(facts.policy.idle.after());
        let bound = format!(
            "at least {after}; {} with ECS tasks outside AWS Batch",
            HumanDuration(least)
        );
        q.holds(HOW_LONG, (HumanDuration(rested), bound), false);
        return Ok(None);
    }
    let after = facts.policy.idle.after();
    let keeper = keeper::find_keeper(facts, instance, node, fleet);
    let (patience, meant) = match keeper::patience(facts, instance, keeper.as_ref(), fleet) {
        Patience::For(time) => (time, None),
        Patience::Meant(why) => (after, Some(why).filter(|_| rested >= after)),
    };
    let keeps = || keeper.as_ref().map(ToString::to_string);
    let shown = meant.clone().or_else(keeps);
    q.holds(
        "What keeps the node running?",
        (shown.as_deref().unwrap_or("no known reason"), ""),
        meant.is_none().then_some(true),
    );
    if let Some(why) = meant {
        return Err(why);
    }
    let (rested, patience) = (HumanDuration(rested), HumanDuration(patience));
    let is_long = rested.0 >= patience.0;
    q.holds(
        HOW_LONG,
        (&rested, format_args!("at least {patience}")),
        // A node without any observed activity may have worked before the observation.
        (is_long || was_active).then_some(is_long),
    );
    match (is_long, was_active) {
        (true, _) => Ok(Some(keeper)),
        (false, true) => Ok(None),
        (false, false) => Err(format!(
            "observed for only {rested}; at least {patience} are required"
        )),
    }
}

/// The end of the last activity, or the start of the observation. It is never before the launch, so
/// that a window is never longer than the life of the machine.
pub(crate) fn quiet_since(instance: &Instance, node: &NodeState) -> Option<Timestamp> {
    node.active_until
        .max(node.first_seen)
        .max(instance.launched_at)
}

/// Describes a silent probe. A connected ECS agent proves that the host is alive.
fn probe_silent(facts: &Facts<'_>, instance: &Instance, silent: std::time::Duration) -> String {
    let worker = facts.inventory.batch.container_instances.on(&instance.id);
    let lives = worker.and_then(|(_, worker)| worker.agent_connected) == Some(true);
    let silent = format!(
        "its probe sent the last heartbeat {} ago",
        HumanDuration(silent)
    );
    match lives {
        true => format!("{silent}, but its ECS agent is connected: the probe has stopped"),
        false => silent,
    }
}

fn elapsed(from: Timestamp, to: Timestamp) -> Option<std::time::Duration> {
    to.duration_since(from).try_into().ok()
}

/// Asks whether the probe or the metrics cover all signals of the machine. Otherwise no rule
/// derives idle hours.
pub(crate) fn sees_everything(facts: &Facts<'_>, instance: &Instance, q: &mut RuleTrace) -> bool {
    let node = facts.state.nodes.get(&instance.id);
    match node.and_then(|node| node.latest.as_ref()) {
        Some(latest) => sees_all(facts, instance, latest, q).is_ok(),
        None => by_metrics::see_everything(facts, instance, q).is_ok(),
    }
}

/// Asks whether the probe covers all signals of the machine; otherwise no rule derives idle hours.
/// The error is the missing signal.
pub(crate) fn sees_all(
    facts: &Facts<'_>,
    instance: &Instance,
    latest: &Latest,
    q: &mut RuleTrace,
) -> Result<(), &'static str> {
    let missing = missing_signal(facts, instance, latest);
    q.holds(
        "Does the probe observe CPU, disk, network and GPUs?",
        (missing.unwrap_or("yes"), ""),
        missing.is_none().then_some(true),
    );
    missing.map_or(Ok(()), Err)
}

/// Hardware of the node that its probe cannot observe.
fn missing_signal(facts: &Facts<'_>, instance: &Instance, latest: &Latest) -> Option<&'static str> {
    let coverage = &latest.coverage;
    if coverage.cpu.is_none() {
        return Some("its probe does not observe CPU usage");
    }
    if coverage.disk.is_none() {
        return Some("its probe does not observe disk usage");
    }
    if coverage.network.is_none() {
        return Some("its probe does not observe network usage");
    }
    let spec = facts.catalogue.spec(&instance.instance_type);
    if spec.is_some_and(|spec| spec.accelerators.is_some()) {
        return Some("the probe cannot observe the accelerator of this instance type");
    }
    let unwatched = coverage.gpu.is_none() && !facts.policy.idle.evaluate_unwatched_gpus;
    match gpus(facts, instance, latest) {
        Some(0) => None,
        Some(_) => {
            unwatched.then_some("the node has a GPU, and its probe does not observe GPU usage")
        }
        None => unwatched.then_some("it is unknown whether the node has a GPU"),
    }
}

/// Number of GPUs from the probe, otherwise from the type; `None` if neither is known.
pub(crate) fn gpus(facts: &Facts<'_>, instance: &Instance, latest: &Latest) -> Option<u32> {
    let spec = facts.catalogue.spec(&instance.instance_type);
    latest.hardware.gpus.or_else(|| Some(spec?.gpu_count()))
}

fn evidence(latest: &Latest, window: Window, kept_alive_by: Option<KeptAliveBy>) -> IdleNode {
    IdleNode {
        idle_for: window.length(),
        is_longer: false,
        never_active: None,
        background_cores: (latest.detail())
            .background_cpu
            .and_then(|cpu| cpu.cores_over(latest.length)),
        kept_alive_by,
        seen_by: SeenBy::Probe,
    }
}

fn make_finding(facts: &Facts<'_>, instance: &Instance, quiet: Quiet) -> Finding {
    let controller = facts.controller(instance);
    let cost = facts.price_of(instance).map(|price| {
        let cost = price.wasted_over(quiet.window);
        match quiet.projection {
            Projection::Month => cost,
            Projection::WindowOnly => Cost {
                saving_a_month: cost.spent,
                ..cost
            },
        }
    });
    Finding {
        id: Finding::id_of(KIND, &instance.region, instance.id.as_str()),
        kind: KIND,
        window: quiet.window,
        coverage: Some(quiet.coverage),
        remedy: remedy::choose_remedy(facts, instance, controller.as_ref(), &quiet.evidence),
        evidence: Evidence::IdleNode(quiet.evidence),
        confidence: quiet.confidence,
        cost,
        recommendation: None,
        steps: Vec::new(),
        resource: Resource::of_instance(instance, controller, quiet.origin),
    }
}
