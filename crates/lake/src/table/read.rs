//! Reads rows by commit, to fold new data, or by day. The files of a commit are read whole; their
//! size is limited like that of batches. `compacted` reads rows of commits whose files are gone.

use std::collections::{BTreeSet, HashMap};

use deltalake_core::DeltaTable;
use deltalake_core::arrow::array::RecordBatch;
use deltalake_core::kernel::{Action, Add, LogicalFileView};
use deltalake_core::logstore::{LogStore, get_actions};
use deltalake_core::parquet::arrow::ProjectionMask;
use deltalake_core::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use ebb_telemetry::shard::Shard;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::ObjectStoreExt;
use object_store::path::Path;

use super::commit_span::{COMPACTION, CommitSpan};
use super::{TableError, TableLog, Version};
use crate::lake::{Commits, MAX_BATCH_ROWS, shard_of};
use crate::rows::{PARTITION, Record};

/// Files that are fetched at the same time: enough to hide the latency of a store, and few enough
/// to limit memory.
const FILES_AT_ONCE: usize = 8;

/// Rows of files that are fetched at the same time, unless one file has more: merged files are
/// larger than those of a commit.
const ROWS_AT_ONCE: u64 = 100_000;

/// Rows of consecutive commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Since<T> {
    /// The rows, oldest commit first.
    pub rows: Vec<T>,
    /// The version up to which these rows reach; the next read continues after it. `None` if there
    /// is no table yet.
    pub through: Option<Version>,
    /// The newest version within the request. If it is later than `through`, there are more rows to
    /// read.
    pub newest: Option<Version>,
}

impl<T> Since<T> {
    /// Whether all requested rows were read.
    pub fn is_complete(&self) -> bool {
        self.through >= self.newest
    }
}

/// Rows of some days.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window<T> {
    /// The rows, newest day first.
    pub rows: Vec<T>,
    /// Rows of the window that exceeded the limit; they are the oldest.
    pub left_out: u64,
}

impl TableLog {
    /// The rows of some commits, at most `max_rows` unless a single commit has more.
    pub(crate) async fn since<R: Record>(
        &self,
        Commits {
            after,
            before,
            shard,
        }: Commits,
        max_rows: u64,
    ) -> Result<Since<R>, TableError> {
        let newest = match before {
            Some(before) => before.checked_sub(1),
            None => self.newest(after).await?,
        };
        let Some(newest) = newest else {
            return Ok(Since {
                rows: Vec::new(),
                through: None,
                newest: None,
            });
        };
        let mut rows = Vec::new();
        let mut through = after;
        let mut next = after.map_or(0, |v| v + 1);
        while next <= newest {
            let room = match rows.len() as u64 {
                0 => u64::MAX,
                held => max_rows.saturating_sub(held),
            };
            let (more, last) = match self.rows_of(next, shard, room).await {
                Ok(Some(more)) => (more, next),
                Ok(None) => break,
                Err(error) if error.is_missing() && rows.is_empty() => {
                    let wanted = CommitSpan {
                        first: next,
                        last: newest,
                    };
                    self.moved_rows(wanted, max_rows).await?
                }
                // The next read begins with the commit that is missing.
                Err(error) if error.is_missing() => break,
                Err(error) => return Err(error),
            };
            rows.extend(more);
            through = Some(last);
            next = last + 1;
        }
        Ok(Since {
            rows,
            through,
            newest: Some(newest),
        })
    }

    /// The rows of commits whose own files are deleted, and the version up to which they reach.
    async fn moved_rows<R: Record>(
        &self,
        wanted: CommitSpan,
        max_rows: u64,
    ) -> Result<(Vec<R>, Version), TableError> {
        if let Some(merged) = self.compacted_since(wanted, max_rows).await? {
            return Ok(merged);
        }
        // The commit is not merged, so its missing files are those of days whose retention ended.
        let mut files = self.files_of(wanted.first).await?.files;
        let live = match self.load().await? {
            Some(table) => self.live_files(&table).await?,
            None => HashMap::new(),
        };
        files.retain(|file| live.contains_key(&file.path));
        Ok((self.read(files).await?, wanted.first))
    }

    /// The rows that a commit appended, unless they are more than `max_rows`. A commit without rows
    /// of this shard has none.
    async fn rows_of<R: Record>(
        &self,
        version: Version,
        shard: Shard,
        max_rows: u64,
    ) -> Result<Option<Vec<R>>, TableError> {
        let commit = self.files_of(version).await?;
        let batch_of = commit.batch.as_deref().and_then(shard_of);
        if !batch_of.is_none_or(|other| other.meets(shard)) {
            return Ok(Some(Vec::new()));
        }
        if commit.files.iter().map(|f| f.rows).sum::<u64>() > max_rows {
            return Ok(None);
        }
        self.read(commit.files).await.map(Some)
    }

    /// The rows of the newest commit with a batch; `None` if there is none.
    pub(crate) async fn newest_batch<R: Record>(&self) -> Result<Option<Vec<R>>, TableError> {
        let Some(newest) = self.newest(None).await? else {
            return Ok(None);
        };
        for version in (0..=newest).rev() {
            if self.files_of(version).await?.batch.is_none() {
                continue;
            }
            let rows = match self.rows_of(version, Shard::ONLY, u64::MAX).await {
                Err(error) if error.is_missing() => {
                    let wanted = CommitSpan {
                        first: version,
                        last: version,
                    };
                    self.moved_rows(wanted, u64::MAX).await?.0
                }
                rows => rows?.unwrap_or_default(),
            };
            return Ok(Some(rows));
        }
        Ok(None)
    }

    /// The rows of the days from `from` to `to`, both included and written like the partition. The
    /// newest come first, as far as `share` has room.
    pub(crate) async fn between<R: Record>(
        &self,
        (from, to): (&str, &str),
        share: &mut Share<'_, R>,
    ) -> Result<Window<R>, TableError> {
        let files = self.files_of_days((from, to)).await?;
        let all = files.iter().map(|f| f.rows).sum::<u64>();
        let mut to_read = 0;
        let files = files.into_iter().take_while(|file| {
            to_read += file.rows;
            to_read <= MAX_SCANNED_ROWS
        });
        let files: Vec<_> = files.collect();
        let at_once = files_at_once(&files);
        let reads = files.into_iter().map(|file| self.read_file(file));
        let mut reads = stream::iter(reads).buffered(at_once);
        let mut rows: Vec<R> = Vec::new();
        while rows.len() < share.max_rows
            && let Some(file) = reads.try_next().await?
        {
            let room = share.max_rows - rows.len();
            rows.extend(file.into_iter().filter(|row| share.admits(row)).take(room));
        }
        Ok(Window {
            left_out: all.saturating_sub(rows.len() as u64),
            rows,
        })
    }

    /// All data files of the newest version.
    pub(super) async fn all_files(&self) -> Result<Vec<DataFile>, TableError> {
        match self.load().await? {
            Some(table) => self.files_of_table(&table).await,
            None => Ok(Vec::new()),
        }
    }

    pub(super) async fn files_of_table(
        &self,
        table: &DeltaTable,
    ) -> Result<Vec<DataFile>, TableError> {
        let live = self.live_files(table).await?;
        Ok(live.values().map(DataFile::of_view).collect())
    }

    /// The data files of these days, the newest first.
    pub(super) async fn files_of_days(
        &self,
        (from, to): (&str, &str),
    ) -> Result<Vec<DataFile>, TableError> {
        let mut files = self.all_files().await?;
        files.retain(|f| {
            f.day
                .as_deref()
                .is_some_and(|day| (from..=to).contains(&day))
        });
        files.sort_by(|a, b| (&b.day, b.written_ms).cmp(&(&a.day, a.written_ms)));
        Ok(files)
    }

    async fn newest(&self, at_least: Option<Version>) -> Result<Option<Version>, TableError> {
        if let Some(at_least) = at_least
            && let Ok(newest) = self.log.get_latest_version(at_least).await
        {
            return Ok(Some(newest));
        }
        // The checkpoint is the only way to the newest version if that commit is deleted, and the
        // shortest one if no version is known.
        Ok(self.load().await?.and_then(|table| table.version()))
    }

    pub(super) async fn files_of(&self, version: Version) -> Result<Commit, TableError> {
        let doing = "read a commit";
        let bytes = self.log.read_commit_entry(version).await;
        let bytes = bytes
            .map_err(TableError::delta(doing))?
            .ok_or(TableError::CommitGone { version })?;
        let mut commit = Commit::default();
        for action in get_actions(version, &bytes).map_err(TableError::delta(doing))? {
            match action {
                // Compaction moves rows but adds none.
                Action::Add(add) if add.data_change => commit.files.push(DataFile::added(&add)),
                Action::Txn(batch) if batch.app_id != COMPACTION => {
                    commit.batch = Some(batch.app_id);
                }
                Action::CommitInfo(info) => commit.time_ms = info.timestamp,
                _ => {}
            }
        }
        Ok(commit)
    }

    async fn read<R: Record>(&self, files: Vec<DataFile>) -> Result<Vec<R>, TableError> {
        let at_once = files_at_once(&files);
        let reads = files.into_iter().map(|file| self.read_file(file));
        stream::iter(reads).buffered(at_once).try_concat().await
    }

    async fn read_file<R: Record>(&self, file: DataFile) -> Result<Vec<R>, TableError> {
        let path = file.path.to_string();
        let mut rows = Vec::new();
        for batch in self.batches(file, None).await? {
            let unpacked = R::unpack(&batch);
            rows.extend(unpacked.map_err(|source| TableError::File {
                path: path.clone(),
                source,
            })?);
        }
        Ok(rows)
    }

    /// The columns of a data file; `None` for all of them.
    pub(super) async fn batches(
        &self,
        file: DataFile,
        columns: Option<&BTreeSet<String>>,
    ) -> Result<Vec<RecordBatch>, TableError> {
        let path = file.path.to_string();
        let fetched = |source| TableError::Fetch {
            path: path.clone(),
            source,
        };
        let found = self.log.object_store(None).get(&file.path).await;
        let bytes = found.map_err(fetched)?.bytes().await.map_err(fetched)?;
        let parquet = |source| TableError::Parquet {
            path: path.clone(),
            source,
        };
        let mut builder = ParquetRecordBatchReaderBuilder::try_new(bytes).map_err(parquet)?;
        if let Some(columns) = columns {
            let fields = builder.schema().fields().iter().enumerate();
            let wanted = fields.filter(|(_, field)| columns.contains(field.name()));
            let wanted: Vec<usize> = wanted.map(|(at, _)| at).collect();
            let mask = ProjectionMask::roots(builder.parquet_schema(), wanted);
            builder = builder.with_projection(mask);
        }
        let batches = builder.build().map_err(parquet)?;
        let decoded = batches.map(|batch| {
            batch.map_err(|source| TableError::Decode {
                path: path.clone(),
                source,
            })
        });
        decoded.collect()
    }
}

/// The number of files to fetch at the same time.
fn files_at_once(files: &[DataFile]) -> usize {
    let largest = files.iter().map(|file| file.rows).max().unwrap_or(0);
    let fit = usize::try_from(ROWS_AT_ONCE / largest.max(1)).unwrap_or(FILES_AT_ONCE);
    fit.clamp(1, FILES_AT_ONCE)
}

/// The most rows that are read if many are left out: about 10 s for the largest kind.
const MAX_SCANNED_ROWS: u64 = 2_000_000;

/// The limits of a window for each sender.
pub(crate) struct Share<'f, R> {
    /// The most rows in all.
    pub(crate) max_rows: usize,
    /// The most rows of one sender.
    pub(crate) max_rows_a_sender: usize,
    /// The sender of a row.
    pub(crate) sender: &'f (dyn Fn(&R) -> &str + Send + Sync),
    /// Accepted rows so far by sender.
    pub(crate) admitted: HashMap<String, usize>,
}

impl<R> Share<'_, R> {
    fn admits(&mut self, row: &R) -> bool {
        let sender = (self.sender)(row);
        let admitted = match self.admitted.get_mut(sender) {
            Some(admitted) => admitted,
            None => self.admitted.entry(sender.to_owned()).or_default(),
        };
        *admitted += 1;
        *admitted <= self.max_rows_a_sender
    }
}

/// The content of a commit.
#[derive(Default)]
pub(super) struct Commit {
    pub(super) files: Vec<DataFile>,
    /// When it was made, in milliseconds since 1970; `None` if it does not say so.
    pub(super) time_ms: Option<i64>,
    /// The application id of its transaction, if it contains a batch.
    pub(super) batch: Option<String>,
}

/// A data file, as the log describes it.
pub(super) struct DataFile {
    pub(super) path: Path,
    /// Its number of rows. A file without a number in the log is not from this program and counts
    /// as full.
    pub(super) rows: u64,
    pub(super) day: Option<String>,
    written_ms: i64,
}

impl DataFile {
    /// The commits whose rows are in the file; `None` if it is not merged.
    pub(super) fn span(&self) -> Option<CommitSpan> {
        CommitSpan::of_file(self.path.filename()?)
    }

    fn added(add: &Add) -> Self {
        let stats = add.get_stats().ok().flatten();
        let rows = stats.and_then(|s| u64::try_from(s.num_records).ok());
        Self {
            path: Path::from(add.path.as_str()),
            rows: rows.unwrap_or(MAX_BATCH_ROWS as u64),
            day: add.partition_values.get(PARTITION).cloned().flatten(),
            written_ms: add.modification_time,
        }
    }

    fn of_view(view: &LogicalFileView) -> Self {
        let rows = view.num_records().map(|n| n as u64);
        Self {
            path: view.object_store_path(),
            rows: rows.unwrap_or(MAX_BATCH_ROWS as u64),
            day: view.partition_values_map().remove(PARTITION).flatten(),
            written_ms: view.modification_time(),
        }
    }
}
