//! The evidence of a failure or slowdown of a step, with its causes and its text.

use std::fmt;
use std::time::Duration;

use ebb_telemetry::step::PeakMemory;
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores, Share, Spoken};
use serde::{Deserialize, Serialize};

use crate::finding::evidence::causes::{Causes, Ended, Tools};

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
        self.trouble.fmt(f)?;
        if let Some(causes) = &self.causes {
            write!(f, ": {causes}")?;
        }
        match &self.tools {
            Some(tools) => write!(f, " (mostly {tools})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfMemory {
                kills,
                runs,
                limit,
                peak,
            } => {
                write!(f, "killed for want of memory in {kills} of {runs} runs")?;
                if let Some(limit) = limit {
                    write!(f, ", with {limit} allowed")?;
                }
                match peak {
                    Some(peak) => write!(f, " and at most {} seen", peak.bytes),
                    None => Ok(()),
                }
            }
            Self::Retries {
                failed,
                runs,
                lost,
                newest,
                main,
                runner_up,
            } => {
                let lost = Spoken(*lost);
                write!(f, "{failed} of {runs} runs failed, {lost} of work lost")?;
                if let Some(main) = main.filter(|_| runner_up.is_some()) {
                    write!(f, ": {main}")?;
                }
                if let Some(next) = runner_up {
                    write!(f, ", next {next}")?;
                }
                write!(f, "; the newest {newest}")
            }
            Self::Stalled { stalled_for } => write!(
                f,
                "no CPU, no byte and no new process for {}",
                Spoken(*stalled_for)
            ),
            Self::Starved {
                waited,
                cpu,
                neighbours,
            } => write!(
                f,
                "its threads waited {} for a core and got {cpu}, while its neighbours kept {:.1} \
                 cores busy",
                Spoken(*waited),
                neighbours.as_cores()
            ),
            Self::Waiting { part, usual } => {
                write!(f, "{part} of its time is waiting")?;
                match usual {
                    Some(usual) => write!(f, ", {usual} in earlier runs"),
                    None => Ok(()),
                }
            }
            Self::Spinning {
                unmoved_for,
                longest,
                runs,
            } => write!(
                f,
                "has computed for {} without reading, writing, taking memory or starting \
                 anything; in {runs} earlier runs that never lasted longer than {}",
                Spoken(*unmoved_for),
                Spoken(*longest)
            ),
            Self::Slow {
                ran,
                usual,
                longest,
                runs,
            } => write!(
                f,
                "has run for {}, {:.1} times its usual {} ({runs} runs, the longest {})",
                Spoken(*ran),
                ran.as_secs_f64() / usual.as_secs_f64().max(1.0),
                Spoken(*usual),
                Spoken(*longest)
            ),
            Self::NearLimit {
                held,
                limit,
                major_faults,
                limit_hits,
            } => {
                write!(f, "held {} of the {limit} that it may", held.bytes)?;
                if let Some(hits) = limit_hits.filter(|hits| *hits > 0) {
                    write!(f, ", came to it {hits} times")?;
                }
                match major_faults {
                    Some(faults) => write!(f, ", {faults} page faults waited for a disk"),
                    None => Ok(()),
                }
            }
            Self::Short {
                full,
                runs,
                held,
                limit,
            } => write!(
                f,
                "{full} of {runs} runs came to the limit: at most {} of {limit} held",
                held.bytes
            ),
        }
    }
}
