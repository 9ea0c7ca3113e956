//! Idle node: it runs and is billed, and no workload on it did anything.

mod explain;
mod keeper;
#[cfg(test)]
mod latency;
pub(super) mod metrics;
mod remedy;
#[cfg(test)]
mod tests;

pub(crate) use explain::explain;
pub(super) use remedy::quoted;

use std::collections::BTreeSet;

use jiff::Timestamp;

use self::keeper::LastEnds;
use super::{Questions, Verdict, observed, rest};
use crate::finding::{
    Confidence, Evidence, Finding, FindingKind, IdleNode, KeptAliveBy, Level, Resource, SeenBy,
    Window,
};
use crate::fleet::{Instance, InstanceState, JobStatus};
use crate::heartbeat::Origin;
use crate::identity::NodeId;
use crate::judge::Facts;
use crate::state::{Latest, NodeState};
use crate::units::{Share, Spoken};

const KIND: FindingKind = FindingKind::IdleNode;

/// Judges every running instance.
pub fn judge(facts: &Facts<'_>) -> Vec<Verdict> {
    let running = |i: &&Instance| i.state == InstanceState::Running;
    let by_batch = judged_by_batch(facts);
    let ends = keeper::last_ends(facts);
    facts
        .inventory
        .instances
        .values()
        .filter(running)
        .filter(|instance| !by_batch.contains(&instance.id))
        .filter_map(|instance| judge_one(facts, instance, &ends))
        .collect()
}

/// Where a job is RUNNING, an agent is lost or a machine never joined, the Batch rule
/// says what is wrong; saying it twice would count the same dollars twice.
fn judged_by_batch<'a>(facts: &Facts<'a>) -> BTreeSet<&'a NodeId> {
    let batch = &facts.inventory.batch;
    let jobs = batch.jobs.values();
    let running = jobs.filter(|job| job.status == JobStatus::Running);
    running
        .filter_map(|job| batch.node_of(job))
        .chain(facts.memory.disconnected_since.keys())
        .chain(super::batch::never_joined(facts).map(|instance| &instance.id))
        .collect()
}

fn judge_one(facts: &Facts<'_>, instance: &Instance, ends: &LastEnds<'_>) -> Option<Verdict> {
    let undetermined = |reason: String| {
        Some(Verdict::undetermined(
            KIND,
            instance.id.as_str(),
            instance.name(),
            reason,
        ))
    };
    if let Some(tag) = standby_tag(facts, instance) {
        return undetermined(format!("meant to stand by: tag {tag}"));
    }
    let watched = facts.state.nodes.get(&instance.id);
    match watched.and_then(|node| node.latest.as_ref().map(|latest| (node, latest))) {
        None => metrics::judge(facts, instance),
        // In use, if not now: a schedule or its low duty is told instead.
        Some((node, _)) if rest::usual(facts, instance, node).is_some() => None,
        Some((node, latest)) => match observe(facts, instance, (node, latest), ends) {
            Ok(Some(quiet)) => Some(Verdict::Waste(Box::new(found(facts, instance, quiet)))),
            Ok(None) => None,
            Err(reason) => undetermined(reason),
        },
    }
}

pub(super) fn standby_tag(facts: &Facts<'_>, instance: &Instance) -> Option<String> {
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

/// A quiet time that is long enough and was seen well enough.
struct Quiet {
    window: Window,
    coverage: Share,
    evidence: IdleNode,
    origin: Origin,
    confidence: Confidence,
}

fn observe(
    facts: &Facts<'_>,
    instance: &Instance,
    (node, latest): (&NodeState, &Latest),
    ends: &LastEnds<'_>,
) -> Result<Option<Quiet>, String> {
    let policy = &facts.policy.idle;
    if let Some(silent) = elapsed(latest.end, facts.now).filter(|age| *age > policy.after()) {
        return Err(probe_silent(facts, instance, silent));
    }
    let Some(from) = quiet_since(instance, node) else {
        return Ok(None);
    };
    let window = Window {
        from,
        to: latest.end,
    };
    if node.active_until.is_some() && window.length() < keeper::least_patience(facts) {
        return Ok(None);
    }
    let keeper = keeper::of(facts, instance, node);
    let patience = match keeper::patience(facts, instance, keeper.as_ref(), ends) {
        keeper::Patience::For(time) => time,
        keeper::Patience::Meant(why) if window.length() >= policy.after() => return Err(why),
        keeper::Patience::Meant(_) => policy.after(),
    };
    if window.length() < patience {
        return match node.active_until {
            Some(_) => Ok(None),
            None => Err(format!(
                "watched for only {}; a verdict takes {}",
                Spoken(window.length()),
                Spoken(patience)
            )),
        };
    }
    if let Some(unseen) = unseen_signal(facts, instance, latest) {
        return Err(format!("undetermined: {unseen}"));
    }
    let (window, coverage) = observed::observed(facts, &instance.id, node, window);
    if coverage < policy.min_coverage() {
        return Err(format!(
            "undetermined: only {coverage} of the last {} was seen",
            Spoken(window.length())
        ));
    }
    Ok(Some(Quiet {
        window,
        coverage,
        evidence: evidence(node, latest, window, keeper),
        origin: latest.origin,
        confidence: Confidence {
            level: Level::High,
            reason: format!("a probe saw {coverage} of the window, process by process"),
        },
    }))
}

/// The end of the last activity, or when watching began; never before the
/// machine was started, so that a window is never longer than its life.
fn quiet_since(instance: &Instance, node: &NodeState) -> Option<Timestamp> {
    node.active_until
        .max(node.first_seen)
        .max(instance.launched_at)
}

/// Which of agent, host and probe is dead: ECS hears the agent, so the host lives.
fn probe_silent(facts: &Facts<'_>, instance: &Instance, silent: std::time::Duration) -> String {
    let worker = facts.inventory.batch.container_instances.on(&instance.id);
    let lives = worker.and_then(|(_, worker)| worker.agent_connected) == Some(true);
    let silent = format!("its probe fell silent {} ago", Spoken(silent));
    match lives {
        true => format!("{silent} while its ECS agent is connected: the probe has stopped"),
        false => silent,
    }
}

fn elapsed(from: Timestamp, to: Timestamp) -> Option<std::time::Duration> {
    to.duration_since(from).try_into().ok()
}

/// Asks whether what a node may have been busy with was seen: no rule takes hours at rest
/// from a probe that cannot tell.
pub(super) fn sees_all(
    facts: &Facts<'_>,
    instance: &Instance,
    latest: &Latest,
    q: &mut Questions,
) -> bool {
    let unseen = unseen_signal(facts, instance, latest);
    q.holds(
        "does its probe see all that the machine may be busy with?",
        (unseen.unwrap_or("yes"), ""),
        unseen.is_none().then_some(true),
    )
}

/// Hardware that the node has and that its probe cannot see.
fn unseen_signal(facts: &Facts<'_>, instance: &Instance, latest: &Latest) -> Option<&'static str> {
    let seen = &latest.coverage;
    if seen.cpu.is_none() {
        return Some("its probe sees no CPU time");
    }
    if seen.disk.is_none() {
        return Some("its probe sees no disk use");
    }
    if seen.network.is_none() {
        return Some("its probe sees no network use");
    }
    let spec = facts.catalogue.spec(&instance.instance_type);
    if spec.is_some_and(|spec| spec.accelerators.is_some()) {
        return Some("it has an accelerator that no probe sees");
    }
    let unwatched = seen.gpu.is_none() && !facts.policy.idle.judge_unwatched_gpus;
    match gpus(facts, instance, latest) {
        Some(0) => None,
        Some(_) => unwatched.then_some("it has a GPU and its probe sees no GPU use"),
        None => unwatched.then_some("whether it has a GPU is not known"),
    }
}

/// How many GPUs the machine has, by its probe, else by its type; `None` when neither knows.
pub(super) fn gpus(facts: &Facts<'_>, instance: &Instance, latest: &Latest) -> Option<u32> {
    let spec = facts.catalogue.spec(&instance.instance_type);
    latest.hardware.gpus.or_else(|| Some(spec?.gpu_count()))
}

fn evidence(
    node: &NodeState,
    latest: &Latest,
    window: Window,
    kept_alive_by: Option<KeptAliveBy>,
) -> IdleNode {
    IdleNode {
        idle_for: window.length(),
        never_active: node.active_until.is_none().then(|| window.length()),
        background_cores: latest
            .background
            .cpu
            .and_then(|cpu| cpu.cores_over(latest.length)),
        kept_alive_by,
        seen_by: SeenBy::Probe,
    }
}

fn found(facts: &Facts<'_>, instance: &Instance, quiet: Quiet) -> Finding {
    let controller = facts.controller(instance);
    let cost = facts
        .price_of(instance)
        .map(|price| price.wasted_over(quiet.window));
    Finding {
        id: Finding::id_of(KIND, &instance.region, instance.id.as_str()),
        kind: KIND,
        window: quiet.window,
        coverage: Some(quiet.coverage),
        remedy: remedy::of(facts, instance, controller.as_ref(), &quiet.evidence),
        evidence: Evidence::IdleNode(quiet.evidence),
        confidence: quiet.confidence,
        cost,
        recommendation: None,
        steps: Vec::new(),
        resource: Resource::of_instance(instance, controller, quiet.origin),
    }
}
