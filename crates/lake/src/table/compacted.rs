//! Rows of commits whose own files were merged into larger ones. The log names the last commit that
//! is merged; the name of a merged file contains the commits that it covers, and each of its rows
//! the commit that appended it. So every row of a commit is read once, also after its file is
//! deleted, and after the commit itself is deleted from the log.

use std::collections::BTreeMap;

use deltalake_core::DeltaTable;
use deltalake_core::arrow::array::{AsArray, BooleanArray, RecordBatch};
use deltalake_core::arrow::compute::filter_record_batch;
use deltalake_core::arrow::datatypes::Int64Type;
use deltalake_core::arrow::error::ArrowError;

use super::commit_span::{COMPACTION, CommitSpan};
use super::read::DataFile;
use super::{TableError, TableLog, Version};
use crate::rows::{COMMIT_VERSION, Record};

impl TableLog {
    /// The last commit whose rows are in merged files; `None` before the first compaction.
    pub(super) async fn compacted_through(
        &self,
        table: &DeltaTable,
    ) -> Result<Option<Version>, TableError> {
        let doing = "read the progress of compaction";
        let snapshot = table.snapshot().map_err(TableError::delta(doing))?;
        let last = snapshot
            .transaction_version(self.log.as_ref(), COMPACTION)
            .await
            .map_err(TableError::delta(doing))?;
        Ok(last.and_then(|version| Version::try_from(version).ok()))
    }

    /// The rows of wanted commits from merged files, and the version up to which they reach. There
    /// are at most `max_rows`, unless one span has more. `None` if the first wanted commit is not
    /// merged. Rows of all shards are returned, and rows whose retention ended are not.
    pub(super) async fn compacted_since<R: Record>(
        &self,
        wanted: CommitSpan,
        max_rows: u64,
    ) -> Result<Option<(Vec<R>, Version)>, TableError> {
        let Some(table) = self.load().await? else {
            return Ok(None);
        };
        let merged = self.compacted_through(&table).await?;
        let Some(last) = merged.filter(|last| *last >= wanted.first) else {
            return Ok(None);
        };
        let wanted = CommitSpan {
            last: last.min(wanted.last),
            ..wanted
        };
        let mut spans: BTreeMap<CommitSpan, Vec<DataFile>> = BTreeMap::new();
        for file in self.files_of_table(&table).await? {
            if let Some(span) = file.span().filter(|span| span.meets(wanted)) {
                spans.entry(span).or_default().push(file);
            }
        }
        let mut rows = Vec::new();
        let mut through = None;
        for (span, files) in spans {
            let more = files.iter().map(|file| file.rows).sum::<u64>();
            if !rows.is_empty() && rows.len() as u64 + more > max_rows {
                return Ok(through.map(|through| (rows, through)));
            }
            for file in files {
                rows.extend(self.rows_within(file, wanted).await?);
            }
            through = Some(span.last.min(wanted.last));
        }
        Ok(Some((rows, wanted.last)))
    }

    /// The rows of a merged file that these commits appended.
    async fn rows_within<R: Record>(
        &self,
        file: DataFile,
        commits: CommitSpan,
    ) -> Result<Vec<R>, TableError> {
        let path = file.path.to_string();
        let mut rows = Vec::new();
        for batch in self.batches(file, None).await? {
            let batch = within(&batch, commits).map_err(|source| TableError::Decode {
                path: path.clone(),
                source,
            })?;
            let unpacked = R::unpack(&batch);
            rows.extend(unpacked.map_err(|source| TableError::File {
                path: path.clone(),
                source,
            })?);
        }
        Ok(rows)
    }
}

fn within(batch: &RecordBatch, commits: CommitSpan) -> Result<RecordBatch, ArrowError> {
    let column = batch.column_by_name(COMMIT_VERSION);
    let versions = column.and_then(|column| column.as_primitive_opt::<Int64Type>());
    let versions = versions.ok_or_else(|| {
        ArrowError::SchemaError(format!("a merged file has no column {COMMIT_VERSION}"))
    })?;
    let is_wanted = |version: Option<i64>| {
        let version = version.and_then(|version| Version::try_from(version).ok());
        version.map(|version| (commits.first..=commits.last).contains(&version))
    };
    let wanted: BooleanArray = versions.iter().map(is_wanted).collect();
    filter_record_batch(batch, &wanted)
}
