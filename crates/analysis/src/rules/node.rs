//! Rules about nodes.

pub mod gpu_idle;
pub mod idle;
pub mod no_probe;
pub mod off_hours;
pub mod old_generation;
pub mod oversized;
pub mod recurring_idle;
pub mod undersized;
pub mod underutilized;
pub mod weekly_pattern;
