//! Utilization of nodes without a probe, as a narrow trait. Every call costs money.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use ebb_model::inventory::batch::task::TaskFamily;
use ebb_model::metric_series::MetricSeries;
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::identity::{NodeId, Region};
use ebb_telemetry::money::Usd;
use jiff::Timestamp;

use super::CloudResult;

/// Number of metrics for the utilization of one node, for keeping a budget: CPU, network in and
/// out, and bytes read and written of EBS and of instance storage.
pub const METRICS_PER_NODE: u64 = 7;

/// Number of Container Insights metrics of one task family: CPU and memory in use and reserved, and
/// network in and out.
pub const METRICS_PER_FAMILY: u64 = 6;

/// The price of one metric of `GetMetricData`, and of one page of `ListMetrics`.
///
/// Source: "Amazon CloudWatch Pricing", 0.01 USD per 1,000 metrics requested, and per
/// 1,000 requests.
pub const PRICE_PER_METRIC: Usd = Usd::from_micros(10);

/// The period of metrics. For at most one day it is five minutes, which EC2 publishes without
/// detailed monitoring. For a longer time it is one hour: 14 days are 336 points of each metric.
///
/// Source: CloudWatch user guide, "Metrics retention": five-minute data is kept for 63 days, hourly
/// data for 455. The price is for the metric, for any number of points.
pub fn period_seconds(from: Timestamp, to: Timestamp) -> u32 {
    const A_DAY: i64 = 24 * 3600;
    match to.as_second() - from.as_second() > A_DAY {
        true => 3600,
        false => 300,
    }
}

/// The kind of an optional metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tells {
    /// CPU credit balance.
    CreditsLeft,
    /// Surplus CPU credits that were spent.
    CreditsOwed,
    /// Memory in use, from an agent on the node.
    Memory,
    /// Utilization of a GPU, from an agent on the node.
    Gpu,
    /// Memory in use on a GPU, from an agent on the node.
    GpuMemory,
}

/// One optional metric of one node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stream {
    /// The kind of the metric.
    pub tells: Tells,
    /// All its dimensions, which a query must contain.
    pub dimensions: Vec<(String, String)>,
}

/// Nodes, each with its metrics in addition to the [`METRICS_PER_NODE`] common ones.
pub type NodeMetrics = BTreeMap<NodeId, Vec<Stream>>;

/// Reads utilization metrics of nodes without a probe. Every call costs money, so the caller
/// selects the nodes and the time.
#[async_trait]
pub trait MetricsSource: Send + Sync {
    /// The optional metrics that these nodes sent within the last hours. Nodes without any may be
    /// left out. Empty from a source without such metrics.
    async fn list_supplementary(
        &self,
        region: &Region,
        nodes: &[NodeId],
    ) -> CloudResult<NodeMetrics>;

    /// Series by node, from `from` to `to`, in periods of [`period_seconds`]; a node without data
    /// is left out.
    async fn utilization(
        &self,
        region: &Region,
        nodes: &NodeMetrics,
        from: Timestamp,
        to: Timestamp,
    ) -> CloudResult<BTreeMap<NodeId, MetricSeries>>;

    /// The same for Fargate tasks by family, from Container Insights, with the values of the
    /// busiest task. A family without data is left out. Takes at least one page of a list. Empty
    /// from a source without such metrics.
    async fn of_tasks(
        &self,
        region: &Region,
        families: &BTreeSet<TaskFamily>,
        from: Timestamp,
        to: Timestamp,
    ) -> CloudResult<BTreeMap<TaskFamily, MetricSeries>>;

    /// Gaps for parts that refused while the rest of a call succeeded, since the last call of this
    /// method.
    fn take_gaps(&self) -> Vec<Gap>;

    /// The minimum number of list pages of [`MetricsSource::list_supplementary`] in a region.
    fn least_pages(&self) -> u64;

    /// Number of metrics and list pages requested so far, which are billed.
    fn metrics_requested(&self) -> u64;
}
