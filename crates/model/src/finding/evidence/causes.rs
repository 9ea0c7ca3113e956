//! Causes of a failure or slowdown of a step, such as states, executables and exit statuses. The
//! largest cause comes first, with the second largest.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use ebb_telemetry::step::resource_usage::{Sampled, TaskState};
use ebb_telemetry::step::{NetworkPeer, StepDetail, StepEnd};
use ebb_telemetry::units::{Bytes, CpuTime, HumanDuration};
use serde::{Deserialize, Serialize};

/// The states that took most of a task's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Causes {
    /// The state with the most time.
    pub main: Cause,
    /// The state with the second most time; `None` when there is none.
    pub runner_up: Option<Cause>,
}

/// The time of a task in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cause {
    /// The state.
    pub state: TaskState,
    /// The number of samples in the state, and the time that they represent.
    pub seen: Sampled,
}

impl Causes {
    /// The states in which the task waited; `None` when no waiting was observed.
    pub fn of_waiting(states: &BTreeMap<TaskState, Sampled>) -> Option<Self> {
        let waits = states.iter().filter(|(s, _)| **s != TaskState::Running);
        Self::greatest(waits.map(|(state, sampled)| (*state, *sampled)))
    }

    /// The states in which the task waited during its last `quiet`, in which it used no CPU. The
    /// states are totals since its start, so the other states of the time before are unknown. Each
    /// time is the part that does not fit into the time before, and therefore a lower bound. The
    /// samples are the same part of all samples of the state. `None` when no state is certain.
    pub fn since_progress(states: &BTreeMap<TaskState, Sampled>, quiet: Duration) -> Option<Self> {
        let all: Duration = states.values().map(|sampled| sampled.time).sum();
        let before = all.saturating_sub(quiet);
        let running = states.get(&TaskState::Running);
        let running = running.map_or(Duration::ZERO, |sampled| sampled.time);
        // The task ran before, so its waits fit only into the other part of that time.
        let waited_before = before.saturating_sub(running);
        let waits = states.iter().filter(|(s, _)| **s != TaskState::Running);
        Self::greatest(waits.map(|(state, sampled)| {
            let time = sampled.time.saturating_sub(waited_before).min(quiet);
            let share = time.as_secs_f64() / sampled.time.as_secs_f64().max(f64::MIN_POSITIVE);
            let samples = (sampled.samples as f64 * share).round() as u64;
            (*state, Sampled { samples, time })
        }))
    }

    /// The states with the most time beyond the time in `usual`, which is the usual time of a whole
    /// task. Without history, the states with the most time.
    pub fn beyond(
        states: &BTreeMap<TaskState, Sampled>,
        usual: &BTreeMap<TaskState, Duration>,
    ) -> Option<Self> {
        Self::greatest(states.iter().map(|(state, sampled)| {
            let before = usual.get(state).copied().unwrap_or_default();
            let time = sampled.time.saturating_sub(before);
            (*state, Sampled { time, ..*sampled })
        }))
    }

    fn greatest(parts: impl Iterator<Item = (TaskState, Sampled)>) -> Option<Self> {
        let mut parts: Vec<Cause> = parts
            .filter(|(_, sampled)| !sampled.time.is_zero())
            .map(|(state, sampled)| Cause {
                state,
                seen: sampled,
            })
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
        write!(
            f,
            "{} {} ({samples} {word})",
            HumanDuration(time),
            self.state
        )
    }
}

impl fmt::Display for Causes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.main.fmt(f)?;
        match self.runner_up {
            Some(next) => write!(f, " and {next}"),
            None => Ok(()),
        }
    }
}

/// The executables of a task, the largest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tools {
    /// The largest.
    pub main: Tool,
    /// The second largest; `None` when there is none.
    pub runner_up: Option<Tool>,
    /// Whether an earlier task of the step ran these executables. A running task reports only its
    /// busiest executable.
    pub of_an_earlier_run: bool,
}

/// The executable that is most often in the main state of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Waiter {
    /// Base name of the executable.
    pub name: String,
    /// Number of samples in which it was in this state.
    pub samples: u64,
    /// Number of samples in which the task was in this state.
    pub of: u64,
    /// The open connections of the task when it waits for the network or for events, those with the
    /// most first; at most 2. Each can be the one that it waits for.
    #[serde(default)]
    pub connections: Vec<NetworkPeer>,
}

impl Waiter {
    /// The executable for the main cause; `None` if the probe did not report it.
    pub fn from_detail(detail: &StepDetail, causes: Option<Causes>) -> Option<Self> {
        let state = causes?.main.state;
        let mut known = detail.waiting_tools.iter();
        let waiting = known.find(|one| one.state == state)?;
        Some(Self {
            name: waiting.tool.clone(),
            samples: waiting.samples,
            of: detail.states.get(&state)?.samples,
            connections: match state {
                TaskState::Network | TaskState::Poll => open_connections(detail),
                _ => Vec::new(),
            },
        })
    }
}

fn open_connections(detail: &StepDetail) -> Vec<NetworkPeer> {
    let peers = detail.network_peers.iter();
    let open = peers.filter(|peer| peer.connections > 0);
    open.take(2).copied().collect()
}

impl fmt::Display for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name, samples, of, ..
        } = self;
        write!(f, "{name} in {samples} of {of} samples")?;
        for (n, peer) in self.connections.iter().enumerate() {
            f.write_str(if n == 0 { "; connections: " } else { ", " })?;
            peer.fmt(f)?;
        }
        Ok(())
    }
}

/// One executable of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tool {
    /// The base name.
    pub name: String,
    /// The CPU time of its processes.
    pub cpu: CpuTime,
    /// The largest memory of one process; `None` if the executables are not ordered by memory.
    pub held: Option<Bytes>,
    /// Bytes read from and written to block devices; `None` if the executables are not ordered by
    /// them.
    #[serde(default)]
    pub disk: Option<Bytes>,
}

/// Number of tasks that ended in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ended {
    /// How they ended.
    pub end: StepEnd,
    /// Number of tasks.
    pub runs: u32,
}

impl fmt::Display for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.main.held, self.main.disk) {
            (Some(_), _) => "largest process",
            (None, Some(_)) => "most disk I/O",
            (None, None) => "most CPU",
        })?;
        if self.of_an_earlier_run {
            f.write_str(" in an earlier task")?;
        }
        write!(f, ": {}", self.main)?;
        match &self.runner_up {
            Some(next) => write!(f, ", then {next}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.held.or(self.disk) {
            Some(bytes) => write!(f, "{} with {bytes}", self.name),
            None => write!(f, "{} with {} of CPU", self.name, self.cpu),
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (noun, verb) = match self.runs {
            1 => ("task", "was "),
            _ => ("tasks", "were "),
        };
        let end = self.end.to_string().replacen("was ", verb, 1);
        write!(f, "{} {noun} {end}", self.runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_wait_is_the_cause_and_the_next_its_runner_up() {
        let sampled = |samples, minutes: u64| Sampled {
            samples,
            time: Duration::from_secs(minutes * 60),
        };
        let check = |states: &[(TaskState, Sampled)], expect: Option<&str>| {
            let states = states.iter().copied().collect();
            let text = Causes::of_waiting(&states).map(|causes| causes.to_string());
            assert_eq!(text.as_deref(), expect);
        };
        check(
            &[
                (TaskState::Network, sampled(252, 42)),
                (TaskState::Running, sampled(900, 150)),
                (TaskState::Timer, sampled(1, 3)),
            ],
            Some("42 min waiting for network (252 samples) and 3 min sleeping (1 sample)"),
        );
        check(&[(TaskState::Running, sampled(9, 2))], None);
        check(&[], None);
    }

    #[test]
    fn a_wait_before_the_last_progress_is_not_why_a_task_is_stalled() {
        let check = |states: &[(TaskState, u64)], quiet: u64, expect: Option<&str>| {
            let states = states.iter().map(|(state, minutes)| {
                let sampled = Sampled {
                    samples: minutes * 6,
                    time: Duration::from_secs(minutes * 60),
                };
                (*state, sampled)
            });
            let quiet = Duration::from_secs(quiet * 60);
            let text = Causes::since_progress(&states.collect(), quiet);
            let text = text.map(|causes| causes.to_string());
            assert_eq!(text.as_deref(), expect);
        };
        // It ran for an hour and then waited for the network.
        let (running, network) = ((TaskState::Running, 60), (TaskState::Network, 40));
        check(
            &[running, network],
            40,
            Some("40 min waiting for network (240 samples)"),
        );
        // At most the 30 minutes of the disk may be the later ones.
        check(
            &[running, network, (TaskState::Disk, 30)],
            40,
            Some("10 min waiting for network (60 samples)"),
        );
        // Either may be the later one.
        check(&[(TaskState::Disk, 50), (TaskState::Network, 50)], 50, None);
        check(
            &[(TaskState::Disk, 90), (TaskState::Network, 30)],
            60,
            Some("30 min waiting for disk (180 samples)"),
        );
        check(&[(TaskState::Running, 60)], 30, None);
    }

    #[test]
    fn what_a_run_always_waits_for_is_not_why_it_is_slow() {
        let sampled = |minutes: u64| Sampled {
            samples: minutes,
            time: Duration::from_secs(minutes * 60),
        };
        let states = [
            (TaskState::Network, sampled(60)),
            (TaskState::Disk, sampled(40)),
        ]
        .into();
        let usual = BTreeMap::from([(TaskState::Network, Duration::from_secs(58 * 60))]);
        let causes = Causes::beyond(&states, &usual).expect("it waited");
        assert_eq!(causes.main.state, TaskState::Disk);
        assert_eq!(
            causes.runner_up.map(|c| c.seen.time),
            Some(Duration::from_secs(120))
        );
    }
}
