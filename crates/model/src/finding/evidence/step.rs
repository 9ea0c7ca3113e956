//! What shows that something is wrong with a step, and why: its own words.

use std::fmt;
use std::time::Duration;

use ebb_telemetry::step::PeakMemory;
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores, Share, Spoken};
use serde::{Deserialize, Serialize};

use crate::finding::evidence::causes::{Causes, Ended, Tools};

/// Something is wrong with a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepTrouble {
    /// What a person calls it.
    pub step: String,
    /// Its executables that the trouble is with; `None` when none were seen.
    #[serde(default)]
    pub tools: Option<Tools>,
    /// What is wrong.
    pub trouble: Trouble,
    /// What its time went to; `None` when that was not seen.
    pub causes: Option<Causes>,
}

/// What is wrong with a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum Trouble {
    /// The kernel killed its runs for want of memory.
    OutOfMemory {
        /// Runs that were killed.
        kills: u32,
        /// Runs seen.
        runs: u32,
        /// What the newest of them was allowed; `None` when unknown.
        limit: Option<Bytes>,
        /// The most that one of them held; `None` when never sampled.
        peak: Option<PeakMemory>,
    },
    /// Its runs fail again and again.
    Retries {
        /// Runs that failed.
        failed: u32,
        /// Runs that ended.
        runs: u32,
        /// How long the failed ones ran together.
        lost: Duration,
        /// How the newest of them ended.
        newest: String,
        /// How most of them did; `None` in reports of earlier releases.
        #[serde(default)]
        main: Option<Ended>,
        /// How the next most did; `None` where all ended alike.
        #[serde(default)]
        runner_up: Option<Ended>,
    },
    /// It runs and makes no progress.
    Stalled {
        /// For how long.
        stalled_for: Duration,
    },
    /// It was ready and waited for a core, while its neighbours had them.
    Starved {
        /// For how long its threads waited together.
        waited: Duration,
        /// What they got.
        cpu: CpuTime,
        /// The cores that its neighbours kept busy.
        neighbours: MilliCores,
    },
    /// It mostly waits.
    Waiting {
        /// The part of its time.
        part: Share,
        /// The same of its earlier runs; `None` without any.
        usual: Option<Share>,
    },
    /// It computes, and nothing comes of it that the kernel sees.
    Spinning {
        /// For how long.
        unmoved_for: Duration,
        /// The longest such time of its earlier runs.
        longest: Duration,
        /// How many they are.
        runs: u32,
    },
    /// It takes longer than it used to.
    Slow {
        /// How long it has run.
        ran: Duration,
        /// The middle of its earlier runs.
        usual: Duration,
        /// The longest of them.
        longest: Duration,
        /// How many they are.
        runs: u32,
    },
    /// It is about to run out of its memory.
    NearLimit {
        /// The most that it held.
        held: PeakMemory,
        /// What it may hold.
        limit: Bytes,
        /// Page faults that waited for a disk; `None` when unknown.
        major_faults: Option<u64>,
        /// Times that it came to its limit, and memory was taken back; `None` when unknown.
        limit_hits: Option<u64>,
    },
    /// It asks for less than its runs need.
    Short {
        /// Runs that came to the limit.
        full: u32,
        /// Runs seen.
        runs: u32,
        /// The most that one of them held.
        held: PeakMemory,
        /// What it may hold.
        limit: Bytes,
    },
}

impl Trouble {
    /// True where memory is what it lacks.
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
