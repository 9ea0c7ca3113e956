//! Causes of failed attempts, and the run time lost by them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use ebb_telemetry::step::StepEnd;
use serde::{Deserialize, Serialize};

/// Exit status of SIGKILL, which the kernel and container platforms send when memory runs out.
const KILLED: i64 = 137;

/// Exit status of SIGTERM, which schedulers send to preempt a task, or when a task exceeds its time
/// limit.
const TERMINATED: i64 = 143;

/// A connection was reset. Source: nf-core's list of exit codes that are worth a retry.
const CONNECTION_RESET: i64 = 104;

/// Exit status of SIGUSR2. Slurm sends the signal before a time limit if Nextflow requests it; LSF
/// and Grid Engine send it at the limit. Source: `--signal B:USR2@30` in Nextflow's Slurm executor;
/// bsub(1) on -W.
const TIME_LIMIT: i64 = 140;

/// The file system of Fusion failed. Source: as for 104.
const STORAGE_FAILED: i64 = 175;

/// The value that Nextflow records for a task without an exit status, as on an interrupted spot
/// machine. Source: `Integer.MAX_VALUE` in Nextflow's task handlers.
const NO_EXIT_STATUS: i64 = 2_147_483_647;

/// The cause of a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The attempt ran out of memory. The kernel or the scheduler reports it, or signal 9 ended the
    /// attempt although its machine was not lost.
    OutOfMemory,
    /// Its tool failed, and the same task succeeded later with more memory.
    SuspectedOutOfMemory,
    /// Another process sent signal 9. The task used far less than its request, or succeeded later
    /// without more memory, or the scheduler did not report that memory ran out.
    Killed,
    /// Signal 15: the scheduler terminated it.
    Terminated,
    /// It exceeded its time limit.
    TimeLimit,
    /// A connection was reset.
    ConnectionReset,
    /// The file system with its files failed.
    StorageFailed,
    /// Its machine failed, or was taken from it.
    MachineLost,
    /// It left no exit status: its machine was lost or interrupted, or it did not begin.
    NoExitStatus,
    /// A user or the engine cancelled it.
    Cancelled,
    /// Its tool failed.
    Error,
}

impl FailureKind {
    /// The cause by the exit status of a failed task, as engines record it.
    pub fn of_exit_status(status: Option<i64>) -> Self {
        match status {
            Some(KILLED) => Self::OutOfMemory,
            Some(TERMINATED) => Self::Terminated,
            Some(TIME_LIMIT) => Self::TimeLimit,
            Some(CONNECTION_RESET) => Self::ConnectionReset,
            Some(STORAGE_FAILED) => Self::StorageFailed,
            Some(NO_EXIT_STATUS) => Self::NoExitStatus,
            _ => Self::Error,
        }
    }

    /// The cause by how a task ended that a probe observed; `None` if it did not fail.
    pub fn of_end(end: StepEnd) -> Option<Self> {
        match end {
            StepEnd::Running | StepEnd::Exited(0) | StepEnd::Unknown => None,
            StepEnd::OutOfMemory => Some(Self::OutOfMemory),
            // The probe sees OOM kills of the kernel; any other SIGKILL came from another process.
            StepEnd::Signalled(9) => Some(Self::Killed),
            StepEnd::Exited(status) if i64::from(status) == KILLED => Some(Self::Killed),
            StepEnd::Signalled(15) => Some(Self::Terminated),
            StepEnd::Signalled(_) => Some(Self::Error),
            StepEnd::Exited(status) => Some(Self::of_exit_status(Some(status.into()))),
        }
    }

    /// Whether more memory would have helped, certainly or probably.
    pub fn is_out_of_memory(self) -> bool {
        matches!(self, Self::OutOfMemory | Self::SuspectedOutOfMemory)
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::OutOfMemory => "out of memory",
            Self::SuspectedOutOfMemory => "probably out of memory",
            Self::Killed => "killed",
            Self::Terminated => "terminated",
            Self::TimeLimit => "time limit reached",
            Self::ConnectionReset => "connection reset",
            Self::StorageFailed => "storage failed",
            Self::MachineLost => "machine lost",
            Self::NoExitStatus => "no exit status",
            Self::Cancelled => "cancelled",
            Self::Error => "tool error",
        })
    }
}

/// Failed attempts of one step with the same cause.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailureCount {
    /// The cause.
    pub kind: FailureKind,
    /// The exit status; `None` where there was none.
    pub exit_status: Option<i64>,
    /// Number of attempts.
    pub attempts: u32,
    /// Number of these attempts after which the task was retried.
    #[serde(default)]
    pub retried: u32,
    /// Number of these attempts whose failure the engine ignored.
    #[serde(default)]
    pub ignored: u32,
    /// Total run time of the attempts.
    pub lost_seconds: u64,
}

impl FailureCount {
    /// A single failed attempt.
    pub fn new(kind: FailureKind, exit_status: Option<i64>, wall: Duration) -> Self {
        Self {
            kind,
            exit_status: exit_status.filter(|status| *status != NO_EXIT_STATUS),
            attempts: 1,
            retried: 0,
            ignored: 0,
            lost_seconds: wall.as_secs(),
        }
    }

    /// Sums failures by kind and exit status, the most lost time first.
    pub fn merge<'a>(counts: impl IntoIterator<Item = &'a Self>) -> Vec<Self> {
        let mut sums: BTreeMap<(FailureKind, Option<i64>), Self> = BTreeMap::new();
        for count in counts {
            sums.entry((count.kind, count.exit_status))
                .and_modify(|sum| {
                    sum.attempts = sum.attempts.saturating_add(count.attempts);
                    sum.retried = sum.retried.saturating_add(count.retried);
                    sum.ignored = sum.ignored.saturating_add(count.ignored);
                    sum.lost_seconds = sum.lost_seconds.saturating_add(count.lost_seconds);
                })
                .or_insert_with(|| count.clone());
        }
        let mut all: Vec<Self> = sums.into_values().collect();
        all.sort_by(|a, b| (b.lost_seconds, a).cmp(&(a.lost_seconds, b)));
        all
    }
}

impl fmt::Display for FailureCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.attempts, self.kind)?;
        match self.exit_status {
            Some(status) => write!(f, " (exit {status})"),
            None => Ok(()),
        }
    }
}
