//! Whole sweeps over ports in memory and a lake in a folder. Tests kill them at every call, run
//! them at the same time, send invalid data and check the notifications.

#[path = "sweep/again.rs"]
mod again;
#[path = "sweep/costs.rs"]
mod costs;
#[path = "sweep/crash.rs"]
mod crash;
#[path = "sweep/details.rs"]
mod details;
#[path = "sweep/every_kind.rs"]
mod every_kind;
#[path = "sweep/forget.rs"]
mod forget;
#[path = "sweep/hostile.rs"]
mod hostile;
#[path = "sweep/lake.rs"]
mod lake;
#[path = "sweep/notifications.rs"]
mod notifications;
#[path = "sweep/prices.rs"]
mod prices;
#[path = "sweep/race.rs"]
mod race;
#[path = "sweep/refused.rs"]
mod refused;
#[path = "sweep/sample.rs"]
mod sample;
#[path = "sweep/shards.rs"]
mod shards;
#[path = "sweep/world.rs"]
mod world;
