//! Decisions: converts the facts of a sweep into a report. The crate uses no clock, environment,
//! network, file or randomness.

pub mod activity_history;
pub mod advice;
mod closed_days;
pub mod cost_allocation;
pub mod coverage;
pub mod earlier_jobs;
pub mod evaluate;
pub mod explain;
pub mod facts;
pub mod hourly_price;
pub mod in_turns;
pub mod metric_activity;
pub mod metric_sizing;
mod node_hours;
pub mod rules;
pub mod run_costs;
pub mod shell;
pub mod step_history;
pub mod sweep_memory;
pub mod task_details;
#[cfg(test)]
mod testing;
pub mod timeline;
pub mod unlisted_hosts;
pub mod workflow_runs;
