//! The other task on a node that uses most of a resource for which a task waits.

use std::time::Duration;

use ebb_model::finding::evidence::causes::Causes;
use ebb_model::finding::evidence::step::{Neighbour, NeighbourResource};
use ebb_node_state::node_state::NodeState;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::step::{PlacedStep, StepUsage, TaskState};
use ebb_telemetry::units::{Bytes, Share};

use crate::facts::Facts;
use crate::step_history::observed_task::ObservedTask;

/// A task with a smaller share is not clearly the cause.
const CLEAR: Share = Share::from_ppm(500_000);

/// The neighbour for the main cause of a task: by disk bytes for a wait for disk, and by memory for
/// page faults. `None` for another cause, or if no neighbour has at least half of the resource.
pub(crate) fn find_neighbour(
    facts: &Facts<'_>,
    run: &ObservedTask<'_>,
    causes: Option<Causes>,
) -> Option<Neighbour> {
    let node = &run.step.node;
    let state = facts.state.nodes.get(node)?;
    match causes?.main.state {
        TaskState::Disk => by_disk(state, node, run),
        TaskState::PageFault => by_memory(state, node, run),
        _ => None,
    }
}

fn by_disk(state: &NodeState, node: &NodeId, run: &ObservedTask<'_>) -> Option<Neighbour> {
    let own = run.wall();
    let moved: Vec<(PlacedStep, u64)> = state
        .running(node)
        .filter_map(|step| {
            let bytes = disk_bytes_in(&step.usage, own)?;
            Some((step, bytes))
        })
        .collect();
    let all = moved.iter().map(|(_, bytes)| *bytes);
    let all = all.fold(0, u64::saturating_add);
    largest(moved, all, run, NeighbourResource::Disk)
}

fn by_memory(state: &NodeState, node: &NodeId, run: &ObservedTask<'_>) -> Option<Neighbour> {
    let of = state.latest.as_ref()?.hardware.memory;
    let held = state.running(node).filter_map(|step| {
        let Bytes(bytes) = step.usage.detail.memory_now?;
        Some((step, bytes))
    });
    largest(held.collect(), of.0, run, NeighbourResource::Memory)
}

/// Bytes from and to block devices in the last `time`, if the rate was the mean rate of the task.
fn disk_bytes_in(usage: &StepUsage, time: Duration) -> Option<u64> {
    let bytes = usage.disk_read?.saturating_add(usage.disk_written?);
    let wall = usage.observed.since(usage.started)?;
    let part = Share::from_parts(
        u64::try_from(time.min(wall).as_millis()).ok()?,
        u64::try_from(wall.as_millis()).ok()?,
    )?;
    let bytes = u128::from(bytes.0) * u128::from(part.ppm()) / 1_000_000;
    u64::try_from(bytes).ok()
}

/// The task with the most of `all`, if this is another task and its share is clear.
fn largest(
    tasks: Vec<(PlacedStep, u64)>,
    all: u64,
    run: &ObservedTask<'_>,
    resource: NeighbourResource,
) -> Option<Neighbour> {
    let (step, most) = tasks.into_iter().max_by_key(|(_, amount)| *amount)?;
    let share = Share::from_parts(most, all)?;
    let is_another = (&step.boot, &step.usage.id) != (&run.step.boot, &run.step.usage.id);
    (is_another && share >= CLEAR).then_some(Neighbour {
        name: step.usage.name,
        resource,
        share,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::step_world::{run_and_neighbour, states, verdict};
    use ebb_model::finding_kind::FindingKind;

    #[test]
    fn a_task_that_waits_names_the_neighbour_with_most_of_what_it_waits_for() {
        let check = |on: TaskState, own_gib: u64, other_gib: u64, expect: Option<&str>| {
            let waits = |s: &mut StepUsage| {
                s.detail.states = states(&[(on, 300, 50), (TaskState::Running, 60, 10)]);
                s.disk_read = Some(Bytes::gib(own_gib));
                s.disk_written = Some(Bytes(0));
                s.detail.memory_now = Some(Bytes::gib(own_gib));
            };
            let other = |s: &mut StepUsage| {
                s.name = "backup".to_owned();
                s.disk_read = Some(Bytes::gib(other_gib));
                s.disk_written = Some(Bytes(0));
                s.detail.memory_now = Some(Bytes::gib(other_gib));
            };
            let world = run_and_neighbour(60, waits, other);
            let found = verdict(&world, FindingKind::WaitingStep).expect("it waits");
            let evidence = found.evidence.to_string();
            let named = evidence.split_once("; ").map(|(_, neighbour)| neighbour);
            assert_eq!(named, expect, "{on:?} {own_gib} {other_gib}");
        };
        let disk = "backup on the same node causes 80 % of the disk I/O of all its tasks";
        check(TaskState::Disk, 2, 8, Some(disk));
        check(TaskState::Disk, 8, 2, None);
        // The node has 16 GiB.
        let memory = "backup on the same node holds 62 % of the memory of the node";
        check(TaskState::PageFault, 2, 10, Some(memory));
        check(TaskState::PageFault, 2, 6, None);
        check(TaskState::Network, 2, 10, None);
    }
}
