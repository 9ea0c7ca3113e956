//! The waste rules: each has one file, one variant of `FindingKind` and one table of test cases. A
//! rule returns its findings, and the resources that it could not evaluate with the reason.

pub mod batch;
pub mod node;
pub(crate) mod other_findings;
pub mod purchasing;
pub mod remedy;
pub mod spend;
pub mod step;
pub mod storage;
pub mod trace;
pub mod verdict;

use crate::facts::Facts;
use crate::rules::batch::long_queued;
use crate::rules::node::{gpu_idle, no_probe, old_generation, underutilized};
use crate::rules::node::{idle, off_hours};
use crate::rules::purchasing::commitment;
use crate::rules::storage::{
    gp2_volume, idle_address, old_snapshot, stopped_volume, unattached_volume,
};
use crate::rules::verdict::Verdict;

/// Rules that need the facts alone.
pub(crate) const RULES: [fn(&Facts<'_>) -> Vec<Verdict>; 14] = [
    idle::evaluate,
    batch::evaluate,
    long_queued::evaluate,
    underutilized::evaluate,
    no_probe::evaluate,
    off_hours::evaluate,
    gpu_idle::evaluate,
    old_generation::evaluate,
    old_snapshot::evaluate,
    commitment::evaluate,
    unattached_volume::evaluate,
    stopped_volume::evaluate,
    gp2_volume::evaluate,
    idle_address::evaluate,
];
