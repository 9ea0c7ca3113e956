//! Folds what the kernel tells into what one interval was: pure, and the only
//! place where processes, steps and the node's use are counted.

pub(crate) mod accounting;
pub mod aggregator;
pub(crate) mod detail;
pub(crate) mod gpu;
pub(crate) mod label;
pub(crate) mod network;
pub(crate) mod opened;
pub(crate) mod opt_in_detail;
pub(crate) mod placing;
pub(crate) mod pods;
pub(crate) mod processes;
pub(crate) mod sockets;
pub(crate) mod steps;
pub(crate) mod tally;
#[cfg(test)]
mod tests;

use ebb_telemetry::heartbeat::node_signals::NodeDetail;
use ebb_telemetry::heartbeat::{Coverage, Usage};
use ebb_telemetry::step::StepUsage;
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::CpuTime;

use crate::gpu::GpuInterval;

/// Executables named for a step that still runs; its end names them all.
const TOOLS_WHILE_RUNNING: usize = 5;

/// A time between two passes up to this many sample periods was seen whole: the
/// counters are totals, so a late pass misses nothing but short peaks.
const PASS_TOLERANCE: u32 = 3;

/// What one interval was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interval {
    /// When it began.
    pub start: BootClock,
    /// When it ended.
    pub end: BootClock,
    /// What the workload used.
    pub workload: Usage,
    /// What all else used.
    pub background: Usage,
    /// How much was seen.
    pub coverage: Coverage,
    /// Steps that run at the end, the busiest tools of each.
    pub running: Vec<StepUsage>,
    /// What else was seen of the node.
    pub detail: NodeDetail,
}

impl Interval {
    /// Adds what the GPUs did. All of it counts as the workload's.
    pub fn add_gpus(&mut self, seen: GpuInterval) {
        self.workload.gpu = seen.busiest();
        self.coverage.gpu = seen.seen;
        self.detail.gpu_restarts = seen.restarts;
        self.detail.gpus = seen.gpus;
    }

    /// Takes for the workload's what all tasks used and no sample saw: that can hide
    /// an idle node, and cannot call a busy one idle.
    pub fn add_unseen(&mut self, all: Option<CpuTime>) {
        if let (Some(all), Some(work), Some(rest)) = (all, self.workload.cpu, self.background.cpu) {
            let seen = work.saturating_add(rest);
            self.workload.cpu = Some(work.saturating_add(CpuTime(all.0.saturating_sub(seen.0))));
        }
    }
}
