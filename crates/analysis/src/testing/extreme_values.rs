//! Values of a hostile node at their limits. An evaluation that stops at them would report nothing of
//! any node.

use std::time::Duration;

use ebb_telemetry::step::resource_usage::TaskState;
use ebb_telemetry::step::{MemorySource, PeakMemory, StepEnd, StepKind, StepUsage};
use ebb_telemetry::testing::at;
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores};

use crate::evaluate::evaluate_in_detail;
use crate::testing::step_world::{ended, states, usage};
use crate::testing::{World, instance, requested};

const MOST: u64 = i64::MAX.unsigned_abs();

fn extreme(usage: &mut StepUsage, state: TaskState) {
    let most = Some(Bytes(MOST));
    usage.cpu = CpuTime(MOST);
    usage.peak_cores = Some(MilliCores(MOST));
    usage.peak_memory = Some(PeakMemory {
        bytes: Bytes(MOST),
        source: MemorySource::CgroupPeak,
    });
    (usage.disk_read, usage.disk_written) = (most, most);
    usage.requested.cores = Some(MilliCores(MOST));
    usage.requested.memory = most;
    usage.detail.memory_now = most;
    usage.detail.run_queue = Some(Duration::from_nanos(MOST));
    usage.detail.states = states(&[(state, 300, 50), (TaskState::Running, 60, 10)]);
}

fn evaluated_steps(state: TaskState, has_short_tasks: bool) -> usize {
    let mut world = World::with([instance(1)]);
    world.watch(1, 0, 120, |minute, h| {
        let steps = (0..4).map(|n| {
            let mut usage = usage(StepKind::Container, minute * 60 + 60);
            usage.id.key = format!("task-{n}");
            extreme(&mut usage, state);
            if has_short_tasks && n > 0 {
                usage.started = BootClock::from_nanos(usage.observed.as_nanos() - 1);
            }
            usage
        });
        h.steps = steps.collect();
    });
    for n in 0..4 {
        ended(&mut world, n, 10, |usage| extreme(usage, state));
        ended(&mut world, n + 4, 10, |usage| {
            extreme(usage, state);
            usage.end = StepEnd::OutOfMemory;
        });
    }
    let (report, _) = evaluate_in_detail(&world.facts());
    report.steps.len()
}

#[test]
fn values_at_their_limits_stop_no_evaluation() {
    for state in [
        TaskState::Disk,
        TaskState::PageFault,
        TaskState::Network,
        TaskState::Running,
        TaskState::Runnable,
    ] {
        for has_short_tasks in [false, true] {
            assert!(evaluated_steps(state, has_short_tasks) > 0, "{state:?}");
        }
    }
}

#[test]
fn a_task_needs_at_most_its_machine() {
    let check = |launched_s: u64, expect: MilliCores| {
        let mut machine = instance(1);
        machine.launched_at = Some(at(launched_s));
        let mut world = World::with([machine]);
        for n in 0..30 {
            ended(&mut world, n, 10, |usage| {
                extreme(usage, TaskState::Running);
                usage.requested = requested(2, 4);
                usage.peak_cores = Some(MilliCores::cores(900));
            });
        }
        world.watch(1, 0, 60, |_, _| ());
        let needed = world.evaluate().steps[0].should_ask.cores;
        assert_eq!(needed, Some(expect), "{launched_s}");
    };
    // An m5.xlarge. It had another type when it ran the tasks, if it began after them.
    check(0, MilliCores::cores(4));
    // Three percent may be an error of the measurement.
    check(1_200, MilliCores::cores(873));
}
