//! The ports of an account that fail on purpose.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use ebb_catalog::spot_advisor::Advisor;
use ebb_catalog::spot_terms::SpotTerms;
use ebb_model::bill::{BilledDay, ResourceCost};
use ebb_model::inventory::Inventory;
use ebb_model::inventory::batch::task::TaskFamily;
use ebb_model::inventory::commitments::Commitment;
use ebb_model::inventory::spot_market::SpotWish;
use ebb_model::metric_series::MetricSeries;
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::identity::{InstanceType, NodeId, Region};
use jiff::Timestamp;

use super::Failing;
use crate::ports::{
    BillSource, BillVersion, CloudResult, InventorySource, MarketSource, MetricsSource, NodeMetrics,
};

#[async_trait]
impl<T: InventorySource> InventorySource for Failing<T> {
    async fn regions(&self) -> CloudResult<Vec<Region>> {
        let work = self.inner.regions();
        self.fault.around("inventory.regions", work).await
    }

    async fn gather(&self, region: &Region) -> CloudResult<Inventory> {
        let work = self.inner.gather(region);
        self.fault.around("inventory.gather", work).await
    }

    fn not_entered(&self) -> Vec<Gap> {
        self.inner.not_entered()
    }
}

#[async_trait]
impl<T: MetricsSource> MetricsSource for Failing<T> {
    async fn list_supplementary(
        &self,
        region: &Region,
        nodes: &[NodeId],
    ) -> CloudResult<NodeMetrics> {
        let work = self.inner.list_supplementary(region, nodes);
        self.fault.around("metrics.list_supplementary", work).await
    }

    async fn utilization(
        &self,
        region: &Region,
        nodes: &NodeMetrics,
        from: Timestamp,
        to: Timestamp,
    ) -> CloudResult<BTreeMap<NodeId, MetricSeries>> {
        let work = self.inner.utilization(region, nodes, from, to);
        self.fault.around("metrics.utilization", work).await
    }

    async fn of_tasks(
        &self,
        region: &Region,
        families: &BTreeSet<TaskFamily>,
        from: Timestamp,
        to: Timestamp,
    ) -> CloudResult<BTreeMap<TaskFamily, MetricSeries>> {
        let work = self.inner.of_tasks(region, families, from, to);
        self.fault.around("metrics.of_tasks", work).await
    }

    fn least_pages(&self) -> u64 {
        self.inner.least_pages()
    }

    fn metrics_requested(&self) -> u64 {
        self.inner.metrics_requested()
    }

    fn take_gaps(&self) -> Vec<Gap> {
        self.inner.take_gaps()
    }
}

#[async_trait]
impl<T: MarketSource> MarketSource for Failing<T> {
    async fn spot_prices(&self, region: &Region) -> CloudResult<BTreeMap<InstanceType, SpotTerms>> {
        let work = self.inner.spot_prices(region);
        self.fault.around("markets.spot_prices", work).await
    }

    async fn zones(
        &self,
        region: &Region,
    ) -> CloudResult<BTreeMap<InstanceType, BTreeSet<String>>> {
        let work = self.inner.zones(region);
        self.fault.around("markets.zones", work).await
    }

    async fn reserved(&self, region: &Region) -> CloudResult<Vec<Commitment>> {
        let work = self.inner.reserved(region);
        self.fault.around("markets.reserved", work).await
    }

    async fn spot_score(&self, wish: &SpotWish) -> CloudResult<Option<u8>> {
        let work = self.inner.spot_score(wish);
        self.fault.around("markets.spot_score", work).await
    }

    async fn interruptions(&self) -> CloudResult<Advisor> {
        let work = self.inner.interruptions();
        self.fault.around("markets.interruptions", work).await
    }
}

#[async_trait]
impl<T: BillSource> BillSource for Failing<T> {
    async fn by_resource(&self, to: Timestamp) -> CloudResult<BTreeMap<NodeId, ResourceCost>> {
        let work = self.inner.by_resource(to);
        self.fault.around("bill.by_resource", work).await
    }

    async fn by_day(&self, to: Timestamp, tags: &[String]) -> CloudResult<Vec<BilledDay>> {
        let work = self.inner.by_day(to, tags);
        self.fault.around("bill.by_day", work).await
    }

    async fn plans(&self, to: Timestamp) -> CloudResult<Vec<Commitment>> {
        let work = self.inner.plans(to);
        self.fault.around("bill.plans", work).await
    }

    fn requests(&self) -> u64 {
        self.inner.requests()
    }

    fn least_plan_requests(&self) -> u64 {
        self.inner.least_plan_requests()
    }

    fn take_gaps(&self) -> Vec<Gap> {
        self.inner.take_gaps()
    }

    fn is_charged_for(&self) -> bool {
        self.inner.is_charged_for()
    }

    fn gaps(&self, to: Timestamp) -> Vec<Gap> {
        self.inner.gaps(to)
    }

    async fn version(&self) -> BillVersion {
        self.inner.version().await
    }
}
