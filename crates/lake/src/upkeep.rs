//! Upkeep of a table by the sweep: rows are removed when their retention ends, files that nothing
//! needs are deleted, and small files are merged. A step that fails or is interrupted changes no
//! row, and the next sweep continues.

use std::time::Duration;

use deltalake_core::DeltaTable;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use serde::Serialize;

use crate::lake::{Lake, LakeError};
use crate::table::compact::Compaction;
use crate::table::{Table, TableError, TableLog};

/// The most compactions of one table in one call. Each needs memory and time.
const MAX_COMPACTIONS: usize = 20;

/// The upkeep of a table.
#[derive(Clone, Copy)]
pub struct Upkeep<'a> {
    /// The time. Commits of earlier UTC days are merged.
    pub now: Timestamp,
    /// Removals; `None` to remove nothing. They list all files, and are due once a day.
    pub cleanup: Option<Cleanup>,
    /// Whether the time is over. A step that has begun is finished.
    pub is_over: &'a (dyn Fn() -> bool + Send + Sync),
}

/// The files and rows to remove from a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cleanup {
    /// The number of UTC days before today whose rows are kept; `None` to keep all.
    pub keep_days: Option<u32>,
    /// How long a file is kept that the table does not refer to any more.
    pub unreferenced: Duration,
}

/// Counts of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct UpkeepCounts {
    /// Small files that were merged.
    pub merged_files: u64,
    /// Files that replace them.
    pub new_files: u64,
    /// Files of days whose retention ended.
    pub expired_files: u64,
    /// Files that nothing needed and that were deleted.
    pub deleted_files: u64,
    /// Old commits that were deleted from the log.
    pub deleted_commits: u64,
    /// Whether time ran out, or another program changed the table. The next sweep continues.
    pub is_unfinished: bool,
}

impl UpkeepCounts {
    /// Adds the counts of another table.
    pub fn add(&mut self, other: Self) {
        self.merged_files += other.merged_files;
        self.new_files += other.new_files;
        self.expired_files += other.expired_files;
        self.deleted_files += other.deleted_files;
        self.deleted_commits += other.deleted_commits;
        self.is_unfinished |= other.is_unfinished;
    }
}

impl Lake {
    /// Keeps a table small; see [`Upkeep`].
    ///
    /// # Errors
    /// If a step fails. The steps before it are done, and no row is lost.
    pub async fn keep_up(
        &self,
        table: Table,
        upkeep: &Upkeep<'_>,
    ) -> Result<UpkeepCounts, LakeError> {
        let log = self.log(table);
        let counts = log.keep_up(upkeep).await;
        counts.map_err(|error| self.failed(log, error))
    }
}

impl TableLog {
    async fn keep_up(&self, upkeep: &Upkeep<'_>) -> Result<UpkeepCounts, TableError> {
        let mut counts = UpkeepCounts::default();
        // Each step decides by its own version of the table. A step after another one may have an
        // old version: then it sees files that are removed meanwhile, and leaves them.
        let Some(table) = self.load().await? else {
            return Ok(counts);
        };
        let today = upkeep.now.to_zoned(TimeZone::UTC).date();
        // Before compaction, which may need all of the time.
        if let Some(cleanup) = upkeep.cleanup
            && !(upkeep.is_over)()
        {
            let age = cleanup.unreferenced;
            counts.deleted_files = self.delete_unreferenced(&table, upkeep.now, age).await?;
            counts.deleted_commits = self.delete_old_commits(&table, upkeep.now).await?;
            if let Some(days) = cleanup.keep_days
                && let Ok(first) = today.checked_sub(Span::new().days(days))
            {
                counts.expired_files = self.expire(table.clone(), first).await?;
            }
        }
        let midnight = today.to_zoned(TimeZone::UTC);
        let midnight = midnight.map_or(upkeep.now, |at| at.timestamp());
        let table = Some(table).filter(|_| counts.expired_files == 0);
        self.compact_all(table, (midnight, upkeep), &mut counts)
            .await?;
        Ok(counts)
    }

    /// Compacts as long as there is time, from this version of the table if it is the newest.
    async fn compact_all(
        &self,
        mut newest: Option<DeltaTable>,
        (midnight, upkeep): (Timestamp, &Upkeep<'_>),
        counts: &mut UpkeepCounts,
    ) -> Result<(), TableError> {
        for _ in 0..MAX_COMPACTIONS {
            if (upkeep.is_over)() {
                break;
            }
            let table = match newest.take() {
                Some(table) => Some(table),
                None => self.load().await?,
            };
            let Some(table) = table else { return Ok(()) };
            match self.compact(table, midnight.as_millisecond()).await? {
                Compaction::Finished => return Ok(()),
                Compaction::Merged { files, merged } => {
                    counts.merged_files += files;
                    counts.new_files += merged;
                }
                Compaction::Overtaken => break,
            }
        }
        counts.is_unfinished = true;
        Ok(())
    }
}
