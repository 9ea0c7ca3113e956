//! Underprovisioned node: its work of a day or longer waits for cores, or the kernel killed tasks
//! without a memory limit. Losses of a pipeline step are reported with the step, its neighbours or
//! its limit. Servers, sessions and tasks that compete with themselves have no other rule. The
//! finding has no saving; it shows the price of a larger type.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use ebb_catalog::machine_type::TypeSpec;
use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::evidence::Evidence;
use ebb_model::finding::evidence::node::{LargerType, ShortOfCores, ShortOfMemory, UndersizedNode};
use ebb_model::finding::{Action, Finding, Remedy, Resource, StepLink};
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::instance::{Controller, Instance, InstanceState};
use ebb_node_state::node_state::{Latest, NodeState};
use ebb_telemetry::identity::{BootId, NodeId};
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::step::{PlacedStep, StepEnd, StepId, StepKind};
use ebb_telemetry::time::{BootClock, Window};
use ebb_telemetry::units::{Bytes, CpuTime, HumanDuration, MilliCores, Share};
use jiff::SignedDuration;

use crate::coverage;
use crate::facts::Facts;
use crate::rules::other_findings::OtherFindings;
use crate::rules::remedy::{change_type, larger};
use crate::rules::trace::{Check, RuleTrace};
use crate::rules::verdict::Verdict;

const KIND: FindingKind = FindingKind::UnderprovisionedNode;

/// Waiting for less than a day may be one busy evening.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Evaluates the nodes with a suitable task in the state or the lake.
pub(crate) fn evaluate(
    facts: &Facts<'_>,
    kept: &[PlacedStep],
    found: &OtherFindings<'_>,
) -> Vec<Verdict> {
    let verdicts = telling(facts, kept).into_iter().filter_map(|(id, steps)| {
        let instance = facts.inventory.instances.get(id)?;
        let q = &mut RuleTrace::unwritten(KIND);
        evaluate_instance(facts, instance, steps, found, q)
    });
    verdicts.collect()
}

/// RuleTrace about one machine.
pub(crate) fn explain(
    facts: &Facts<'_>,
    steps: &[&PlacedStep],
    found: &OtherFindings<'_>,
    instance: &Instance,
) -> Vec<Check> {
    RuleTrace::written(KIND, |q| {
        evaluate_instance(facts, instance, steps.to_vec(), found, q)
    })
}

/// Tasks of each node that run for long enough, and killed tasks that no rule about steps evaluates.
pub(crate) fn telling<'s>(
    facts: &Facts<'s>,
    kept: &'s [PlacedStep],
) -> BTreeMap<&'s NodeId, Vec<&'s PlacedStep>> {
    let within = facts.policy.step.failed_within();
    let within = facts.now.checked_sub(within).ok();
    let tells = move |step: &&PlacedStep| {
        is_victim(step) && Some(step.observed_at) >= within || runs_long(step)
    };
    let mut by_node: BTreeMap<&NodeId, Vec<&PlacedStep>> = BTreeMap::new();
    for step in kept.iter().chain(facts.finished).filter(tells) {
        by_node.entry(&step.node).or_default().push(step);
    }
    by_node
}

fn runs_long(step: &PlacedStep) -> bool {
    step.usage.end == StepEnd::Running && wall(step) >= DAY
}

fn is_victim(step: &PlacedStep) -> bool {
    let usage = &step.usage;
    usage.end == StepEnd::OutOfMemory
        && usage.requested.memory.is_none()
        && matches!(usage.id.kind, StepKind::Session | StepKind::Service)
}

fn wall(step: &PlacedStep) -> Duration {
    let usage = &step.usage;
    usage.observed.since(usage.started).unwrap_or_default()
}

fn evaluate_instance(
    facts: &Facts<'_>,
    instance: &Instance,
    steps: Vec<&PlacedStep>,
    found: &OtherFindings<'_>,
    q: &mut RuleTrace,
) -> Option<Verdict> {
    let node = facts.state.nodes.get(&instance.id)?;
    let latest = node.latest.as_ref()?;
    let silent = Duration::try_from(facts.now.duration_since(latest.end)).unwrap_or_default();
    let heard_within = facts.policy.idle.after();
    if !q.holds(
        "Is the instance running, and how old is its last heartbeat?",
        (
            HumanDuration(silent),
            format_args!("at most {}", HumanDuration(heard_within)),
        ),
        instance.state == InstanceState::Running && silent <= heard_within,
    ) {
        return None;
    }
    let (mut waiting, mut killed): (Vec<&PlacedStep>, Vec<&PlacedStep>) =
        steps.into_iter().partition(|step| runs_long(step));
    let is_watched = node.first_seen <= latest.end.checked_sub(DAY).ok();
    waiting.retain(|step| is_watched && step.observed_at >= latest.end - GONE_AFTER);
    // The state and the lake may both contain the same task.
    killed.sort_by(|a, b| once(a).cmp(&once(b)));
    killed.dedup_by(|a, b| once(a) == once(b));
    let (cores, memory) = short(facts, latest, (&waiting, &killed), q)?;
    let spec = q.type_of(facts, instance)?;
    if !found.leave_out(instance, FindingKind::StarvedStep, q) {
        return None;
    }
    let larger = larger(facts, instance, spec, least(spec, &cores, &memory));
    let now = facts
        .catalogue
        .on_demand(&instance.region, &instance.instance_type);
    let mut steps = killed;
    steps.extend(waiting.iter().filter(|_| cores.is_some()));
    let tight = UndersizedNode {
        cores,
        memory,
        instead: larger.map(|larger| LargerType {
            now,
            then: larger.per_hour,
            instance_type: larger.instance_type,
        }),
    };
    make_finding(facts, instance, (node, latest), (tight, &steps))
}

/// Key that is equal for two records of the same task.
fn once<'s>(step: &&'s PlacedStep) -> (&'s BootId, &'s StepId, BootClock) {
    (&step.boot, &step.usage.id, step.usage.started)
}

/// Missing cores and memory of a node, from waiting and killed tasks; `None` if neither is missing.
fn short(
    facts: &Facts<'_>,
    latest: &Latest,
    (waiting, killed): (&[&PlacedStep], &[&PlacedStep]),
    q: &mut RuleTrace,
) -> Option<(Option<ShortOfCores>, Option<ShortOfMemory>)> {
    let waits = waits(latest, waiting);
    let bound = Share::from_ppm(facts.policy.step.starved_ppm);
    let headroom = 1.0 + f64::from(facts.policy.sizing.memory_headroom_ppm) / 1e6;
    let is_full = |w: &ShortOfCores| w.busy.as_cores() * headroom >= w.of.as_cores();
    let cores = waits.filter(|w| is_full(w) && w.share() >= Some(bound));
    let newest = killed.iter().max_by_key(|step| step.observed_at);
    let memory = newest.map(|newest| ShortOfMemory {
        kills: u32::try_from(killed.len()).unwrap_or(u32::MAX),
        newest: newest.usage.name.clone(),
        of: latest.hardware.memory,
        within: Some(facts.policy.step.failed_within()),
    });
    let is_short = cores.is_some() || memory.is_some();
    let shown: &dyn fmt::Display = match &waits {
        Some(waits) => waits,
        None => &"no task has run for 24 h and reports its waiting time, so CPU is not evaluated",
    };
    q.holds(
        "Does the node lack CPU or memory?",
        (
            format_args!(
                "{shown}; OOM kills of sessions and services without a memory limit: {}",
                killed.len()
            ),
            format_args!(
                "waits for a core for at least {bound} of its runnable time and all cores are busy, or 1 OOM kill"
            ),
        ),
        (is_short || waits.is_some()).then_some(is_short),
    )
    .then_some((cores, memory))
}

/// A task that the heartbeats of this last time do not contain has ended.
const GONE_AFTER: SignedDuration = SignedDuration::from_mins(5);

/// Total time that the tasks waited for a core. `None` without tasks, or if one of them lacks this
/// value.
fn waits(latest: &Latest, steps: &[&PlacedStep]) -> Option<ShortOfCores> {
    let mut all = ShortOfCores {
        busy: MilliCores::default(),
        of: latest.hardware.cores,
        waited: Duration::ZERO,
        cpu: CpuTime::default(),
        since: steps.iter().map(|step| wall(step)).max(),
    };
    for step in steps {
        let usage = &step.usage;
        all.waited = all.waited.saturating_add(usage.detail.run_queue?);
        all.cpu = all.cpu.saturating_add(usage.cpu);
        all.busy.0 += usage.cpu.cores_over(wall(step))?.0;
    }
    (!steps.is_empty()).then_some(all)
}

/// One and a half times the missing resource, and at least the current size of the other.
fn least(
    spec: &TypeSpec,
    cores: &Option<ShortOfCores>,
    memory: &Option<ShortOfMemory>,
) -> (u32, Bytes) {
    let half = |lacks: bool| if lacks { 3 } else { 2 };
    (
        (spec.vcpus * half(cores.is_some())).div_ceil(2),
        Bytes(spec.memory.0 / 2 * u64::from(half(memory.is_some()))),
    )
}

fn make_finding(
    facts: &Facts<'_>,
    instance: &Instance,
    (node, latest): (&NodeState, &Latest),
    (tight, steps): (UndersizedNode, &[&PlacedStep]),
) -> Option<Verdict> {
    let from = steps.iter().map(|step| step.started_at).min();
    let window = Window {
        from: from.max(node.first_seen).max(instance.launched_at)?,
        to: latest.end,
    };
    let (window, coverage) = coverage::observed(facts, &instance.id, node, window);
    let controller = facts.controller(instance);
    let confidence = match tight.memory {
        Some(_) => Confidence {
            level: Level::High,
            reason: "the kernel reported the OOM kill".into(),
        },
        None => Confidence {
            level: Level::Medium,
            reason: "the kernel counts the time that runnable threads wait for a core; starting \
                     more threads than cores has the same effect"
                .into(),
        },
    };
    // The fix increases the cost, so the saving is zero.
    let price = facts.price_of(instance);
    let nothing = price.map(|price| price.scaled(UsdPerHour::default(), price.per_hour));
    Some(Verdict::Waste(Box::new(Finding {
        id: Finding::id_of(KIND, &instance.region, instance.id.as_str()),
        kind: KIND,
        window,
        coverage: Some(coverage),
        remedy: remedy(facts, instance, controller.as_ref(), tight.instead.as_ref()),
        evidence: Evidence::UndersizedNode(tight),
        confidence,
        cost: nothing.map(|nothing| nothing.wasted_over(window)),
        recommendation: None,
        steps: steps
            .iter()
            .map(|step| StepLink::from_step(step, &step.usage.name, facts.job_of(step)))
            .take(Finding::MAX_STEPS)
            .collect(),
        resource: Resource::of_instance(instance, controller, latest.origin),
    })))
}

pub(crate) fn remedy(
    facts: &Facts<'_>,
    instance: &Instance,
    controller: Option<&Controller>,
    instead: Option<&LargerType>,
) -> Remedy {
    let kind = instead.map_or(&instance.instance_type, |larger| &larger.instance_type);
    let advice = match (controller, instead) {
        (None, Some(larger)) => {
            return change_type(facts, instance, Action::Rightsize, &larger.instance_type);
        }
        (Some(controller), Some(_)) => {
            format!(
                "Configure {controller} to launch {kind}, or place less work on each of its \
                 machines."
            )
        }
        (_, None) => format!("Run less work on this node. No similar type is larger than {kind}."),
    };
    Remedy {
        action: Action::Rightsize,
        advice,
        command: Some(format!(
            "aws ec2 describe-instance-types --region {} --instance-types {kind}",
            instance.region
        )),
    }
}
