//! Each batch of rows becomes exactly one commit. The commit contains the number of the batch as an
//! application transaction, which the log keeps forever.

use std::ops::RangeInclusive;

use deltalake_core::arrow::array::RecordBatch;
use deltalake_core::kernel::transaction::{CommitBuilder, CommitProperties, TransactionError};
use deltalake_core::kernel::{Action, Transaction};
use deltalake_core::protocol::{DeltaOperation, SaveMode};
use deltalake_core::writer::{DeltaWriter, RecordBatchWriter};
use deltalake_core::{DeltaTable, DeltaTableError};

use ebb_telemetry::shard::Shard;

use super::{TableError, TableLog, Version};
use crate::lake::{app, shard_of};
use crate::rows::{PARTITION, Record, RowsError};

/// The most attempts of a commit. Other shards commit a few times a minute, so this many lost races
/// in a row are a fault.
pub(super) const ATTEMPTS: usize = 30;

/// The result of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// This call committed this version.
    Committed(Version),
    /// Nothing was committed. The log up to this version has a batch that may hold the same rows.
    /// That batch has this number or a later one, or is from another number of shards and unknown
    /// to the committer. Only a read of the batch shows whether it holds the rows.
    AlreadyThere(Version),
}

/// A batch, and the commits that its committer does not know.
pub(crate) struct Batched {
    pub(crate) shard: Shard,
    pub(crate) number: u64,
    /// From this version on, batches of other numbers of shards must not hold rows of the same
    /// nodes; `None` if they may.
    pub(crate) unknown_from: Option<Version>,
}

impl TableLog {
    /// Appends `rows` in one commit with `batched`, unless a batch of that number or a later one
    /// exists. An append without rows is also committed, to record that there was nothing.
    pub(crate) async fn append<R: Record>(
        &self,
        rows: &[R],
        batched: &Batched,
    ) -> Result<Appended, TableError> {
        let app = app(batched.shard);
        let number = i64::try_from(batched.number).map_err(|_| TableError::Number {
            app: app.clone(),
            number: batched.number,
        })?;
        let fields = R::fields().map_err(RowsError::from)?;
        let mut table = self.load_or_create(&fields).await?;
        if let Some(version) = self.holding(&table, &app, number).await? {
            return Ok(Appended::AlreadyThere(version));
        }
        table = self.with_columns(table, &fields).await?;
        // Files without a commit are invisible, so a crash from here on leaves only unused files.
        let files = write(&table, pack(rows)?).await?;
        let mut checked = batched.unknown_from;
        for _ in 0..ATTEMPTS {
            let newest = table.snapshot().map_err(TableError::delta("committing"))?;
            let newest = newest.version();
            if let Some(from) = checked {
                if self.has_rows_of(batched.shard, from..=newest).await? {
                    return Ok(Appended::AlreadyThere(newest));
                }
                checked = Some(newest + 1);
            }
            let transaction = Transaction::new(&app, number);
            match self.commit(&table, files.clone(), transaction).await {
                Ok(version) => return Ok(Appended::Committed(version)),
                Err(error) => {
                    // The commit may exist even after an error: the store's answer was lost, or a
                    // checkpoint after it failed.
                    table
                        .load()
                        .await
                        .map_err(TableError::delta("load the log"))?;
                    if let Some(version) = self.holding(&table, &app, number).await? {
                        return Ok(Appended::AlreadyThere(version));
                    }
                    if !is_race(&error) {
                        return Err(TableError::delta("committing")(error));
                    }
                }
            }
        }
        Err(TableError::Contended { attempts: ATTEMPTS })
    }

    /// Whether one of these commits is a batch of another number of shards that may hold rows of
    /// this shard's nodes.
    async fn has_rows_of(
        &self,
        shard: Shard,
        versions: RangeInclusive<Version>,
    ) -> Result<bool, TableError> {
        let own = app(shard);
        for version in versions {
            let batch = match self.files_of(version).await {
                Ok(commit) => commit.batch,
                // An old commit, which may have been one.
                Err(TableError::CommitGone { .. }) => return Ok(true),
                Err(error) => return Err(error),
            };
            let other = batch.filter(|batch| *batch != own);
            let may_hold = |other: String| shard_of(&other).is_none_or(|other| other.meets(shard));
            if other.is_some_and(may_hold) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The number of the newest batch of `app`; `None` before the first.
    pub(crate) async fn last_batch(&self, app: &str) -> Result<Option<u64>, TableError> {
        let doing = "read the application transactions";
        let Some(table) = self.load().await? else {
            return Ok(None);
        };
        let snapshot = table.snapshot().map_err(TableError::delta(doing))?;
        let newest = snapshot.transaction_version(self.log.as_ref(), app).await;
        let newest = newest.map_err(TableError::delta(doing))?;
        Ok(newest.and_then(|number| u64::try_from(number).ok()))
    }

    /// The version of `table` if it holds batch `number` of `app` or a later one.
    async fn holding(
        &self,
        table: &DeltaTable,
        app: &str,
        number: i64,
    ) -> Result<Option<Version>, TableError> {
        let doing = "read the application transactions";
        let snapshot = table.snapshot().map_err(TableError::delta(doing))?;
        let newest = snapshot.transaction_version(self.log.as_ref(), app).await;
        let newest = newest.map_err(TableError::delta(doing))?;
        Ok(newest.filter(|n| *n >= number).map(|_| snapshot.version()))
    }

    /// Commits exactly the version after that of `table`.
    async fn commit(
        &self,
        table: &DeltaTable,
        files: Vec<Action>,
        transaction: Transaction,
    ) -> Result<Version, DeltaTableError> {
        let operation = DeltaOperation::Write {
            mode: SaveMode::Append,
            partition_by: Some(vec![PARTITION.to_owned()]),
            predicate: None,
        };
        let properties = CommitProperties::default()
            .with_application_transaction(transaction)
            .with_max_retries(0);
        let commit = CommitBuilder::from(properties)
            .with_actions(files)
            .build(Some(table.snapshot()?), self.log.clone(), operation)
            .await?;
        Ok(commit.version())
    }
}

/// Below this number of rows a thread takes longer to start than the work takes.
const ROWS_A_THREAD: usize = 200;

/// Converts rows to columns, each half on its own core. The conversion takes longer than any other part
/// of a sweep.
fn pack<R: Record>(rows: &[R]) -> Result<Vec<RecordBatch>, RowsError> {
    if rows.len() < ROWS_A_THREAD {
        return Ok(vec![R::pack(rows)?]);
    }
    let (first, second) = rows.split_at(rows.len() / 2);
    std::thread::scope(|scope| {
        let second = scope.spawn(|| R::pack(second));
        let first = R::pack(first)?;
        match second.join() {
            Ok(second) => Ok(vec![first, second?]),
            Err(panicked) => std::panic::resume_unwind(panicked),
        }
    })
}

async fn write(table: &DeltaTable, batches: Vec<RecordBatch>) -> Result<Vec<Action>, TableError> {
    if batches.iter().all(|batch| batch.num_rows() == 0) {
        return Ok(Vec::new());
    }
    let doing = "write data files";
    let mut writer = RecordBatchWriter::for_table(table).map_err(TableError::delta(doing))?;
    for batch in batches {
        writer
            .write(batch)
            .await
            .map_err(TableError::delta(doing))?;
    }
    let files = writer.flush().await.map_err(TableError::delta(doing))?;
    Ok(files.into_iter().map(Action::Add).collect())
}

pub(super) fn is_race(error: &DeltaTableError) -> bool {
    match error {
        DeltaTableError::VersionAlreadyExists(_) => true,
        DeltaTableError::Transaction { source } => matches!(
            source,
            TransactionError::CommitConflict(_)
                | TransactionError::VersionAlreadyExists(_)
                | TransactionError::MaxCommitAttempts(_)
        ),
        _ => false,
    }
}
