//! Overprovisioned node: its concurrent tasks with headroom need at most half of its cores and half
//! of its memory. A cheaper type fits them.

use ebb_catalog::machine_type::TypeSpec;
use ebb_model::advice::node::{NodeAdvice, NodeOffer};
use ebb_model::confidence::{Confidence, Level};
use ebb_model::cost::Cost;
use ebb_model::finding::evidence::Evidence;
use ebb_model::finding::evidence::node::OversizedNode;
use ebb_model::finding::{Action, Finding, Resource};
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::instance::Instance;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::time::Window;
use ebb_telemetry::units::{MilliCores, Share};

use crate::facts::Facts;
use crate::rules::node::idle::check_standby;
use crate::rules::other_findings::OtherFindings;
use crate::rules::remedy::change_type;
use crate::rules::trace::{Check, RuleTrace};
use crate::rules::verdict::Verdict;

const KIND: FindingKind = FindingKind::OverprovisionedNode;

/// A whole week, so that days and nights have their true weight.
const WEEK_HOURS: u32 = 7 * 24;

/// Evaluates the nodes with advice, except those with another finding.
pub(crate) fn evaluate(
    facts: &Facts<'_>,
    nodes: &[NodeAdvice],
    found: &OtherFindings<'_>,
) -> Vec<Verdict> {
    nodes
        .iter()
        .filter_map(|advice| evaluate_advice(facts, advice, found, &mut RuleTrace::unwritten(KIND)))
        .collect()
}

/// RuleTrace about one machine.
pub(crate) fn explain(
    facts: &Facts<'_>,
    advice: Option<&NodeAdvice>,
    found: &OtherFindings<'_>,
) -> Vec<Check> {
    RuleTrace::written(KIND, |q| {
        advice.and_then(|advice| evaluate_advice(facts, advice, found, q))
    })
}

fn evaluate_advice(
    facts: &Facts<'_>,
    advice: &NodeAdvice,
    found: &OtherFindings<'_>,
    q: &mut RuleTrace,
) -> Option<Verdict> {
    let id = NodeId::new(&advice.node).ok()?;
    let instance = facts.inventory.instances.get(&id)?;
    if !q.owner_chooses_type(facts, instance) || check_standby(facts, instance, q).is_some() {
        return None;
    }
    let spec = q.type_of(facts, instance)?;
    if !has_fitting_type(facts, advice, spec, q) {
        return None;
    }
    let window = window(facts, &id, instance)?;
    let (offer, cost) = best(facts, advice, instance, window)?;
    if !q.saves_enough(facts, &cost) {
        return None;
    }
    // An idle node needs a stop instead of a smaller type. The oversized requests of its steps
    // already count as their own saving.
    if !found.leave_out(instance, FindingKind::OverprovisionedStep, q) {
        return None;
    }
    let hours = window.length().as_secs().div_ceil(3600);
    let coverage = Share::from_parts(
        advice.hours_seen.into(),
        hours.max(advice.hours_seen.into()),
    );
    Some(Verdict::Waste(Box::new(Finding {
        id: Finding::id_of(KIND, &advice.region, &advice.node),
        kind: KIND,
        window,
        coverage,
        evidence: Evidence::OversizedNode(OversizedNode {
            cores: advice.needs.cores?,
            of_cores: MilliCores::cores(spec.vcpus.into()),
            memory: advice.needs.memory?,
            of_memory: spec.memory,
            hours: advice.hours_seen,
            instead: offer.instance_type.clone(),
        }),
        confidence: confidence(advice.hours_seen),
        cost: Some(cost),
        remedy: change_type(facts, instance, Action::Rightsize, &offer.instance_type),
        recommendation: None,
        steps: Vec::new(),
        resource: Resource::of_instance(instance, None, advice.origin),
    })))
}

/// Whether the work of a node needs little of its type, and a cheaper type fits it.
fn has_fitting_type(
    facts: &Facts<'_>,
    advice: &NodeAdvice,
    spec: &TypeSpec,
    q: &mut RuleTrace,
) -> bool {
    let bound = Share::from_ppm(facts.policy.overprovisioned.needed_share_ppm);
    let shown = |what: Option<String>| what.unwrap_or_else(|| "unknown".into());
    let cores = shown(advice.needs.cores.map(|cores| cores.to_string()));
    let memory = shown(advice.needs.memory.map(|memory| memory.to_string()));
    let offer = advice.offers.first();
    q.holds(
        "How much do all tasks on this node need, with headroom?",
        (
            format_args!("{cores} cores, memory: {memory}"),
            format_args!("at most {bound} of {} and {}", spec.vcpus, spec.memory),
        ),
        is_roomy(bound, spec, advice),
    ) && q.holds(
        "Which cheaper instance type fits this?",
        (
            offer.map_or_else(
                || advice.refused.clone().unwrap_or_else(|| "none".into()),
                |offer| offer.instance_type.to_string(),
            ),
            "",
        ),
        offer.map(|_| true),
    )
}

fn confidence(observed_hours: u32) -> Confidence {
    let (level, note) = match observed_hours >= WEEK_HOURS {
        true => (Level::Medium, ""),
        false => (Level::Low, ", less than a week"),
    };
    Confidence {
        level,
        reason: format!(
            "based on the busiest minutes of {observed_hours} hours that the probe observed{note}; \
             network and volumes are not included"
        ),
    }
}

/// The cheapest type that fits the work of a node, and the waste of the larger type.
pub(crate) fn best<'a>(
    facts: &Facts<'_>,
    advice: &'a NodeAdvice,
    instance: &Instance,
    window: Window,
) -> Option<(&'a NodeOffer, Cost)> {
    let offer = advice.offers.first()?;
    let price = facts.price_of(instance)?;
    let saved = price.scaled(offer.saves_an_hour?, price.per_hour);
    Some((offer, saved.wasted_over(window)))
}

/// `None` if the cores or the memory are unknown.
fn is_roomy(bound: Share, spec: &TypeSpec, advice: &NodeAdvice) -> Option<bool> {
    let within =
        |part: u64, whole: u64| Share::from_parts(part, whole).is_some_and(|part| part <= bound);
    let cores = advice.needs.cores?.0;
    let memory = advice.needs.memory?.0;
    Some(within(cores, u64::from(spec.vcpus) * 1000) && within(memory, spec.memory.0))
}

/// From the first hour that the probe observed to the newest, but not before the launch.
fn window(facts: &Facts<'_>, id: &NodeId, instance: &Instance) -> Option<Window> {
    let node_hours = facts.hours.nodes.get(id)?;
    let (first, _) = node_hours
        .hours()
        .find(|(_, hour)| hour.seen() > Share::NONE)?;
    let node = facts.state.nodes.get(id)?;
    let to = node.latest.as_ref()?.end;
    let since = Some(first).max(node.first_seen);
    let from = since.max(instance.launched_at)?;
    Some(Window {
        from: from.min(to),
        to,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, instance};
    use ebb_model::inventory::instance::{Controller, Market};
    use ebb_telemetry::identity::InstanceType;
    use ebb_telemetry::step::{MemorySource, PeakMemory};
    use ebb_telemetry::testing::{at, clock, placed_step};
    use ebb_telemetry::units::{Bytes, CpuTime};

    /// A m5.4xlarge (16 cores, 64 GiB) with `cores` busy cores for `hours` hours, and one task that
    /// holds `gib` GiB.
    fn world(hours: u64, cores: u64, gib: u64) -> World {
        let mut machine = instance(1);
        machine.instance_type = InstanceType::new("m5.4xlarge").expect("a type");
        let mut world = World::with([machine]);
        world.watch(1, 0, hours * 60, |_, h| {
            h.workload.cpu = Some(CpuTime::from_millis(cores * 60_000));
            h.hardware.cores = MilliCores::cores(16);
        });
        let mut step = placed_step(1, 0);
        (step.started_at, step.observed_at) = (at(60), at(7_200));
        (step.usage.started, step.usage.observed) = (clock(60), clock(7_200));
        step.usage.peak_cores = Some(MilliCores::cores(cores));
        step.usage.peak_memory = Some(PeakMemory {
            bytes: Bytes::gib(gib),
            source: MemorySource::CgroupSampled,
        });
        world.finished.push(step);
        world
    }

    fn find_finding(world: &World) -> Option<Finding> {
        let findings = world.evaluate().findings.into_iter();
        findings.into_iter().find(|finding| finding.kind == KIND)
    }

    #[test]
    fn an_explanation_says_that_the_type_of_the_machine_is_unknown() {
        let mut world = world(30, 3, 10);
        for machine in world.inventory.instances.values_mut() {
            machine.instance_type = InstanceType::new("q9.4xlarge").expect("a type");
        }
        let id = instance(1).id;
        let checks = crate::explain::explain(&world.facts(), id.as_str()).checks;
        let last = checks.iter().rfind(|check| check.rule == KIND);
        let last = last.expect("a check");
        assert_eq!(last.question, "Is its instance type in the catalogue?");
        assert_eq!(last.value, "q9.4xlarge");
        assert_eq!(last.speaks, crate::rules::trace::Speaks::Unknown);
    }

    #[test]
    fn a_node_is_overprovisioned_when_half_of_it_is_more_than_all_that_ran_needs() {
        let check = |name: &str, hours, (cores, gib), change: fn(&mut World), expect| {
            let mut world = world(hours, cores, gib);
            change(&mut world);
            let level = find_finding(&world).map(|finding| finding.confidence.level);
            assert_eq!(level, expect, "{name}");
        };
        let (low, medium) = (Some(Level::Low), Some(Level::Medium));
        check("3 of 16 cores, 10 of 64 GiB", 30, (3, 10), |_| (), low);
        check("for a week", 7 * 24 + 2, (3, 10), |_| (), medium);
        check("seen for a day less an hour", 22, (3, 10), |_| (), None);
        check("a third of its cores", 30, (6, 10), |_| (), low);
        check("half of its cores", 30, (8, 10), |_| (), None);
        check("half of its memory", 30, (3, 30), |_| (), None);
        let without_peak = |world: &mut World| world.finished[0].usage.peak_memory = None;
        check("memory not seen", 30, (3, 10), without_peak, None);
        let of_group = |world: &mut World| {
            for machine in world.inventory.instances.values_mut() {
                machine.controller = Some(Controller::AutoScalingGroup("web".into()));
            }
        };
        check("a group chooses its type", 30, (3, 10), of_group, None);
        let on_spot = |world: &mut World| {
            for machine in world.inventory.instances.values_mut() {
                machine.market = Market::Spot;
            }
        };
        check("the price is unknown", 30, (3, 10), on_spot, None);
        let old = |world: &mut World| {
            for machine in world.inventory.instances.values_mut() {
                machine.instance_type = InstanceType::new("m4.4xlarge").expect("a type");
            }
        };
        check(
            "a smaller new type saves more than a new one",
            30,
            (3, 10),
            old,
            low,
        );
        let exempt = |world: &mut World| {
            // Nothing ran since the first hour, so that the node is idle.
            world.state = Default::default();
            world.watch(1, 0, 30 * 60, |_, _| ());
            let text = "[[exempt]]\nkind = \"idle_node\"\nresource = \"i-00000000000000001\"\n\
                        until = \"2030-01-01\"\nreason = \"a spare\"\n";
            world.policy = ebb_model::policy::Policy::parse(text).expect("a policy");
        };
        check("idle and exempt", 30, (3, 10), exempt, None);
        let spare = |world: &mut World| {
            for machine in world.inventory.instances.values_mut() {
                machine.tags.insert("ebb:standby".into(), "true".into());
            }
        };
        check("on standby", 30, (3, 10), spare, None);
        let dear = |world: &mut World| {
            world.policy.overprovisioned.min_saving_usd_micros = 1_000_000_000_000;
        };
        check("not worth a change", 30, (3, 10), dear, None);
    }

    #[test]
    fn it_says_what_is_needed_what_holds_it_and_what_that_saves() {
        let world = world(30, 3, 10);
        let finding = find_finding(&world).expect("it is overprovisioned");
        let words = finding.evidence.to_string();
        assert!(
            words.starts_with(
                "all tasks of 31 hours need 3.8 of 16 cores and 12.0 GiB of 64.0 GiB, including \
                 headroom; "
            ),
            "{words}"
        );
        let advice = &world.evaluate().targets.nodes[0];
        let cost = finding.cost.expect("a price is known");
        assert_eq!(Some(cost.saving_a_month), advice.saving_a_month);
        assert_eq!(finding.window.from, at(0));
        let checks = crate::explain::explain(&world.facts(), &advice.node).checks;
        let ours = checks.iter().filter(|check| check.rule == KIND);
        assert!(ours.count() >= 5, "{checks:?}");
    }
}
