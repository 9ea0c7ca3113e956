//! What to do about an idle node: first about what keeps it alive, then about the node.
//! What a controller owns would come back, so there the advice is about the controller.

use super::keeper::environment;
use crate::finding::{Action, IdleNode, KeptAliveBy, Remedy};
use crate::fleet::{Controller, Instance, Provider};
use crate::judge::Facts;

pub(super) fn of(
    facts: &Facts<'_>,
    instance: &Instance,
    controller: Option<&Controller>,
    evidence: &IdleNode,
) -> Remedy {
    let remedy = by_controller(instance, controller);
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
    let region = &instance.region;
    let first = match keeper {
        KeptAliveBy::QuietStep(name) => {
            format!("End step {name} if nobody waits for it.")
        }
        KeptAliveBy::Login(name) => {
            format!("Close login {name}, and let idle sessions end by themselves (TMOUT).")
        }
        KeptAliveBy::Notebook(name) => format!(
            "Save and shut down notebook {name}; let its server end idle kernels and itself \
             (MappingKernelManager.cull_idle_timeout, ServerApp.shutdown_no_activity_timeout)."
        ),
        KeptAliveBy::DaemonTasks(_) => {
            let worker = facts.inventory.batch.container_instances.on(&instance.id);
            return Remedy {
                action: Action::Reconfigure,
                advice: "Take the daemon service off the environment's cluster and run it by \
                         systemd from the launch template: Batch scales in no machine with a \
                         running task."
                    .into(),
                command: worker.map(|(arn, worker)| {
                    let cluster = &worker.cluster_arn;
                    format!(
                        "aws ecs list-tasks --region {region} --cluster {cluster} \
                         --container-instance {arn}"
                    )
                }),
            };
        }
        KeptAliveBy::MinimumCapacity(vcpus) => {
            return Remedy {
                action: Action::ScaleIn,
                advice: format!(
                    "Set the environment's minimum vCPUs to 0 instead of {vcpus}, or to what its \
                     queue always needs; Batch starts machines as jobs come."
                ),
                command: environment(facts, instance).map(|environment| {
                    format!(
                        "aws batch update-compute-environment --region {region} \
                         --compute-environment {} --compute-resources minvCpus=0",
                        quoted(&environment.name)
                    )
                }),
            };
        }
        KeptAliveBy::DisabledEnvironment => {
            return Remedy {
                advice: "Switching an environment off ends none of its machines: set its minimum \
                         vCPUs to 0, or delete it."
                    .into(),
                ..remedy
            };
        }
        KeptAliveBy::ScaleInDelay(minutes) => {
            return Remedy {
                advice: format!(
                    "Batch was to end it {minutes} min after its last job: see whether jobs that \
                     wait are meant for it, and give the environment a shorter delay if work \
                     comes seldom."
                ),
                ..remedy
            };
        }
    };
    Remedy {
        advice: format!("{first} {}", remedy.advice),
        ..remedy
    }
}

fn by_controller(instance: &Instance, controller: Option<&Controller>) -> Remedy {
    let region = &instance.region;
    match controller {
        None => Remedy {
            action: Action::Stop,
            advice: match instance.owner() {
                Some(owner) => format!("Ask {owner} whether it is still needed; if not, stop it."),
                None => "Nobody is named as its owner; find out who needs it, or stop it.".into(),
            },
            command: Some(stop(instance)),
        },
        Some(Controller::AutoScalingGroup(name)) => Remedy {
            action: Action::ScaleIn,
            advice: "Lower the group's minimum or desired size; stopped by hand it would be \
                     replaced."
                .into(),
            command: Some(format!(
                "aws autoscaling describe-auto-scaling-groups --region {region} \
                 --auto-scaling-group-names {}",
                quoted(name)
            )),
        },
        Some(Controller::BatchEnvironment(name)) => Remedy {
            action: Action::ScaleIn,
            advice: "Lower the environment's minimum vCPUs, or see what keeps Batch from scaling \
                     it in."
                .into(),
            command: Some(format!(
                "aws batch describe-compute-environments --region {region} \
                 --compute-environments {}",
                quoted(name)
            )),
        },
        Some(Controller::InstanceGroup(name)) => Remedy {
            action: Action::ScaleIn,
            advice: format!(
                "Lower the size of managed instance group {name}; stopped by hand a machine of \
                 it would be replaced."
            ),
            command: Some(format!(
                "gcloud compute instance-groups managed list --filter {}",
                quoted(&format!("name={name}"))
            )),
        },
        Some(Controller::EksNodegroup(name)) => Remedy {
            action: Action::ScaleIn,
            advice: format!("Lower the minimum size of EKS node group {name}."),
            command: Some(match instance.tags.get("eks:cluster-name") {
                Some(cluster) => format!(
                    "aws eks describe-nodegroup --region {region} --cluster-name {} \
                     --nodegroup-name {}",
                    quoted(cluster),
                    quoted(name)
                ),
                None => {
                    format!("https://{region}.console.aws.amazon.com/eks/clusters?region={region}")
                }
            }),
        },
        Some(Controller::KarpenterNodePool(name)) => Remedy {
            action: Action::ScaleIn,
            advice: format!(
                "Let node pool {name} consolidate empty nodes (consolidationPolicy, \
                 consolidateAfter), and see which pod forbids it."
            ),
            command: Some(format!("kubectl get nodepool {} -o yaml", quoted(name))),
        },
        Some(Controller::EmrCluster(name)) => Remedy {
            action: Action::ScaleIn,
            advice: "Give the cluster managed scaling and an auto-termination policy.".into(),
            command: Some(format!(
                "aws emr describe-cluster --region {region} --cluster-id {}",
                quoted(name)
            )),
        },
        Some(Controller::ParallelCluster(name)) => Remedy {
            action: Action::ScaleIn,
            advice: "Lower the queue's MinCount, or its ScaledownIdletime.".into(),
            command: Some(format!(
                "pcluster describe-cluster --region {region} --cluster-name {}",
                quoted(name)
            )),
        },
    }
}

/// Stops it; of the user's own host it shows who is on it, for nothing starts it again.
fn stop(instance: &Instance) -> String {
    let (id, region) = (&instance.id, &instance.region);
    match &instance.provider {
        Provider::Aws => format!("aws ec2 stop-instances --region {region} --instance-ids {id}"),
        Provider::Gcp { project, zone } => format!(
            "gcloud compute instances stop {} --project {} --zone {}",
            quoted(instance.name().unwrap_or(id.as_str())),
            quoted(project),
            quoted(zone)
        ),
        Provider::Own => format!("ssh {} w", quoted(id.as_str())),
    }
}

/// A name from outside as one word of a shell.
pub(in crate::rules) fn quoted(name: &str) -> String {
    format!("'{}'", name.replace('\'', r"'\''"))
}
