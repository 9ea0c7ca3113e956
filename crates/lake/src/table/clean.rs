//! Deletes files that the table no longer needs: data files that no version of the last days refers
//! to, and old commits whose rows are merged. A file of another program is never deleted.

use std::collections::HashMap;
use std::time::Duration;

use deltalake_core::DeltaTable;
use deltalake_core::checkpoints::cleanup_expired_logs_for;
use futures::{StreamExt, TryStreamExt, future, stream};
use jiff::Timestamp;
use jiff::civil::Date;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};

use super::commit_span::CommitSpan;
use super::{TableError, TableLog};
use crate::rows::PARTITION;

/// How long the log describes earlier versions, as other programs with Delta tables do.
const LOG_AGE: Duration = Duration::from_secs(30 * 24 * 3600);

/// The most data files that one call deletes. The next one deletes the others.
const MAX_DELETED_FILES: usize = 20_000;

impl TableLog {
    /// Deletes data files that are older than `age`, are not part of the newest version and were
    /// not part of any version within `age`. Returns their number.
    pub(crate) async fn delete_unreferenced(
        &self,
        table: &DeltaTable,
        now: Timestamp,
        age: Duration,
    ) -> Result<u64, TableError> {
        let before_ms = before(now, age);
        let live = self.live_files(table).await?;
        let removed_ms = self.removals(table).await?;
        let is_stale = |meta: &ObjectMeta| {
            let path = &meta.location;
            meta.last_modified.timestamp_millis() < before_ms
                && is_own(path)
                && !live.contains_key(path)
                && removed_ms.get(path).is_none_or(|at| *at < before_ms)
        };
        let store = self.log.object_store(None);
        // Data files come after `_delta_log` in the order of names.
        let after = Path::from("_delta_log0");
        let all = store.list_with_offset(None, &after);
        let stale = all.try_filter(|meta| future::ready(is_stale(meta)));
        let stale = stale.map_ok(|meta| meta.location).take(MAX_DELETED_FILES);
        let listed: Result<Vec<_>, _> = stale.try_collect().await;
        let stale = listed.map_err(|source| TableError::List { source })?;
        let count = stale.len() as u64;
        let deleted = store.delete_stream(stream::iter(stale).map(Ok).boxed());
        let deleted: Result<Vec<_>, _> = deleted.try_collect().await;
        deleted.map_err(|source| TableError::Delete { source })?;
        Ok(count)
    }

    /// Deletes old commits that a checkpoint has replaced and whose rows are merged. Returns their
    /// number.
    pub(crate) async fn delete_old_commits(
        &self,
        table: &DeltaTable,
        now: Timestamp,
    ) -> Result<u64, TableError> {
        let Some(merged) = self.compacted_through(table).await? else {
            return Ok(0);
        };
        let log = self.log.as_ref();
        let deleted = cleanup_expired_logs_for(merged, log, before(now, LOG_AGE), None).await;
        let deleted = deleted.map_err(TableError::delta("delete old commits"))?;
        Ok(deleted as u64)
    }

    /// When the log removed files from the table, in milliseconds since 1970.
    async fn removals(&self, table: &DeltaTable) -> Result<HashMap<Path, i64>, TableError> {
        let doing = "list removed files";
        let snapshot = table.snapshot().map_err(TableError::delta(doing))?;
        let mut removals = HashMap::new();
        let mut tombstones = snapshot.all_tombstones(self.log.as_ref());
        while let Some(tombstone) = tombstones
            .try_next()
            .await
            .map_err(TableError::delta(doing))?
        {
            // A removal without a time may be recent.
            let at = tombstone.deletion_timestamp().unwrap_or(i64::MAX);
            let path = Path::from(tombstone.path().as_ref());
            let newest = removals.entry(path).or_insert(at);
            *newest = at.max(*newest);
        }
        Ok(removals)
    }
}

fn before(now: Timestamp, age: Duration) -> i64 {
    let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    now.as_millisecond().saturating_sub(age)
}

/// Whether a file has the name of a data file of this program.
fn is_own(path: &Path) -> bool {
    let parts: Vec<_> = path.parts().collect();
    let [folder, name] = parts.as_slice() else {
        return false;
    };
    let (folder, name) = (folder.as_ref(), name.as_ref());
    let day = folder
        .strip_prefix(PARTITION)
        .and_then(|day| day.strip_prefix('='));
    let has_day = day.is_some_and(|day| day.parse::<Date>().is_ok());
    let is_appended = name.starts_with("part-") && name.ends_with(".parquet");
    has_day && (is_appended || CommitSpan::of_file(name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_program_are_deleted() {
        let check = |path: &str, expect: bool| {
            assert_eq!(is_own(&Path::from(path)), expect, "{path}");
        };
        let merged = CommitSpan { first: 1, last: 2 }.file_name(3);
        check("dt=2026-11-20/part-00000-0b5c-c000.snappy.parquet", true);
        check(&format!("dt=2026-11-20/{merged}"), true);
        check("dt=2026-11-20/notes.parquet", false);
        check("dt=2026-11-20/part-00000.csv", false);
        check("dt=2026-11-20/more/part-00000.parquet", false);
        check("dt=latest/part-00000.parquet", false);
        check("day=2026-11-20/part-00000.parquet", false);
        check("part-00000.parquet", false);
        check("_delta_log/00000000000000000010.checkpoint.parquet", false);
    }
}
