//! AWS Batch: input of `aws batch create-compute-environment --cli-input-json`.

use ebb_domain::fleet::Market;
use ebb_domain::heartbeat::Origin;
use ebb_domain::profile::advice::StepAdvice;
use ebb_domain::targets::GroupAdvice;
use ebb_domain::units::Usd;
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
            "type": kind(pool.market),
            "allocationStrategy": strategy(pool.market),
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

/// Input of `aws batch update-compute-environment --cli-input-json` for one that is
/// there: what it may start, and how it chooses. `None` where nothing is cheaper.
///
/// Source: "Update a compute environment in AWS Batch", an infrastructure update, which
/// replaces machines as their jobs end.
pub fn update(advice: &GroupAdvice) -> Option<Value> {
    let offered = advice.offered();
    let market = offered.first()?.market;
    // What is not known to save anything is no change to make.
    let is_cheaper = advice
        .saving_a_month
        .is_some_and(|saving| saving > Usd::ZERO);
    let types: Vec<&str> = offered
        .iter()
        .map(|one| one.instance_type.as_str())
        .collect();
    let value = json!({
        "computeEnvironment": advice.name,
        "computeResources": {
            "type": kind(market),
            "allocationStrategy": strategy(market),
            "instanceTypes": types,
        },
    });
    is_cheaper.then_some(value)
}

pub(super) fn kind(market: Market) -> &'static str {
    match market {
        Market::Spot => "SPOT",
        Market::OnDemand | Market::Reserved => "EC2",
    }
}

/// What AWS advises for each: on spot the pools least likely to be interrupted among
/// the cheap ones.
///
/// Source: "Instance type allocation strategies for AWS Batch".
pub(super) fn strategy(market: Market) -> &'static str {
    match market {
        Market::Spot => "SPOT_PRICE_CAPACITY_OPTIMIZED",
        Market::OnDemand | Market::Reserved => "BEST_FIT_PROGRESSIVE",
    }
}
