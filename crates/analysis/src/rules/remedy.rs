//! Texts of remedies that several rules use.

use ebb_catalog::machine_type::TypeSpec;
use ebb_model::advice::placement::Placement;
use ebb_model::finding::{Action, Remedy};
use ebb_model::inventory::instance::{Instance, Market, Provider};
use ebb_sizing::cheapest_type::cheapest_with;
use ebb_sizing::core_speed::Speeds;
use ebb_telemetry::identity::InstanceType;
use ebb_telemetry::units::Bytes;

use crate::advice::node::keeps_local_disk;
use crate::facts::Facts;
use crate::shell::{operand, option, quoted};

/// Changes the type of a machine without a controller.
pub(crate) fn change_type(
    facts: &Facts<'_>,
    instance: &Instance,
    action: Action,
    to: &InstanceType,
) -> Remedy {
    let (region, id) = (&instance.region, &instance.id);
    if instance.market == Market::Spot {
        return Remedy {
            action,
            advice: format!(
                "Launch a new spot instance as {to}, and terminate this one. EC2 does not change \
                 the type of a spot instance."
            ),
            command: Some(spot_request(instance)),
        };
    }
    let disks = erased_disks(facts, instance);
    Remedy {
        action,
        advice: format!(
            "Stop the instance when it is not needed, change its type to {to} and start it again.\
             {disks}"
        ),
        command: Some(format!(
            "aws ec2 modify-instance-attribute --region {region} --instance-id {id} \
             --instance-type Value={to}"
        )),
    }
}

/// The request of a spot instance, which says whether EC2 can stop it.
pub(crate) fn spot_request(instance: &Instance) -> String {
    let (region, id) = (&instance.region, &instance.id);
    format!(
        "aws ec2 describe-spot-instance-requests --region {region} --filters \
         Name=instance-id,Values={id}"
    )
}

/// A sentence that warns of the loss of local disks, empty without such disks.
///
/// Source: EC2 user guide, "Data persistence for Amazon EC2 instance store volumes".
pub(crate) fn erased_disks(facts: &Facts<'_>, instance: &Instance) -> &'static str {
    let spec = facts.catalogue.spec(&instance.instance_type);
    match spec.and_then(|spec| spec.local_disk) {
        Some(_) => " A stop erases its local disks (instance store).",
        None => "",
    }
}

/// A command of `gcloud compute` about a machine.
pub(crate) fn compute_engine(
    command: &str,
    project: &str,
    zone: &str,
    instance: &Instance,
) -> String {
    format!(
        "gcloud compute {command} {} {} {}",
        option("--project", project),
        option("--zone", zone),
        operand(instance.name().unwrap_or(instance.id.as_str()))
    )
}

/// Command that opens a shell on a machine.
pub(crate) fn open_shell(instance: &Instance) -> String {
    let (region, id) = (&instance.region, &instance.id);
    match &instance.provider {
        Provider::Aws => format!("aws ssm start-session --region {region} --target {id}"),
        Provider::Gcp { project, zone } => compute_engine("ssh", project, zone, instance),
        Provider::Own => format!("ssh -- {}", quoted(id.as_str())),
    }
}

/// Where a machine is shown; `None` for an on-premises host.
pub(crate) fn show(instance: &Instance) -> Option<String> {
    let (region, id) = (&instance.region, &instance.id);
    match &instance.provider {
        Provider::Aws => Some(format!(
            "https://{region}.console.aws.amazon.com/ec2/home?region={region}\
             #InstanceDetails:instanceId={id}"
        )),
        Provider::Gcp { project, zone } => Some(compute_engine(
            "instances describe",
            project,
            zone,
            instance,
        )),
        Provider::Own => None,
    }
}

/// Whether a type does at least as much work as `vcpus` cores of `spec`. More cores that are slower can
/// do less. True if a speed is unknown.
pub(crate) fn does_as_much(
    speeds: &Speeds,
    (spec, vcpus): (&TypeSpec, u32),
    other: &TypeSpec,
) -> bool {
    let rate = |of: &TypeSpec| Some(speeds.cores(of)?.rate(of.vcpus.into()));
    let wanted = rate(spec).map(|rate| rate / f64::from(spec.vcpus.max(1)) * f64::from(vcpus));
    wanted
        .zip(rate(other))
        .is_none_or(|(wanted, other)| other >= wanted)
}

/// The cheapest similar type with at least this many cores and this much memory, and no less of anything
/// else.
pub(crate) fn larger(
    facts: &Facts<'_>,
    instance: &Instance,
    spec: &TypeSpec,
    (vcpus, memory): (u32, Bytes),
) -> Option<Placement> {
    let speeds = Speeds::default();
    cheapest_with(facts.catalogue, &instance.region, |other| {
        other.vcpus >= vcpus
            && other.memory >= memory
            && does_as_much(&speeds, (spec, vcpus), other)
            && other.architecture == spec.architecture
            && other.gpus == spec.gpus
            && other.accelerators == spec.accelerators
            && other.network_baseline_mbps >= spec.network_baseline_mbps
            && other.ebs_baseline_mbps >= spec.ebs_baseline_mbps
            && keeps_local_disk(spec, other)
            && (!other.burstable || spec.burstable)
            && other.metal == spec.metal
            && other.current_generation
            && (!other.is_hpc() || spec.is_hpc())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::instance;

    #[test]
    fn commands_are_those_of_the_machines_provider() {
        let check = |provider: Provider, shell: &str, shown: Option<&str>| {
            let mut machine = instance(1);
            machine.provider = provider;
            assert_eq!(open_shell(&machine), shell);
            assert_eq!(show(&machine).as_deref(), shown);
        };
        let id = instance(1).id;
        check(
            Provider::Aws,
            &format!("aws ssm start-session --region us-east-1 --target {id}"),
            Some(&format!(
                "https://us-east-1.console.aws.amazon.com/ec2/home?region=us-east-1\
                 #InstanceDetails:instanceId={id}"
            )),
        );
        let google = Provider::Gcp {
            project: "lab".to_owned(),
            zone: "europe-west1-b".to_owned(),
        };
        let named = format!("--project 'lab' --zone 'europe-west1-b' '{id}'");
        check(
            google,
            &format!("gcloud compute ssh {named}"),
            Some(&format!("gcloud compute instances describe {named}")),
        );
        check(Provider::Own, &format!("ssh -- '{id}'"), None);
    }
}
