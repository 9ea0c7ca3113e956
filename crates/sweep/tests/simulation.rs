//! Simulated weeks: probes, queues, bucket and lake in memory, virtual time, and faults that a
//! seed chooses. The real fold, evaluation and notification run on them. After each week the
//! promises in `invariants` must hold. A week depends on its seed only, so a failure can be
//! repeated: `SEED=n make prove`.

#[path = "simulation/cloud.rs"]
mod cloud;
#[path = "simulation/flaw.rs"]
mod flaw;
#[path = "simulation/invariants.rs"]
mod invariants;
#[path = "simulation/lake.rs"]
mod lake;
#[path = "simulation/plan.rs"]
mod plan;
#[path = "simulation/ports.rs"]
mod ports;
#[path = "simulation/probe.rs"]
mod probe;
#[path = "simulation/prove.rs"]
mod prove;
#[path = "simulation/sweeps.rs"]
mod sweeps;
#[path = "simulation/week.rs"]
mod week;

/// Weeks allocate much, on all cores.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
