//! Removes the rows of days whose retention has ended. Their files are deleted later, by `clean`.

use std::collections::HashMap;

use deltalake_core::kernel::Action;
use deltalake_core::kernel::transaction::{CommitBuilder, CommitProperties};
use deltalake_core::protocol::DeltaOperation;
use deltalake_core::{DeltaTable, TableProperty};
use jiff::civil::Date;

use super::append::is_race;
use super::{TableError, TableLog};
use crate::rows::PARTITION;

/// The most attempts of a commit. Appends do not conflict with it, but take its version.
const ATTEMPTS: usize = 5;

/// The most files that one commit removes. The next sweep removes the others.
const MAX_REMOVED_FILES: usize = 10_000;

impl TableLog {
    /// Removes the rows of all days before `day` in one commit, the oldest first. Returns the number
    /// of files, which is 0 if there are none or if other commits took every attempt.
    pub(crate) async fn expire(&self, mut table: DeltaTable, day: Date) -> Result<u64, TableError> {
        let doing = "remove expired rows";
        let day = day.to_string();
        for _ in 0..ATTEMPTS {
            let live = self.live_files(&table).await?.into_values();
            let dated = live.filter_map(|view| {
                let of = view.partition_values_map().remove(PARTITION).flatten()?;
                (of < day).then_some((of, view))
            });
            let mut expired: Vec<_> = dated.collect();
            if expired.is_empty() {
                return Ok(0);
            }
            expired.sort_by(|(a, _), (b, _)| a.cmp(b));
            expired.truncate(MAX_REMOVED_FILES);
            table = self.with_removals(table).await?;
            let removed = expired.iter().map(|(_, view)| view.remove_action(true));
            let removed: Vec<_> = removed.map(Action::Remove).collect();
            let files = removed.len() as u64;
            let operation = DeltaOperation::Delete {
                predicate: Some(format!("{PARTITION} < '{day}'")),
            };
            let snapshot = table.snapshot().map_err(TableError::delta(doing))?;
            let commit = CommitBuilder::from(CommitProperties::default().with_max_retries(0))
                .with_actions(removed)
                .build(Some(snapshot), self.log.clone(), operation)
                .await;
            match commit {
                Ok(_) => return Ok(files),
                Err(error) if is_race(&error) => {
                    let loaded = table.load().await;
                    loaded.map_err(TableError::delta("load the log"))?;
                }
                Err(error) => return Err(TableError::delta(doing)(error)),
            }
        }
        Ok(0)
    }

    /// The same table without the property that forbids removals, which earlier versions of this
    /// program set.
    async fn with_removals(&self, table: DeltaTable) -> Result<DeltaTable, TableError> {
        let doing = "allow removals";
        let snapshot = table.snapshot().map_err(TableError::delta(doing))?;
        let name = TableProperty::AppendOnly.as_ref();
        let is_forbidden = snapshot.metadata().configuration().get(name);
        if is_forbidden.is_none_or(|value| value != "true") {
            return Ok(table);
        }
        let properties = HashMap::from([(name.to_owned(), "false".to_owned())]);
        let changed = table.set_tbl_properties().with_properties(properties).await;
        changed.map_err(TableError::delta(doing))
    }
}
