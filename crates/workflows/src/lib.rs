//! Workflow engines and schedulers: reads their records of tasks, and writes requests in the form
//! of their configuration.
//!
//! This crate contains the formats and names of the engines. `ebb-analysis` computes the need of a
//! step, and `ebb-report` shows recommendations to people.

pub mod engine_setup;
pub mod export;
pub mod import;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
