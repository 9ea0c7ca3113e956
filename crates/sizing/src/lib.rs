//! CPU and memory requests from past tasks, run time on other machine types, and the
//! ranking of machine types and markets.

pub mod by_input;
pub mod chance_range;
pub mod cheapest_type;
pub mod core_speed;
pub mod cores;
pub mod fargate_sizes;
pub mod memory;
pub mod need;
pub mod packing;
#[cfg(test)]
mod properties;
pub mod ranking;
pub mod run_time;
pub mod sample;
pub mod self_sizing;
pub mod spot_risk;
pub mod spread;
pub mod work;
