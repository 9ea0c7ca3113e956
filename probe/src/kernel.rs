//! What the kernel tells, in the probe's words: processes, their totals, their
//! births and ends. Loading and attaching stand in [`programs`]; nothing here
//! decides what a process belongs to.

pub mod programs;
mod record;
mod threads;
mod waits;

use std::fmt;
use std::time::Duration;

use ebb_telemetry::step::{Asked, Namespaces, TaskState};
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, CpuTime};

use crate::attribute::script::Script;
pub use programs::{KernelError, KernelHalf};

/// A process: its number, and its start, which tells it from a later process of
/// the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessKey {
    /// The process id, which the kernel calls thread group id.
    pub pid: u32,
    /// When it was forked.
    pub start: BootClock,
}

/// The kernel's id of a cgroup in the hierarchy that holds the memory controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CgroupId(pub u64);

/// Tells a socket from all others while it lives; it never leaves the probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub u64);

/// A TCP socket and what it carried since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Socket {
    /// Which.
    pub id: SocketId,
    /// Whose it is; `None` when the kernel does not say.
    pub owner: Option<ProcessKey>,
    /// The cgroup in which it was made, where cgroup v2 tells.
    pub cgroup: Option<CgroupId>,
    /// Both ends are on this machine.
    pub loopback: bool,
    /// Payload received.
    pub received: Bytes,
    /// Payload sent, each byte once.
    pub sent: Bytes,
    /// Segments sent again.
    pub retransmits: u64,
}

/// The name of a program as the kernel keeps it: at most 15 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Comm([u8; 16]);

impl Comm {
    /// The name, cut at the kernel's 15 bytes.
    pub fn new(name: &str) -> Self {
        let mut bytes = [0; 16];
        for (to, from) in bytes.iter_mut().take(15).zip(name.bytes()) {
            *to = from;
        }
        Self(bytes)
    }

    /// From the kernel's own bytes.
    pub(crate) const fn from_kernel(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&record::text(&self.0))
    }
}

/// Bytes that really went to and came from block devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskBytes {
    /// Read.
    pub read: Bytes,
    /// Written.
    pub written: Bytes,
}

/// What a process used since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// CPU time, user and system, of all its threads.
    pub cpu: CpuTime,
    /// Disk bytes; `None` when this kernel does not count them for each task.
    pub disk: Option<DiskBytes>,
}

impl Totals {
    /// Adds what another part used; bytes that are unknown add nothing.
    pub(crate) fn add(&mut self, more: &Self) {
        self.cpu = self.cpu.saturating_add(more.cpu);
        if let Some(more) = more.disk {
            let sum = self.disk.get_or_insert_default();
            sum.read = sum.read.saturating_add(more.read);
            sum.written = sum.written.saturating_add(more.written);
        }
    }
}

/// Finer counts of a process since its start, ended threads included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Finer {
    /// CPU time in its program, by the tick of the clock: right in its ratio to
    /// `system_ticks`, and not in itself.
    pub user_ticks: CpuTime,
    /// CPU time in the kernel, likewise.
    pub system_ticks: CpuTime,
    /// Switches because it waited.
    pub voluntary: u64,
    /// Switches because another was to run.
    pub involuntary: u64,
    /// Page faults that memory answered.
    pub minor_faults: u64,
    /// Page faults that waited for a disk.
    pub major_faults: u64,
    /// Time it waited for a core, without its ended threads; `None` when the
    /// kernel does not count it.
    pub run_queue: Option<Duration>,
    /// Time it waited for block devices, likewise.
    pub disk_delay: Option<Duration>,
    /// What it asked for by calls; `None` when the kernel does not count it.
    pub asked: Option<Asked>,
}

/// What a process holds in memory at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Resident {
    /// Its own pages.
    pub anon: Bytes,
    /// Pages of files.
    pub file: Bytes,
    /// Pages of shared memory.
    pub shmem: Bytes,
    /// The most that it held at once, as last noted by the kernel.
    pub high_water: Bytes,
}

impl Resident {
    /// All that is resident.
    pub fn sum(&self) -> Bytes {
        self.anon
            .saturating_add(self.file)
            .saturating_add(self.shmem)
    }

    /// The most it ever held; the kernel notes the high-water mark only when
    /// memory is given back.
    pub fn peak(&self) -> Bytes {
        self.high_water.max(self.sum())
    }
}

/// Who a process is, as every record of it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Its identity.
    pub key: ProcessKey,
    /// The process id of its parent at that moment.
    pub parent: u32,
    /// Its cgroup; `None` when the kernel has none.
    pub cgroup: Option<CgroupId>,
    /// The name of its program.
    pub comm: Comm,
}

/// Whether a task is a program or a part of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskKind {
    /// A process.
    User,
    /// A kernel thread.
    Kernel,
}

/// One process at one pass of the iterator, its threads summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskSample {
    /// Who it is.
    pub process: Process,
    /// Program or kernel thread.
    pub kind: TaskKind,
    /// True totals only if no thread ended between two reads of the pass; a
    /// later sample puts it right.
    pub totals: Totals,
    /// Its memory; `None` for kernel threads and for what has ended.
    pub resident: Option<Resident>,
    /// Finer counts; `None` where they cannot be seen.
    pub finer: Option<Finer>,
    /// What it does; `None` for kernel threads and where it cannot be seen.
    pub state: Option<TaskState>,
    /// Its threads that live.
    pub threads: u32,
    /// The number of its user; `None` where it cannot be seen.
    pub user: Option<u32>,
    /// Where it is apart from the node; `None` where that cannot be seen.
    pub namespaces: Option<Namespaces>,
}

/// What one pass tells of the processes that live.
#[derive(Debug)]
pub struct Samples {
    /// Those that may be other than they were when last told.
    pub told: Vec<TaskSample>,
    /// Process ids of all others.
    pub rested: Vec<u32>,
    /// Process ids of those that have ended and wait for their parent.
    pub zombies: Vec<u32>,
    /// Whether the pass is complete.
    pub extent: Extent,
}

/// Whether a pass contains all processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// It contains all.
    Whole,
    /// It was cut at the memory limit: missing processes may still run.
    Cut,
}

impl Samples {
    /// Of living processes only, and of all of them.
    pub const fn living(told: Vec<TaskSample>, rested: Vec<u32>) -> Self {
        Self {
            told,
            rested,
            zombies: Vec::new(),
            extent: Extent::Whole,
        }
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// By itself, with this status.
    Code(u8),
    /// By a signal.
    Signal(u8),
}

impl ExitStatus {
    /// From the kernel's code: the low seven bits are the signal, the next byte
    /// the status.
    pub const fn from_kernel(code: u32) -> Self {
        match (code & 0x7f) as u8 {
            0 => Self::Code((code >> 8) as u8),
            signal => Self::Signal(signal),
        }
    }
}

/// The folder of a Nextflow task: the last two names of its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkFolder {
    /// Two hexadecimal digits.
    pub parent: String,
    /// The other thirty.
    pub leaf: String,
}

/// What the start of a program says beside its name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Start {
    /// The work folder, if this is the start of a Nextflow task.
    pub work_folder: Option<WorkFolder>,
    /// What it runs, if it is an interpreter and was still there to be asked.
    pub script: Option<Script>,
    /// The number of its user, as the node itself counts users.
    pub user: Option<u32>,
    /// Where it is apart from the node.
    pub namespaces: Option<Namespaces>,
}

/// The name of a tool: of what an interpreter runs, or of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolName([u8; 64]);

impl ToolName {
    /// Of a program, or of the script that it runs.
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

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessEvent {
    /// A process was forked.
    Forked(Process),
    /// A process began a program.
    Executed {
        /// Who it is now.
        process: Process,
        /// What `maxrss` stood at: memory of the program before, not of this one.
        maxrss_before: Bytes,
        /// What else its start says.
        start: Start,
    },
    /// The last thread ended. Totals may lack the last slice of CPU.
    Ended {
        /// Who it was.
        process: Process,
        /// When.
        at: BootClock,
        /// How.
        status: ExitStatus,
        /// What it used so far.
        totals: Totals,
        /// The peak from its address space; `None` when the kernel had let go of
        /// that already (up to 6.12).
        peak: Option<Bytes>,
        /// The kernel's `maxrss`.
        maxrss: Bytes,
    },
    /// The process is gone and its totals are final.
    Reaped {
        /// Which.
        key: ProcessKey,
        /// When.
        at: BootClock,
        /// What it used.
        totals: Totals,
        /// The kernel's `maxrss`.
        maxrss: Bytes,
        /// Finer counts, final too.
        finer: Finer,
    },
    /// The kernel chose a victim for want of memory.
    OutOfMemory {
        /// A process or thread id.
        pid: u32,
    },
    /// A TCP socket that carried something ended.
    SocketEnded(Socket),
    /// A cgroup was made.
    CgroupMade {
        /// Its id.
        id: CgroupId,
        /// Its path below the mount.
        path: String,
    },
}
