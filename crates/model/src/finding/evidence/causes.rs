//! Why something is wrong with a step: where its time, its memory and its runs went, each
//! the greatest part first and the runner-up beside it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use ebb_telemetry::step::StepEnd;
use ebb_telemetry::step::resource_usage::{Sampled, TaskState};
use ebb_telemetry::units::{Bytes, CpuTime, Spoken};
use serde::{Deserialize, Serialize};

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

/// The executables of a run, the greatest first: by the memory that they held, where that is
/// the trouble and was seen, else by their CPU time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tools {
    /// The greatest.
    pub main: Tool,
    /// The next one; `None` where there is none.
    pub runner_up: Option<Tool>,
    /// Whether they are those of an earlier run of the step: a run that goes on tells its
    /// busiest only.
    pub of_an_earlier_run: bool,
}

/// One executable of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Its base name.
    pub name: String,
    /// The CPU time of its processes.
    pub cpu: CpuTime,
    /// The most memory that one of them held, where it is told by that.
    pub held: Option<Bytes>,
}

/// How many runs ended in one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The way.
    pub end: StepEnd,
    /// How many did.
    pub runs: u32,
}

impl fmt::Display for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.main.fmt(f)?;
        if let Some(next) = &self.runner_up {
            write!(f, ", next {next}")?;
        }
        match self.of_an_earlier_run {
            true => f.write_str("; by an earlier run"),
            false => Ok(()),
        }
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.held {
            Some(held) => write!(f, "{} with {held}", self.name),
            None => write!(f, "{} with {} of CPU", self.name, self.cpu),
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.runs, self.end)
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
