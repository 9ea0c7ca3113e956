//! The rows of the table of ways to be stuck that only the inventory, or inventory and
//! probe together, can tell.

use super::check;
use crate::fleet::{Gap, Instance, JobStatus};
use crate::rules::testing::{World, asked, instance, step};
use crate::state::testing::at;
use crate::step::{StepEnd, StepUsage};

/// An hour in which the worker works, beside what its steps do.
fn watched(mut world: World, steps: impl Fn(u64) -> Vec<StepUsage>) -> World {
    world.watch(1, 0, 60, |minute, h| {
        h.workload.cpu = Some(crate::units::CpuTime::from_millis(30_000));
        h.steps = steps(minute * 60 + 60);
    });
    world
}

fn job(status: JobStatus) -> World {
    World::with([instance(1)]).with_job(status, asked(2, 4))
}

#[test]
fn a_running_job_is_stuck_when_its_last_process_ended_long_ago() {
    let world = |ended_s: u64| {
        watched(job(JobStatus::Running), |observed| {
            let gone = observed >= ended_s;
            let usage = step(observed.min(ended_s), |s| {
                s.end = if gone {
                    StepEnd::Signalled(9)
                } else {
                    StepEnd::Running
                };
            });
            vec![usage]
        })
    };
    check(
        &world(3_000),
        "RUNNING for Batch, but its last process was ended by signal 9 10 min ago",
    );
    check(&world(3_540), "its task was not seen");
    // The state has forgotten it; the lake has not.
    let mut long_gone = watched(job(JobStatus::Running), |_| Vec::new());
    check(&long_gone, "its task was not seen");
    let mut ended = crate::state::testing::placed_step(1, 10);
    ended.usage.id.key = format!("{:032x}", 1);
    long_gone.finished.push(ended);
    check(&long_gone, "but its last process exited with status 0");
}

#[test]
fn a_container_that_outlives_its_job_is_an_orphan() {
    let running = |observed| vec![step(observed, |_| ())];
    let world = |status, stopped_s: Option<u64>| {
        let mut world = watched(job(status), running);
        world.job().stopped_at = stopped_s.map(at);
        world
    };
    let orphan = "its job has been over for 40 min and its container goes on";
    check(&world(JobStatus::Failed, Some(1_200)), orphan);
    check(&world(JobStatus::Succeeded, Some(1_200)), orphan);
    check(&world(JobStatus::Failed, Some(3_000)), "well");
}

fn stranger(launched_s: u64) -> Instance {
    let mut stranger = instance(2);
    stranger.launched_at = Some(at(launched_s));
    stranger
        .tags
        .insert("aws:batch:compute-environment".into(), "env".into());
    stranger
}

#[test]
fn a_machine_of_an_environment_that_never_joined_is_stuck() {
    let world = |launched_s: u64, gap: bool| {
        let mut world = World::with([stranger(launched_s)]);
        if gap {
            world.inventory.gaps.push(Gap {
                scope: "us-east-1: ecs:ListContainerInstances".to_owned(),
                reason: "AccessDenied".to_owned(),
            });
        }
        world.now = at(3_600);
        world
    };
    check(
        &world(600, false),
        "started 50 min ago and never joined its cluster",
    );
    check(&world(3_000, false), "no probe on it, and no metrics");
    check(&world(600, true), "no probe on it, and no metrics");
    let mut alive = world(600, false);
    alive.watch(2, 0, 60, |_, _| {});
    check(&alive, "though its probe tells that it lives");
}

#[test]
fn what_batch_calls_invalid_is_told_on_sight() {
    let world = |status: &str| {
        let mut world = World::default().with_job(JobStatus::Succeeded, asked(1, 1));
        let environment = &mut world.inventory.batch.environments[0];
        environment.status = Some(status.into());
        world
    };
    check(&world("INVALID"), "INVALID: Batch gives no reason");
    check(&world("VALID"), "well");
}
