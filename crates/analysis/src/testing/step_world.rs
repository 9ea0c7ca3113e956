//! A node with one running task and its earlier tasks, for test cases.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_model::finding::Finding;
use ebb_model::finding_kind::FindingKind;
use ebb_telemetry::step::resource_usage::{Sampled, TaskState};
use ebb_telemetry::step::{
    MemorySource, PeakMemory, PlacedStep, StepEnd, StepId, StepKind, StepUsage, ToolUsage,
};
use ebb_telemetry::testing::{at, clock, placed_step};
use ebb_telemetry::units::{Bytes, CpuTime};

use crate::testing::{World, instance, requested};

pub(crate) fn gib(n: u64) -> Bytes {
    Bytes::gib(n)
}

pub(crate) fn peak(mib: u64, source: MemorySource) -> PeakMemory {
    PeakMemory {
        bytes: Bytes::mib(mib),
        source,
    }
}

/// A running task with one core and 4 GiB, observed at `observed_s`.
pub(crate) fn usage(kind: StepKind, observed_s: u64) -> StepUsage {
    let mut usage = ebb_telemetry::testing::usage(1, clock(observed_s));
    usage.id.kind = kind;
    usage.requested = requested(1, 4);
    usage
}

/// States with their number of samples and minutes.
pub(crate) fn states(of: &[(TaskState, u64, u64)]) -> BTreeMap<TaskState, Sampled> {
    let sampled = |samples: u64, minutes: u64| Sampled {
        samples,
        time: Duration::from_secs(minutes * 60),
    };
    of.iter()
        .map(|(state, samples, min)| (*state, sampled(*samples, *min)))
        .collect()
}

/// A node that works without tasks.
pub(crate) fn no_run() -> World {
    of_steps(60, |_| Vec::new())
}

/// A Slurm job that has run for `minutes` minutes.
pub(crate) fn run_for(minutes: u64, change: impl Fn(&mut StepUsage)) -> World {
    run_of(StepKind::SlurmJob, minutes, change)
}

pub(crate) fn run_of(kind: StepKind, minutes: u64, change: impl Fn(&mut StepUsage)) -> World {
    of_steps(minutes, |observed_s| {
        let mut usage = usage(kind, observed_s);
        change(&mut usage);
        vec![usage]
    })
}

/// The same job next to another task that keeps `cores` cores busy.
pub(crate) fn run_next_to(minutes: u64, cores: u64, change: impl Fn(&mut StepUsage)) -> World {
    of_steps(minutes, |observed_s| {
        let mut mine = usage(StepKind::SlurmJob, observed_s);
        change(&mut mine);
        let mut other = usage(StepKind::Service, observed_s);
        other.id.key = "other.service".into();
        other.cpu = CpuTime(other.observed.as_nanos() * cores);
        vec![mine, other]
    })
}

/// A Slurm job next to a service.
pub(crate) fn run_and_neighbour(
    minutes: u64,
    change: impl Fn(&mut StepUsage),
    change_other: impl Fn(&mut StepUsage),
) -> World {
    of_steps(minutes, |observed_s| {
        let mut mine = usage(StepKind::SlurmJob, observed_s);
        change(&mut mine);
        let mut other = usage(StepKind::Service, observed_s);
        other.id.key = "other.service".into();
        change_other(&mut other);
        vec![mine, other]
    })
}

fn of_steps(minutes: u64, steps: impl Fn(u64) -> Vec<StepUsage>) -> World {
    let mut world = World::with([instance(1)]);
    world.watch(1, 0, minutes, |minute, h| {
        h.workload.cpu = Some(CpuTime::from_millis(60_000));
        h.steps = steps(minute * 60 + 60);
    });
    world
}

/// Adds earlier task `n` of `align`, which took `minutes` minutes.
pub(crate) fn ended(world: &mut World, n: u64, minutes: u64, change: impl Fn(&mut StepUsage)) {
    let mut usage = StepUsage {
        id: StepId {
            kind: StepKind::SlurmJob,
            key: format!("earlier-{n}"),
        },
        end: StepEnd::Exited(0),
        requested: requested(1, 4),
        peak_memory: Some(peak(1_024, MemorySource::CgroupSampled)),
        tools: vec![ToolUsage {
            name: "bwa".into(),
            processes: 1,
            cpu: CpuTime::from_millis(1_200_000),
            peak_memory: None,
            disk: None,
            events: None,
        }],
        ..ebb_telemetry::testing::usage(n, clock(minutes * 60))
    };
    change(&mut usage);
    let observed_at = at(minutes * 60 + n);
    world.finished.push(PlacedStep {
        sequence: n,
        observed_at,
        usage,
        ..placed_step(1, 0)
    });
    world.now = world.now.max(observed_at);
}

pub(crate) fn verdict(world: &World, kind: FindingKind) -> Option<Finding> {
    let findings = world.evaluate().findings.into_iter();
    let mut of_kind = findings.filter(|finding| finding.kind == kind);
    of_kind.next()
}
