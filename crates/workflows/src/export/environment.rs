//! AWS Batch: input of `aws batch create-compute-environment --cli-input-json`, and of
//! `update-compute-environment` for an existing environment.

use ebb_model::advice::group::GroupAdvice;
use ebb_model::inventory::instance::Market;
use ebb_telemetry::origin::Origin;
use serde_json::{Value, json};

use crate::export::machines::Pool;
use crate::export::request::{NoAdvice, cheaper};

/// The default of the console for a new environment.
pub(super) const MAX_VCPUS: u64 = 256;

/// The allocation strategy whose types Batch cannot update.
///
/// Source: "Perform blue/green updates for compute environments": it does not support
/// infrastructure updates, which include a change of types.
const BEST_FIT: &str = "BEST_FIT";

/// A new environment.
pub(super) fn create(pool: &Pool<'_>) -> Value {
    let mut value = json!({
        "computeEnvironmentName": pool.name,
        "type": "MANAGED",
        "computeResources": {
            "type": kind(pool.market),
            "allocationStrategy": strategy(pool.market),
            // No machine runs or is billed while no job waits.
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

/// The types that an environment may start, and its allocation strategy.
///
/// Source: "Update a compute environment in AWS Batch", an infrastructure update, which replaces
/// machines as their jobs end.
///
/// # Errors
/// If there is nothing to change, or Batch cannot change it.
pub fn update(group: &GroupAdvice) -> Result<Value, NoAdvice> {
    let pool = cheaper(group)?;
    if group.allocation.as_deref() == Some(BEST_FIT) {
        return Err(NoAdvice::BestFit);
    }
    Ok(json!({
        "computeEnvironment": group.name,
        "computeResources": {
            "type": kind(pool.market),
            "allocationStrategy": strategy(pool.market),
            "instanceTypes": pool.types,
        },
    }))
}

pub(super) fn kind(market: Market) -> &'static str {
    match market {
        Market::Spot => "SPOT",
        Market::OnDemand | Market::Reserved => "EC2",
    }
}

/// The strategy that AWS recommends for each market. On spot it prefers cheap pools with the least
/// risk of interruption.
///
/// Source: "Instance type allocation strategies for AWS Batch".
pub(super) fn strategy(market: Market) -> &'static str {
    match market {
        Market::Spot => "SPOT_PRICE_CAPACITY_OPTIMIZED",
        Market::OnDemand | Market::Reserved => "BEST_FIT_PROGRESSIVE",
    }
}
