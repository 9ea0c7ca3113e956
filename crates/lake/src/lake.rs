//! The lake as the rest of the program sees it: append a batch once, read what
//! is new since a version, read some days.

use std::collections::HashMap;

use ebb_cloud::store::{self, StoreError};
use ebb_telemetry::arrival::Placed;
use ebb_telemetry::shard::Shard;
use ebb_telemetry::step::PlacedStep;
use jiff::civil::Date;
use thiserror::Error;

use crate::rows::{Judged, Record};
use crate::table::{Appended, Batched, Share, Since, Table, TableError, TableLog, Version, Window};

/// The most rows that one batch may have, and so one commit.
pub const MAX_BATCH_ROWS: usize = 50_000;

/// The most rows that one call reads, unless a single commit has more.
pub const MAX_READ_ROWS: u64 = 200_000;

/// The most rows of one node that a read of days returns.
pub(crate) const MAX_READ_ROWS_A_NODE: usize = 50_000;

/// Why the lake did not do what was asked.
#[derive(Debug, Error)]
pub enum LakeError {
    /// Its place cannot be opened.
    #[error("opening the lake")]
    Store(#[from] StoreError),
    /// One table failed.
    #[error("table {table} of {url}")]
    Table {
        /// Which.
        table: Table,
        /// The lake's place.
        url: String,
        /// Why.
        source: Box<TableError>,
    },
    /// A batch beyond the bound on memory.
    #[error("a batch of {rows} rows for {table}, more than {MAX_BATCH_ROWS}")]
    TooManyRows {
        /// For which table.
        table: Table,
        /// How many.
        rows: usize,
    },
}

/// What makes a batch itself and no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Batch {
    /// The shard whose nodes' rows it holds, and no others.
    pub shard: Shard,
    /// Which batch of the shard. Numbers only grow; gaps are allowed.
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
    /// Those after this version; all if `None`.
    pub after: Option<Version>,
    /// Those before this version, which is there; all if `None`.
    pub before: Option<Version>,
    /// Those that may hold rows of its nodes; others' are passed over unread.
    pub shard: Shard,
}

impl Commits {
    /// All after a version.
    pub const fn after(version: Option<Version>) -> Self {
        Self {
            after: version,
            before: None,
            shard: Shard::ONLY,
        }
    }
}

/// The tables of one place.
pub struct Lake {
    url: String,
    heartbeats: TableLog,
    steps: TableLog,
    findings: TableLog,
}

impl Lake {
    /// Opens the tables at a URL; see [`store::open`]. Nothing is read or made yet but
    /// a local folder. Must be called on a Tokio runtime that outlives the lake.
    pub async fn open(url: &str) -> Result<Self, LakeError> {
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
            url: url.to_owned(),
        })
    }

    /// Appends heartbeats as one commit; at most [`MAX_BATCH_ROWS`].
    pub async fn append_heartbeats(
        &self,
        rows: &[Placed],
        batch: &Batch,
    ) -> Result<Appended, LakeError> {
        let unknown_from = batch.unknown_from();
        self.append(&self.heartbeats, rows, (batch, unknown_from))
            .await
    }

    /// Appends steps that ended as one commit; at most [`MAX_BATCH_ROWS`].
    pub async fn append_steps(
        &self,
        rows: &[PlacedStep],
        batch: &Batch,
    ) -> Result<Appended, LakeError> {
        let unknown_from = batch.unknown_from();
        self.append(&self.steps, rows, (batch, unknown_from)).await
    }

    /// Appends what a sweep found as one commit; also when it found nothing, so
    /// that [`Lake::findings_latest`] tells so. What other numbers of shards committed makes
    /// no difference.
    pub async fn append_findings(
        &self,
        rows: &[Judged],
        batch: &Batch,
    ) -> Result<Appended, LakeError> {
        self.append(&self.findings, rows, (batch, None)).await
    }

    /// The number of the newest batch of a shard in one table; `None` before the
    /// first.
    pub async fn last_batch(&self, table: Table, shard: Shard) -> Result<Option<u64>, LakeError> {
        let log = match table {
            Table::Heartbeats => &self.heartbeats,
            Table::Steps => &self.steps,
            Table::Findings => &self.findings,
        };
        let last = log.last_batch(&app(shard)).await;
        last.map_err(|e| self.failed(log, e))
    }

    /// The heartbeats of some commits; see [`Since`] for when there are more than
    /// [`MAX_READ_ROWS`].
    pub async fn heartbeats_since(&self, commits: Commits) -> Result<Since<Placed>, LakeError> {
        let since = self.heartbeats.since(commits, MAX_READ_ROWS).await;
        since.map_err(|e| self.failed(&self.heartbeats, e))
    }

    /// The ended steps of some commits.
    pub async fn steps_since(&self, commits: Commits) -> Result<Since<PlacedStep>, LakeError> {
        let since = self.steps.since(commits, MAX_READ_ROWS).await;
        since.map_err(|e| self.failed(&self.steps, e))
    }

    /// The steps that ended on the UTC days from `from` to `to`, both included; of one node
    /// at most [`MAX_READ_ROWS_A_NODE`], so that it displaces no other.
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

    /// What the newest sweep found; `None` when none has written yet.
    pub async fn findings_latest(&self) -> Result<Option<Vec<Judged>>, LakeError> {
        let latest = self.findings.newest_batch().await;
        latest.map_err(|e| self.failed(&self.findings, e))
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

    fn failed(&self, log: &TableLog, source: TableError) -> LakeError {
        LakeError::Table {
            table: log.table(),
            url: self.url.clone(),
            source: Box::new(source),
        }
    }
}

/// What the names of a sweep's transactions begin with.
const APP: &str = "ebb-sweep-";

/// Whose transaction the batches of a shard are.
pub(crate) fn app(Shard { index, of }: Shard) -> String {
    match of {
        1 => format!("{APP}{index}"),
        _ => format!("{APP}{index}-of-{of}"),
    }
}

/// Whose batch a transaction is. `None` where its name says no number of shards: of the
/// only one, or of any of an earlier version of this program.
pub(crate) fn shard_of(app: &str) -> Option<Shard> {
    let (index, of) = app.strip_prefix(APP)?.split_once("-of-")?;
    let (index, of) = (index.parse().ok()?, of.parse().ok()?);
    Some(Shard { index, of })
}
