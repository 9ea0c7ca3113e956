//! AWS Batch: input of `aws batch create-compute-environment --cli-input-json`.

use ebb_domain::heartbeat::Origin;
use ebb_domain::profile::advice::StepAdvice;
use serde_json::{Value, json};

use super::machines::{Pool, pools};
use super::one_or_all;

/// What the console offers for a new environment; an account's own bound is its
/// business.
pub(super) const MAX_VCPUS: u64 = 256;

/// An environment for each region and architecture that steps have offers for.
pub(super) fn environment(steps: &[StepAdvice]) -> String {
    one_or_all(pools(steps).iter().map(of).collect())
}

fn of(pool: &Pool<'_>) -> Value {
    let mut value = json!({
        "computeEnvironmentName": pool.name(),
        "type": "MANAGED",
        "computeResources": {
            "type": kind(pool),
            "allocationStrategy": strategy(pool),
            // Nothing runs, and is billed, while no job waits.
            "minvCpus": 0,
            "maxvCpus": MAX_VCPUS,
            "instanceTypes": pool.types,
            "subnets": ["REPLACE-WITH-A-SUBNET"],
            "securityGroupIds": ["REPLACE-WITH-A-SECURITY-GROUP"],
            "instanceRole": "REPLACE-WITH-AN-INSTANCE-PROFILE",
        },
    });
    if pool.origin == Origin::Simulated {
        value["tags"] = json!({"ebb:simulated": "true"});
    }
    value
}

pub(super) fn kind(pool: &Pool<'_>) -> &'static str {
    match pool.is_spot() {
        true => "SPOT",
        false => "EC2",
    }
}

/// What AWS advises for each: on spot the pools least likely to be interrupted among
/// the cheap ones.
///
/// Source: "Instance type allocation strategies for AWS Batch".
pub(super) fn strategy(pool: &Pool<'_>) -> &'static str {
    match pool.is_spot() {
        true => "SPOT_PRICE_CAPACITY_OPTIMIZED",
        false => "BEST_FIT_PROGRESSIVE",
    }
}
