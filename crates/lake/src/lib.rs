//! The lake: observations in Delta tables that Athena, DuckDB, Spark and pandas can read. This
//! crate defines the layout and the commits of the tables, but not the meaning of the rows.

mod lake;
mod rows;
mod table;
mod upkeep;

pub use ebb_cloud::store::StoreError;
pub use lake::{Batch, Commits, Lake, LakeError, MAX_BATCH_ROWS, MAX_READ_ROWS};
pub use rows::{
    ColumnError, EvaluatedFinding, RowError, RowsError, ValueError, check_heartbeat, check_step,
};
pub use table::{
    Appended, ColumnKind, Since, StoredColumn, StoredRow, StoredWindow, Table, TableError,
    TableSummary, Version, Window,
};
pub use upkeep::{Cleanup, Upkeep, UpkeepCounts};
