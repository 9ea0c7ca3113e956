//! The lake: what was observed, in Delta tables that Athena, DuckDB, Spark and
//! pandas open. How tables are laid out and committed lives here; what the rows
//! mean, and what is concluded from them, does not.

mod lake;
mod rows;
mod table;

pub use ebb_cloud::store::StoreError;
pub use lake::{Batch, Commits, Lake, LakeError, MAX_BATCH_ROWS, MAX_READ_ROWS};
pub use rows::{ColumnError, Judged, RowError, RowsError, check_heartbeat, check_step};
pub use table::{Appended, Since, Table, TableError, Version, Window};
