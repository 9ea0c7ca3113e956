//! EC2: a launch template's next version, and the Auto Scaling group that mixes types.

use ebb_domain::heartbeat::Origin;
use ebb_domain::profile::advice::StepAdvice;
use serde_json::{Value, json};

use super::machines::{Pool, pools};
use super::one_or_all;

const TEMPLATE: &str = "REPLACE-WITH-THE-LAUNCH-TEMPLATE";

/// Input of `aws ec2 create-launch-template-version --cli-input-json`: the newest
/// version with another type.
pub(super) fn launch_template(steps: &[StepAdvice]) -> String {
    let of = |pool: &Pool<'_>| {
        json!({
            "LaunchTemplateName": TEMPLATE,
            "SourceVersion": "$Latest",
            "VersionDescription": described(pool),
            "LaunchTemplateData": {"InstanceType": pool.types.first()},
        })
    };
    one_or_all(pools(steps).iter().map(of).collect())
}

/// Input of `aws autoscaling update-auto-scaling-group --cli-input-json`.
pub(super) fn group(steps: &[StepAdvice]) -> String {
    one_or_all(pools(steps).iter().map(mixed).collect())
}

fn mixed(pool: &Pool<'_>) -> Value {
    let overrides = pool.types.iter().map(|name| json!({"InstanceType": name}));
    json!({
        "AutoScalingGroupName": named(pool),
        "MixedInstancesPolicy": {
            "LaunchTemplate": {
                "LaunchTemplateSpecification": {
                    "LaunchTemplateName": TEMPLATE,
                    "Version": "$Latest",
                },
                "Overrides": overrides.collect::<Vec<_>>(),
            },
            "InstancesDistribution": distribution(pool),
        },
    })
}

fn distribution(pool: &Pool<'_>) -> Value {
    match pool.is_spot() {
        true => json!({
            "SpotAllocationStrategy": "price-capacity-optimized",
            "OnDemandBaseCapacity": 0,
            "OnDemandPercentageAboveBaseCapacity": 0,
        }),
        false => json!({
            "OnDemandAllocationStrategy": "prioritized",
            "OnDemandBaseCapacity": 0,
            "OnDemandPercentageAboveBaseCapacity": 100,
        }),
    }
}

/// The only place for a label in this input.
fn named(pool: &Pool<'_>) -> &'static str {
    match pool.origin {
        Origin::Simulated => "SIMULATED-REPLACE-WITH-THE-GROUP",
        Origin::Measured => "REPLACE-WITH-THE-GROUP",
    }
}

/// Of what AWS takes in a description: letters, digits and a few marks.
fn described(pool: &Pool<'_>) -> String {
    let simulated = match pool.origin {
        Origin::Simulated => "simulated ",
        Origin::Measured => "",
    };
    format!("{simulated}{}", pool.told_by())
}
