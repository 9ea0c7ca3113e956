//! Why attempts of tasks fail, and what that costs in time.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use ebb_telemetry::step::StepEnd;
use serde::{Deserialize, Serialize};

/// SIGKILL, by which the kernel and container platforms end what has too little memory.
const KILLED: i64 = 137;

/// SIGTERM, by which schedulers end what they take back or what ran too long.
const TERMINATED: i64 = 143;

/// A connection was reset. Source: nf-core's list of exit codes that are worth a retry.
const CONNECTION_RESET: i64 = 104;

/// Signal USR2, which Nextflow has Slurm send ahead of a time limit, and LSF and Grid Engine
/// send at theirs. Source: `--signal B:USR2@30` in Nextflow's Slurm executor; bsub(1) on -W.
const TIME_LIMIT: i64 = 140;

/// Fusion's file system failed. Source: as for 104.
const STORAGE_FAILED: i64 = 175;

/// What Nextflow writes where a task left no exit status, as on a spot machine that was
/// taken back. Source: `Integer.MAX_VALUE` in Nextflow's task handlers.
const NO_EXIT_STATUS: i64 = 2_147_483_647;

/// Why an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// It was killed for want of memory: the kernel or the scheduler says so, or it ended
    /// by signal 9 and not because its machine was lost.
    OutOfMemory,
    /// Its tool failed by itself, and the same task ended well with more memory.
    SuspectedOutOfMemory,
    /// Signal 9, and the same task ended well with no more memory: somebody else killed it.
    Killed,
    /// Signal 15: the scheduler ended it.
    Terminated,
    /// It ran longer than it was allowed to.
    TimeLimit,
    /// A connection was reset.
    ConnectionReset,
    /// The file system that holds its files failed.
    StorageFailed,
    /// It left no exit status: its machine was lost or taken back.
    MachineLost,
    /// A person or its engine ended it.
    Cancelled,
    /// Its tool failed.
    Error,
}

impl FailureKind {
    /// By the exit status of a task that failed, as engines record it.
    pub fn of_exit_status(status: Option<i64>) -> Self {
        match status {
            Some(KILLED) => Self::OutOfMemory,
            Some(TERMINATED) => Self::Terminated,
            Some(TIME_LIMIT) => Self::TimeLimit,
            Some(CONNECTION_RESET) => Self::ConnectionReset,
            Some(STORAGE_FAILED) => Self::StorageFailed,
            Some(NO_EXIT_STATUS) => Self::MachineLost,
            _ => Self::Error,
        }
    }

    /// By how a step ended that a probe saw; `None` where it did not fail.
    pub fn of_end(end: StepEnd) -> Option<Self> {
        match end {
            StepEnd::Running | StepEnd::Exited(0) | StepEnd::Unknown => None,
            StepEnd::OutOfMemory => Some(Self::OutOfMemory),
            // The probe sees the kernel's own kills; another SIGKILL was somebody else's.
            StepEnd::Signalled(9) => Some(Self::Killed),
            StepEnd::Exited(status) if i64::from(status) == KILLED => Some(Self::Killed),
            StepEnd::Signalled(15) => Some(Self::Terminated),
            StepEnd::Signalled(_) => Some(Self::Error),
            StepEnd::Exited(status) => Some(Self::of_exit_status(Some(status.into()))),
        }
    }

    /// Whether more memory would have helped, for certain or likely.
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
            Self::Cancelled => "cancelled",
            Self::Error => "tool error",
        })
    }
}

/// Attempts of one step that failed in one way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FailureCount {
    /// Why.
    pub kind: FailureKind,
    /// The exit status; `None` where there was none.
    pub exit_status: Option<i64>,
    /// How many attempts.
    pub attempts: u32,
    /// Of those, attempts after which the task was tried again.
    #[serde(default)]
    pub retried: u32,
    /// How long they ran together.
    pub lost_seconds: u64,
}

impl FailureCount {
    /// Of one attempt.
    pub fn of(kind: FailureKind, exit_status: Option<i64>, wall: Duration) -> Self {
        Self {
            kind,
            exit_status: exit_status.filter(|status| *status != NO_EXIT_STATUS),
            attempts: 1,
            retried: 0,
            lost_seconds: wall.as_secs(),
        }
    }

    /// Adds up failures of one kind and exit status, the most time lost first.
    pub fn merge<'a>(counts: impl IntoIterator<Item = &'a Self>) -> Vec<Self> {
        let mut sums: BTreeMap<(FailureKind, Option<i64>), Self> = BTreeMap::new();
        for count in counts {
            sums.entry((count.kind, count.exit_status))
                .and_modify(|sum| {
                    sum.attempts = sum.attempts.saturating_add(count.attempts);
                    sum.retried = sum.retried.saturating_add(count.retried);
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
