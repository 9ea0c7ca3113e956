//! Idle GPUs on a machine that works: no process uses them, or a process holds their memory without
//! computing. If the whole node is idle, the idle rule reports it.

pub mod by_metrics;
pub mod idle_gpus;

use std::time::Duration;

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::evidence::idle::SeenBy;
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::instance::{Instance, InstanceState};
use ebb_telemetry::time::Window;
use ebb_telemetry::units::{Bytes, HumanDuration, Share};

use crate::coverage;
use crate::facts::Facts;
use crate::rules::node::gpu_idle::idle_gpus::{Resting, is_waste, make_finding, patience};
use crate::rules::trace::{Check, RuleTrace};
use crate::rules::verdict::Verdict;

/// Evaluates every running machine with GPUs.
pub fn evaluate(facts: &Facts<'_>) -> Vec<Verdict> {
    let instances = facts.inventory.instances.values();
    instances
        .filter_map(|i| {
            evaluate_instance(facts, i, &mut RuleTrace::unwritten(FindingKind::IdleGpu))
        })
        .collect()
}

/// Questions about one machine; empty for a machine without GPUs.
pub(crate) fn explain(facts: &Facts<'_>, instance: &Instance) -> Vec<Check> {
    RuleTrace::written(FindingKind::IdleGpu, |q| {
        evaluate_instance(facts, instance, q)
    })
}

fn evaluate_instance(facts: &Facts<'_>, instance: &Instance, q: &mut RuleTrace) -> Option<Verdict> {
    let node = facts.state.nodes.get(&instance.id);
    let Some((node, latest)) = node.and_then(|node| Some((node, node.latest.as_ref()?))) else {
        return by_metrics::evaluate(facts, instance, q);
    };
    let gpus = latest.hardware.gpus.filter(|gpus| *gpus > 0)?;
    let (policy, patience) = (&facts.policy.idle, patience(facts));
    let runs = instance.state == InstanceState::Running;
    let since = |from| Duration::try_from(latest.end.duration_since(from)).unwrap_or_default();
    let fresh = Duration::try_from(facts.now.duration_since(latest.end)).unwrap_or_default();
    let quiet = node.active_until.map(since);
    let gpu = node.gpu();
    let from = gpu.active_until.max(gpu.watched_from);
    let from = from.max(instance.launched_at);
    let from = from.filter(|_| latest.coverage.gpu.is_some() && gpu.watched_from.is_some());
    let rests = from.map(since);
    let to = latest.end;
    let known = from.map(|from| coverage::observed(facts, &instance.id, node, Window { from, to }));
    let coverage = known.map_or(Share::NONE, |(_, share)| share);
    // Recent activity only: a long patience for idle nodes also covers the GPUs of an idle node.
    let works = quiet.is_some_and(|quiet| quiet < policy.after().min(patience / 2));
    let goes_on = q.holds(
        "Is the instance running, and how old is its last heartbeat?",
        (
            HumanDuration(fresh),
            format_args!("at most {}", HumanDuration(policy.after())),
        ),
        runs && fresh <= policy.after(),
    ) && is_waste(facts, instance, q, (works, rests, coverage));
    let (window, _) = known.filter(|_| goes_on)?;
    let observed = latest.detail().gpus;
    let held = observed.iter().map(|gpu| Some(gpu.memory_held?.0));
    let holders = node
        .running(&instance.id)
        .filter(|step| step.usage.detail.gpu.is_some())
        .map(|step| step.usage.name.clone())
        .take(5);
    let resting = Resting {
        window,
        coverage,
        gpus,
        held: held.sum::<Option<u64>>().map(Bytes),
        holders: holders.collect(),
        observed_by: SeenBy::Probe,
        origin: latest.origin,
        confidence: Confidence {
            level: Level::High,
            reason: format!("the probe read the GPU counters in {coverage} of that time"),
        },
    };
    Some(make_finding(facts, instance, resting))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, instance};
    use ebb_model::finding::evidence::Evidence;
    use ebb_telemetry::heartbeat::Heartbeat;
    use ebb_telemetry::heartbeat::node_signals::GpuUse;
    use ebb_telemetry::identity::InstanceType;
    use ebb_telemetry::money::UsdPerHour;
    use ebb_telemetry::units::CpuTime;

    fn gpu_machine() -> World {
        let mut machine = instance(1);
        machine.instance_type = InstanceType::new("g4dn.xlarge").expect("a type");
        World::with([machine])
    }

    /// The cores are busy; the GPU is busy until `busy_until` and holds `held_mib` MiB.
    fn watch(world: &mut World, minutes: u64, busy_until: u64, held_mib: u64) {
        world.watch(1, 0, minutes, |minute, h: &mut Heartbeat| {
            h.workload.cpu = Some(CpuTime::from_millis(30_000));
            h.hardware.gpus = Some(1);
            h.coverage.gpu = Some(Share::ALL);
            h.workload.gpu = Some(Share::from_ppm(if minute < busy_until {
                500_000
            } else {
                0
            }));
            h.detail.gpus = vec![GpuUse {
                memory_held: Some(Bytes::mib(held_mib)),
                memory: Some(Bytes::gib(16)),
                ..GpuUse::default()
            }];
        });
    }

    #[test]
    fn a_gpu_is_idle_when_it_computes_nothing_while_the_cores_work() {
        let check = |minutes, busy_until, held_mib, expect: Option<(FindingKind, &str)>| {
            let mut world = gpu_machine();
            watch(&mut world, minutes, busy_until, held_mib);
            let found = world.evaluate().findings;
            let outcome = found.first().map(|f| (f.kind, f.evidence.to_string()));
            let outcome = outcome.as_ref().map(|(kind, text)| (*kind, text.as_str()));
            assert_eq!(outcome, expect, "{minutes} {busy_until} {held_mib}");
        };
        let idle = "1 GPU idle for 2 h 10 min, 3.0 MiB of GPU memory in use";
        check(150, 20, 3, Some((FindingKind::IdleGpu, idle)));
        let held = "1 GPU idle for 2 h 10 min, 9.8 GiB of GPU memory in use";
        check(150, 20, 10_000, Some((FindingKind::GpuMemoryHeld, held)));
        check(100, 0, 3, None);
        check(150, 150, 10_000, None);
    }

    #[test]
    fn what_is_saved_is_the_price_of_the_gpu_and_the_machine_is_named() {
        let mut world = gpu_machine();
        watch(&mut world, 150, 0, 0);
        let finding = world.verdict().expect("it is idle");
        let Evidence::Gpu(evidence) = &finding.evidence else {
            panic!("{:?}", finding.evidence);
        };
        assert!(evidence.instead.is_some());
        let cost = finding.cost.expect("a price");
        let whole = UsdPerHour::from_micros(526_000);
        assert!(
            cost.per_hour < whole && cost.per_hour.0.micros() > 300_000,
            "{cost:?}"
        );
    }

    #[test]
    fn a_gpu_that_nobody_watched_is_not_evaluated() {
        let mut world = gpu_machine();
        watch(&mut world, 150, 0, 0);
        world.state = Default::default();
        world.watch(1, 0, 150, |_, h| {
            h.workload.cpu = Some(CpuTime::from_millis(30_000));
            h.hardware.gpus = Some(1);
        });
        assert_eq!(world.evaluate().findings, Vec::new());
    }
}
