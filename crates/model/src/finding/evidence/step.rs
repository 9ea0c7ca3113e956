//! The evidence of a failure or slowdown of a step, with its causes and its text.

use std::fmt;
use std::time::Duration;

use ebb_telemetry::step::PeakMemory;
use ebb_telemetry::units::{Bytes, CpuTime, HumanDuration, MilliCores, Share};
use serde::{Deserialize, Serialize};

use crate::finding::evidence::causes::{Causes, Ended, Tools, Waiter};
use crate::finding::evidence::optional;

/// A failure or slowdown of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepTrouble {
    /// The name of the step.
    pub step: String,
    /// The executables that the trouble concerns; `None` when none was observed.
    #[serde(default)]
    pub tools: Option<Tools>,
    /// The kind of trouble.
    pub trouble: Trouble,
    /// The states that took most of its time; `None` when not observed.
    pub causes: Option<Causes>,
    /// The executable that waits in the main state; `None` when unknown, or for a memory problem.
    #[serde(default)]
    pub waiter: Option<Waiter>,
    /// Ways in which its resource use differs from earlier tasks.
    #[serde(default)]
    pub deviations: Vec<Deviation>,
    /// The task on the same node that uses most of the resource for which it waits; `None` when no
    /// task clearly does.
    #[serde(default)]
    pub neighbour: Option<Neighbour>,
}

/// Resource use beyond that of all earlier tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "of")]
pub enum Deviation {
    /// Fewer busy cores on average than any earlier task.
    Cores {
        /// Its busy cores.
        now: MilliCores,
        /// The median of earlier tasks.
        usual: MilliCores,
    },
    /// More bytes from `read` calls than any earlier task.
    Read {
        /// Its bytes so far.
        now: Bytes,
        /// The median of earlier tasks.
        usual: Bytes,
    },
    /// More bytes from `write` calls than any earlier task.
    Written {
        /// Its bytes so far.
        now: Bytes,
        /// The median of earlier tasks.
        usual: Bytes,
    },
}

/// Another task on the same node that uses most of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Neighbour {
    /// The name of the task.
    pub name: String,
    /// The resource.
    pub resource: NeighbourResource,
    /// Its share: of the disk bytes of all tasks, or of the memory of the node.
    pub share: Share,
}

/// The resource that a neighbour uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NeighbourResource {
    /// Bytes read from and written to block devices in the same time, from the mean rate of each
    /// task.
    Disk,
    /// Memory at the newest sample.
    Memory,
}

/// The kinds of trouble of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum Trouble {
    /// The kernel OOM-killed its tasks.
    OutOfMemory {
        /// Number of killed tasks.
        kills: u32,
        /// Number of observed tasks.
        runs: u32,
        /// The memory limit of the newest killed task; `None` when unknown.
        limit: Option<Bytes>,
        /// The largest peak memory of these tasks; `None` when never sampled.
        peak: Option<PeakMemory>,
    },
    /// Its tasks fail repeatedly.
    Retries {
        /// Number of failed tasks.
        failed: u32,
        /// Number of ended tasks.
        runs: u32,
        /// Total run time of the failed tasks.
        lost: Duration,
        /// How the newest of them ended.
        newest: String,
        /// The most frequent way to end; `None` in reports of earlier releases.
        #[serde(default)]
        main: Option<Ended>,
        /// The second most frequent way to end; `None` if all ended in the same way.
        #[serde(default)]
        runner_up: Option<Ended>,
    },
    /// It runs and makes no progress.
    Stalled {
        /// Time without progress.
        stalled_for: Duration,
    },
    /// Its threads were runnable and waited for a core, while its neighbours used the cores.
    Starved {
        /// Waiting time, summed over all threads.
        waited: Duration,
        /// CPU time of its threads.
        cpu: CpuTime,
        /// Cores that its neighbours kept busy.
        neighbours: MilliCores,
    },
    /// It waits for most of its time.
    Waiting {
        /// The share of the time spent waiting.
        part: Share,
        /// The same share in its earlier tasks; `None` without earlier tasks.
        usual: Option<Share>,
    },
    /// It uses CPU, but the kernel shows no other activity.
    Spinning {
        /// Time with CPU use and without other activity.
        unmoved_for: Duration,
        /// The longest such time in earlier tasks.
        longest: Duration,
        /// Number of earlier tasks.
        runs: u32,
    },
    /// It takes longer than earlier tasks.
    Slow {
        /// Its run time so far.
        ran: Duration,
        /// The median duration of earlier tasks.
        usual: Duration,
        /// The longest duration of earlier tasks.
        longest: Duration,
        /// Number of earlier tasks.
        runs: u32,
    },
    /// Its tasks ended, and took longer than the tasks before them.
    WasSlow {
        /// Number of such tasks.
        slow: u32,
        /// Number of tasks that ended in the same time.
        ended: u32,
        /// The run time of the task with the longest excess.
        ran: Duration,
        /// The median duration of the tasks before it.
        usual: Duration,
        /// The longest duration of the tasks before it.
        longest: Duration,
        /// Number of tasks before it.
        runs: u32,
    },
    /// It is about to exceed its memory limit.
    NearLimit {
        /// The peak memory.
        held: PeakMemory,
        /// The memory limit.
        limit: Bytes,
        /// Page faults that waited for a disk; `None` when unknown.
        major_faults: Option<u64>,
        /// Number of times that it reached its limit and the kernel reclaimed memory; `None` when
        /// unknown.
        limit_hits: Option<u64>,
    },
    /// It requests less memory than its tasks need.
    Short {
        /// Number of tasks that reached the limit.
        full: u32,
        /// Number of observed tasks.
        runs: u32,
        /// The largest peak memory of these tasks.
        held: PeakMemory,
        /// The memory limit.
        limit: Bytes,
    },
}

impl Trouble {
    /// True if the step lacks memory.
    pub fn is_of_memory(&self) -> bool {
        matches!(
            self,
            Self::OutOfMemory { .. } | Self::NearLimit { .. } | Self::Short { .. }
        )
    }
}

impl fmt::Display for StepTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lead = match (&self.trouble, self.causes) {
            // The waits are those of the whole task, so only a part is certain.
            (Trouble::Stalled { stalled_for }, Some(causes))
                if causes.main.seen.time < *stalled_for =>
            {
                ": at least "
            }
            _ => ": ",
        };
        let causes = optional(lead, self.causes.as_ref());
        let tool = match (&self.waiter, &self.tools) {
            (Some(waiter), _) => waiter.to_string(),
            (None, Some(tools)) => tools.to_string(),
            (None, None) => String::new(),
        };
        write!(f, "{}{causes}", self.trouble)?;
        match (tool.as_str(), self.causes) {
            ("", _) => {}
            // Causes end with a number of samples in brackets.
            (tool, Some(_)) => write!(f, "; {tool}")?,
            (tool, None) => write!(f, " ({tool})")?,
        }
        for deviation in &self.deviations {
            write!(f, "; {deviation}")?;
        }
        write!(f, "{}", optional("; ", self.neighbour.as_ref()))
    }
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cores { now, usual } => write!(
                f,
                "it used {:.2} cores on average, compared with a median of {:.2} in earlier tasks",
                now.as_cores(),
                usual.as_cores()
            ),
            Self::Read { now, usual } => write!(
                f,
                "it read {now}, compared with a median of {usual} in earlier tasks"
            ),
            Self::Written { now, usual } => write!(
                f,
                "it wrote {now}, compared with a median of {usual} in earlier tasks"
            ),
        }
    }
}

impl fmt::Display for Neighbour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, share, .. } = self;
        match self.resource {
            NeighbourResource::Disk => write!(
                f,
                "{name} on the same node causes {share} of the disk I/O of all its tasks"
            ),
            NeighbourResource::Memory => write!(
                f,
                "{name} on the same node holds {share} of the memory of the node"
            ),
        }
    }
}

impl fmt::Display for Trouble {
    #[expect(
        clippy::too_many_lines,
        reason = "one sentence for each kind of trouble"
    )]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfMemory {
                kills,
                runs,
                limit,
                peak,
            } => write!(
                f,
                "{kills} of {runs} tasks were OOM-killed{}{}",
                optional(", with a memory limit of ", *limit),
                optional(
                    match limit {
                        Some(_) => " and an observed peak of ",
                        None => ", with an observed peak of ",
                    },
                    peak.map(|peak| peak.bytes)
                )
            ),
            Self::Retries {
                failed,
                runs,
                lost,
                newest,
                main,
                runner_up,
            } => write!(
                f,
                "{failed} of {runs} tasks failed ({} of work lost){}{}; the newest {newest}",
                HumanDuration(*lost),
                optional(": ", main.filter(|_| runner_up.is_some())),
                optional(" and ", *runner_up)
            ),
            Self::Stalled { stalled_for } => write!(
                f,
                "no CPU usage, I/O or new process for {}",
                HumanDuration(*stalled_for)
            ),
            Self::Starved {
                waited,
                cpu,
                neighbours,
            } => write!(
                f,
                "runnable threads waited {} for a core and used {cpu} of CPU, while other tasks \
                 kept {:.1} cores busy",
                HumanDuration(*waited),
                neighbours.as_cores()
            ),
            Self::Waiting { part, usual } => write!(
                f,
                "waiting for {part} of its time{}",
                optional(
                    ", compared with ",
                    usual.map(|usual| format!("{usual} in earlier tasks"))
                )
            ),
            Self::Spinning {
                unmoved_for,
                longest,
                runs,
            } => write!(
                f,
                "used CPU for {} without I/O, memory growth or a new process; the longest such \
                 time in {runs} earlier tasks is {}",
                HumanDuration(*unmoved_for),
                HumanDuration(*longest)
            ),
            Self::Slow {
                ran,
                usual,
                longest,
                runs,
            } => write!(
                f,
                "running for {}, {:.1} times the median of {} ({runs} earlier tasks, the longest \
                 {})",
                HumanDuration(*ran),
                ran.as_secs_f64() / usual.as_secs_f64().max(1.0),
                HumanDuration(*usual),
                HumanDuration(*longest)
            ),
            Self::WasSlow {
                slow,
                ended,
                ran,
                usual,
                longest,
                runs,
            } => write!(
                f,
                "{slow} of {ended} tasks took far longer than usual; one took {}, {:.1} times the \
                 median of {} ({runs} earlier tasks, the longest {})",
                HumanDuration(*ran),
                ran.as_secs_f64() / usual.as_secs_f64().max(1.0),
                HumanDuration(*usual),
                HumanDuration(*longest)
            ),
            Self::NearLimit {
                held,
                limit,
                major_faults,
                limit_hits,
            } => {
                let hits = limit_hits.filter(|hits| *hits > 0);
                let hits = hits.map(|hits| format!("reached the limit {hits} times"));
                let faults = major_faults.map(|n| format!("{n} page faults waited for disk"));
                write!(
                    f,
                    "used {} of its memory limit of {limit}{}{}",
                    held.bytes,
                    optional(", ", hits),
                    optional(", ", faults)
                )
            }
            Self::Short {
                full,
                runs,
                held,
                limit,
            } => write!(
                f,
                "{full} of {runs} tasks reached the memory limit; peak of {} at a limit of {limit}",
                held.bytes
            ),
        }
    }
}
