//! EC2: the next version of a launch template, and an Auto Scaling group with mixed types.
//!
//! Only the group sets the market: an Auto Scaling group with mixed types refuses a launch template
//! with market options.

use ebb_telemetry::origin::Origin;
use serde_json::{Value, json};

use crate::export::machines::Pool;

const TEMPLATE: &str = "REPLACE-WITH-THE-LAUNCH-TEMPLATE";

/// Input of `aws ec2 create-launch-template-version --cli-input-json`: the newest version with
/// another type.
pub(super) fn launch_template(pool: &Pool<'_>) -> Value {
    let mut data = json!({"InstanceType": pool.types.first()});
    if let Some(architecture) = pool.new_architecture() {
        data["ImageId"] = format!("REPLACE-WITH-AN-IMAGE-FOR-{architecture}").into();
    }
    json!({
        "LaunchTemplateName": TEMPLATE,
        "SourceVersion": "$Latest",
        "VersionDescription": description(pool),
        "LaunchTemplateData": data,
    })
}

/// Input of `aws autoscaling update-auto-scaling-group --cli-input-json`.
pub(super) fn group(pool: &Pool<'_>) -> Value {
    let overrides = pool.types.iter().map(|name| json!({"InstanceType": name}));
    json!({
        "AutoScalingGroupName": group_name(pool),
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

/// The name is the only field of this input that can hold a label.
fn group_name(pool: &Pool<'_>) -> &'static str {
    match pool.origin {
        Origin::Simulated => "SIMULATED-REPLACE-WITH-THE-GROUP",
        Origin::Measured => "REPLACE-WITH-THE-GROUP",
    }
}

/// At most 255 characters, the limit of a description.
fn description(pool: &Pool<'_>) -> String {
    let simulated = match pool.origin {
        Origin::Simulated => "simulated ",
        Origin::Measured => "",
    };
    let plain = |c: char| match c {
        c if c.is_ascii_alphanumeric() || matches!(c, ' ' | ':' | '-' | '_' | '.') => c,
        _ => '_',
    };
    let text = format!("{simulated}{}", pool.description());
    text.chars().map(plain).take(255).collect()
}
