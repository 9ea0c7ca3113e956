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

/// Metrics that one node's utilization takes, so that a budget can be kept
/// before asking: CPU, network in and out, and bytes read and written of EBS and
/// of instance storage.
pub const METRICS_PER_NODE: u64 = 7;

/// Metrics that Container Insights takes for one family of tasks: CPU and memory in use and
/// reserved, and network in and out.
pub const METRICS_PER_FAMILY: u64 = 6;

/// What a metric costs that is read through `GetMetricData`, and a page of `ListMetrics`
/// likewise.
///
/// Source: "Amazon CloudWatch Pricing", 0.01 USD per 1,000 metrics requested, and per
/// 1,000 requests.
pub const PRICE_PER_METRIC: Usd = Usd::from_micros(10);

/// Metrics of up to a day are told by five minutes, which EC2 publishes without detailed
/// monitoring, and those of more by the hour: a fortnight of them is 336 points a metric.
///
/// Source: CloudWatch user guide, "Metrics retention": five minutes are kept for 63 days, an
/// hour for 455. What is paid for is the metric, whatever its points.
pub fn period_seconds(from: Timestamp, to: Timestamp) -> u32 {
    const A_DAY: i64 = 24 * 3600;
    match to.as_second() - from.as_second() > A_DAY {
        true => 3600,
        false => 300,
    }
}

/// What a metric tells that not every node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tells {
    /// CPU credits that are left.
    CreditsLeft,
    /// CPU credits that were spent beyond them.
    CreditsOwed,
    /// Memory in use, by an agent on the node.
    Memory,
    /// Utilization of a GPU, likewise.
    Gpu,
    /// Memory in use on a GPU, likewise.
    GpuMemory,
}

/// One such metric of one node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stream {
    /// What it tells.
    pub tells: Tells,
    /// Its dimensions, all of which it takes to ask for it.
    pub dimensions: Vec<(String, String)>,
}

/// Nodes, and what each has beside the [`METRICS_PER_NODE`] that all of them have.
pub type NodeMetrics = BTreeMap<NodeId, Vec<Stream>>;

/// Reads utilization metrics of nodes without a probe. Every call costs money,
/// so the caller says which nodes and how far back.
#[async_trait]
pub trait MetricsSource: Send + Sync {
    /// What these nodes have beside what all have and told within the last hours; nodes
    /// that have nothing may be left out. Nothing from a source that has no such metrics.
    async fn beside(&self, region: &Region, nodes: &[NodeId]) -> CloudResult<NodeMetrics>;

    /// Series by node, from `from` to `to`, in periods of [`period_seconds`]; a node without
    /// data is left out.
    async fn utilization(
        &self,
        region: &Region,
        nodes: &NodeMetrics,
        from: Timestamp,
        to: Timestamp,
    ) -> CloudResult<BTreeMap<NodeId, MetricSeries>>;

    /// The same of tasks on Fargate, by their families, from Container Insights, and the
    /// busiest of each; a family that it does not tell of is left out. Takes a page of a
    /// list at the least. Nothing from a source that has no such metrics.
    async fn of_tasks(
        &self,
        region: &Region,
        families: &BTreeSet<TaskFamily>,
        from: Timestamp,
        to: Timestamp,
    ) -> CloudResult<BTreeMap<TaskFamily, MetricSeries>>;

    /// What refused while the rest of a call answered, since this was asked last.
    fn take_gaps(&self) -> Vec<Gap>;

    /// Pages of lists that [`MetricsSource::beside`] takes of a region at the least.
    fn least_pages(&self) -> u64;

    /// Metrics and pages of lists asked for so far, which is what is paid for.
    fn metrics_requested(&self) -> u64;
}
