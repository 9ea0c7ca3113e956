//! Rules about volumes, snapshots and addresses.

pub mod gp2_volume;
pub mod idle_address;
pub mod old_snapshot;
pub mod stopped_volume;
pub mod storage_cost;
pub mod unattached_volume;
