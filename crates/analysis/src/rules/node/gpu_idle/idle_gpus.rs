//! Findings about idle GPUs of one node.

use std::time::Duration;

use ebb_catalog::machine_type::TypeSpec;
use ebb_model::confidence::Confidence;
use ebb_model::finding::evidence::Evidence;
use ebb_model::finding::evidence::idle::SeenBy;
use ebb_model::finding::evidence::node::IdleGpus;
use ebb_model::finding::{Action, Finding, Remedy, Resource};
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::instance::Instance;
use ebb_sizing::cheapest_type::cheapest_with;
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::time::Window;
use ebb_telemetry::units::{Bytes, HumanDuration, Share};

use crate::facts::Facts;

use crate::rules::node::idle;
use crate::rules::remedy::open_shell;
use crate::rules::trace::RuleTrace;
use crate::rules::verdict::Verdict;

pub(crate) fn patience(facts: &Facts<'_>) -> Duration {
    Duration::from_secs(facts.policy.gpu.idle_after_seconds)
}

/// Whether idle GPUs are waste. `works` is whether the cores are busy. `rests` is the idle time of
/// the GPUs, `None` if they were not observed.
pub(crate) fn is_waste(
    facts: &Facts<'_>,
    instance: &Instance,
    q: &mut RuleTrace,
    (works, rests, coverage): (bool, Option<Duration>, Share),
) -> bool {
    let (patience, enough) = (patience(facts), facts.policy.idle.min_coverage());
    let shown = rests.map_or_else(
        || "not observed".to_owned(),
        |t| HumanDuration(t).to_string(),
    );
    idle::check_standby(facts, instance, q).is_none()
        && q.holds(
            "Is the CPU active? (If not, the idle node rule applies.)",
            (if works { "yes" } else { "no" }, ""),
            works,
        )
        && q.holds(
            "How long have all GPUs been idle?",
            (shown, format_args!("at least {}", HumanDuration(patience))),
            rests.map(|rests| rests >= patience),
        )
        && q.holds(
            "Which share of that time did the probe observe?",
            (
                coverage.compared_with(enough),
                format_args!("at least {enough}"),
            ),
            (coverage >= enough).then_some(true),
        )
}

/// Idle GPUs with their evidence.
pub(crate) struct Resting {
    pub window: Window,
    pub coverage: Share,
    pub gpus: u32,
    pub held: Option<Bytes>,
    pub holders: Vec<String>,
    pub observed_by: SeenBy,
    pub origin: Origin,
    pub(crate) confidence: Confidence,
}

pub(crate) fn make_finding(facts: &Facts<'_>, instance: &Instance, resting: Resting) -> Verdict {
    let (window, held) = (resting.window, resting.held);
    let is_held = held.is_some_and(|held| held.0 >= facts.policy.gpu.held_bytes);
    let spec = facts.catalogue.spec(&instance.instance_type);
    let instead = spec.and_then(|spec| without_gpus(facts, instance, spec));
    let kind = if is_held {
        FindingKind::GpuMemoryHeld
    } else {
        FindingKind::IdleGpu
    };
    let controller = facts.controller(instance);
    let advice = match (&instead, is_held) {
        (_, true) => "End the process that holds the GPU memory if nobody uses it. It is often a \
                      notebook kernel or a server without requests."
            .to_owned(),
        (Some((name, _)), false) => match &controller {
            Some(controller) => format!("Configure {controller} to launch {name} for this work."),
            None => format!(
                "Run this work on {name}. It has no GPU, and at least as many cores and as much \
                 memory."
            ),
        },
        (None, false) => "Run this work on an instance type without GPUs.".to_owned(),
    };
    let cost = facts.price_of(instance).and_then(|price| {
        let (list, then) = (price.list?, instead.as_ref()?.1);
        let saved = price.scaled(UsdPerHour(list.0 - then.0), list);
        Some(saved.wasted_over(window))
    });
    let (region, id) = (&instance.region, &instance.id);
    Verdict::Waste(Box::new(Finding {
        id: Finding::id_of(kind, region, id.as_str()),
        kind,
        window,
        coverage: Some(resting.coverage),
        evidence: Evidence::Gpu(IdleGpus {
            gpus: resting.gpus,
            quiet_for: window.length(),
            held,
            holders: resting.holders,
            instead: instead.map(|(name, _)| name),
            seen_by: resting.observed_by,
        }),
        confidence: resting.confidence,
        cost,
        remedy: Remedy {
            action: if is_held {
                Action::Investigate
            } else {
                Action::Rightsize
            },
            advice,
            command: Some(open_shell(instance)),
        },
        recommendation: None,
        steps: Vec::new(),
        resource: Resource::of_instance(instance, controller, resting.origin),
    }))
}

/// Whether the local disks of a type are hard disks, which are slower than the NVMe disks of types
/// with GPUs.
///
/// Source: EC2 instance types guide, "Storage optimized", column "Disk type".
fn has_hard_disks(spec: &TypeSpec) -> bool {
    let family = spec.name.as_str().split('.').next();
    matches!(family, Some("d2" | "d3" | "d3en" | "h1"))
}

/// The cheapest type without GPUs that has at least as many cores and as much memory, local disk and
/// EBS bandwidth; `None` if it is not cheaper. The network of a type with many GPUs connects them.
fn without_gpus(
    facts: &Facts<'_>,
    instance: &Instance,
    spec: &TypeSpec,
) -> Option<(ebb_telemetry::identity::InstanceType, UsdPerHour)> {
    let now = facts.catalogue.on_demand(&instance.region, &spec.name)?;
    let placed = cheapest_with(facts.catalogue, &instance.region, |other| {
        other.vcpus >= spec.vcpus
            && other.memory >= spec.memory
            && other.architecture == spec.architecture
            && other.gpus.is_none()
            && other.accelerators.is_none()
            && other.ebs_baseline_mbps >= spec.ebs_baseline_mbps
            && other.local_disk >= spec.local_disk
            && !has_hard_disks(other)
            && !other.burstable
            && !other.metal
            && !other.is_hpc()
            && other.current_generation
    })?;
    (placed.per_hour < now).then_some((placed.instance_type, placed.per_hour))
}
