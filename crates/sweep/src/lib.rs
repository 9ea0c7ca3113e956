//! One sweep: collect from the account, receive from the probes, evaluate, report and
//! notify. Without the feature `lake` there are no probes, and [`scan`] evaluates
//! inventory and metrics alone.

pub mod collect;
#[cfg(feature = "lake")]
mod cost_table;
#[cfg(feature = "lake")]
mod hour_table;
#[cfg(feature = "lake")]
mod lake_upkeep;
#[cfg(feature = "lake")]
mod late_sweep;
#[cfg(feature = "lake")]
pub mod publish;
pub mod publish_details;
#[cfg(feature = "lake")]
pub mod retention;
#[cfg(feature = "lake")]
pub mod run;
pub mod scan;
#[cfg(feature = "lake")]
pub mod standalone;
#[cfg(feature = "lake")]
mod stored_jobs;
