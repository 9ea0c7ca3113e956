//! Single tasks with their use over time, for the pages about a run, a node or a step. A sweep
//! writes them into documents next to the report; the report itself contains only sums of tasks.

use std::collections::BTreeMap;

use ebb_telemetry::identity::NodeId;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::{StepEnd, StepKind};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::report::workflow_runs::TaskRuntime;

/// The tasks of one run, node or step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskList {
    /// [`TaskList::SCHEMA`].
    pub schema: String,
    /// The sweep that wrote the list.
    pub at: Timestamp,
    /// Simulated if at least one task is simulated.
    pub origin: Origin,
    /// The tasks by start, then by id.
    pub tasks: Vec<TaskDetail>,
    /// Number of tasks that a limit left out; the newest tasks stay.
    pub left_out: usize,
}

impl TaskList {
    /// The value of [`TaskList::schema`].
    pub const SCHEMA: &'static str = "ebb.tasks/1";
}

/// One execution of a step on one node. `None` is unknown; it is not zero.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskDetail {
    /// `NODE/BOOT/KEY`, with the first eight characters of the boot id.
    pub id: String,
    /// The name of its step.
    pub step: String,
    /// The name of the task itself, as the probe reads it.
    pub name: String,
    /// The kind of the task.
    pub kind: StepKind,
    /// The engine, scheduler or runtime.
    pub runtime: TaskRuntime,
    /// The run; `None` for an unassigned task.
    pub run: Option<String>,
    /// The pipeline.
    pub pipeline: Option<String>,
    /// The sample.
    pub sample: Option<String>,
    /// The node that it runs on.
    pub node: NodeId,
    /// The Batch job.
    pub job: Option<String>,
    /// The number of the attempt, from 1.
    pub attempt: Option<u32>,
    /// The numeric user id of its first process.
    pub user_id: Option<u32>,
    /// When its job was submitted; `None` without a job.
    pub queued_at: Option<Timestamp>,
    /// When its first process started.
    pub started_at: Timestamp,
    /// When it was last observed; the end, if it ended.
    pub observed_at: Timestamp,
    /// When it last made progress.
    pub last_progress_at: Timestamp,
    /// Whether and how it ended.
    pub end: StepEnd,
    /// The median duration of the successful tasks of its step; `None` without enough of them.
    pub typical_seconds: Option<f64>,
    /// Requested cores.
    pub requested_cores: Option<f64>,
    /// Requested memory.
    pub requested_memory_bytes: Option<u64>,
    /// The most cores that it kept busy over one sample interval.
    pub peak_cores: Option<f64>,
    /// The most memory that it used at once.
    pub peak_memory_bytes: Option<u64>,
    /// CPU time.
    pub cpu_seconds: f64,
    /// Bytes read from block devices.
    pub disk_read_bytes: Option<u64>,
    /// Bytes written to block devices.
    pub disk_written_bytes: Option<u64>,
    /// Bytes received over TCP.
    pub network_received_bytes: Option<u64>,
    /// Bytes sent over TCP.
    pub network_sent_bytes: Option<u64>,
    /// GPU time while busy, over all devices.
    pub gpu_busy_seconds: Option<f64>,
    /// Time in each state in seconds, by the name of the state; empty if states cannot be observed.
    pub states: BTreeMap<String, f64>,
    /// Its executables, the busiest first.
    pub tools: Vec<ToolDetail>,
    /// Its use over time, the oldest point first; empty for a task that no sweep observed while it
    /// ran.
    pub points: Vec<UsagePoint>,
    /// Ids of the findings about its step or itself.
    pub findings: Vec<String>,
}

/// One executable of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolDetail {
    /// Base name of the executable.
    pub name: String,
    /// Number of processes.
    pub processes: u64,
    /// CPU time.
    pub cpu_seconds: f64,
    /// The greatest resident memory of one process.
    pub peak_memory_bytes: Option<u64>,
    /// Bytes read from and written to block devices.
    pub disk_bytes: Option<u64>,
    /// From the start of the task to the start of the first process.
    pub started_after_seconds: Option<f64>,
    /// From the start of the task to the latest end of a process.
    pub ended_after_seconds: Option<f64>,
    /// Number of processes that failed; `None` if starts and ends are unknown.
    pub failed: Option<u64>,
    /// Number of processes that the kernel killed because of an out-of-memory condition; `None`
    /// as for `failed`.
    pub oom_kills: Option<u64>,
}

/// Totals of a task from its start to one time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UsagePoint {
    /// The time.
    pub at: Timestamp,
    /// CPU time so far.
    pub cpu_seconds: f64,
    /// Memory in use at this time.
    pub memory_bytes: Option<u64>,
    /// Bytes read from and written to block devices so far.
    pub disk_bytes: Option<u64>,
    /// Bytes over TCP so far.
    pub network_bytes: Option<u64>,
    /// GPU time while busy so far.
    pub gpu_busy_seconds: Option<f64>,
}
