//! The ways to be stuck in Batch, each with what shows it.

use std::fmt;
use std::time::Duration;

use ebb_telemetry::step::StepEnd;
use ebb_telemetry::units::{CpuTime, Spoken};
use serde::{Deserialize, Serialize};

use crate::finding::evidence::causes::Causes;
use crate::inventory::batch::job::JobStatus;

/// A job, worker, queue or environment gets nowhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StuckJob {
    /// The job's name; `None` where it is about no job.
    pub job: Option<String>,
    /// How the job stands.
    pub status: Option<JobStatus>,
    /// For how long.
    pub stuck_for: Option<Duration>,
    /// In which way.
    pub stuck: Stuck,
}

/// A job waits far longer for a machine than others of its definition did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    /// For how long it has.
    pub waited: Duration,
    /// The middle wait of the others.
    pub usual: Duration,
    /// The longest of them.
    pub longest: Duration,
    /// How many they are.
    pub jobs: u32,
    /// What it waits for.
    pub why: String,
}

impl fmt::Display for Queued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [waited, usual, longest] = [self.waited, self.usual, self.longest].map(Spoken);
        let (jobs, why) = (self.jobs, &self.why);
        write!(
            f,
            "RUNNABLE for {waited}, {jobs} others of its definition waited {usual}, at most \
             {longest}: {why}"
        )
    }
}

/// The ways to be stuck.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum Stuck {
    /// RUNNING, and its step used no CPU, moved no bytes, started nothing.
    NoProgress {
        /// CPU that it used in all.
        cpu: CpuTime,
        /// Processes that it started.
        processes: u64,
        /// What it waited for since its start; `None` when that was not seen.
        #[serde(default)]
        causes: Option<Causes>,
        /// The executable that used the most CPU; `None` where none was seen.
        #[serde(default)]
        tool: Option<String>,
    },
    /// RUNNABLE, and Batch says that it can never start as things are.
    Blocked {
        /// Batch's words.
        reason: String,
    },
    /// RUNNABLE at the head of its queue, and Batch does not say why.
    AtHead {
        /// What its queue lacks, as far as that can be told.
        lacks: String,
    },
    /// STARTING, and its container is not there yet.
    Starting {
        /// What it waits for.
        at: String,
    },
    /// RUNNING for Batch, and its last process ended.
    ProcessGone {
        /// How it ended.
        end: StepEnd,
    },
    /// Its job is over, or nobody's, and its container goes on.
    Orphan {
        /// CPU that it used in all.
        cpu: CpuTime,
    },
    /// The node is well, and its ECS agent has lost touch.
    AgentDisconnected,
    /// ECS's own check says that the worker's container runtime fails.
    RuntimeImpaired,
    /// Agent and probe fell silent both: the machine hangs, or its network is gone.
    HostLost {
        /// For how long the probe has been silent.
        silent_for: Duration,
    },
    /// A machine of an environment that never joined its cluster.
    NeverJoined {
        /// True when its probe tells that it lives; `None` without one.
        lives: Option<bool>,
    },
    /// A queue or environment that Batch calls INVALID.
    Invalid {
        /// Batch's words.
        reason: String,
    },
}

impl Stuck {
    /// The name of the way, as in JSON.
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
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.stuck_for.map(|time| Spoken(time).to_string());
        let time = time.as_deref().unwrap_or("an unknown time");
        match &self.stuck {
            Stuck::NoProgress {
                cpu,
                processes,
                causes,
                tool,
            } => {
                let noun = match processes {
                    1 => "process",
                    _ => "processes",
                };
                write!(
                    f,
                    "RUNNING, but no CPU, disk or new process for {time} ({cpu} of CPU and \
                     {processes} {noun} in all)"
                )?;
                if let Some(causes) = causes {
                    write!(f, ": {causes}")?;
                }
                match tool {
                    Some(tool) => write!(f, " (mostly {tool})"),
                    None => Ok(()),
                }
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
                "RUNNING for Batch, but its last process {end} {time} ago"
            ),
            Stuck::Orphan { cpu } if self.stuck_for.is_none() => write!(
                f,
                "neither Batch nor ECS knows of its job any more, and its container goes on \
                 ({cpu} of CPU in all)"
            ),
            Stuck::Orphan { cpu } => write!(
                f,
                "its job has been over for {time} and its container goes on ({cpu} of CPU in all)"
            ),
            Stuck::AgentDisconnected => write!(
                f,
                "ECS agent disconnected for {time} while the node's heartbeats are fresh"
            ),
            Stuck::RuntimeImpaired => {
                write!(f, "ECS calls its container runtime impaired, for {time}")
            }
            Stuck::HostLost { silent_for } => write!(
                f,
                "ECS agent disconnected for {time} and the probe silent for {}: the host hangs or \
                 has no network",
                Spoken(*silent_for)
            ),
            Stuck::NeverJoined { lives } => {
                write!(f, "started {time} ago and never joined its cluster")?;
                f.write_str(match lives {
                    Some(true) => ", though its probe tells that it lives",
                    Some(false) => ", and its probe is silent",
                    None => "",
                })
            }
            Stuck::Invalid { reason } => write!(f, "INVALID: {reason}"),
        }
    }
}
