//! The data types of Ebb: inventory, policy, findings, advice, report, and the history from sweep
//! to sweep. The crate contains values and parsing only. It uses no clock, environment, network or
//! file.

pub mod advice;
pub mod bill;
pub mod confidence;
pub mod cost;
pub mod cost_record;
pub mod decision;
pub mod finding;
pub mod finding_history;
pub mod finding_kind;
pub mod inventory;
pub mod metric_series;
pub mod node_hour;
pub mod pages_url;
pub mod policy;
pub mod report;
pub mod savings;
#[cfg(feature = "schema")]
pub mod schema;
pub mod slack_action;
pub mod spend_history;
pub mod step_profile;
pub mod sweep_memory;
pub mod task_record;
pub mod text_file;
pub mod visibility_gap;
