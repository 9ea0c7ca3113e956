//! The tasks of the machines: jobs of Snakemake with the names that the probe reads, containers of
//! Batch, and services.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use ebb_telemetry::step::resource_usage::{CpuWithoutProgress, Sampled, StepDetail, TaskState};
use ebb_telemetry::step::{
    MemorySource, PeakMemory, Requested, StepEnd, StepId, StepKind, StepUsage, ToolUsage,
};
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores};

use crate::every_kind::HOURS;
use crate::every_kind::fleet::clock;

/// A task of a node, with its time in hours after the begin.
pub(crate) struct Task {
    kind: StepKind,
    name: &'static str,
    key: String,
    start: f64,
    /// `None` if it runs at the end.
    end: Option<(f64, StepEnd)>,
    cores: f64,
    change: fn(&mut StepUsage, Duration),
}

impl Task {
    fn usage(&self, until: f64, end: StepEnd) -> StepUsage {
        let wall = Duration::from_secs_f64((until - self.start) * 3600.0);
        let cpu = CpuTime((self.cores * wall.as_secs_f64() * 1e9) as u64);
        let mut usage = StepUsage {
            id: StepId {
                kind: self.kind,
                key: self.key.clone(),
            },
            name: self.name.to_owned(),
            started: clock(self.start),
            observed: clock(until),
            end,
            processes: 3,
            cpu,
            peak_memory: Some(peak(Bytes::mib(2_600))),
            disk_read: Some(Bytes::gib(1)),
            disk_written: Some(Bytes::gib(1)),
            requested: request(2, 4),
            peak_cores: Some(MilliCores((self.cores * 1000.0) as u64)),
            last_progress: clock(until),
            tools: vec![ToolUsage {
                name: "bwa".to_owned(),
                processes: 1,
                cpu,
                peak_memory: None,
                disk: None,
                events: None,
            }],
            detail: StepDetail::default(),
        };
        (self.change)(&mut usage, wall);
        usage
    }

    /// The task in a heartbeat that ends at `hour`; `None` if it does not run then.
    pub(crate) fn running(&self, hour: f64) -> Option<StepUsage> {
        let runs = self.start < hour && self.end.is_none_or(|(end, _)| hour < end);
        runs.then(|| self.usage(hour, StepEnd::Running))
    }

    /// The task if it ended in these hours.
    pub(crate) fn ended(&self, hours: &Range<u64>) -> Option<StepUsage> {
        let (end, how) = self.end?;
        let is_in = (hours.start as f64..hours.end as f64).contains(&end);
        is_in.then(|| self.usage(end, how))
    }
}

fn peak(bytes: Bytes) -> PeakMemory {
    PeakMemory {
        bytes,
        source: MemorySource::CgroupSampled,
    }
}

fn request(cores: u64, gib: u64) -> Requested {
    Requested {
        cores: Some(MilliCores::cores(cores)),
        memory: Some(Bytes::gib(gib)),
    }
}

fn nothing(_: &mut StepUsage, _: Duration) {}

/// A job of this rule that runs since `hours` before the end.
fn running(name: &'static str, hours: f64, change: fn(&mut StepUsage, Duration)) -> Task {
    Task {
        kind: StepKind::SnakemakeJob,
        name,
        key: format!("{name}-now"),
        start: HOURS as f64 - hours,
        end: None,
        cores: 1.6,
        change,
    }
}

/// Jobs of this rule of one hour each that ended, the last two hours before the end.
fn earlier(
    name: &'static str,
    count: u32,
    end: StepEnd,
    change: fn(&mut StepUsage, Duration),
) -> impl Iterator<Item = Task> {
    (0..count).map(move |n| {
        let until = HOURS as f64 - 2.5 - 3.0 * f64::from(n);
        Task {
            key: format!("{name}-{n}"),
            start: until - 1.0,
            end: Some((until, end)),
            ..running(name, 0.0, change)
        }
    })
}

/// Samples of one state for most of the time, and of running for the rest.
fn mostly(state: TaskState, usage: &mut StepUsage, wall: Duration) {
    let sampled = |samples, time| Sampled { samples, time };
    usage.detail.states = BTreeMap::from([
        (state, sampled(900, wall.mul_f64(0.9))),
        (TaskState::Running, sampled(100, wall.mul_f64(0.1))),
    ]);
}

/// The tasks of one machine each; every machine has one problem.
pub(crate) fn of_steps() -> Vec<Vec<Task>> {
    let ended = StepEnd::Exited(0);
    let slow = running("map", 3.5, nothing);
    let spinning = running("fit", 2.2, |usage, wall| spin(usage, wall.as_secs()));
    vec![
        earlier("map", 10, ended, nothing).chain([slow]).collect(),
        earlier("fit", 6, ended, |usage, _| spin(usage, 600))
            .chain([spinning])
            .collect(),
        earlier("trim", 24, ended, |usage, _| {
            usage.requested = request(4, 14);
            usage.peak_memory = Some(peak(Bytes::mib(700)));
        })
        .collect(),
        earlier("sort", 5, ended, |usage, _| {
            usage.peak_memory = Some(peak(Bytes::mib(4_000)));
        })
        .collect(),
        earlier("assemble", 1, StepEnd::OutOfMemory, nothing).collect(),
        earlier("fetch", 6, StepEnd::Exited(1), nothing).collect(),
        vec![running("download", 2.0, |usage, wall| {
            let worked = wall.as_nanos().min(3_600_000_000_000);
            let worked = u64::try_from(worked).expect("two hours");
            usage.last_progress =
                ebb_telemetry::time::BootClock::from_nanos(usage.started.as_nanos() + worked);
        })],
        vec![
            running("call", 1.5, |usage, wall| {
                usage.detail.run_queue = Some(wall.mul_f64(0.8));
            }),
            Task {
                kind: StepKind::Service,
                name: "indexer.service",
                key: "indexer.service".to_owned(),
                cores: 2.2,
                ..running("indexer", 100.0, |usage, _| {
                    usage.requested = Requested::default();
                })
            },
        ],
        vec![running("stage", 1.5, |usage, wall| {
            mostly(TaskState::Disk, usage, wall);
        })],
        vec![running("merge", 1.5, |usage, _| {
            usage.peak_memory = Some(peak(Bytes::mib(4_050)));
        })],
    ]
}

/// CPU time without a result, so many seconds now and at the longest.
fn spin(usage: &mut StepUsage, seconds: u64) {
    let time = Duration::from_secs(seconds);
    usage.detail.cpu_without_progress = Some(CpuWithoutProgress {
        now: time,
        longest: time,
    });
}

/// A service that needs a small part of its machine.
pub(crate) fn small_service() -> Vec<Task> {
    vec![Task {
        kind: StepKind::Service,
        name: "web.service",
        key: "web.service".to_owned(),
        cores: 1.0,
        ..running("web", 300.0, |usage, _| {
            usage.requested = Requested::default();
        })
    }]
}

/// Jobs of a pipeline, eight hours of each day.
pub(crate) fn pipeline_jobs() -> Vec<Task> {
    earlier("quantify", 100, StepEnd::Exited(0), nothing).collect()
}

/// The id of a container of Batch.
pub(crate) fn batch_task(n: u32) -> String {
    format!("{n:032x}")
}

/// Containers of short jobs on a worker: one runs, and the others ended.
pub(crate) fn batch_tasks() -> Vec<Task> {
    let task = |n: u32, task: Task| Task {
        kind: StepKind::EcsTask,
        key: batch_task(n),
        ..task
    };
    let ended = earlier("", 30, StepEnd::Exited(0), nothing);
    let ended = ended.zip(1..).map(|(one, n)| task(n, one));
    ended.chain([task(0, running("", 0.5, nothing))]).collect()
}
