//! Forms of a report for people and programs. Pure functions, no I/O.

pub mod cost_text;
pub mod csv;
mod fitted_table;
pub mod focus;
pub mod group_text;
pub mod html;
pub mod json;
pub mod markdown;
pub mod optimization_hub;
pub mod page;
pub mod plain_table;
pub mod probe_table;
pub mod reason_codes;
pub mod remediation;
pub mod report_file;
pub mod run_table;
pub mod sarif;
pub mod step_advice;
pub mod step_summary;
pub mod step_table;
pub mod table;
pub mod tag_text;
pub mod terminal_style;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod zone;
