//! Tasks and their attempts: the requests of first attempts, how they ended, and the needs of each
//! task.
//!
//! An engine retries a failed task, often with a larger request. The request of a step is that of
//! first attempts, because the request of a retry follows from the failure before.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_telemetry::stable_hash::stable_hash;
use ebb_telemetry::step::{MemorySource, PeakMemory, Requested, StepEnd, StepKind};
use ebb_telemetry::units::{Bytes, MilliCores, Share};
use serde::{Deserialize, Serialize};

use crate::advice::sized_request::SizedRequest;
use crate::policy::Policy;
use crate::policy::step::StepPolicy;
use crate::step_profile::attempts::{self, NamedAttempt};
use crate::step_profile::failure::{FailureCount, FailureKind};
use crate::step_profile::sample::Sample;
use crate::step_profile::{Run, RunKey, StepProfile};

/// Number of first attempts for the present request if no pipeline run is known: the newest ones.
pub const RECENT_TASKS: usize = 50;

/// Maximum number of different requests.
const MAX_REQUESTS: usize = 20;

/// From this share of equal requests, the other requests are exceptions.
const NEARLY_ALL_PERCENT: usize = 90;

/// The record of one attempt from an engine or scheduler.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// The pipeline run, or the day if no run is known.
    pub pipeline_run: String,
    /// The id or the name of the task, equal for all its attempts. Several tasks of a run and step may
    /// have one name.
    pub task: String,
    /// The sample or input that it processed; `None` when unknown.
    pub sample: Option<String>,
    /// The number of the attempt, from 1; 0 when unknown.
    pub attempt: u32,
    /// The exit status; `None` without one.
    pub exit_status: Option<i64>,
    /// The cause of the failure; `None` if it succeeded or still runs.
    pub failure: Option<FailureKind>,
    /// The time limit; `None` when unknown.
    pub time_limit: Option<Duration>,
    /// The time for which it occupied its resources as the scheduler counts it, including waiting
    /// for files. `None` if the file does not contain it.
    #[serde(default)]
    pub occupied: Option<Duration>,
    /// An upper bound of that time, if only the time since its submission is known.
    #[serde(default)]
    pub occupied_at_most: Option<Duration>,
    /// Number of tasks that it ran in parallel (MPI ranks, `srun` tasks); 0 when unknown.
    #[serde(default)]
    pub parallel_tasks: u32,
}

/// Number of first attempts with one request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestCount {
    /// The request.
    pub request: SizedRequest,
    /// Number of ended first attempts with this request.
    pub tasks: u32,
    /// Number of these that ran out of memory.
    pub out_of_memory: u32,
}

/// Which of several requests counts as the request of the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RequestBasis {
    /// All first attempts have the same request.
    #[default]
    Same,
    /// At least 90 % have the same request.
    Most,
    /// The requests differ: the median of cores, and separately the median of memory.
    Median,
}

/// The present request of the first attempts of a step.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PresentRequest {
    /// The request of the step.
    pub request: SizedRequest,
    /// How that request was chosen.
    pub basis: RequestBasis,
    /// The smallest cores and the smallest memory that a first attempt requested.
    #[serde(default)]
    pub least: SizedRequest,
    /// All requests of first attempts, the most frequent first, at most 20.
    pub counts: Vec<RequestCount>,
}

impl PresentRequest {
    /// First attempts with the request of the step, or all first attempts if the requests differ.
    fn counted(&self) -> impl Iterator<Item = &RequestCount> {
        self.counts
            .iter()
            .filter(|count| self.basis == RequestBasis::Median || count.request == self.request)
    }

    /// Number of these first attempts.
    pub fn tasks(&self) -> u32 {
        self.counted().map(|count| count.tasks).sum()
    }

    /// Number of these first attempts that ran out of memory.
    pub fn out_of_memory(&self) -> u32 {
        self.counted().map(|count| count.out_of_memory).sum()
    }
}

/// A task with its attempts in order; at least one attempt.
pub(crate) struct TaskAttempts<'a> {
    attempts: Vec<&'a Run>,
}

impl<'a> TaskAttempts<'a> {
    /// The first attempt; `None` if only later ones are kept.
    fn first(&self) -> Option<&'a Run> {
        let earliest = self.earliest()?;
        let record = earliest.record.as_ref();
        let is_first = record.is_none_or(|record| record.attempt <= 1);
        is_first.then_some(earliest)
    }

    fn earliest(&self) -> Option<&'a Run> {
        self.attempts.first().copied()
    }

    fn last(&self) -> Option<&'a Run> {
        self.attempts.last().copied()
    }

    /// The needs that the task shows; `None` if it neither succeeded nor ran out of memory.
    fn sample(&self, profile: &StepProfile, policy: &Policy) -> Option<Sample> {
        let limits = self.attempts.iter().filter(|run| run.is_out_of_memory());
        let failed_with = limits.filter_map(|run| run.requested.memory).max();
        let last = self.last()?;
        let sample = Sample {
            pipeline_run: Some(group_number(&last.pipeline_run())),
            sample: last.sample_name().map(group_number),
            mean_cores: last.cpu.and_then(|cpu| cpu.cores_over(last.wall)),
            allowed_cores: last.requested.cores,
            sufficient_memory: (last.requested.memory).filter(|_| last.end == StepEnd::Exited(0)),
            peak_cores: last.peak_demand(&policy.step),
            ..last.sample()
        };
        if last.is_out_of_memory() {
            return Some(Sample {
                peak_memory: profile.needed_beyond(failed_with?),
                mean_cores: None,
                is_unmet: true,
                ..sample
            });
        }
        if !last.tells(policy) {
            return None;
        }
        let peak_memory = match failed_with {
            None => sample.peak_memory,
            Some(limit) => sample
                .peak_memory
                .map(|peak| beyond(peak, limit, last.requested)),
        };
        Some(Sample {
            peak_memory,
            ..sample
        })
    }
}

/// The need of a task that failed with `limit` and later succeeded. The need is its peak if the
/// peak exceeds the limit. Otherwise it is the smaller of the sufficient request and 1.5 times the
/// limit.
fn beyond(peak: PeakMemory, limit: Bytes, enough: Requested) -> PeakMemory {
    if peak.bytes > limit {
        return peak;
    }
    let half_more = Bytes(limit.0.saturating_add(limit.0 / 2));
    PeakMemory {
        bytes: enough
            .memory
            .map_or(half_more, |enough| enough.min(half_more)),
        source: peak.source,
    }
}

/// A number for a name; equal names have equal numbers.
fn group_number(name: &str) -> u64 {
    stable_hash(name.bytes())
}

impl Run {
    /// The pipeline run, or the day of its start if no run is known.
    fn pipeline_run(&self) -> String {
        match &self.record {
            Some(record) if !record.pipeline_run.is_empty() => record.pipeline_run.clone(),
            _ => self.started_at.strftime("%F").to_string(),
        }
    }

    /// The cores that it would have used at its peak without neighbours; `None` when unknown.
    /// Neighbours limit the peak of a task that waits for cores for much of its time, as in the rule
    /// about starved steps. Without them its threads would run for the time that they waited too: at
    /// most the requested cores. Without a known request, the mean over its time counts, at most the
    /// cores of its machine.
    fn peak_demand(&self, policy: &StepPolicy) -> Option<MilliCores> {
        let peak = self.peak_cores?;
        let without_waiting = || {
            let (cpu, waited) = (self.cpu?, self.detail.run_queue?);
            let starved = Some(Share::from_ppm(policy.starved_ppm));
            let is_starved = cpu.share_waited(waited) >= starved
                && Share::of_time(waited, self.wall) >= starved
                && self.among_others != Some(false);
            let ran = u128::from(cpu.0);
            let wanted = ran + waited.as_nanos();
            let of_wanted = |peak: u128| {
                let cores = peak.saturating_mul(wanted) / ran.max(1);
                MilliCores(u64::try_from(cores).unwrap_or(u64::MAX))
            };
            let cores = match self.requested.cores {
                Some(requested) => of_wanted(peak.0.into()).min(requested),
                None => of_wanted(cpu.cores_over(self.wall)?.0.into()).min(self.machine_cores?),
            };
            is_starved.then_some(cores)
        };
        Some(without_waiting().map_or(peak, |cores| cores.max(peak)))
    }

    /// Its use until it failed for another reason than memory; `None` if it did not fail so. At most its
    /// request: above it, the failure is a likely cause of the use.
    fn used_until_failure(&self, policy: &Policy) -> Option<Sample> {
        if !self.end.is_bad() || self.is_out_of_memory() {
            return None;
        }
        let is_long = self.wall >= policy.overprovisioned.min_wall();
        let cores = |cores: Option<MilliCores>| cores.filter(|_| is_long);
        Some(Sample {
            peak_memory: self.peak_memory.map(|peak| PeakMemory {
                bytes: peak.bytes.min(self.requested.memory.unwrap_or(peak.bytes)),
                source: peak.source,
            }),
            wall: self.wall,
            mean_cores: cores(self.cpu.and_then(|cpu| cpu.cores_over(self.wall))),
            allowed_cores: self.requested.cores,
            peak_cores: cores(self.peak_demand(&policy.step)),
            pipeline_run: Some(group_number(&self.pipeline_run())),
            sample: self.sample_name().map(group_number),
            ..Sample::default()
        })
    }

    /// Number of tasks that it ran in parallel; 0 when unknown.
    pub fn parallel_tasks(&self) -> u32 {
        self.record
            .as_ref()
            .map_or(0, |record| record.parallel_tasks)
    }

    fn named(&self) -> NamedAttempt {
        NamedAttempt {
            number: self.record.as_ref().map_or(0, |record| record.attempt),
            started: self.started_at,
            ended: self.observed_at,
            failed: self.failure().is_some(),
        }
    }

    fn sample_name(&self) -> Option<&str> {
        self.record.as_ref()?.sample.as_deref()
    }

    /// Whether it ran out of memory.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        self.failure().is_some_and(FailureKind::is_out_of_memory)
    }

    /// The cause of its failure; `None` if it succeeded, still runs, or its end is unknown.
    pub fn failure(&self) -> Option<FailureKind> {
        match &self.record {
            Some(record) => record.failure,
            None if self.was_killed_below_limit() => Some(FailureKind::Killed),
            None => FailureKind::of_end(self.end),
        }
    }

    /// Whether the kernel killed it for lack of memory with less than half of its request in use. Then
    /// another limit was reached: that of a container inside it, or the memory of the machine.
    pub fn was_killed_below_limit(&self) -> bool {
        let memory = self.peak_memory.zip(self.requested.memory);
        self.end == StepEnd::OutOfMemory
            && memory.is_some_and(|(peak, limit)| peak.bytes.0 < limit.0 / 2)
    }
}

impl StepProfile {
    /// Its tasks in order of time, the newest last.
    pub(crate) fn tasks(&self) -> Vec<TaskAttempts<'_>> {
        let mut tasks: Vec<(usize, TaskAttempts<'_>)> = Vec::new();
        let mut by_name: BTreeMap<(&str, &str), Vec<(usize, &Run)>> = BTreeMap::new();
        for (position, run) in self.by_time().into_iter().enumerate() {
            match &run.record {
                Some(record) => {
                    let name = (record.pipeline_run.as_str(), record.task.as_str());
                    by_name.entry(name).or_default().push((position, run));
                }
                None => {
                    let attempts = vec![run];
                    tasks.push((position, TaskAttempts { attempts }));
                }
            }
        }
        for runs in by_name.into_values() {
            let attempts: Vec<NamedAttempt> = runs.iter().map(|(_, run)| run.named()).collect();
            for indices in attempts::by_task(&attempts) {
                let of_task = || indices.iter().map(|index| runs[*index]);
                let first = of_task().map(|(position, _)| position).min();
                let attempts = of_task().map(|(_, run)| run).collect();
                tasks.push((first.unwrap_or(0), TaskAttempts { attempts }));
            }
        }
        tasks.sort_by_key(|(position, _)| *position);
        tasks.into_iter().map(|(_, task)| task).collect()
    }

    /// The needs that its tasks show, in order of time. A task that ran out of memory counts with
    /// the memory that it needed in the end, or with a lower bound.
    pub fn samples(&self, policy: &Policy) -> Vec<Sample> {
        let tasks = self.tasks();
        let samples = tasks.iter().filter_map(|task| task.sample(self, policy));
        samples.collect()
    }

    /// Whether any attempt ran out of memory.
    pub fn ran_out_of_memory(&self) -> bool {
        self.records().any(Run::is_out_of_memory)
    }

    /// The most that attempts used which failed for another reason than memory, such as the time
    /// limit, as one further sample; `None` if those of `samples` used as much. They did not show all
    /// that they need, but a smaller request would have stopped them earlier.
    pub fn used_until_failures(&self, samples: &[Sample], policy: &Policy) -> Option<Sample> {
        let runs = self.by_time();
        let failed = runs.iter().filter_map(|run| run.used_until_failure(policy));
        let failed: Vec<Sample> = failed.collect();
        let peak = |sample: &Sample| sample.peak_memory.map(|peak| peak.bytes);
        let mean = |sample: &Sample| sample.mean_cores;
        let most = |sample: &Sample| sample.peak_cores;
        let is_more = is_greater(&failed, samples, peak)
            || is_greater(&failed, samples, mean)
            || is_greater(&failed, samples, most);
        let last = failed.last().filter(|_| is_more)?;
        let all = || failed.iter().chain(samples);
        let busiest = all().max_by_key(|sample| mean(sample))?;
        Some(Sample {
            peak_memory: all().max_by_key(|sample| peak(sample))?.peak_memory,
            wall: failed.iter().map(|sample| sample.wall).max()?,
            mean_cores: busiest.mean_cores,
            allowed_cores: busiest.allowed_cores,
            peak_cores: all().filter_map(most).max(),
            ..*last
        })
    }

    /// The present request of first attempts: those of the newest pipeline run, or the newest ones
    /// if no run is known. The run of a Slurm job is only its day, and jobs of one name may be
    /// different work. The newest jobs of all days count then.
    pub fn present_request(&self) -> PresentRequest {
        let tasks = self.tasks();
        let newest_first = || tasks.iter().rev();
        let mut firsts: Vec<&Run> = newest_first().filter_map(TaskAttempts::first).collect();
        // Slurm shows only the last attempt of a job that it requeued.
        if firsts.is_empty() {
            firsts = newest_first().filter_map(TaskAttempts::earliest).collect();
        }
        let Some(newest) = firsts.first() else {
            return PresentRequest::default();
        };
        let is_slurm = |key: &RunKey| key.step.kind == StepKind::SlurmJob;
        let is_slurm = self.runs.iter().any(|(key, _)| is_slurm(key));
        let record = newest.record.as_ref().filter(|_| !is_slurm);
        let of_run = record.map(|record| &record.pipeline_run);
        let recent: Vec<&Run> = match of_run.filter(|run| !run.is_empty()) {
            Some(run) => {
                let is_of_run = |first: &&Run| {
                    let record = first.record.as_ref();
                    record.is_some_and(|record| record.pipeline_run == *run)
                };
                firsts.iter().copied().filter(is_of_run).collect()
            }
            None => firsts.iter().copied().take(RECENT_TASKS).collect(),
        };
        match is_slurm {
            true => present(&without_resubmitted(recent)),
            false => present(&recent),
        }
    }

    /// Failed attempts by kind and exit status, the most lost time first.
    pub fn failures(&self) -> Vec<FailureCount> {
        let failed = self.records().filter_map(|run| {
            let of_record = run.record.as_ref().and_then(|record| record.exit_status);
            let exit_status = of_record.or(match run.end {
                StepEnd::Exited(status) => Some(status.into()),
                _ => None,
            });
            Some(FailureCount::new(run.failure()?, exit_status, run.wall))
        });
        FailureCount::merge(&failed.collect::<Vec<_>>())
    }

    /// The need of a task for which `limit` was too little: the smallest peak above `limit` of a
    /// successful task, otherwise 1.5 times the limit.
    fn needed_beyond(&self, limit: Bytes) -> Option<PeakMemory> {
        let well = self.records().filter(|run| !run.end.is_bad());
        let peaks = well.filter_map(|run| run.peak_memory);
        let evident = peaks.filter(|peak| peak.bytes > limit);
        let least = evident.min_by_key(|peak| peak.bytes);
        least.or_else(|| {
            let killed = self.records().find_map(|run| run.peak_memory);
            Some(PeakMemory {
                bytes: Bytes(limit.0.saturating_add(limit.0 / 2)),
                source: killed.map_or(MemorySource::ProcessesSampled, |peak| peak.source),
            })
        })
    }
}

fn is_greater<T: Ord>(
    some: &[Sample],
    others: &[Sample],
    of: impl Fn(&Sample) -> Option<T>,
) -> bool {
    let greatest = |samples: &[Sample]| samples.iter().filter_map(&of).max();
    greatest(some) > greatest(others)
}

/// First attempts without those that have more memory than one with which at least half ran out of
/// memory. A user of Slurm submits such a job again with more memory, as a job with another number.
/// There are at most as many of these as of the others that failed so.
fn without_resubmitted(firsts: Vec<&Run>) -> Vec<&Run> {
    let mut by_memory: BTreeMap<Bytes, (usize, usize)> = BTreeMap::new();
    for first in &firsts {
        if let Some(memory) = first.requested.memory {
            let (tasks, killed) = by_memory.entry(memory).or_default();
            *tasks += 1;
            *killed += usize::from(first.is_out_of_memory());
        }
    }
    let mut with_more = 0;
    for (most, (tasks, killed)) in by_memory.into_iter().rev() {
        if 2 * killed >= tasks && killed >= with_more {
            let is_first = |run: &&Run| run.requested.memory.is_none_or(|memory| memory <= most);
            return firsts.into_iter().filter(is_first).collect();
        }
        with_more += tasks;
    }
    firsts
}

/// The present request of these first attempts.
pub fn present(firsts: &[&Run]) -> PresentRequest {
    let mut counts: BTreeMap<SizedRequest, RequestCount> = BTreeMap::new();
    for first in firsts {
        let request = SizedRequest::from(first.requested);
        let count = counts.entry(request).or_insert(RequestCount {
            request,
            tasks: 0,
            out_of_memory: 0,
        });
        count.tasks += 1;
        count.out_of_memory += u32::from(first.is_out_of_memory());
    }
    let mut counts: Vec<RequestCount> = counts.into_values().collect();
    counts.sort_by(|a, b| (b.tasks, &a.request).cmp(&(a.tasks, &b.request)));
    let most = counts.first().map_or(0, |count| count.tasks as usize);
    let (request, basis) = match counts.as_slice() {
        [] => (SizedRequest::default(), RequestBasis::Same),
        [only] => (only.request, RequestBasis::Same),
        [first, ..] if most * 100 >= firsts.len() * NEARLY_ALL_PERCENT => {
            (first.request, RequestBasis::Most)
        }
        _ => (median(firsts), RequestBasis::Median),
    };
    counts.truncate(MAX_REQUESTS);
    PresentRequest {
        request,
        basis,
        least: SizedRequest {
            cores: firsts.iter().filter_map(|r| r.requested.cores).min(),
            memory: firsts.iter().filter_map(|r| r.requested.memory).min(),
        },
        counts,
    }
}

/// The median of cores, and separately the median of memory; the greater of two middle values.
fn median(firsts: &[&Run]) -> SizedRequest {
    fn middle<T: Ord + Copy>(mut values: Vec<T>) -> Option<T> {
        values.sort_unstable();
        values.get(values.len() / 2).copied()
    }
    let cores: Vec<MilliCores> = firsts.iter().filter_map(|r| r.requested.cores).collect();
    let memory: Vec<Bytes> = firsts.iter().filter_map(|r| r.requested.memory).collect();
    SizedRequest {
        cores: middle(cores),
        memory: middle(memory),
    }
}
