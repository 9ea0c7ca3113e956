//! What a step should ask for: from the peaks of its past runs.

pub mod fargate;
pub mod input;
mod interval;
pub mod memory;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::policy::SizingPolicy;
use crate::step::{PeakMemory, Requested};
use crate::units::{Bytes, MilliCores};

pub use input::SizedInput;
pub use interval::ChanceRange;
use memory::MemoryHistory;

/// Cores and memory to ask for; `None` leaves the request as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SizedRequest {
    /// Cores.
    pub cores: Option<MilliCores>,
    /// Memory.
    pub memory: Option<Bytes>,
}

impl From<Requested> for SizedRequest {
    fn from(requested: Requested) -> Self {
        Self {
            cores: requested.cores,
            memory: requested.memory,
        }
    }
}

/// What one past run of a step tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The most cores it kept busy over a sample interval; `None` when unknown.
    pub peak_cores: Option<MilliCores>,
    /// The most memory it held; `None` when unknown.
    pub peak_memory: Option<PeakMemory>,
    /// How long it was seen.
    pub wall: Duration,
    /// Bytes it read in; `None` when unknown.
    pub input: Option<Bytes>,
}

/// What is known of how a memory size may fail.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Risk {
    /// The chance that a run needs more than the size, in parts per million;
    /// `None` while too few runs were seen to tell.
    pub oom_ppm: Option<u32>,
    /// What to ask for after the size was too little, one after the other.
    pub attempts: Vec<Bytes>,
    /// Runs that are still needed before the chance can be told.
    pub samples_needed: u32,
    /// Between which bounds the chance lies, by the runs that needed more; `None`
    /// where the chance is.
    #[serde(default)]
    pub oom_between: Option<ChanceRange>,
}

/// What a step needs, as its runs show it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Need {
    /// Whole cores; `None` where a run's parallelism is unknown.
    pub cores: Option<MilliCores>,
    /// Memory; `None` where a run's peak is unknown.
    pub memory: Option<Bytes>,
    /// How that memory may fail.
    pub risk: Risk,
    /// Memory by the size of the input; empty where that explains nothing.
    pub by_input: Vec<SizedInput>,
    /// What to ask for on Fargate; `None` where cores or memory are unknown, or nothing
    /// there is as large.
    pub on_fargate: Option<SizedRequest>,
}

/// A request, and how its memory may fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sized {
    /// What to ask for.
    pub request: SizedRequest,
    /// How its memory may fail.
    pub risk: Risk,
}

/// Memory is asked for in steps of 256 MiB: fine enough to matter on no bill.
const MEMORY_STEP: Bytes = Bytes::mib(256);

/// The newest runs that models of memory compete on: a model's charge has faded to
/// less than half over as many, so that older ones would cost time and decide little.
const COMPETING: usize = 40;

/// Sizes told for after a failure; a third failure in a row asks for a person.
const ATTEMPTS: usize = 2;

/// What a step needs. Cores from the greatest parallelism, rounded up to whole
/// ones. Memory from the models of [`memory`] once there are as many samples as the
/// policy calls confident, and before that from the greatest peak with headroom.
/// `samples` are in order of time, the oldest first.
///
/// Source of the headroom: HealthOmics Run Analyzer's `ceil(max x (1 + headroom))`.
pub fn need(samples: &[Sample], input: Option<Bytes>, policy: &SizingPolicy) -> Need {
    let peak = greatest(samples, |sample| sample.peak_memory.map(|peak| peak.bytes));
    let confident = policy.confident_samples as usize;
    let missing = confident.saturating_sub(samples.len());
    let risk = Risk {
        samples_needed: u32::try_from(missing).unwrap_or(u32::MAX),
        ..Risk::default()
    };
    let (memory, risk) = match peak {
        None => (None, risk),
        Some(peak) => match modelled(samples, input, missing, policy) {
            Some((size, risk)) => (Some(size), risk),
            None => {
                let size = with_headroom(peak, policy);
                let attempts = attempts(size, &[]);
                (Some(size), Risk { attempts, ..risk })
            }
        },
    };
    let peak_cores = greatest(samples, |sample| sample.peak_cores);
    let on_fargate = peak_cores.zip(memory);
    Need {
        cores: peak_cores.map(whole),
        memory,
        risk,
        by_input: input::by_input(samples, policy),
        on_fargate: on_fargate.and_then(|(cores, memory)| fargate::pair(cores, memory)),
    }
}

/// Sizes a request by what is needed. It is never raised here; what the samples do
/// not tell stays as it is.
pub fn within(current: Requested, need: &Need) -> Sized {
    let memory = match (current.memory, need.memory) {
        (Some(now), Some(needed)) => Some(needed.min(now)),
        (now, _) => now,
    };
    let cores = match (current.cores, need.cores) {
        (Some(now), Some(needed)) => Some(needed.min(now)),
        (now, _) => now,
    };
    let request = SizedRequest { cores, memory };
    // The chance was told of the size needed; of a lesser one nothing is known.
    let as_told = memory.is_some() && memory == need.memory;
    let risk = match as_told {
        true => need.risk.clone(),
        false => Risk {
            samples_needed: need.risk.samples_needed,
            ..Risk::default()
        },
    };
    Sized { request, risk }
}

/// What models have learned from runs in order of time, of which the last compete.
fn learned(runs: Vec<memory::Run>, policy: &SizingPolicy) -> MemoryHistory {
    let mut history = MemoryHistory::new(policy);
    let older = runs.len().saturating_sub(COMPETING);
    for (at, run) in runs.into_iter().enumerate() {
        match at < older {
            true => history.remember(run),
            false => history.learn(run),
        }
    }
    history
}

/// What the models say; `None` while there are too few samples.
fn modelled(
    samples: &[Sample],
    input: Option<Bytes>,
    missing: usize,
    policy: &SizingPolicy,
) -> Option<(Bytes, Risk)> {
    if missing > 0 {
        return None;
    }
    let run = |sample: &Sample| {
        Some(memory::Run {
            // Without an input to ask for, models that need one have nothing to say.
            input: input.and(sample.input),
            peak: sample.peak_memory?.bytes,
            wall: sample.wall,
        })
    };
    let runs: Option<Vec<_>> = samples.iter().map(run).collect();
    let advice = learned(runs?, policy).advise(input).ok()?;
    let first = in_steps(u128::from(advice.first().0));
    let risk = Risk {
        oom_ppm: Some(advice.oom_ppm),
        attempts: attempts(first, &advice.attempts),
        samples_needed: 0,
        oom_between: Some(ChanceRange::of(samples, first)),
    };
    Some((first, risk))
}

/// The sizes after `first`: those that the evidence names, and past them half as
/// much again each time.
fn attempts(first: Bytes, named: &[Bytes]) -> Vec<Bytes> {
    let mut sizes = Vec::with_capacity(ATTEMPTS);
    let mut last = first;
    let mut named = named.iter().map(|size| in_steps(u128::from(size.0)));
    while sizes.len() < ATTEMPTS {
        let evident = named.find(|size| *size > last);
        last = evident.unwrap_or_else(|| in_steps((u128::from(last.0) * 3).div_ceil(2)));
        sizes.push(last);
    }
    sizes
}

/// The greatest of a value over all samples; `None` as soon as one is unknown,
/// for the unknown one could be the greatest.
fn greatest<T: Ord>(samples: &[Sample], value: impl Fn(&Sample) -> Option<T>) -> Option<T> {
    let all: Option<Vec<T>> = samples.iter().map(value).collect();
    all?.into_iter().max()
}

fn with_headroom(peak: Bytes, policy: &SizingPolicy) -> Bytes {
    let parts = 1_000_000 + u128::from(policy.memory_headroom_ppm);
    in_steps((u128::from(peak.0) * parts).div_ceil(1_000_000))
}

fn in_steps(needed: u128) -> Bytes {
    let steps = needed.div_ceil(u128::from(MEMORY_STEP.0)).max(1);
    Bytes(u64::try_from(steps * u128::from(MEMORY_STEP.0)).unwrap_or(u64::MAX))
}

fn whole(cores: MilliCores) -> MilliCores {
    MilliCores::cores(cores.0.div_ceil(1000).max(1))
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::MemorySource;

    fn size(current: Requested, samples: &[Sample], policy: &SizingPolicy) -> Sized {
        within(current, &need(samples, None, policy))
    }

    fn sample(milli_cores: Option<u64>, mib: Option<u64>) -> Sample {
        let peak = |mib| PeakMemory {
            bytes: Bytes::mib(mib),
            source: MemorySource::CgroupSampled,
        };
        Sample {
            peak_cores: milli_cores.map(MilliCores),
            peak_memory: mib.map(peak),
            wall: Duration::from_secs(600),
            input: None,
        }
    }

    #[test]
    fn a_request_follows_the_greatest_peak_and_is_never_raised() {
        let check = |samples: &[Sample], cores: u64, memory_mib: u64| {
            let current = Requested {
                cores: Some(MilliCores::cores(16)),
                memory: Some(Bytes::gib(32)),
            };
            let sized = size(current, samples, &SizingPolicy::default());
            let expect = SizedRequest {
                cores: Some(MilliCores::cores(cores)),
                memory: Some(Bytes::mib(memory_mib)),
            };
            assert_eq!(sized.request, expect);
        };
        check(&[sample(Some(2_100), Some(4_000))], 3, 4_864);
        check(
            &[
                sample(Some(2_100), Some(4_000)),
                sample(Some(900), Some(100)),
            ],
            3,
            4_864,
        );
        check(&[sample(Some(0), Some(0))], 1, 256);
        check(&[sample(Some(20_000), Some(60_000))], 16, 32 << 10);
        check(&[sample(None, Some(4_000))], 16, 4_864);
        check(
            &[sample(Some(2_100), Some(4_000)), sample(Some(900), None)],
            3,
            32 << 10,
        );
        check(&[], 16, 32 << 10);
    }

    #[test]
    fn the_chance_of_an_oom_kill_is_told_from_enough_runs_on_and_kept_by_policy() {
        let current = Requested {
            cores: Some(MilliCores::cores(16)),
            memory: Some(Bytes::gib(32)),
        };
        let runs = |count: u64| -> Vec<Sample> {
            let one = |n: u64| sample(Some(900), Some(4_000 + n * 37 % 200));
            (0..count).map(one).collect()
        };
        let check = |count: u64, mib: u64, needed: u32| {
            let sized = size(current, &runs(count), &SizingPolicy::default());
            assert_eq!(sized.request.memory, Some(Bytes::mib(mib)), "{count}");
            assert_eq!(sized.risk.samples_needed, needed);
            assert_eq!(sized.risk.oom_ppm.is_some(), needed == 0);
            assert!(sized.risk.oom_ppm.is_none_or(|ppm| ppm <= 10_000));
            assert_eq!(sized.risk.attempts.len(), ATTEMPTS);
            assert!(sized.risk.attempts[0] > Bytes::mib(mib));
            assert!(sized.risk.attempts[1] > sized.risk.attempts[0]);
        };
        check(5, 5_120, 15);
        check(19, 5_120, 1);
        check(20, 4_352, 0);
        check(300, 4_352, 0);
    }

    #[test]
    fn what_is_asked_for_less_than_needed_has_no_chance_told() {
        let current = Requested {
            cores: Some(MilliCores::cores(1)),
            memory: Some(Bytes::gib(2)),
        };
        let runs = vec![sample(Some(900), Some(4_000)); 30];
        let sized = size(current, &runs, &SizingPolicy::default());
        assert_eq!(sized.request.memory, Some(Bytes::gib(2)));
        assert_eq!(sized.risk, Risk::default());
    }
}
