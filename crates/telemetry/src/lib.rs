//! Data types for probe measurements: units, names, intervals of a node, and resource use of tasks.

#![warn(missing_docs)]

pub mod activity;
pub mod arrival;
pub mod gpu_sample;
pub mod heartbeat;
pub mod identity;
pub mod machine_check;
pub mod money;
pub mod origin;
pub mod probe_version;
pub mod safe_text;
pub mod shard;
pub mod stable_hash;
pub mod step;
pub mod tags;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod time;
pub mod units;
pub mod watch;
