//! One Delta table: its name and place, and its creation. `append` defines a commit, `columns` adds
//! new columns, and `read` defines reads. `compact`, `expire` and `clean` keep the table small.

mod append;
mod clean;
mod columns;
mod commit_span;
pub(crate) mod compact;
mod compacted;
mod expire;
mod read;
mod stored;

pub use append::Appended;
pub(crate) use append::Batched;
pub(crate) use read::Share;
pub use read::{Since, Window};
pub use stored::{ColumnKind, StoredColumn, StoredRow, StoredWindow, TableSummary};

use std::fmt;
use std::sync::Arc;

use deltalake_core::arrow::datatypes::{FieldRef, Schema};
use deltalake_core::arrow::error::ArrowError;
use deltalake_core::kernel::StructType;
use deltalake_core::kernel::engine::arrow_conversion::TryIntoKernel;
use deltalake_core::kernel::transaction::CommitProperties;
use deltalake_core::logstore::{LogStore, LogStoreRef, StorageConfig, default_logstore};
use deltalake_core::operations::create::CreateBuilder;
use deltalake_core::parquet::errors::ParquetError;
use deltalake_core::{DeltaTable, DeltaTableError, TableProperty};
use ebb_cloud::store::Place;
use thiserror::Error;

use crate::rows::{PARTITION, RowsError};

/// A version of one table; each commit makes one, counted from 0.
pub type Version = u64;

/// The tables of the lake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// The activity of each node in each interval.
    Heartbeats,
    /// Finished tasks.
    Steps,
    /// Findings of each sweep.
    Findings,
    /// Each day of the bill by use and tasks.
    Costs,
    /// Activity of each node by hour.
    NodeHours,
}

impl Table {
    /// All tables.
    pub const ALL: [Self; 5] = [
        Self::Heartbeats,
        Self::Steps,
        Self::Findings,
        Self::Costs,
        Self::NodeHours,
    ];

    /// The table's name, which is also its folder.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Heartbeats => "heartbeats",
            Self::Steps => "steps",
            Self::Findings => "findings",
            Self::Costs => "costs",
            Self::NodeHours => "node_hours",
        }
    }

    /// The columns by which merged files are sorted: neighbouring rows are alike, and a file has
    /// short ranges of the first column.
    pub(crate) const fn sort_columns(self) -> [&'static str; 2] {
        match self {
            Self::Heartbeats => ["node", "ended_at"],
            Self::Steps => ["node", "observed_at"],
            Self::Findings => ["finding_id", "judged_at"],
            Self::Costs => ["part", "evaluated_at"],
            Self::NodeHours => ["node", "hour_start"],
        }
    }

    /// The content of the table.
    pub const fn comment(self) -> &'static str {
        match self {
            Self::Heartbeats => "Activity of each node in each interval, as reported by its probe",
            Self::Steps => "Finished tasks with their total use of resources",
            Self::Findings => "Findings of each sweep",
            Self::Costs => "Each day of the bill by use, machine and tasks",
            Self::NodeHours => "Activity, tasks and price of each node by hour",
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An error of one table.
#[derive(Debug, Error)]
pub enum TableError {
    /// The log or the store failed.
    #[error("failed to {doing}")]
    Delta {
        /// The operation that failed.
        doing: &'static str,
        /// The cause.
        source: Box<DeltaTableError>,
    },
    /// A data file could not be fetched.
    #[error("failed to fetch {path}")]
    Fetch {
        /// Its path within the table.
        path: String,
        /// The cause.
        source: object_store::Error,
    },
    /// A data file could not be stored.
    #[error("failed to store {path}")]
    Store {
        /// Its path within the table.
        path: String,
        /// The cause.
        source: object_store::Error,
    },
    /// The data files could not be listed.
    #[error("failed to list the data files")]
    List {
        /// The cause.
        source: object_store::Error,
    },
    /// Data files could not be deleted.
    #[error("failed to delete data files")]
    Delete {
        /// The cause.
        source: object_store::Error,
    },
    /// A data file is not Parquet or is incomplete.
    #[error("failed to read {path}")]
    Parquet {
        /// Its path within the table.
        path: String,
        /// The cause.
        source: ParquetError,
    },
    /// A data file's columns cannot be decoded.
    #[error("failed to decode {path}")]
    Decode {
        /// Its path within the table.
        path: String,
        /// The cause.
        source: ArrowError,
    },
    /// The rows of a data file do not match this table.
    #[error("invalid rows in {path}")]
    File {
        /// Its path within the table.
        path: String,
        /// The cause.
        source: RowsError,
    },
    /// Rows to append cannot be stored.
    #[error("failed to encode the rows")]
    Rows(#[from] RowsError),
    /// A column of this program has no Delta type.
    #[error("failed to convert the columns to a Delta schema")]
    Schema(#[from] ArrowError),
    /// Another program or a later version of this program created the table.
    #[error("column {column} differs from the schema of the table")]
    OtherSchema {
        /// The first column that differs.
        column: String,
    },
    /// A commit is missing: somebody cleaned up the log.
    #[error("commit {version} is missing in the log")]
    CommitGone {
        /// The missing version.
        version: Version,
    },
    /// A transaction number above the limit of a Delta log.
    #[error("transaction number {number} of {app} is too large")]
    Number {
        /// The application id of the transaction.
        app: String,
        /// The number.
        number: u64,
    },
    /// Other writers committed first on every attempt.
    #[error("gave up after {attempts} attempts, because others committed first")]
    Contended {
        /// The number of attempts.
        attempts: usize,
    },
}

impl TableError {
    /// Whether a commit or a data file does not exist.
    fn is_missing(&self) -> bool {
        match self {
            Self::CommitGone { .. } => true,
            Self::Fetch { source, .. } => matches!(source, object_store::Error::NotFound { .. }),
            _ => false,
        }
    }

    fn delta(doing: &'static str) -> impl FnOnce(DeltaTableError) -> Self {
        move |source| Self::Delta {
            doing,
            source: Box::new(source),
        }
    }
}

/// The log of one table, which may not have been created yet.
pub(crate) struct TableLog {
    table: Table,
    log: LogStoreRef,
}

impl TableLog {
    pub(crate) fn new(table: Table, place: &Place) -> Result<Self, TableError> {
        let failed = |source| TableError::Delta {
            doing: "locate the table",
            source: Box::new(source),
        };
        let url = place.base.join(&format!("{}/", table.name()));
        let url = url.map_err(|e| failed(DeltaTableError::InvalidTableLocation(e.to_string())))?;
        let config = StorageConfig::default();
        let prefixed = config
            .decorate_store(place.store.clone(), &url)
            .map_err(failed)?;
        let log = default_logstore(Arc::from(prefixed), place.store.clone(), &url, &config);
        Ok(Self { table, log })
    }

    pub(crate) fn table(&self) -> Table {
        self.table
    }

    /// The table at its newest version; `None` if it does not exist.
    pub(crate) async fn load(&self) -> Result<Option<DeltaTable>, TableError> {
        let exists = self.log.is_delta_table_location().await;
        if !exists.map_err(TableError::delta("find the log"))? {
            return Ok(None);
        }
        let mut table = DeltaTable::new(self.log.clone());
        table
            .load()
            .await
            .map_err(TableError::delta("load the log"))?;
        Ok(Some(table))
    }

    async fn load_or_create(&self, fields: &[FieldRef]) -> Result<DeltaTable, TableError> {
        if let Some(table) = self.load().await? {
            return Ok(table);
        }
        let schema: StructType = (&Schema::new(fields.to_vec())).try_into_kernel()?;
        let created = CreateBuilder::new()
            .with_log_store(self.log.clone())
            .with_table_name(self.table.name())
            .with_comment(self.table.comment())
            .with_columns(schema.fields().cloned())
            .with_partition_columns([PARTITION])
            // `clean` deletes old commits. Without this, each checkpoint would list the whole log.
            .with_configuration_property(TableProperty::EnableExpiredLogCleanup, Some("false"))
            // Every load reads the commits after the last checkpoint, with one request each.
            .with_configuration_property(TableProperty::CheckpointInterval, Some("10"))
            // A second creator must not commit its schema again as version 1.
            .with_commit_properties(CommitProperties::default().with_max_retries(0))
            .await;
        match created {
            Ok(table) => Ok(table),
            Err(source) => match self.load().await? {
                Some(table) => Ok(table),
                None => Err(TableError::delta("create the table")(source)),
            },
        }
    }
}

#[cfg(test)]
#[expect(dead_code, reason = "the samples of the tests of the whole lake")]
#[path = "../tests/lake/sample.rs"]
mod sample;
#[cfg(test)]
mod tests;
