//! The interface of the lake: append a batch once, read new rows since a version, read some days.

use std::collections::HashMap;
use std::ops::ControlFlow;

use deltalake_core::arrow::datatypes::FieldRef;
use ebb_cloud::store::{self, StoreError};
use ebb_model::cost_record::CostRecord;
use ebb_model::node_hour::NodeHourRecord;
use ebb_telemetry::arrival::Placed;
use ebb_telemetry::shard::Shard;
use ebb_telemetry::step::PlacedStep;
use jiff::civil::Date;
use thiserror::Error;
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::rows::{EvaluatedFinding, Record, RowsError};
use crate::table::{
    Appended, Batched, ColumnKind, Share, Since, StoredColumn, StoredRow, StoredWindow, Table,
    TableError, TableLog, TableSummary, Version, Window,
};

/// The most rows that one batch may have, and so one commit.
pub const MAX_BATCH_ROWS: usize = 50_000;

/// The most rows that one call reads, unless a single commit has more.
pub const MAX_READ_ROWS: u64 = 200_000;

/// The most rows of one node that a read of days returns.
pub(crate) const MAX_READ_ROWS_A_NODE: usize = 50_000;

/// Why an operation of the lake failed.
#[derive(Debug, Error)]
pub enum LakeError {
    /// The place cannot be opened.
    #[error("failed to open the lake")]
    Store(#[from] StoreError),
    /// One table failed.
    #[error("failed to access table {table} of {url}")]
    Table {
        /// The table.
        table: Table,
        /// The URL of the lake.
        url: String,
        /// The cause.
        source: Box<TableError>,
    },
    /// The runtime has one thread. A checkpoint would block it while it waits for a connection that the
    /// same thread has to serve.
    #[error("a lake in {url} needs a runtime with several threads")]
    OneThread {
        /// The URL of the lake.
        url: String,
    },
    /// A batch has more than [`MAX_BATCH_ROWS`] rows.
    #[error("{rows} rows in a batch for {table}, more than the maximum of {MAX_BATCH_ROWS}")]
    TooManyRows {
        /// The table.
        table: Table,
        /// The number of rows.
        rows: usize,
    },
}

/// The identity of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Batch {
    /// The shard; the batch holds only rows of its nodes.
    pub shard: Shard,
    /// The number of the batch within its shard. Numbers only grow; gaps are allowed.
    pub number: u64,
    /// The newest version whose rows the committer knows; `None` before the first. A later
    /// commit of another number of shards may hold rows of the same nodes.
    pub known: Option<Version>,
}

impl Batch {
    fn unknown_from(&self) -> Option<Version> {
        Some(self.known.map_or(0, |known| known + 1))
    }
}

/// Commits of a table to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commits {
    /// The version before the first one to read; `None` to begin with the first commit.
    pub after: Option<Version>,
    /// The existing version at which to stop, which is not read; `None` to read to the end.
    pub before: Option<Version>,
    /// The shard whose rows are wanted; commits without rows of its nodes are skipped.
    pub shard: Shard,
}

impl Commits {
    /// All commits after a version.
    pub const fn after(version: Option<Version>) -> Self {
        Self {
            after: version,
            before: None,
            shard: Shard::ONLY,
        }
    }
}

/// The tables at one place.
pub struct Lake {
    url: String,
    heartbeats: TableLog,
    steps: TableLog,
    findings: TableLog,
    costs: TableLog,
    node_hours: TableLog,
}

impl Lake {
    /// Opens the tables at a URL; see [`store::open`]. It reads and creates nothing yet except a
    /// local folder. Call it on a Tokio runtime that outlives the lake, with several threads unless the
    /// URL is that of a folder.
    pub async fn open(url: &str) -> Result<Self, LakeError> {
        let is_one_thread = Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
        if is_one_thread && !url.starts_with("file:") {
            return Err(LakeError::OneThread {
                url: url.to_owned(),
            });
        }
        let place = store::open(url)?;
        let log = |table| {
            TableLog::new(table, &place).map_err(|source| LakeError::Table {
                table,
                url: url.to_owned(),
                source: Box::new(source),
            })
        };
        Ok(Self {
            heartbeats: log(Table::Heartbeats)?,
            steps: log(Table::Steps)?,
            findings: log(Table::Findings)?,
            costs: log(Table::Costs)?,
            node_hours: log(Table::NodeHours)?,
            url: url.to_owned(),
        })
    }

    /// Appends heartbeats as one commit of at most [`MAX_BATCH_ROWS`] rows.
    pub async fn append_heartbeats(
        &self,
        rows: &[Placed],
        batch: &Batch,
    ) -> Result<Appended, LakeError> {
        let unknown_from = batch.unknown_from();
        self.append(&self.heartbeats, rows, (batch, unknown_from))
            .await
    }

    /// Appends finished tasks as one commit of at most [`MAX_BATCH_ROWS`] rows.
    pub async fn append_steps(
        &self,
        rows: &[PlacedStep],
        batch: &Batch,
    ) -> Result<Appended, LakeError> {
        let unknown_from = batch.unknown_from();
        self.append(&self.steps, rows, (batch, unknown_from)).await
    }

    /// Appends the findings of a sweep as one commit. A sweep without findings also commits, so
    /// that [`Lake::findings_latest`] returns its empty result. Commits of other numbers of shards
    /// are ignored.
    pub async fn append_findings(
        &self,
        rows: &[EvaluatedFinding],
        batch: &Batch,
    ) -> Result<Appended, LakeError> {
        self.append(&self.findings, rows, (batch, None)).await
    }

    /// Appends the costs of whole days as one commit of at most [`MAX_BATCH_ROWS`] rows. Commits of
    /// other numbers of shards are ignored.
    pub async fn append_costs(
        &self,
        rows: &[CostRecord],
        batch: &Batch,
    ) -> Result<Appended, LakeError> {
        self.append(&self.costs, rows, (batch, None)).await
    }

    /// Appends hours of nodes as one commit of at most [`MAX_BATCH_ROWS`] rows. Commits of other
    /// numbers of shards are ignored.
    pub async fn append_node_hours(
        &self,
        rows: &[NodeHourRecord],
        batch: &Batch,
    ) -> Result<Appended, LakeError> {
        self.append(&self.node_hours, rows, (batch, None)).await
    }

    /// The costs of the UTC days from `from` to `to`, both included, with all evaluations.
    pub async fn costs_between(
        &self,
        from: Date,
        to: Date,
    ) -> Result<Window<CostRecord>, LakeError> {
        let (from, to) = (from.to_string(), to.to_string());
        let mut share = Share {
            max_rows: MAX_READ_ROWS as usize,
            max_rows_a_sender: MAX_READ_ROWS as usize,
            sender: &|_: &CostRecord| "",
            admitted: HashMap::new(),
        };
        let window = self.costs.between((&from, &to), &mut share).await;
        window.map_err(|e| self.failed(&self.costs, e))
    }

    /// The number of the newest batch of a shard in one table; `None` before the
    /// first.
    pub async fn last_batch(&self, table: Table, shard: Shard) -> Result<Option<u64>, LakeError> {
        let log = self.log(table);
        let last = log.last_batch(&app(shard)).await;
        last.map_err(|e| self.failed(log, e))
    }

    /// The heartbeats of some commits; see [`Since`] if there are more than [`MAX_READ_ROWS`].
    pub async fn heartbeats_since(&self, commits: Commits) -> Result<Since<Placed>, LakeError> {
        let since = self.heartbeats.since(commits, MAX_READ_ROWS).await;
        since.map_err(|e| self.failed(&self.heartbeats, e))
    }

    /// The finished tasks of some commits.
    pub async fn steps_since(&self, commits: Commits) -> Result<Since<PlacedStep>, LakeError> {
        let since = self.steps.since(commits, MAX_READ_ROWS).await;
        since.map_err(|e| self.failed(&self.steps, e))
    }

    /// The tasks that ended on the UTC days from `from` to `to`, both included. Each node has at
    /// most [`MAX_READ_ROWS_A_NODE`] rows, so that it displaces no other.
    pub async fn steps_between(
        &self,
        from: Date,
        to: Date,
    ) -> Result<Window<PlacedStep>, LakeError> {
        let (from, to) = (from.to_string(), to.to_string());
        let mut share = Share {
            max_rows: MAX_READ_ROWS as usize,
            max_rows_a_sender: MAX_READ_ROWS_A_NODE,
            sender: &|step: &PlacedStep| step.node.as_str(),
            admitted: HashMap::new(),
        };
        let window = self.steps.between((&from, &to), &mut share).await;
        window.map_err(|e| self.failed(&self.steps, e))
    }

    /// The findings of the newest sweep; `None` before the first.
    pub async fn findings_latest(&self) -> Result<Option<Vec<EvaluatedFinding>>, LakeError> {
        let latest = self.findings.newest_batch().await;
        latest.map_err(|e| self.failed(&self.findings, e))
    }

    /// The columns that this program writes to a table; the partition comes first.
    ///
    /// # Errors
    /// Never for the tables of this program.
    pub fn columns(&self, table: Table) -> Result<Vec<StoredColumn>, LakeError> {
        let fields = match table {
            Table::Heartbeats => Placed::fields(),
            Table::Steps => PlacedStep::fields(),
            Table::Findings => EvaluatedFinding::fields(),
            Table::Costs => CostRecord::fields(),
            Table::NodeHours => NodeHourRecord::fields(),
        };
        let failed =
            |error| self.failed(self.log(table), TableError::Rows(RowsError::Shape(error)));
        let column = |field: &FieldRef| StoredColumn {
            name: field.name().clone(),
            kind: ColumnKind::from(field.data_type()),
        };
        Ok(fields.map_err(failed)?.iter().map(column).collect())
    }

    /// The number of rows and the days of a table; zero rows if it does not exist yet.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub async fn summary(&self, table: Table) -> Result<TableSummary, LakeError> {
        let log = self.log(table);
        log.summary().await.map_err(|e| self.failed(log, e))
    }

    /// Calls `each` for the rows of a window as they are stored, the newest file first, until it
    /// breaks. Returns the number of rows of the window that were not read.
    ///
    /// # Errors
    /// If the log or a data file cannot be read.
    pub async fn stored_rows(
        &self,
        table: Table,
        window: &StoredWindow<'_>,
        each: &mut dyn FnMut(StoredRow) -> ControlFlow<()>,
    ) -> Result<u64, LakeError> {
        let log = self.log(table);
        let left_out = log.stored_rows(window, each).await;
        left_out.map_err(|e| self.failed(log, e))
    }

    pub(crate) fn log(&self, table: Table) -> &TableLog {
        match table {
            Table::Heartbeats => &self.heartbeats,
            Table::Steps => &self.steps,
            Table::Findings => &self.findings,
            Table::Costs => &self.costs,
            Table::NodeHours => &self.node_hours,
        }
    }

    async fn append<R: Record>(
        &self,
        log: &TableLog,
        rows: &[R],
        (batch, unknown_from): (&Batch, Option<Version>),
    ) -> Result<Appended, LakeError> {
        if rows.len() > MAX_BATCH_ROWS {
            return Err(LakeError::TooManyRows {
                table: log.table(),
                rows: rows.len(),
            });
        }
        let batched = Batched {
            shard: batch.shard,
            number: batch.number,
            unknown_from,
        };
        let appended = log.append(rows, &batched).await;
        appended.map_err(|e| self.failed(log, e))
    }

    pub(crate) fn failed(&self, log: &TableLog, source: TableError) -> LakeError {
        LakeError::Table {
            table: log.table(),
            url: self.url.clone(),
            source: Box::new(source),
        }
    }
}

/// The prefix of the application ids of a sweep's transactions.
const APP: &str = "ebb-sweep-";

/// The application id of a shard's batches.
pub(crate) fn app(Shard { index, of }: Shard) -> String {
    match of {
        1 => format!("{APP}{index}"),
        _ => format!("{APP}{index}-of-{of}"),
    }
}

/// The shard of a transaction. `None` if the id contains no number of shards: it is the only shard,
/// or any shard of an earlier version of this program.
pub(crate) fn shard_of(app: &str) -> Option<Shard> {
    let (index, of) = app.strip_prefix(APP)?.split_once("-of-")?;
    let (index, of) = (index.parse().ok()?, of.parse().ok()?);
    Some(Shard { index, of })
}
