//! The remedy for an idle node: first for the cause that keeps it alive, then for the node. A
//! controller would replace its node, so the advice is then about the controller.

use ebb_model::finding::evidence::idle::{IdleNode, KeptAliveBy};
use ebb_model::finding::{Action, Remedy};
use ebb_model::inventory::instance::{Controller, Instance, Market, Provider};

use crate::facts::Facts;
use crate::rules::node::idle::keeper::environment;
use crate::rules::remedy::{compute_engine, erased_disks, spot_request};
use crate::shell::{operand, option, quoted};

pub(crate) fn choose_remedy(
    facts: &Facts<'_>,
    instance: &Instance,
    controller: Option<&Controller>,
    evidence: &IdleNode,
) -> Remedy {
    let remedy = by_controller(facts, instance, controller);
    match &evidence.kept_alive_by {
        None => remedy,
        Some(keeper) => by_keeper(facts, instance, keeper, remedy),
    }
}

fn by_keeper(
    facts: &Facts<'_>,
    instance: &Instance,
    keeper: &KeptAliveBy,
    remedy: Remedy,
) -> Remedy {
    let advice = match keeper {
        KeptAliveBy::DaemonTasks(_) => return replace_daemon_service(facts, instance),
        KeptAliveBy::MinimumCapacity(vcpus) => {
            return reduce_minimum_vcpus(facts, instance, *vcpus);
        }
        KeptAliveBy::QuietStep(name) => format!(
            "Terminate task {name} if nobody needs it. {}",
            remedy.advice
        ),
        KeptAliveBy::Login(name) => format!(
            "Close login {name}, and let idle sessions end automatically (TMOUT). {}",
            remedy.advice
        ),
        KeptAliveBy::Notebook(name) => format!(
            "Save and shut down notebook {name}. Configure its server to stop idle kernels and \
             itself (MappingKernelManager.cull_idle_timeout, \
             ServerApp.shutdown_no_activity_timeout). {}",
            remedy.advice
        ),
        KeptAliveBy::DisabledEnvironment => {
            "Set the minimum vCPUs of the disabled compute environment to 0, or delete the \
             environment."
                .into()
        }
        KeptAliveBy::ScaleInDelay(minutes) => format!(
            "AWS Batch should have terminated this instance {minutes} min after its last job. \
             Check whether waiting jobs need it, and shorten the scale-in delay if jobs are rare."
        ),
    };
    Remedy { advice, ..remedy }
}

fn replace_daemon_service(facts: &Facts<'_>, instance: &Instance) -> Remedy {
    let worker = facts.inventory.batch.container_instances.on(&instance.id);
    Remedy {
        action: Action::Reconfigure,
        advice: "AWS Batch does not scale in an instance with a running ECS task. Remove the \
                 daemon service from the cluster, and start it with systemd in the launch template \
                 instead."
            .into(),
        command: worker.map(|(arn, worker)| {
            format!(
                "aws ecs list-tasks --region {} {} {}",
                instance.region,
                option("--cluster", &worker.cluster_arn),
                option("--container-instance", arn)
            )
        }),
    }
}

fn reduce_minimum_vcpus(facts: &Facts<'_>, instance: &Instance, vcpus: u32) -> Remedy {
    Remedy {
        action: Action::ScaleIn,
        advice: format!(
            "Set the minimum vCPUs of the compute environment to 0 instead of {vcpus}, or to the \
             constant need of its queue. AWS Batch starts instances when jobs arrive."
        ),
        command: environment(facts, instance).map(|environment| {
            format!(
                "aws batch update-compute-environment --region {} {} --compute-resources \
                 minvCpus=0",
                instance.region,
                option("--compute-environment", &environment.name)
            )
        }),
    }
}

fn by_controller(
    facts: &Facts<'_>,
    instance: &Instance,
    controller: Option<&Controller>,
) -> Remedy {
    match controller {
        Some(controller) => Remedy {
            action: Action::ScaleIn,
            advice: advise_scale_in(controller),
            command: Some(describe(instance, controller)),
        },
        None => end(facts, instance),
    }
}

/// Ends a machine without a controller.
fn end(facts: &Facts<'_>, instance: &Instance) -> Remedy {
    let is_spot = instance.market == Market::Spot && instance.provider == Provider::Aws;
    let verb = if is_spot { "terminate" } else { "stop" };
    let ask = match instance.owner() {
        Some(owner) => {
            format!("Ask {owner} whether the node is still needed. If not, {verb} it.")
        }
        None => format!("Find out who needs the node, or {verb} it. No tag names an owner."),
    };
    let (note, command) = match is_spot {
        true => (
            " EC2 stops a spot instance only if its request is persistent. Cancel such a request \
             first, or EC2 starts another instance.",
            spot_request(instance),
        ),
        false => (erased_disks(facts, instance), stop(instance)),
    };
    Remedy {
        action: Action::Stop,
        advice: format!("{ask}{note}"),
        command: Some(command),
    }
}

fn advise_scale_in(controller: &Controller) -> String {
    match controller {
        Controller::AutoScalingGroup(_) => {
            "Reduce the minimum or desired size of the Auto Scaling group. The group would replace \
             an instance that you stop manually."
                .into()
        }
        Controller::BatchEnvironment(_) => {
            "Reduce the minimum vCPUs of the compute environment, or find out why AWS Batch does \
             not scale in this instance."
                .into()
        }
        Controller::InstanceGroup(name) => format!(
            "Reduce the size of managed instance group {name}. The group would replace an instance \
             that you stop manually."
        ),
        Controller::EksNodegroup(name) => format!(
            "Reduce the minimum size of EKS node group {name} if the group is at its minimum. \
             Otherwise find the pod that keeps the node: kubectl get pods -A --field-selector \
             spec.nodeName=NODE."
        ),
        Controller::KarpenterNodePool(name) => format!(
            "Configure node pool {name} to consolidate empty nodes (consolidationPolicy, \
             consolidateAfter), and find the pod that prevents this."
        ),
        Controller::EmrCluster(_) => {
            "Enable managed scaling and an auto-termination policy on the EMR cluster.".into()
        }
        Controller::ParallelCluster(_) => {
            "Reduce MinCount of the queue, or its ScaledownIdletime.".into()
        }
    }
}

/// Command that shows the controller of a node.
fn describe(instance: &Instance, controller: &Controller) -> String {
    let region = &instance.region;
    match controller {
        Controller::AutoScalingGroup(name) => format!(
            "aws autoscaling describe-auto-scaling-groups --region {region} {}",
            option("--auto-scaling-group-names", name)
        ),
        Controller::BatchEnvironment(name) => format!(
            "aws batch describe-compute-environments --region {region} {}",
            option("--compute-environments", name)
        ),
        Controller::InstanceGroup(name) => format!(
            "gcloud compute instance-groups managed list --filter {}",
            quoted(&format!("name={name}"))
        ),
        Controller::EksNodegroup(name) => match instance.tags.get("eks:cluster-name") {
            Some(cluster) => format!(
                "aws eks describe-nodegroup --region {region} {} {}",
                option("--cluster-name", cluster),
                option("--nodegroup-name", name)
            ),
            None => {
                format!("https://{region}.console.aws.amazon.com/eks/clusters?region={region}")
            }
        },
        Controller::KarpenterNodePool(name) => {
            format!("kubectl get nodepool -o yaml {}", operand(name))
        }
        Controller::EmrCluster(name) => format!(
            "aws emr describe-cluster --region {region} {}",
            option("--cluster-id", name)
        ),
        Controller::ParallelCluster(name) => format!(
            "pcluster describe-cluster --region {region} {}",
            option("--cluster-name", name)
        ),
    }
}

/// Command that stops the node. For an on-premises host the command lists its users, because
/// nothing would start the host again.
fn stop(instance: &Instance) -> String {
    let (id, region) = (&instance.id, &instance.region);
    match &instance.provider {
        Provider::Aws => format!("aws ec2 stop-instances --region {region} --instance-ids {id}"),
        Provider::Gcp { project, zone } => {
            compute_engine("instances stop", project, zone, instance)
        }
        Provider::Own => format!("ssh -- {} w", quoted(id.as_str())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, instance};

    /// Arguments that a shell parses from a command, without running it.
    fn words(command: &str) -> Vec<String> {
        let script = format!("printf '%s\\n' {command}");
        let ran = std::process::Command::new("sh")
            .arg("-c")
            .arg(script)
            .output();
        let text = String::from_utf8(ran.expect("a shell").stdout).expect("text");
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_advice_for_a_node_group_covers_a_group_above_its_minimum() {
        let advice = advise_scale_in(&Controller::EksNodegroup("workers".to_owned()));
        for words in ["group workers if", "at its minimum", "spec.nodeName=NODE"] {
            assert!(advice.contains(words), "{advice}");
        }
    }

    #[test]
    fn no_controller_name_is_read_as_an_option_or_leaves_its_word() {
        let instance = instance(1);
        let makers: [fn(String) -> Controller; 7] = [
            Controller::AutoScalingGroup,
            Controller::BatchEnvironment,
            Controller::InstanceGroup,
            Controller::EksNodegroup,
            Controller::KarpenterNodePool,
            Controller::EmrCluster,
            Controller::ParallelCluster,
        ];
        for name in ["-x", "--output=/etc/x", "a'; touch x; '", "$(touch x)"] {
            for make in makers {
                let mut instance = instance.clone();
                let cluster = ("eks:cluster-name".to_owned(), name.to_owned());
                instance.tags.extend([cluster]);
                let controller = make(name.to_owned());
                let world = World::default();
                let command = by_controller(&world.facts(), &instance, Some(&controller)).command;
                let words = words(&command.expect("each controller has a command"));
                let operands = words.iter().position(|word| word == "--");
                let found = words
                    .iter()
                    .enumerate()
                    .find(|(_, word)| word.ends_with(name));
                let (at, word) = found.expect("the name is one word");
                let is_operand = operands.is_some_and(|dashes| dashes < at);
                assert!(
                    word != name || !name.starts_with('-') || is_operand,
                    "{words:?}"
                );
            }
        }
    }
}
