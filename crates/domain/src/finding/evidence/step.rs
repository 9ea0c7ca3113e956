//! What shows that something is wrong with a step, and why: its own words.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::step::{PeakMemory, Sampled, TaskState};
use crate::units::{Bytes, CpuTime, MilliCores, Share, Spoken};

/// Something is wrong with a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepTrouble {
    /// What a person calls it.
    pub step: String,
    /// Its executable that the trouble is with; `None` when that was not seen.
    pub tool: Option<String>,
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

/// What a step's time went to, the greatest part first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Causes {
    /// The greatest part.
    pub main: Cause,
    /// The next one; `None` where there is none.
    pub runner_up: Option<Cause>,
}

/// One part of a step's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// What it did.
    pub state: TaskState,
    /// How often that was seen, and the time that it stands for.
    pub seen: Sampled,
}

impl Causes {
    /// What it waited for; `None` where nothing was seen to wait.
    pub fn of_waiting(states: &BTreeMap<TaskState, Sampled>) -> Option<Self> {
        let waits = states.iter().filter(|(s, _)| **s != TaskState::Running);
        Self::greatest(waits.map(|(state, seen)| (*state, *seen)))
    }

    /// What its time went to beyond what `usual` says of a run as a whole; without
    /// history, what most of its time went to.
    pub fn beyond(
        states: &BTreeMap<TaskState, Sampled>,
        usual: &BTreeMap<TaskState, Duration>,
    ) -> Option<Self> {
        Self::greatest(states.iter().map(|(state, seen)| {
            let before = usual.get(state).copied().unwrap_or_default();
            let time = seen.time.saturating_sub(before);
            (*state, Sampled { time, ..*seen })
        }))
    }

    fn greatest(parts: impl Iterator<Item = (TaskState, Sampled)>) -> Option<Self> {
        let mut parts: Vec<Cause> = parts
            .filter(|(_, seen)| !seen.time.is_zero())
            .map(|(state, seen)| Cause { state, seen })
            .collect();
        parts.sort_by_key(|cause| (std::cmp::Reverse(cause.seen.time), cause.state));
        let mut parts = parts.into_iter();
        Some(Self {
            main: parts.next()?,
            runner_up: parts.next(),
        })
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sampled { samples, time } = self.seen;
        let word = if samples == 1 { "sample" } else { "samples" };
        write!(f, "{} {}, from {samples} {word}", Spoken(time), self.state)
    }
}

impl fmt::Display for Causes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.main.fmt(f)?;
        match self.runner_up {
            Some(next) => write!(f, "; next {next}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for StepTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.trouble.fmt(f)?;
        if let Some(causes) = &self.causes {
            write!(f, ": {causes}")?;
        }
        match &self.tool {
            Some(tool) => write!(f, " (mostly {tool})"),
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
            } => write!(
                f,
                "{failed} of {runs} runs failed, {} of work lost; the newest {newest}",
                Spoken(*lost)
            ),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_wait_is_the_cause_and_the_next_its_runner_up() {
        let seen = |samples, minutes: u64| Sampled {
            samples,
            time: Duration::from_secs(minutes * 60),
        };
        let check = |states: &[(TaskState, Sampled)], expect: Option<&str>| {
            let states = states.iter().copied().collect();
            let said = Causes::of_waiting(&states).map(|causes| causes.to_string());
            assert_eq!(said.as_deref(), expect);
        };
        check(
            &[
                (TaskState::Network, seen(252, 42)),
                (TaskState::Running, seen(900, 150)),
                (TaskState::Timer, seen(1, 3)),
            ],
            Some(
                "42 min waiting for network, from 252 samples; next 3 min sleeping, from 1 sample",
            ),
        );
        check(&[(TaskState::Running, seen(9, 2))], None);
        check(&[], None);
    }

    #[test]
    fn what_a_run_always_waits_for_is_not_why_it_is_slow() {
        let seen = |minutes: u64| Sampled {
            samples: minutes,
            time: Duration::from_secs(minutes * 60),
        };
        let states = [(TaskState::Network, seen(60)), (TaskState::Disk, seen(40))].into();
        let usual = BTreeMap::from([(TaskState::Network, Duration::from_secs(58 * 60))]);
        let causes = Causes::beyond(&states, &usual).expect("it waited");
        assert_eq!(causes.main.state, TaskState::Disk);
        assert_eq!(
            causes.runner_up.map(|c| c.seen.time),
            Some(Duration::from_secs(120))
        );
    }
}
