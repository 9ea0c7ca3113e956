//! Documents that Ebb stores in its bucket and that several programs read.

#[cfg(feature = "account")]
pub mod decisions;
pub mod inflate;
#[cfg(feature = "account")]
pub mod prices;
#[cfg(feature = "account")]
pub mod report_files;
#[cfg(feature = "account")]
pub mod run_opening;
#[cfg(feature = "account")]
pub mod run_tasks;
#[cfg(all(test, feature = "account"))]
mod sample_run;
#[cfg(feature = "account")]
pub mod task_lists;
#[cfg(feature = "account")]
pub mod task_records;
