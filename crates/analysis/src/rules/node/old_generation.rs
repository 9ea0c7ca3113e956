//! Old generation: a machine from before the Nitro System that has a cheaper successor. The
//! successor has the same series, the same kind of processor and at least the same size. Old
//! machines also lack network and disk throughput. Between newer machines only the price differs,
//! which sizing and placement cover.

use ebb_catalog::machine_type::{Hypervisor, TypeSpec};
use ebb_model::advice::placement::Placement;
use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::evidence::Evidence;
use ebb_model::finding::evidence::node::NewerGeneration;
use ebb_model::finding::{Action, Finding, Remedy, Resource};
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::instance::{Controller, Instance, InstanceState, Market};
use ebb_sizing::cheapest_type::cheapest_with;
use ebb_sizing::core_speed::Speeds;
use ebb_telemetry::identity::InstanceType;
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::origin::labelled;
use ebb_telemetry::time::Window;

use crate::facts::Facts;
use crate::rules::remedy::{change_type, does_as_much};
use crate::rules::trace::{Check, RuleTrace};
use crate::rules::verdict::Verdict;

const KIND: FindingKind = FindingKind::OldGeneration;

/// The series of a type: `m` of `m4.xlarge`.
fn series(name: &InstanceType) -> Option<&str> {
    let name = name.as_str();
    let at = name.find(|c: char| c.is_ascii_digit())?;
    Some(&name[..at])
}

/// Evaluates every running on-demand instance; the list price does not apply to spot and reserved
/// instances.
pub fn evaluate(facts: &Facts<'_>) -> Vec<Verdict> {
    let instances = facts.inventory.instances.values();
    instances
        .filter_map(|instance| evaluate_instance(facts, instance, &mut RuleTrace::unwritten(KIND)))
        .collect()
}

/// Questions about one machine.
pub(crate) fn explain(facts: &Facts<'_>, instance: &Instance) -> Vec<Check> {
    RuleTrace::written(KIND, |q| evaluate_instance(facts, instance, q))
}

fn evaluate_instance(facts: &Facts<'_>, instance: &Instance, q: &mut RuleTrace) -> Option<Verdict> {
    let (state, market) = (instance.state, instance.market);
    let spec = facts.catalogue.spec(&instance.instance_type)?;
    let series_now = series(&spec.name)?;
    let applies = q.holds(
        "Is it a running on-demand instance?",
        (format_args!("{state}, {market}"), "running, on demand"),
        state == InstanceState::Running && market == Market::OnDemand,
    ) && q.holds(
        "Does the instance type use the older Xen hypervisor?",
        (shown(spec), "Xen"),
        spec.hypervisor.map(|one| one == Hypervisor::Xen),
    );
    if !applies {
        return None;
    }
    let now = facts.catalogue.on_demand(&instance.region, &spec.name)?;
    let newer = newer_with_as_much(facts, instance, spec, series_now);
    let shown = newer
        .as_ref()
        .map_or("none", |newer| newer.instance_type.as_str());
    q.holds(
        "Which newer type of the same family is as large?",
        (shown, ""),
        newer.is_some(),
    );
    let newer = newer?;
    let window = Window {
        from: instance.launched_at.unwrap_or(facts.now).min(facts.now),
        to: facts.now,
    };
    let saved = UsdPerHour(now.0 - newer.per_hour.0);
    let saving = facts.price_of(instance)?.scaled(saved, now);
    let cost = saving.wasted_over(window);
    if !q.saves_enough(facts, &cost) {
        return None;
    }
    let controller = facts.controller(instance);
    let remedy = remedy(facts, instance, controller.as_ref(), &newer.instance_type);
    Some(Verdict::Waste(Box::new(Finding {
        id: Finding::id_of(KIND, &instance.region, instance.id.as_str()),
        kind: KIND,
        window,
        coverage: None,
        evidence: Evidence::OldGeneration(NewerGeneration {
            instead: newer.instance_type,
            now,
            then: newer.per_hour,
        }),
        confidence: Confidence {
            level: Level::Medium,
            reason: "compares cores, memory, disks, network and list prices; the AMI must contain \
                     ENA and NVMe drivers"
                .into(),
        },
        cost: Some(cost),
        remedy,
        recommendation: None,
        steps: Vec::new(),
        resource: Resource::of_instance(instance, controller, labelled(&instance.tags)),
    })))
}

/// The type with its hypervisor.
fn shown(spec: &TypeSpec) -> String {
    let built_on = match spec.hypervisor {
        Some(Hypervisor::Nitro) => "Nitro",
        Some(Hypervisor::Xen) => "Xen",
        None => "unknown",
    };
    format!("{}: {built_on}", spec.name)
}

fn newer_with_as_much(
    facts: &Facts<'_>,
    instance: &Instance,
    spec: &TypeSpec,
    series_now: &str,
) -> Option<Placement> {
    let speeds = Speeds::default();
    cheapest_with(facts.catalogue, &instance.region, |other| {
        series(&other.name) == Some(series_now)
            && other.hypervisor == Some(Hypervisor::Nitro)
            && other.vcpus >= spec.vcpus
            && other.memory >= spec.memory
            && does_as_much(&speeds, (spec, spec.vcpus), other)
            && other.network_baseline_mbps >= spec.network_baseline_mbps
            && other.ebs_baseline_mbps >= spec.ebs_baseline_mbps
            && other.architecture == spec.architecture
            && other.burstable == spec.burstable
            && other.metal == spec.metal
            && other.local_disk >= spec.local_disk
            && other.accelerators == spec.accelerators
            && match (&other.gpus, &spec.gpus) {
                (None, None) => true,
                (Some(new), Some(old)) => new.count >= old.count && new.memory >= old.memory,
                _ => false,
            }
    })
}

fn remedy(
    facts: &Facts<'_>,
    instance: &Instance,
    controller: Option<&Controller>,
    newer: &InstanceType,
) -> Remedy {
    let region = &instance.region;
    match controller {
        Some(controller) => Remedy {
            action: Action::Upgrade,
            advice: format!("Configure {controller} to launch {newer} instead."),
            command: Some(format!(
                "aws ec2 describe-instance-types --region {region} --instance-types {newer}"
            )),
        },
        None => change_type(facts, instance, Action::Upgrade, newer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, instance};

    #[test]
    fn a_machine_is_of_an_old_generation_when_a_current_type_has_as_much_for_less() {
        let check = |name: &str, market: Market, expect: bool| {
            let mut machine = instance(1);
            machine.instance_type = InstanceType::new(name).expect("a type");
            machine.market = market;
            let world = World::with([machine]);
            let found = world
                .evaluate()
                .findings
                .into_iter()
                .find(|f| f.kind == KIND);
            assert_eq!(found.is_some(), expect, "{name} {market:?}");
            let Some(Evidence::OldGeneration(newer)) = found.map(|f| f.evidence) else {
                return;
            };
            assert!(newer.then < newer.now, "{newer:?}");
            let catalogue = ebb_catalog::catalog::Catalogue::built_in();
            let old = InstanceType::new(name).expect("a type");
            let [old, new] = [&old, &newer.instead].map(|t| catalogue.spec(t).expect("specs"));
            assert!(new.vcpus >= old.vcpus && new.memory >= old.memory);
            assert_eq!(new.architecture, old.architecture);
        };
        check("m4.xlarge", Market::OnDemand, true);
        check("r4.2xlarge", Market::OnDemand, true);
        check("t2.large", Market::OnDemand, true);
        check("m4.xlarge", Market::Spot, false);
        check("m5.xlarge", Market::OnDemand, false);
        check("t3.medium", Market::OnDemand, false);
        for name in [
            "i4i.large",
            "p4d.24xlarge",
            "g4dn.xlarge",
            "inf2.xlarge",
            "trn1.2xlarge",
            "a1.large",
        ] {
            check(name, Market::OnDemand, false);
        }
    }
}
