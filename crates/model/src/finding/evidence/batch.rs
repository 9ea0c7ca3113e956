//! The ways in which Batch jobs and workers hang, each with its evidence.

use std::fmt;
use std::time::Duration;

use ebb_telemetry::step::StepEnd;
use ebb_telemetry::units::{CpuTime, HumanDuration};
use serde::{Deserialize, Serialize};

use crate::finding::evidence::causes::{Causes, Waiter};
use crate::finding::evidence::optional;
use crate::inventory::batch::job::JobStatus;

/// A job, worker, queue or environment without progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StuckJob {
    /// The job name; `None` if the finding is about no job.
    pub job: Option<String>,
    /// The job status; `None` if the finding is about no job.
    pub status: Option<JobStatus>,
    /// For how long it has made no progress; `None` when unknown.
    pub stuck_for: Option<Duration>,
    /// The way in which it hangs.
    pub stuck: Stuck,
}

/// A job that waits far longer for a machine than other jobs of its definition did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Queued {
    /// The time that it has waited.
    pub waited: Duration,
    /// The median waiting time of the other jobs.
    pub usual: Duration,
    /// The longest waiting time of the other jobs.
    pub longest: Duration,
    /// The number of other jobs.
    pub jobs: u32,
    /// The cause of its waiting.
    pub why: String,
}

impl fmt::Display for Queued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [waited, usual, longest] = [self.waited, self.usual, self.longest].map(HumanDuration);
        let (jobs, why) = (self.jobs, &self.why);
        write!(
            f,
            "RUNNABLE for {waited}; {jobs} other jobs of this definition waited {usual} (median), \
             at most {longest}; {why}"
        )
    }
}

/// The ways to hang.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum Stuck {
    /// RUNNING, but its task used no CPU, transferred no bytes and started no process.
    NoProgress {
        /// CPU time since its start.
        cpu: CpuTime,
        /// Number of processes that it started.
        processes: u64,
        /// The causes of its waiting since its last progress; `None` when not certain.
        #[serde(default)]
        causes: Option<Causes>,
        /// The executable with the most CPU time; `None` when none was observed.
        #[serde(default)]
        tool: Option<String>,
        /// The executable that waits in the main state; `None` when unknown.
        #[serde(default)]
        waiter: Option<Waiter>,
    },
    /// RUNNABLE, and Batch reports that it can never start with the present configuration.
    Blocked {
        /// The reason as Batch reports it.
        reason: String,
    },
    /// RUNNABLE at the head of its queue, and Batch reports no reason.
    AtHead {
        /// The resource that its queue lacks, as far as it is known.
        lacks: String,
    },
    /// STARTING, and its container does not exist yet.
    Starting {
        /// The cause of its waiting.
        at: String,
    },
    /// RUNNING for Batch, but its last process ended.
    ProcessGone {
        /// How the process ended.
        end: StepEnd,
    },
    /// Its job ended or is unknown, but its container still runs.
    Orphan {
        /// CPU time since its start.
        cpu: CpuTime,
    },
    /// The node is healthy, but its ECS agent is disconnected.
    AgentDisconnected,
    /// The health check of ECS reports that the container runtime of the worker fails.
    RuntimeImpaired,
    /// Both the agent and the probe are silent: the machine hangs, or its network is down.
    HostLost {
        /// Time since the last heartbeat of the probe.
        silent_for: Duration,
    },
    /// A machine of an environment that its ECS cluster does not list.
    NeverJoined {
        /// True if its probe sends heartbeats; `None` without a probe.
        lives: Option<bool>,
    },
    /// A queue or environment with the Batch status INVALID.
    Invalid {
        /// The reason as Batch reports it.
        reason: String,
    },
}

impl Stuck {
    /// The resource that hangs, in words.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::AgentDisconnected
            | Self::RuntimeImpaired
            | Self::HostLost { .. }
            | Self::NeverJoined { .. } => "Stuck Batch worker",
            Self::Invalid { .. } => "Invalid Batch queue or environment",
            Self::Orphan { .. } => "Orphan container",
            Self::NoProgress { .. }
            | Self::Blocked { .. }
            | Self::AtHead { .. }
            | Self::Starting { .. }
            | Self::ProcessGone { .. } => "Stuck Batch job",
        }
    }

    /// The name of the variant in JSON.
    pub const fn slug(&self) -> &'static str {
        match self {
            Self::NoProgress { .. } => "no_progress",
            Self::Blocked { .. } => "blocked",
            Self::AtHead { .. } => "at_head",
            Self::Starting { .. } => "starting",
            Self::ProcessGone { .. } => "process_gone",
            Self::Orphan { .. } => "orphan",
            Self::AgentDisconnected => "agent_disconnected",
            Self::RuntimeImpaired => "runtime_impaired",
            Self::HostLost { .. } => "host_lost",
            Self::NeverJoined { .. } => "never_joined",
            Self::Invalid { .. } => "invalid",
        }
    }
}

impl fmt::Display for StuckJob {
    #[expect(clippy::too_many_lines, reason = "one sentence for each way to hang")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.stuck_for.map(|time| HumanDuration(time).to_string());
        let time = time.as_deref().unwrap_or("an unknown time");
        match &self.stuck {
            Stuck::NoProgress {
                cpu,
                processes,
                causes,
                tool,
                waiter,
            } => {
                let noun = match processes {
                    1 => "process",
                    _ => "processes",
                };
                let causes = optional(": ", causes.as_ref());
                let waiter = optional("; ", waiter.as_ref());
                let tool = optional(", most of it in ", tool.as_ref());
                write!(
                    f,
                    "RUNNING without CPU usage, I/O or a new process for {time}{causes}{waiter}; \
                     since its start, {processes} {noun} used {cpu} of CPU{tool}"
                )
            }
            Stuck::Blocked { reason } => {
                write!(f, "RUNNABLE for {time} and cannot start: {reason}")
            }
            Stuck::AtHead { lacks } => {
                write!(f, "RUNNABLE at the head of its queue for {time}: {lacks}")
            }
            Stuck::Starting { at } => write!(f, "STARTING for {time}: {at}"),
            Stuck::ProcessGone { end } => write!(
                f,
                "RUNNING in AWS Batch, but its last process {end} {time} ago"
            ),
            Stuck::Orphan { cpu } if self.stuck_for.is_none() => write!(
                f,
                "the container still runs, but neither AWS Batch nor ECS lists its job ({cpu} of \
                 CPU since its start)"
            ),
            Stuck::Orphan { cpu } => write!(
                f,
                "the container still runs, although its job ended {time} ago ({cpu} of CPU since \
                 its start)"
            ),
            Stuck::AgentDisconnected => write!(
                f,
                "ECS agent disconnected for {time}, while the probe still sends heartbeats"
            ),
            Stuck::RuntimeImpaired => {
                write!(f, "ECS reports an impaired container runtime for {time}")
            }
            Stuck::HostLost { silent_for } => write!(
                f,
                "ECS agent disconnected for {time} and no heartbeat from the probe for {}; the \
                 instance hangs or has no network",
                HumanDuration(*silent_for)
            ),
            Stuck::NeverJoined { lives } => {
                let probe = match lives {
                    Some(true) => ", although its probe sends heartbeats",
                    Some(false) => ", and its probe sends no heartbeats",
                    None => "",
                };
                write!(
                    f,
                    "started {time} ago, but its ECS cluster does not list it{probe}"
                )
            }
            Stuck::Invalid { reason } => write!(f, "status INVALID: {reason}"),
        }
    }
}
