//! Data from the kernel in the probe's types: processes, their totals, their starts and ends.
//! [`programs`] loads and attaches the eBPF programs; other modules classify processes.

mod bindings;
pub mod engine_task;
pub mod programs;
mod record;
pub mod script;
pub mod snakemake;
pub mod task_header;
mod threads;
mod wait_classifier;

use std::fmt;
use std::time::Duration;

use ebb_telemetry::step::{Namespaces, PeerScope, SyscallIo, TaskState};
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, CpuTime};

use crate::kernel::engine_task::EngineTask;
use crate::kernel::script::Script;
use crate::kernel::snakemake::Snakemake;
use crate::kernel::task_header::TaskHeader;
pub use programs::{KernelError, KernelHalf};

/// A process: its number and its start time. The start time distinguishes it from a later process
/// with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessKey {
    /// The process id, which the kernel calls thread group id.
    pub pid: u32,
    /// When the process was forked.
    pub start: BootClock,
}

/// The kernel's id of a cgroup in the hierarchy with the memory controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CgroupId(pub u64);

/// Identifies a socket while it exists; the probe never sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub u64);

/// A TCP socket and its traffic since it was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Socket {
    /// The identity of the socket.
    pub id: SocketId,
    /// The owning process; `None` if the kernel does not report it.
    pub owner: Option<ProcessKey>,
    /// The cgroup in which it was created; `None` without cgroup v2.
    pub cgroup: Option<CgroupId>,
    /// Both ends are on this machine.
    pub loopback: bool,
    /// Bytes of payload received.
    pub received: Bytes,
    /// Bytes of payload sent, without retransmissions.
    pub sent: Bytes,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// The port of the other end.
    pub peer_port: u16,
    /// The port of this end; 0 if the kernel no longer knows it.
    pub own_port: u16,
    /// The kind of the other end's address.
    pub scope: PeerScope,
}

/// The name of a program in the kernel: at most 15 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Comm([u8; 16]);

impl Comm {
    /// The name, cut at 15 bytes.
    pub fn new(name: &str) -> Self {
        let mut bytes = [0; 16];
        for (to, from) in bytes.iter_mut().take(15).zip(name.bytes()) {
            *to = from;
        }
        Self(bytes)
    }

    /// Whether the name begins with this text.
    pub(crate) fn starts_with(&self, text: &str) -> bool {
        self.0.starts_with(text.as_bytes())
    }

    /// From the bytes of the kernel.
    pub(crate) const fn from_kernel(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&record::text(&self.0))
    }
}

/// Bytes transferred to and from block devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskBytes {
    /// Bytes read.
    pub read: Bytes,
    /// Bytes written.
    pub written: Bytes,
}

/// Resource use of a process since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// CPU time, user and system, of all its threads.
    pub cpu: CpuTime,
    /// Disk bytes; `None` if this kernel does not count them for each task.
    pub disk: Option<DiskBytes>,
}

impl Totals {
    /// Adds other totals; unknown bytes add nothing.
    pub(crate) fn add(&mut self, more: &Self) {
        self.cpu = self.cpu.saturating_add(more.cpu);
        if let Some(more) = more.disk {
            let sum = self.disk.get_or_insert_default();
            sum.read = sum.read.saturating_add(more.read);
            sum.written = sum.written.saturating_add(more.written);
        }
    }
}

/// More counters of a process since its start, including ended threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TaskCounters {
    /// CPU time in user mode, measured by clock ticks. Only its ratio to `system_ticks` is
    /// accurate.
    pub user_ticks: CpuTime,
    /// CPU time in kernel mode, measured by clock ticks.
    pub system_ticks: CpuTime,
    /// Voluntary context switches.
    pub voluntary: u64,
    /// Involuntary context switches.
    pub involuntary: u64,
    /// Page faults without disk access.
    pub minor_faults: u64,
    /// Page faults with disk access.
    pub major_faults: u64,
    /// Time in which it waited for a core, without ended threads; `None` if the kernel does not
    /// count it.
    pub run_queue: Option<Duration>,
    /// Time in which it waited for block devices; `None` if the kernel does not count it.
    pub disk_delay: Option<Duration>,
    /// Bytes and calls of `read` and `write`; `None` if the kernel does not count them.
    pub syscall_io: Option<SyscallIo>,
}

/// Memory of a process at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Resident {
    /// Anonymous pages.
    pub anon: Bytes,
    /// File pages.
    pub file: Bytes,
    /// Shared memory pages.
    pub shmem: Bytes,
    /// The kernel's high-water mark.
    pub high_water: Bytes,
}

impl Resident {
    /// All resident memory.
    pub fn sum(&self) -> Bytes {
        self.anon
            .saturating_add(self.file)
            .saturating_add(self.shmem)
    }

    /// The peak memory. The kernel updates the high-water mark only when memory is released.
    pub fn peak(&self) -> Bytes {
        self.high_water.max(self.sum())
    }
}

/// Identity of a process, as in every record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// The key.
    pub key: ProcessKey,
    /// The process id of its parent at the time of the record.
    pub parent: u32,
    /// Its cgroup; `None` if the kernel reports none.
    pub cgroup: Option<CgroupId>,
    /// The name of its program.
    pub comm: Comm,
}

/// Whether a task is a user process or a kernel thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskKind {
    /// A user process.
    User,
    /// A kernel thread.
    Kernel,
}

/// One process at one scan, summed over its threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskSample {
    /// Identity of the process.
    pub process: Process,
    /// User process or kernel thread.
    pub kind: TaskKind,
    /// Totals. They are exact only if no thread ended during the scan; a later sample corrects
    /// them.
    pub totals: Totals,
    /// Its memory; `None` for kernel threads and ended processes.
    pub resident: Option<Resident>,
    /// More counters; `None` if they cannot be read.
    pub counters: Option<TaskCounters>,
    /// Its state; `None` for kernel threads and if it cannot be read.
    pub state: Option<TaskState>,
    /// Number of live threads.
    pub threads: u32,
    /// Its numeric user id; `None` if it cannot be read.
    pub user: Option<u32>,
    /// Namespaces that differ from the node's; `None` if they cannot be read.
    pub namespaces: Option<Namespaces>,
}

/// The result of one scan of the live processes.
#[derive(Debug)]
pub struct Samples {
    /// Processes that may have changed since the previous scan.
    pub changed: Vec<TaskSample>,
    /// Process ids of unchanged processes.
    pub unchanged: Vec<u32>,
    /// Process ids of zombies: ended processes that their parent has not reaped.
    pub zombies: Vec<u32>,
    /// Whether the scan is complete.
    pub extent: Extent,
}

/// The open TCP sockets. A socket can be repeated for each process that has it.
#[derive(Debug)]
pub struct SocketList {
    /// The sockets.
    pub open: Vec<Socket>,
    /// Whether the list is complete.
    pub extent: Extent,
}

/// Whether a scan contains all processes, a list all sockets, or a drain all events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// It contains all.
    Complete,
    /// It was cut at its limit: missing processes may still run, missing sockets may be open, and
    /// missing events still wait.
    Truncated,
}

impl Samples {
    /// A complete scan with live processes only.
    pub const fn living(changed: Vec<TaskSample>, unchanged: Vec<u32>) -> Self {
        Self {
            changed,
            unchanged,
            zombies: Vec::new(),
            extent: Extent::Complete,
        }
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// It exited with this status.
    Code(u8),
    /// A signal ended it.
    Signal(u8),
}

impl ExitStatus {
    /// From the kernel's exit code: the low seven bits are the signal, the next byte is the status.
    pub const fn from_kernel(code: u32) -> Self {
        match (code & 0x7f) as u8 {
            0 => Self::Code((code >> 8) as u8),
            signal => Self::Signal(signal),
        }
    }
}

/// The work directory of a Nextflow task: the last two segments of its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkFolder {
    /// Two hexadecimal digits.
    pub parent: String,
    /// The other thirty hexadecimal digits.
    pub leaf: String,
}

/// Data of a program start in addition to its name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Start {
    /// The work directory; `None` if this is not the start of a Nextflow task.
    pub work_folder: Option<WorkFolder>,
    /// The script; `None` if the program is not an interpreter or the process had already ended.
    pub script: Option<Script>,
    /// The work of `python -m snakemake`; `None` for any other program.
    pub snakemake: Option<Snakemake>,
    /// The task that the arguments name in another form; `None` for any other process, and if the
    /// process had already ended.
    pub engine_task: Option<Box<EngineTask>>,
    /// The name of a task of Nextflow; `None` unless the configuration enables it.
    pub task_header: Option<TaskHeader>,
    /// The numeric user id on the node.
    pub user: Option<u32>,
    /// Namespaces that differ from the node's.
    pub namespaces: Option<Namespaces>,
}

/// The name of a tool: the script of an interpreter, or the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ToolName([u8; 64]);

impl ToolName {
    /// The name of the script, or else of the program.
    pub fn new(program: Comm, script: Option<&Script>) -> Self {
        let mut name = [0; 64];
        let from = script.map_or(&program.0[..], |script| script.as_str().as_bytes());
        name[..from.len()].copy_from_slice(from);
        Self(name)
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&record::text(&self.0))
    }
}

/// An event of a process, socket or cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessEvent {
    /// A process was forked.
    Forked(Process),
    /// A process executed a program.
    Executed {
        /// The identity after the exec.
        process: Process,
        /// `maxrss` at the exec, which is the memory of the previous program.
        maxrss_before: Bytes,
        /// Further data of the start.
        start: Start,
    },
    /// The last thread ended. Totals may lack the last CPU time slice.
    Ended {
        /// The process.
        process: Process,
        /// The time.
        at: BootClock,
        /// The exit status.
        status: ExitStatus,
        /// The resource use so far.
        totals: Totals,
        /// The peak memory from its address space; `None` if the kernel had already released that
        /// (up to Linux 6.12).
        peak: Option<Bytes>,
        /// The kernel's `maxrss`.
        maxrss: Bytes,
    },
    /// The process was released and its totals are final. The event has no time.
    Reaped {
        /// The process.
        key: ProcessKey,
        /// The resource use.
        totals: Totals,
        /// The kernel's `maxrss`.
        maxrss: Bytes,
        /// More counters, which are final too.
        counters: TaskCounters,
    },
    /// The out-of-memory killer chose a victim.
    OutOfMemory {
        /// A process or thread id.
        pid: u32,
    },
    /// A TCP socket with traffic ended.
    SocketEnded(Socket),
    /// A cgroup was created.
    CgroupMade {
        /// Its id.
        id: CgroupId,
        /// Its path below the mount.
        path: String,
    },
}
