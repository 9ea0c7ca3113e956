//! The stored state of each node: heartbeats, running steps and hourly activity. Merging
//! is commutative, associative and idempotent.

pub mod fleet_state;
pub mod hourly_activity;
pub mod latest_detail;
pub mod node_state;
mod packed_bytes;
pub mod probe_run;
pub mod ranges;
pub mod retention;
pub mod sequences;
pub mod stored_step;
pub mod ticks;
pub mod weeks;
