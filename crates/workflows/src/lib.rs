//! Workflow engines and schedulers: reads what they record of tasks, and writes requests in
//! the form of their configuration.
//!
//! Here is what depends on an engine's formats and names. What a step needs is decided in
//! `ebb-analysis`, and how advice is shown to people in `ebb-sweep`.

pub mod export;
pub mod import;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
