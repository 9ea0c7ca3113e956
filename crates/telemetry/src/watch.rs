//! The lines of JSON on the watch socket of the probe, for users of its machine. Amounts are totals,
//! so that a reader derives rates from any two snapshots. Arguments, files and labels are not among them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::identity::NodeId;
use crate::step::{StepId, TaskState};
use crate::time::BootClock;
use crate::units::{Bytes, CpuTime, MilliCores, Share};

/// The schema of [`WatchSnapshot`] and [`WatchRefusal`]. A new kind of task or state changes it too.
pub const SCHEMA: &str = "ebb.watch/1";

/// The path of the socket with the probe's unit of systemd.
pub const USUAL_PATH: &str = "/run/ebb/watch.sock";

/// Maximum number of tasks in a snapshot.
pub const MAX_TASKS: usize = 200;

/// Maximum bytes of a line, with its end.
pub const MAX_LINE_BYTES: usize = 1 << 20;

/// The tasks that a user may see, at one scan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchSnapshot {
    /// [`SCHEMA`].
    pub schema: String,
    /// The name of the node.
    pub node: NodeId,
    /// The tasks that the user may see.
    pub scope: WatchScope,
    /// The time of the scan.
    pub at_ns: BootClock,
    /// Totals of the node.
    pub totals: WatchTotals,
    /// Running tasks, at most [`MAX_TASKS`].
    pub tasks: Vec<WatchTask>,
    /// Running tasks of the scope that are not in the snapshot.
    pub tasks_left_out: u64,
    /// Why the probe samples procfs and misses short processes; `None` if it observes all.
    pub sampled_because: Option<String>,
    /// Clients of the socket.
    pub clients: WatchClients,
}

/// The tasks that a user may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WatchScope {
    /// All tasks of the node.
    All,
    /// Tasks whose first process has the id of the user.
    Own,
}

/// Totals of a node; `None` if the kernel does not report the value.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WatchTotals {
    /// Cores online.
    pub milli_cores: MilliCores,
    /// CPU time of all processes since boot.
    pub cpu_ns: Option<CpuTime>,
    /// Memory.
    pub memory_bytes: Bytes,
    /// Memory in use: without the memory that is available to programs.
    pub memory_used_bytes: Option<Bytes>,
    /// Bytes read from block devices since boot.
    pub disk_read_bytes: Option<Bytes>,
    /// Bytes written to block devices since boot.
    pub disk_written_bytes: Option<Bytes>,
    /// Bytes received at physical interfaces since boot.
    pub network_received_bytes: Option<Bytes>,
    /// Bytes sent at physical interfaces since boot.
    pub network_sent_bytes: Option<Bytes>,
    /// The GPUs at the last scan; empty if there is none.
    pub gpus: Vec<WatchGpu>,
}

/// One GPU; `None` if the driver does not report the value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchGpu {
    /// The driver's number for the device.
    pub number: u32,
    /// The model name.
    pub model: String,
    /// The share of time in which it computed since the previous scan, in parts per million.
    pub busy_ppm: Option<Share>,
    /// Memory in use.
    pub memory_used_bytes: Option<Bytes>,
    /// Memory.
    pub memory_bytes: Option<Bytes>,
}

/// A running task with its totals since its start; `None` if the value is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchTask {
    /// Kind and key.
    pub id: StepId,
    /// The name of its step, or its own name.
    pub name: String,
    /// The user id of its first process.
    pub user: Option<u32>,
    /// When its first process started.
    pub started_ns: BootClock,
    /// When it last used CPU, transferred bytes or started a process.
    pub last_progress_ns: BootClock,
    /// Number of processes started.
    pub processes: u64,
    /// CPU time.
    pub cpu_ns: CpuTime,
    /// Cores that its cgroup may use.
    pub requested_milli_cores: Option<MilliCores>,
    /// Memory at the scan.
    pub memory_bytes: Option<Bytes>,
    /// The most memory at once.
    pub peak_memory_bytes: Option<Bytes>,
    /// Memory that its cgroup may use.
    pub requested_memory_bytes: Option<Bytes>,
    /// Bytes read from block devices.
    pub disk_read_bytes: Option<Bytes>,
    /// Bytes written to block devices.
    pub disk_written_bytes: Option<Bytes>,
    /// Payload that its TCP sockets received.
    pub network_received_bytes: Option<Bytes>,
    /// Payload that its TCP sockets sent.
    pub network_sent_bytes: Option<Bytes>,
    /// Number of scans that found it in each state; empty if states cannot be observed.
    pub state_samples: BTreeMap<TaskState, u64>,
    /// Its use of GPUs; `None` if it used none.
    pub gpu: Option<WatchTaskGpu>,
    /// The executables with the most CPU time.
    pub tools: Vec<WatchTool>,
}

/// GPU use of a task since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchTaskGpu {
    /// The most devices at one scan.
    pub devices: u32,
    /// Device time in which devices computed for it.
    pub busy_ns: Option<u64>,
    /// The most device memory at one scan.
    pub peak_memory_bytes: Option<Bytes>,
}

/// One executable of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchTool {
    /// Base name.
    pub name: String,
    /// Number of processes started.
    pub processes: u64,
    /// CPU time.
    pub cpu_ns: CpuTime,
    /// The most memory of one process.
    pub peak_memory_bytes: Option<Bytes>,
}

/// Clients of the socket since the probe started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WatchClients {
    /// Connected now.
    pub connected: u64,
    /// Refused because of a limit.
    pub refused: u64,
    /// Disconnected because they did not read in time, or sent something.
    pub dropped: u64,
}

/// The only line of a connection that the probe refuses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchRefusal {
    /// [`SCHEMA`].
    pub schema: String,
    /// The reason.
    pub refused: String,
}
