//! What to do about an idle node. What a controller owns would come back, so
//! there the advice is about the controller.

use crate::finding::{Action, Remedy};
use crate::fleet::{Controller, Instance};

pub(super) fn of(instance: &Instance, controller: Option<&Controller>) -> Remedy {
    let region = &instance.region;
    match controller {
        None => Remedy {
            action: Action::Stop,
            advice: match instance.owner() {
                Some(owner) => format!("Ask {owner} whether it is still needed; if not, stop it."),
                None => "Nobody is named as its owner; find out who needs it, or stop it.".into(),
            },
            command: Some(format!(
                "aws ec2 stop-instances --region {region} --instance-ids {}",
                instance.id
            )),
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
        Some(Controller::EksNodegroup(name)) => Remedy {
            action: Action::ScaleIn,
            advice: format!("Lower the minimum size of EKS node group {name}."),
            command: None,
        },
    }
}

/// A name from outside as one word of a shell.
fn quoted(name: &str) -> String {
    format!("'{}'", name.replace('\'', r"'\''"))
}
