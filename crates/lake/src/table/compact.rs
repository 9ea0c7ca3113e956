//! Merges the files of earlier days, which are small and many, into few sorted ones. One commit
//! replaces the files of consecutive commits and stores how far compaction has come. Nothing is
//! changed until that commit, and it is refused if another program replaced one of the files first.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use deltalake_core::DeltaTable;
use deltalake_core::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use deltalake_core::arrow::compute::{
    SortColumn, concat_batches, lexsort_to_indices, take_record_batch,
};
use deltalake_core::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use deltalake_core::arrow::error::ArrowError;
use deltalake_core::kernel::transaction::{CommitBuilder, CommitProperties};
use deltalake_core::kernel::{Action, Add, LogicalFileView, Transaction};
use deltalake_core::parquet::arrow::ArrowWriter;
use deltalake_core::parquet::basic::{Compression, Encoding, ZstdLevel};
use deltalake_core::parquet::errors::ParquetError;
use deltalake_core::parquet::file::properties::{EnabledStatistics, WriterProperties};
use deltalake_core::parquet::schema::types::ColumnPath;
use deltalake_core::protocol::DeltaOperation;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use object_store::path::Path;
use object_store::{PutMode, PutOptions};
use serde_json::json;

use super::append::is_race;
use super::commit_span::{COMPACTION, CommitSpan};
use super::read::Commit;
use super::{TableError, TableLog, Version};
use crate::rows::{COMMIT_VERSION, PARTITION};

/// The size of rows in memory above which no further commit is merged with them. Sorting and
/// encoding need about three times as much in all.
const MAX_MERGED_BYTES: usize = 48 << 20;

/// The most commits of one compaction. Each is one request.
const MAX_MERGED_COMMITS: u64 = 1_000;

/// Commits that are read from the log at the same time.
const COMMITS_AT_ONCE: usize = 16;

/// The most attempts of a commit. Appends do not conflict with it, but take its version.
const ATTEMPTS: usize = 5;

/// The result of one compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compaction {
    /// There are no further commits of earlier days.
    Finished,
    /// The files of some commits were merged.
    Merged {
        /// The number of files before.
        files: u64,
        /// The number of files after.
        merged: u64,
    },
    /// Another program changed the same files first; this one changed nothing.
    Overtaken,
}

/// Rows of one day with the same columns.
struct MergeGroup {
    day: String,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

/// The rows of consecutive commits.
struct MergeInput {
    span: CommitSpan,
    files: Vec<LogicalFileView>,
    groups: Vec<MergeGroup>,
    bytes: usize,
}

impl MergeInput {
    fn add(&mut self, day: &str, batch: RecordBatch) {
        let schema = batch.schema();
        let group = self.groups.iter_mut();
        let mut group = group.filter(|group| group.day == day && group.schema == schema);
        match group.next() {
            Some(group) => group.batches.push(batch),
            None => self.groups.push(MergeGroup {
                day: day.to_owned(),
                schema,
                batches: vec![batch],
            }),
        }
    }
}

impl TableLog {
    /// Merges the files of the oldest commits that are not merged and were made before a time in
    /// milliseconds since 1970. One call merges as much as fits into its memory.
    pub(crate) async fn compact(
        &self,
        table: DeltaTable,
        closed_before_ms: i64,
    ) -> Result<Compaction, TableError> {
        let Some(input) = self.merge_input(&table, closed_before_ms).await? else {
            return Ok(Compaction::Finished);
        };
        let MergeInput {
            span,
            files,
            groups,
            ..
        } = input;
        let mut actions = Vec::new();
        for group in groups {
            let added = self.write_merged(span, group).await?;
            actions.push(Action::Add(added));
        }
        let merged = actions.len() as u64;
        let removed = files.iter().map(|file| file.remove_action(false));
        actions.extend(removed.map(Action::Remove));
        Ok(match self.commit_merged(table, span, actions).await? {
            true => Compaction::Merged {
                files: files.len() as u64,
                merged,
            },
            false => Compaction::Overtaken,
        })
    }

    /// Reads the rows to merge; `None` if the next commit does not exist or is too new.
    async fn merge_input(
        &self,
        table: &DeltaTable,
        closed_before_ms: i64,
    ) -> Result<Option<MergeInput>, TableError> {
        let first = self.compacted_through(table).await?;
        let first = first.map_or(0, |last| last + 1);
        let newest = table.version().unwrap_or(0);
        let end = newest.min(first.saturating_add(MAX_MERGED_COMMITS - 1));
        let mut live = None;
        let mut input: Option<MergeInput> = None;
        let read = |version| self.files_of(version).map(move |commit| (version, commit));
        let mut commits = stream::iter(first..=end)
            .map(read)
            .buffered(COMMITS_AT_ONCE);
        while let Some((version, commit)) = commits.next().await {
            let commit = commit?;
            if !commit.is_before(closed_before_ms) {
                break;
            }
            // Only commits that are merged need the files of the table.
            let live = match &mut live {
                Some(live) => live,
                None => live.insert(self.live_files(table).await?),
            };
            let rows = self.read_live(version, commit, live).await?;
            let held = input.as_ref().map_or(0, |input| input.bytes);
            if held > 0 && held + rows.bytes > MAX_MERGED_BYTES {
                break;
            }
            let input = input.get_or_insert_with(|| MergeInput {
                span: rows.span,
                files: Vec::new(),
                groups: Vec::new(),
                bytes: 0,
            });
            input.span.last = version;
            input.bytes += rows.bytes;
            input.files.extend(rows.files);
            for MergeGroup { day, batches, .. } in rows.groups {
                batches.into_iter().for_each(|batch| input.add(&day, batch));
            }
        }
        Ok(input)
    }

    /// The rows of one commit whose files were not removed since.
    async fn read_live(
        &self,
        version: Version,
        commit: Commit,
        live: &HashMap<Path, LogicalFileView>,
    ) -> Result<MergeInput, TableError> {
        let mut input = MergeInput {
            span: CommitSpan {
                first: version,
                last: version,
            },
            files: Vec::new(),
            groups: Vec::new(),
            bytes: 0,
        };
        for file in commit.files {
            let Some(view) = live.get(&file.path) else {
                continue;
            };
            // A file without a day is not from this program.
            let Some(day) = file.day.clone() else {
                continue;
            };
            let path = file.path.to_string();
            for batch in self.batches(file, None).await? {
                let batch = with_version(&batch, version).map_err(|source| TableError::Decode {
                    path: path.clone(),
                    source,
                })?;
                input.bytes += batch.get_array_memory_size();
                input.add(&day, batch);
            }
            input.files.push(view.clone());
        }
        Ok(input)
    }

    pub(super) async fn live_files(
        &self,
        table: &DeltaTable,
    ) -> Result<HashMap<Path, LogicalFileView>, TableError> {
        let doing = "list data files";
        let snapshot = table.snapshot().map_err(TableError::delta(doing))?;
        let views = snapshot.snapshot().file_views(self.log.as_ref(), None);
        let named = views.map_ok(|view| (view.object_store_path(), view));
        named.try_collect().await.map_err(TableError::delta(doing))
    }

    /// Writes one merged file, which is not part of the table yet.
    async fn write_merged(&self, span: CommitSpan, group: MergeGroup) -> Result<Add, TableError> {
        let name = span.file_name(fastrand::u64(..));
        let path = format!("{PARTITION}={}/{name}", group.day);
        let day = group.day.clone();
        let merged = merge(group, &self.table.sort_columns());
        let merged = merged.map_err(|source| TableError::Decode {
            path: path.clone(),
            source,
        })?;
        let parquet = |source| TableError::Parquet {
            path: path.clone(),
            source,
        };
        let bytes = encode(&merged).map_err(parquet)?;
        let added = Add {
            path: path.clone(),
            partition_values: [(PARTITION.to_owned(), Some(day))].into(),
            size: i64::try_from(bytes.len()).unwrap_or(i64::MAX),
            modification_time: Timestamp::now().as_millisecond(),
            data_change: false,
            stats: Some(statistics(&merged, self.table.sort_columns()[0], span)),
            ..Add::default()
        };
        let only_new = PutOptions::from(PutMode::Create);
        let store = self.log.object_store(None);
        let location = Path::from(path.as_str());
        let put = store.put_opts(&location, bytes.into(), only_new).await;
        put.map_err(|source| TableError::Store { path, source })?;
        Ok(added)
    }

    /// Commits merged files; `false` if another program changed the same files first.
    async fn commit_merged(
        &self,
        mut table: DeltaTable,
        span: CommitSpan,
        actions: Vec<Action>,
    ) -> Result<bool, TableError> {
        let doing = "commit merged files";
        let before = self.compacted_through(&table).await?;
        let last = i64::try_from(span.last).map_err(|_| TableError::Number {
            app: COMPACTION.to_owned(),
            number: span.last,
        })?;
        let mut removed = HashSet::new();
        let mut added = HashSet::new();
        for action in &actions {
            match action {
                Action::Remove(remove) => removed.insert(Path::from(remove.path.as_str())),
                Action::Add(add) => added.insert(Path::from(add.path.as_str())),
                _ => false,
            };
        }
        for _ in 0..ATTEMPTS {
            let operation = DeltaOperation::Optimize {
                predicate: None,
                target_size: MAX_MERGED_BYTES as i64,
            };
            let properties = CommitProperties::default()
                .with_application_transaction(Transaction::new(COMPACTION, last))
                // The check of conflicts in the library lets two compactions merge the same file.
                .with_max_retries(0);
            let snapshot = table.snapshot().map_err(TableError::delta(doing))?;
            let commit = CommitBuilder::from(properties)
                .with_actions(actions.clone())
                .build(Some(snapshot), self.log.clone(), operation)
                .await;
            let Err(error) = commit else {
                return Ok(true);
            };
            // The commit may exist even after an error; see `append`.
            let loaded = table.load().await;
            loaded.map_err(TableError::delta("load the log"))?;
            let through = self.compacted_through(&table).await?;
            let live = self.live_files(&table).await?;
            if through == Some(span.last) && added.iter().all(|path| live.contains_key(path)) {
                return Ok(true);
            }
            if through != before || !removed.iter().all(|path| live.contains_key(path)) {
                return Ok(false);
            }
            if !is_race(&error) {
                return Err(TableError::delta(doing)(error));
            }
        }
        Ok(false)
    }
}

impl Commit {
    /// Whether it was made before a time. A commit without a time is not from this program and
    /// counts as old.
    fn is_before(&self, ms: i64) -> bool {
        self.time_ms.is_none_or(|at| at < ms)
    }
}

/// The same rows with the commit that appended them.
fn with_version(batch: &RecordBatch, version: Version) -> Result<RecordBatch, ArrowError> {
    let version = i64::try_from(version).unwrap_or(i64::MAX);
    let versions = Int64Array::from_value(version, batch.num_rows());
    let versions: ArrayRef = Arc::new(versions);
    let schema = batch.schema();
    let mut columns = batch.columns().to_vec();
    if let Ok(at) = schema.index_of(COMMIT_VERSION) {
        columns[at] = versions;
        return RecordBatch::try_new(schema, columns);
    }
    columns.push(versions);
    let mut fields = schema.fields().to_vec();
    fields.push(Field::new(COMMIT_VERSION, DataType::Int64, true).into());
    RecordBatch::try_new(Schema::new(fields).into(), columns)
}

fn merge(group: MergeGroup, sort: &[&str]) -> Result<RecordBatch, ArrowError> {
    let rows = concat_batches(&group.schema, &group.batches)?;
    drop(group);
    let keys = sort.iter().filter_map(|name| rows.column_by_name(name));
    let keys: Vec<_> = keys
        .map(|values| SortColumn {
            values: Arc::clone(values),
            options: None,
        })
        .collect();
    let order = lexsort_to_indices(&keys, None)?;
    take_record_batch(&rows, &order)
}

/// Columns of times and counters, which grow from row to row of a node.
const GROWING: [&str; 6] = [
    "sequence",
    "started_at",
    "ended_at",
    "wall_at_end",
    "start_boot_ns",
    "end_boot_ns",
];

fn encode(rows: &RecordBatch) -> Result<Vec<u8>, ParquetError> {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(9)?))
        .set_statistics_enabled(EnabledStatistics::Chunk);
    for column in GROWING {
        let column = ColumnPath::from(column);
        properties = properties
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
    }
    let mut writer = ArrowWriter::try_new(Vec::new(), rows.schema(), Some(properties.build()))?;
    writer.write(rows)?;
    writer.into_inner()
}

/// The statistics of a merged file in the log. Those of other columns are in the file itself: in
/// the log, every sweep would read them.
fn statistics(rows: &RecordBatch, sorted_by: &str, span: CommitSpan) -> String {
    let key = rows.column_by_name(sorted_by);
    let key = key.and_then(|column| column.as_string_opt::<i32>());
    let value = |row: Option<usize>| row.and_then(|row| key.map(|key| key.value(row)));
    let last = rows.num_rows().checked_sub(1);
    json!({
        "numRecords": rows.num_rows(),
        "minValues": {sorted_by: value(last.map(|_| 0)), COMMIT_VERSION: span.first},
        "maxValues": {sorted_by: value(last), COMMIT_VERSION: span.last},
        "nullCount": {sorted_by: 0, COMMIT_VERSION: 0},
    })
    .to_string()
}
