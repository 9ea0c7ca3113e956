//! A real lake in a folder. It fails on request, and can run another sweep in the middle of this
//! one.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use ebb_cloud::failing::{Fault, Moment};
use ebb_ingest::event_log::EventLog;
use ebb_lake::{Appended, Batch, Commits, EvaluatedFinding, Lake, LakeError, Since, Table, Window};
use ebb_lake::{Upkeep, UpkeepCounts};
use ebb_model::cost_record::CostRecord;
use ebb_model::node_hour::NodeHourRecord;
use ebb_telemetry::arrival::Placed;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::shard::Shard;
use ebb_telemetry::step::PlacedStep;
use jiff::civil::Date;

use crate::world::World;

pub(crate) struct TestLake<'a> {
    lake: Lake,
    fault: Fault,
    calls: AtomicUsize,
    /// The call before which another sweep runs, and its world.
    intruder: Option<(usize, &'a World)>,
    /// How many rows one read returns.
    reads: Reads,
    /// The node whose heartbeat kills the sweep that appends it.
    killer: Option<NodeId>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    /// All rows.
    Whole,
    /// One commit, as from a lake that is too large for one read.
    OneCommit,
}

impl<'a> TestLake<'a> {
    pub(crate) fn new(lake: Lake, fault: &Fault, intruder: Option<(usize, &'a World)>) -> Self {
        Self {
            lake,
            fault: fault.clone(),
            calls: AtomicUsize::new(0),
            intruder,
            reads: Reads::Whole,
            killer: None,
        }
    }

    pub(crate) fn killed_by(self, node: NodeId) -> Self {
        let killer = Some(node);
        Self { killer, ..self }
    }

    pub(crate) fn reading(self, reads: Reads) -> Self {
        Self { reads, ..self }
    }

    /// All of these commits, or the first one.
    async fn heartbeats(&self, commits: Commits) -> Result<Since<Placed>, LakeError> {
        let mut since = self.lake.heartbeats_since(commits).await?;
        let next = commits.after.map_or(0, |version| version + 1);
        if self.reads == Reads::OneCommit && since.newest > Some(next) {
            let after = Some(next);
            let later = Commits { after, ..commits };
            let later = self.lake.heartbeats_since(later).await?;
            since.rows.truncate(since.rows.len() - later.rows.len());
            since.through = Some(next);
        }
        Ok(since)
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    async fn around<T: Send>(
        &self,
        operation: &'static str,
        work: impl Future<Output = Result<T, LakeError>> + Send,
    ) -> Result<T, LakeError> {
        let this = self.calls.fetch_add(1, Ordering::Relaxed);
        if let Some((_, world)) = self.intruder.filter(|(at, _)| *at == this) {
            world.queue.make_visible();
            world
                .sweep(&Fault::never())
                .await
                .expect("nothing fails it");
        }
        let failed = || LakeError::TooManyRows {
            table: Table::Heartbeats,
            rows: 0,
        };
        match self.fault.call(operation) {
            Some(Moment::Before) => Err(failed()),
            Some(Moment::After) => work.await.and_then(|_| Err(failed())),
            None => work.await,
        }
    }
}

#[async_trait]
impl EventLog for TestLake<'_> {
    async fn last_batch(&self, table: Table, shard: Shard) -> Result<Option<u64>, LakeError> {
        let work = self.lake.last_batch(table, shard);
        self.around("lake.last_batch", work).await
    }

    async fn append_heartbeats(
        &self,
        rows: &[Placed],
        batch: &Batch,
    ) -> Result<Appended, LakeError> {
        if rows
            .iter()
            .any(|row| Some(&row.node) == self.killer.as_ref())
        {
            self.fault.kill();
        }
        let work = self.lake.append_heartbeats(rows, batch);
        self.around("lake.append_heartbeats", work).await
    }

    async fn append_steps(
        &self,
        rows: &[PlacedStep],
        batch: &Batch,
    ) -> Result<Appended, LakeError> {
        let work = self.lake.append_steps(rows, batch);
        self.around("lake.append_steps", work).await
    }

    async fn append_findings(
        &self,
        rows: &[EvaluatedFinding],
        batch: &Batch,
    ) -> Result<Appended, LakeError> {
        let work = self.lake.append_findings(rows, batch);
        self.around("lake.append_findings", work).await
    }

    async fn append_costs(
        &self,
        rows: &[CostRecord],
        batch: &Batch,
    ) -> Result<Appended, LakeError> {
        let work = self.lake.append_costs(rows, batch);
        self.around("lake.append_costs", work).await
    }

    async fn append_node_hours(
        &self,
        rows: &[NodeHourRecord],
        batch: &Batch,
    ) -> Result<Appended, LakeError> {
        let work = self.lake.append_node_hours(rows, batch);
        self.around("lake.append_node_hours", work).await
    }

    async fn costs_between(&self, from: Date, to: Date) -> Result<Window<CostRecord>, LakeError> {
        let work = self.lake.costs_between(from, to);
        self.around("lake.costs_between", work).await
    }

    async fn heartbeats_since(&self, commits: Commits) -> Result<Since<Placed>, LakeError> {
        let work = self.heartbeats(commits);
        self.around("lake.heartbeats_since", work).await
    }

    async fn steps_since(&self, commits: Commits) -> Result<Since<PlacedStep>, LakeError> {
        let work = self.lake.steps_since(commits);
        self.around("lake.steps_since", work).await
    }

    async fn steps_between(&self, from: Date, to: Date) -> Result<Window<PlacedStep>, LakeError> {
        let work = self.lake.steps_between(from, to);
        self.around("lake.steps_between", work).await
    }

    async fn keep_up(&self, table: Table, upkeep: &Upkeep<'_>) -> Result<UpkeepCounts, LakeError> {
        let work = self.lake.keep_up(table, upkeep);
        self.around("lake.keep_up", work).await
    }
}
