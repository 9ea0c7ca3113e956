//! Texts of remedies that several rules use.

use ebb_catalog::machine_type::TypeSpec;
use ebb_model::advice::placement::Placement;
use ebb_model::finding::{Action, Remedy};
use ebb_model::inventory::instance::Instance;
use ebb_sizing::cheapest_type::cheapest_with;
use ebb_telemetry::identity::InstanceType;
use ebb_telemetry::units::Bytes;

use crate::facts::Facts;

/// Changes the type of a machine without a controller.
pub(crate) fn change_type(instance: &Instance, action: Action, to: &InstanceType) -> Remedy {
    let (region, id) = (&instance.region, &instance.id);
    Remedy {
        action,
        advice: format!("Stop it when it can rest, change its type to {to} and start it."),
        command: Some(format!(
            "aws ec2 modify-instance-attribute --region {region} --instance-id {id} \
             --instance-type Value={to}"
        )),
    }
}

/// The cheapest similar type with at least this many cores and this much memory.
pub(crate) fn larger(
    facts: &Facts<'_>,
    instance: &Instance,
    spec: &TypeSpec,
    (vcpus, memory): (u32, Bytes),
) -> Option<Placement> {
    cheapest_with(facts.catalogue, &instance.region, |other| {
        other.vcpus >= vcpus
            && other.memory >= memory
            && other.architecture == spec.architecture
            && other.gpus == spec.gpus
            && other.accelerators == spec.accelerators
            && other.local_disk >= spec.local_disk
            && other.burstable == spec.burstable
            && other.metal == spec.metal
    })
}
