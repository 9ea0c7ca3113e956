//! Which metered calls fit the budget.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_cloud::ports::PRICE_PER_BILL_REQUEST;
use ebb_cloud::ports::metrics::{METRICS_PER_NODE, NodeMetrics, PRICE_PER_METRIC};
use ebb_model::inventory::Inventory;
use ebb_model::inventory::instance::InstanceState;
use ebb_model::policy::metrics::MetricsPolicy;
use ebb_node_state::fleet_state::FleetState;
use ebb_telemetry::identity::{NodeId, Region};
use ebb_telemetry::money::Usd;
use jiff::Timestamp;

use crate::collect::metered_calls::history;

/// How often metrics are requested within the time after which a node is idle: every hour under the
/// default policy of six hours.
pub(crate) const METRICS_PER_IDLE_TIME: u32 = 6;

/// AWS publishes metrics some minutes late. A longer window costs nothing, because the price of a
/// metric does not depend on its length.
const METRICS_SLACK: Duration = Duration::from_secs(15 * 60);

/// Which nodes need metrics, and within which limits.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The machines.
    pub inventory: &'a Inventory,
    /// Nodes with a probe; they need no metrics.
    pub fleet: &'a FleetState,
    /// Budget and times.
    pub policy: &'a MetricsPolicy,
    /// The time of the sweep.
    pub now: Timestamp,
}

/// Where five-minute metrics begin: a full hour, where hourly metrics end. With hourly metrics,
/// less than a day of five-minute metrics is enough.
pub(crate) fn five_minute_metrics_from(wanted: &Wanted<'_>) -> Timestamp {
    const LESS_THAN_A_DAY: Duration = Duration::from_secs(23 * 3600);
    let back = wanted.policy.idle_after() * 2 + METRICS_SLACK;
    let back = match wanted.policy.history_days {
        0 => back,
        _ => back.min(LESS_THAN_A_DAY),
    };
    let from = wanted.now.saturating_sub(back).unwrap_or(Timestamp::MIN);
    history::full_hour(from)
}

/// The first of `due` that the budget pays for.
pub(crate) fn within(
    left: Usd,
    due: Vec<(Region, NodeId)>,
    mut supplementary: NodeMetrics,
) -> BTreeMap<Region, NodeMetrics> {
    let mut by_region: BTreeMap<Region, NodeMetrics> = BTreeMap::new();
    let mut metrics = affordable(left, 1) as u64;
    for (region, node) in due {
        let supplementary = supplementary.remove(&node).unwrap_or_default();
        let takes = METRICS_PER_NODE + supplementary.len() as u64;
        let Some(rest) = metrics.checked_sub(takes) else {
            break;
        };
        metrics = rest;
        by_region
            .entry(region)
            .or_default()
            .insert(node, supplementary);
    }
    by_region
}

pub(crate) fn nodes_without_probe(wanted: &Wanted<'_>) -> Vec<(Region, NodeId)> {
    let instances = wanted.inventory.instances.values();
    instances
        .filter(|i| i.state == InstanceState::Running)
        .filter(|i| {
            let node = wanted.fleet.nodes.get(&i.id);
            node.is_none_or(|node| node.latest.is_none())
        })
        .map(|i| (i.region.clone(), i.id.clone()))
        .collect()
}

pub(crate) fn requests_for(number: u64) -> Usd {
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    Usd::from_micros(number.saturating_mul(PRICE_PER_BILL_REQUEST.micros()))
}

/// How many times the rest of the budget pays for this number of metrics.
pub(crate) fn affordable(left: Usd, metrics: u64) -> usize {
    let price = i64::try_from(metrics)
        .unwrap_or(i64::MAX)
        .saturating_mul(PRICE_PER_METRIC.micros());
    usize::try_from(left.micros().max(0) / price.max(1)).unwrap_or(usize::MAX)
}
