//! Running machines without a probe, and how each gets one.

use std::cmp::Reverse;

use ebb_model::inventory::instance::{Controller, Instance, InstanceState, Provider};
use ebb_model::report::unwatched_machine::{UnwatchedMachine, UnwatchedMachines};

use crate::facts::Facts;
use crate::shell::option;

/// All running machines of the inventory from which no heartbeat arrived.
pub(crate) fn find(facts: &Facts<'_>) -> UnwatchedMachines {
    let running =
        facts.inventory.instances.values().filter(|instance| {
            instance.state == InstanceState::Running && !has_probe(facts, instance)
        });
    let mut machines: Vec<UnwatchedMachine> = running
        .map(|instance| UnwatchedMachine {
            node: instance.id.clone(),
            name: instance.name().map(str::to_owned),
            region: instance.region.clone(),
            instance_type: instance.listed_type(),
            price_per_hour: facts.price_of(instance).map(|price| price.per_hour),
            install: install(instance),
        })
        .collect();
    machines.sort_by(|a, b| {
        (Reverse(a.price_per_hour), &a.node).cmp(&(Reverse(b.price_per_hour), &b.node))
    });
    let left_out = machines.len().saturating_sub(UnwatchedMachines::MAX);
    machines.truncate(UnwatchedMachines::MAX);
    UnwatchedMachines { machines, left_out }
}

/// Whether a heartbeat of the machine arrived.
pub(crate) fn has_probe(facts: &Facts<'_>, instance: &Instance) -> bool {
    let node = facts.state.nodes.get(&instance.id);
    node.is_some_and(|node| node.latest.is_some())
}

/// How the machine gets a probe; for machines of a controller, in a way that its next ones have it
/// too. The steps are in `terraform/modules/probe/README.md`.
fn install(instance: &Instance) -> String {
    const USER_DATA: &str =
        "add `user_data` of the Terraform module `probe` to the launch template of";
    match (&instance.controller, &instance.provider) {
        (Some(batch @ Controller::BatchEnvironment(_)), _) => {
            format!("{USER_DATA} {batch}, and update the environment")
        }
        (Some(group @ Controller::AutoScalingGroup(_)), _) => {
            format!("{USER_DATA} {group}, and start an instance refresh")
        }
        (Some(nodes @ (Controller::EksNodegroup(_) | Controller::KarpenterNodePool(_))), _) => {
            format!("apply the DaemonSet of the probe in the cluster of {nodes}")
        }
        (Some(cluster @ (Controller::EmrCluster(_) | Controller::ParallelCluster(_))), _) => {
            format!(
                "run `install_script` of the Terraform module `probe` at the start of each node of {cluster}"
            )
        }
        (Some(group @ Controller::InstanceGroup(_)), _) => {
            format!("run `sh install.sh probe` in the startup script of {group}")
        }
        (None, Provider::Aws) => format!(
            "aws ssm send-command --document-name ebb-install-probe {} {}   # ebb is the variable \
             `name` of the module",
            option("--instance-ids", instance.id.as_str()),
            option("--region", instance.region.as_str()),
        ),
        (None, Provider::Gcp { .. } | Provider::Own) => {
            "on the machine: sudo sh install.sh probe".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ebb_telemetry::identity::{InstanceType, NodeId};
    use ebb_telemetry::testing::node;

    use super::*;
    use crate::testing::{World, instance};

    #[test]
    fn machines_without_a_probe_are_listed_with_a_step_for_each() {
        let change = |n, change: &dyn Fn(&mut Instance)| {
            let mut machine = instance(n);
            change(&mut machine);
            machine
        };
        let batch = Controller::BatchEnvironment("workers".to_owned());
        let mut world = World::with([
            instance(1),
            change(2, &|i| {
                i.tags = BTreeMap::from([("Name".to_owned(), "head".to_owned())])
            }),
            change(3, &|i| i.controller = Some(batch.clone())),
            change(4, &|i| i.state = InstanceState::Stopped),
        ]);
        world.watch(1, 0, 2, |_, _| ());
        let UnwatchedMachines { machines, left_out } = world.evaluate().unwatched;
        assert_eq!(left_out, 0);
        let [head, worker] = &machines[..] else {
            panic!("{machines:?}")
        };
        assert_eq!(head.name.as_deref(), Some("head"));
        assert!(
            head.install.starts_with("aws ssm send-command "),
            "{}",
            head.install
        );
        assert!(
            head.install.contains(head.node.as_str()),
            "{}",
            head.install
        );
        let step = "launch template of Batch compute environment workers";
        assert!(worker.install.contains(step), "{}", worker.install);
    }

    #[test]
    fn a_report_lists_the_most_expensive_machines_of_a_large_fleet() {
        let many = (0..=UnwatchedMachines::MAX).map(|n| {
            let mut machine = instance(1);
            machine.id = NodeId::new(format!("i-{n:017x}")).expect("a name");
            machine
        });
        let mut expensive = instance(9);
        expensive.instance_type = InstanceType::new("m5.4xlarge").expect("a type");
        let all = many.chain([expensive]).collect::<Vec<_>>();
        let found = World::with(all).evaluate().unwatched;
        assert_eq!(
            (found.machines.len(), found.left_out),
            (UnwatchedMachines::MAX, 2)
        );
        assert_eq!(found.machines[0].node, node(9));
    }
}
