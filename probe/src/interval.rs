//! Converts kernel events and scans to intervals. Pure. Only this module counts processes, tasks
//! and the resource use of the node.

pub(crate) mod accounting;
pub mod aggregator;
pub(crate) mod classification;
pub(crate) mod containers;
pub(crate) mod gpu;
pub(crate) mod interval_totals;
pub(crate) mod label;
pub(crate) mod network;
pub(crate) mod opt_in_detail;
pub(crate) mod opt_in_readers;
pub(crate) mod pods;
pub(crate) mod processes;
pub(crate) mod resource_usage;
pub(crate) mod sockets;
pub(crate) mod steps;
#[cfg(test)]
mod tests;

use ebb_telemetry::heartbeat::node_signals::NodeDetail;
use ebb_telemetry::heartbeat::{Coverage, Usage};
use ebb_telemetry::step::StepUsage;
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, CpuTime};

use crate::gpu::GpuInterval;

/// Number of executables in the report of a running task; the report of an ended task has all.
const TOOLS_WHILE_RUNNING: usize = 5;

/// If the time between two scans is at most this many sample periods, it counts as fully covered.
/// The counters are totals, so a late scan misses only short peaks.
const SCAN_TOLERANCE: u32 = 3;

/// The result of one interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interval {
    /// When the interval began.
    pub start: BootClock,
    /// When the interval ended.
    pub end: BootClock,
    /// Resource use of the workload.
    pub workload: Usage,
    /// Resource use of all other processes.
    pub background: Usage,
    /// The coverage of each signal.
    pub coverage: Coverage,
    /// Tasks that run at the end, with the busiest tools of each.
    pub running: Vec<StepUsage>,
    /// Further observations of the node.
    pub detail: NodeDetail,
    /// The CPU time of the GPU program, and its resident memory; `None` if there is none.
    pub gpu_program: Option<(CpuTime, Bytes)>,
}

impl Interval {
    /// Adds the GPU use, which all counts as workload.
    pub fn add_gpus(&mut self, gpus: GpuInterval) {
        self.workload.gpu = gpus.busiest();
        self.coverage.gpu = gpus.coverage;
        self.detail.gpu_restarts = gpus.restarts;
        self.detail.gpus = gpus.gpus;
        self.gpu_program = gpus.cost;
    }

    /// Adds CPU time that no sample contained to the workload. This can hide an idle node, but it
    /// never reports a busy node as idle.
    pub fn add_unsampled_cpu(&mut self, node_cpu: Option<CpuTime>) {
        if let (Some(node_cpu), Some(workload), Some(background)) =
            (node_cpu, self.workload.cpu, self.background.cpu)
        {
            let sampled_cpu = workload.saturating_add(background);
            self.workload.cpu =
                Some(workload.saturating_add(CpuTime(node_cpu.0.saturating_sub(sampled_cpu.0))));
        }
    }
}
