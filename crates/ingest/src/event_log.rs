//! Operations of a sweep on the lake. The lake is the source of truth; the state is a cache.

use async_trait::async_trait;
use ebb_lake::Appended;
use ebb_lake::EvaluatedFinding;
use ebb_lake::Table;
use ebb_lake::{Batch, Commits, Lake, LakeError};
use ebb_lake::{Since, Window};
use ebb_lake::{Upkeep, UpkeepCounts};
use ebb_model::cost_record::CostRecord;
use ebb_model::node_hour::NodeHourRecord;
use ebb_telemetry::arrival::Placed;
use ebb_telemetry::shard::Shard;
use ebb_telemetry::step::PlacedStep;
use jiff::civil::Date;

/// Operations of a sweep on the lake.
#[async_trait]
pub trait EventLog: Send + Sync {
    /// Number of the newest batch of a shard; `None` before the first.
    async fn last_batch(&self, table: Table, shard: Shard) -> Result<Option<u64>, LakeError>;

    /// Appends heartbeats as one commit.
    async fn append_heartbeats(
        &self,
        rows: &[Placed],
        batch: &Batch,
    ) -> Result<Appended, LakeError>;

    /// Appends finished tasks as one commit.
    async fn append_steps(&self, rows: &[PlacedStep], batch: &Batch)
    -> Result<Appended, LakeError>;

    /// Appends the results of a sweep as one commit.
    async fn append_findings(
        &self,
        rows: &[EvaluatedFinding],
        batch: &Batch,
    ) -> Result<Appended, LakeError>;

    /// Appends the costs of whole days as one commit.
    async fn append_costs(&self, rows: &[CostRecord], batch: &Batch)
    -> Result<Appended, LakeError>;

    /// Appends hours of nodes as one commit.
    async fn append_node_hours(
        &self,
        rows: &[NodeHourRecord],
        batch: &Batch,
    ) -> Result<Appended, LakeError>;

    /// The costs of some days, with all evaluations.
    async fn costs_between(&self, from: Date, to: Date) -> Result<Window<CostRecord>, LakeError>;

    /// Heartbeats of some commits.
    async fn heartbeats_since(&self, commits: Commits) -> Result<Since<Placed>, LakeError>;

    /// Finished tasks of some commits.
    async fn steps_since(&self, commits: Commits) -> Result<Since<PlacedStep>, LakeError>;

    /// Finished tasks of some days.
    async fn steps_between(&self, from: Date, to: Date) -> Result<Window<PlacedStep>, LakeError>;

    /// Keeps a table small.
    async fn keep_up(&self, table: Table, upkeep: &Upkeep<'_>) -> Result<UpkeepCounts, LakeError>;
}

#[async_trait]
impl EventLog for Lake {
    async fn last_batch(&self, table: Table, shard: Shard) -> Result<Option<u64>, LakeError> {
        Lake::last_batch(self, table, shard).await
    }

    async fn append_heartbeats(
        &self,
        rows: &[Placed],
        batch: &Batch,
    ) -> Result<Appended, LakeError> {
        Lake::append_heartbeats(self, rows, batch).await
    }

    async fn append_steps(
        &self,
        rows: &[PlacedStep],
        batch: &Batch,
    ) -> Result<Appended, LakeError> {
        Lake::append_steps(self, rows, batch).await
    }

    async fn append_findings(
        &self,
        rows: &[EvaluatedFinding],
        batch: &Batch,
    ) -> Result<Appended, LakeError> {
        Lake::append_findings(self, rows, batch).await
    }

    async fn append_costs(
        &self,
        rows: &[CostRecord],
        batch: &Batch,
    ) -> Result<Appended, LakeError> {
        Lake::append_costs(self, rows, batch).await
    }

    async fn append_node_hours(
        &self,
        rows: &[NodeHourRecord],
        batch: &Batch,
    ) -> Result<Appended, LakeError> {
        Lake::append_node_hours(self, rows, batch).await
    }

    async fn costs_between(&self, from: Date, to: Date) -> Result<Window<CostRecord>, LakeError> {
        Lake::costs_between(self, from, to).await
    }

    async fn heartbeats_since(&self, commits: Commits) -> Result<Since<Placed>, LakeError> {
        Lake::heartbeats_since(self, commits).await
    }

    async fn steps_since(&self, commits: Commits) -> Result<Since<PlacedStep>, LakeError> {
        Lake::steps_since(self, commits).await
    }

    async fn steps_between(&self, from: Date, to: Date) -> Result<Window<PlacedStep>, LakeError> {
        Lake::steps_between(self, from, to).await
    }

    async fn keep_up(&self, table: Table, upkeep: &Upkeep<'_>) -> Result<UpkeepCounts, LakeError> {
        Lake::keep_up(self, table, upkeep).await
    }
}
