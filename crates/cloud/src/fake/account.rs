//! An account in memory: inventory, metrics and bill.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use ebb_model::bill::{BilledDay, ResourceCost};
use ebb_model::inventory::Inventory;
use ebb_model::inventory::batch::task::TaskFamily;
use ebb_model::inventory::commitments::Commitment;
use ebb_model::metric_series::MetricSeries;
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::identity::{NodeId, Region};
use jiff::Timestamp;

use super::shared::Shared;
use crate::ports::{
    BillSource, BillVersion, CloudError, CloudResult, InventorySource, METRICS_PER_FAMILY,
    METRICS_PER_NODE, MetricsSource, NodeMetrics, period_seconds,
};

/// An inventory by region. A region with an error refuses.
#[derive(Debug, Clone, Default)]
pub struct FakeInventory {
    by_region: Shared<BTreeMap<Region, CloudResult<Inventory>>>,
}

impl FakeInventory {
    /// An inventory of these regions.
    pub fn new(by_region: BTreeMap<Region, Inventory>) -> Self {
        let answers = by_region.into_iter().map(|(region, i)| (region, Ok(i)));
        Self {
            by_region: Shared::new(answers.collect()),
        }
    }

    /// Sets the answer of `region`.
    pub fn set(&self, region: Region, answer: CloudResult<Inventory>) {
        self.by_region.lock().insert(region, answer);
    }
}

#[async_trait]
impl InventorySource for FakeInventory {
    async fn regions(&self) -> CloudResult<Vec<Region>> {
        Ok(self.by_region.lock().keys().cloned().collect())
    }

    async fn gather(&self, region: &Region) -> CloudResult<Inventory> {
        let refused = || CloudError::Failed {
            operation: "ec2:DescribeInstances".to_owned(),
            message: format!("region {region} is not enabled"),
        };
        let by_region = self.by_region.lock();
        by_region.get(region).cloned().ok_or_else(refused)?
    }

    fn not_entered(&self) -> Vec<Gap> {
        Vec::new()
    }
}

#[derive(Debug, Default)]
struct Metrics {
    series: BTreeMap<NodeId, MetricSeries>,
    supplementary: NodeMetrics,
    insights: BTreeMap<TaskFamily, MetricSeries>,
    requested: u64,
}

/// Utilization by node, and a count of the requests.
#[derive(Debug, Clone, Default)]
pub struct FakeMetrics(Shared<Metrics>);

impl FakeMetrics {
    /// Metrics with these series.
    pub fn new(series: BTreeMap<NodeId, MetricSeries>) -> Self {
        Self(Shared::new(Metrics {
            series,
            ..Metrics::default()
        }))
    }

    /// Adds Container Insights series; a list takes one page.
    #[must_use]
    pub fn with_insights(self, insights: BTreeMap<TaskFamily, MetricSeries>) -> Self {
        self.0.lock().insights = insights;
        self
    }

    /// Adds optional metrics of nodes; a list takes one page.
    #[must_use]
    pub fn with_supplementary(self, supplementary: NodeMetrics) -> Self {
        self.0.lock().supplementary = supplementary;
        self
    }
}

#[async_trait]
impl MetricsSource for FakeMetrics {
    async fn list_supplementary(
        &self,
        _region: &Region,
        nodes: &[NodeId],
    ) -> CloudResult<NodeMetrics> {
        let mut metrics = self.0.lock();
        metrics.requested += 1;
        let mut supplementary = metrics.supplementary.clone();
        supplementary.retain(|node, _| nodes.contains(node));
        Ok(supplementary)
    }

    async fn utilization(
        &self,
        _region: &Region,
        nodes: &NodeMetrics,
        from: Timestamp,
        to: Timestamp,
    ) -> CloudResult<BTreeMap<NodeId, MetricSeries>> {
        let mut metrics = self.0.lock();
        let supplementary: u64 = nodes
            .values()
            .map(|supplementary| supplementary.len() as u64)
            .sum();
        metrics.requested += nodes.len() as u64 * METRICS_PER_NODE + supplementary;
        let known = nodes.keys().filter_map(|node| {
            let full_series = metrics.series.get(node)?;
            let points = full_series.points().filter(|p| from < p.end && p.end <= to);
            let mut series: MetricSeries = points.collect();
            (series.credits, series.gpus) = (full_series.credits, full_series.gpus);
            series.gpu_held = full_series.gpu_held;
            if period_seconds(from, to) > 300 {
                series = series.by_the_hour();
            }
            (!series.is_empty()).then(|| (node.clone(), series))
        });
        Ok(known.collect())
    }

    async fn of_tasks(
        &self,
        _region: &Region,
        families: &BTreeSet<TaskFamily>,
        from: Timestamp,
        to: Timestamp,
    ) -> CloudResult<BTreeMap<TaskFamily, MetricSeries>> {
        let mut metrics = self.0.lock();
        let known = metrics.insights.iter();
        let known = known.filter(|(family, _)| families.contains(*family));
        let by_family = known.map(|(family, series)| {
            let points = series.points().filter(|p| from < p.end && p.end <= to);
            let series: MetricSeries = points.collect();
            let series = match period_seconds(from, to) > 300 {
                true => series.by_the_hour(),
                false => series,
            };
            (family.clone(), series)
        });
        let by_family: BTreeMap<TaskFamily, MetricSeries> = by_family.collect();
        metrics.requested += 1 + by_family.len() as u64 * METRICS_PER_FAMILY;
        Ok(by_family)
    }

    fn least_pages(&self) -> u64 {
        1
    }

    fn metrics_requested(&self) -> u64 {
        self.0.lock().requested
    }

    fn take_gaps(&self) -> Vec<Gap> {
        Vec::new()
    }
}

/// A bill, or the refusal of an account that has not opted in.
#[derive(Debug, Clone)]
pub struct FakeBill {
    by_resource: CloudResult<BTreeMap<NodeId, ResourceCost>>,
    by_day: CloudResult<Vec<BilledDay>>,
    plans: CloudResult<Vec<Commitment>>,
    requests: Shared<u64>,
    /// The version of a free bill; `None` for a bill that is charged for.
    version: Option<BillVersion>,
}

impl FakeBill {
    /// A bill with this answer.
    pub fn new(answer: CloudResult<BTreeMap<NodeId, ResourceCost>>) -> Self {
        Self {
            by_resource: answer,
            by_day: Ok(Vec::new()),
            plans: Ok(Vec::new()),
            requests: Shared::default(),
            version: None,
        }
    }

    /// Makes the bill free, with this version.
    #[must_use]
    pub fn with_version(self, version: BillVersion) -> Self {
        let version = Some(version);
        Self { version, ..self }
    }

    /// Sets the total cost by day.
    #[must_use]
    pub fn with_days(self, by_day: Vec<BilledDay>) -> Self {
        self.with_answer_by_day(Ok(by_day))
    }

    /// Sets the answer about the total cost by day.
    #[must_use]
    pub fn with_answer_by_day(self, by_day: CloudResult<Vec<BilledDay>>) -> Self {
        Self { by_day, ..self }
    }

    /// Sets the answer about Savings Plans.
    #[must_use]
    pub fn with_plans(self, plans: CloudResult<Vec<Commitment>>) -> Self {
        Self { plans, ..self }
    }
}

#[async_trait]
impl BillSource for FakeBill {
    async fn by_resource(&self, _to: Timestamp) -> CloudResult<BTreeMap<NodeId, ResourceCost>> {
        *self.requests.lock() += 1;
        self.by_resource.clone()
    }

    async fn by_day(&self, _to: Timestamp, tags: &[String]) -> CloudResult<Vec<BilledDay>> {
        *self.requests.lock() += 1 + tags.len() as u64;
        self.by_day.clone()
    }

    async fn plans(&self, _to: Timestamp) -> CloudResult<Vec<Commitment>> {
        *self.requests.lock() += 1;
        self.plans.clone()
    }

    fn requests(&self) -> u64 {
        *self.requests.lock()
    }

    fn least_plan_requests(&self) -> u64 {
        1
    }

    fn take_gaps(&self) -> Vec<Gap> {
        Vec::new()
    }

    fn is_charged_for(&self) -> bool {
        self.version.is_none()
    }

    fn gaps(&self, _to: Timestamp) -> Vec<Gap> {
        let is_free = self.version.is_some();
        let gap = is_free.then(|| Gap::new("bill", "an invalid row"));
        gap.into_iter().collect()
    }

    async fn version(&self) -> BillVersion {
        self.version.clone().unwrap_or(BillVersion::Unknown)
    }
}
