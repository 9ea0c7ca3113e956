//! Ingestion of messages from probes, exactly once: they are authenticated, decoded, deduplicated,
//! committed to the lake and folded into the stored state.

pub mod authenticate;
#[cfg(feature = "lake")]
pub mod deadline;
#[cfg(feature = "lake")]
pub mod event_log;
#[cfg(feature = "lake")]
pub mod fold;
pub mod object_key;
pub mod refusal;
pub mod state_store;
