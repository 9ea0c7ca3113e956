//! Single tasks with what is known of them, grouped by run, node and step.

#[cfg(test)]
mod tests;
pub mod usage_points;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use ebb_model::finding::Finding;
use ebb_model::inventory::batch::job::Job;
use ebb_model::inventory::batch::task::task_id;
use ebb_model::report::task_detail::{TaskDetail, ToolDetail};
use ebb_model::report::task_groups::{TaskGroup, TaskGroups};
use ebb_model::report::workflow_runs::{TaskRuntime, UNASSIGNED};
use ebb_telemetry::identity::{AccountId, NodeId, Region};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::{StepEnd, StepId, ToolUsage};
use jiff::Timestamp;

use crate::facts::Facts;
use crate::in_turns::first_in_turns;
use crate::step_history::by_step::{Profiles, StepHistory, StepKey};
use crate::step_history::nextflow_task;
use crate::step_history::observed_task::ObservedTask;
use crate::workflow_runs::batch_family::Families;
use crate::workflow_runs::{pipeline, run_of, sample_of};

/// Limit on all tasks; the newest stay, in turns of the nodes.
pub const MAX_TASKS: usize = 100_000;

/// Turns of a node in the list of all tasks. If the list is full, a node has a hundredth of it before
/// the tasks of other nodes are left out.
const TURNS: usize = 100;

/// Limit on the tasks of a node; the newest stay.
pub const MAX_NODE_TASKS: usize = 500;

/// Limit on the tasks of a step; the newest stay.
pub const MAX_STEP_TASKS: usize = 200;

/// Limit on the executables of a task; the busiest stay.
const MAX_TOOLS: usize = 20;

/// A median of fewer durations says little about the next task.
const MIN_TYPICAL_TASKS: usize = 3;

/// All observed tasks, with the findings about them. Each has only its latest point of use.
pub(crate) fn group_tasks(
    facts: &Facts<'_>,
    profiles: &Profiles<'_>,
    findings: &[Finding],
) -> TaskGroups {
    let families = Families::from_jobs(facts.inventory.batch.known_jobs());
    let findings = FindingsOfTasks::from_findings(findings);
    let mut newest = Vec::new();
    for (key, profiled) in &profiles.by_step {
        let typical = typical_seconds(profiled);
        let tasks = profiled.runs.iter();
        newest.extend(tasks.map(|task| (Some(task.step.node.clone()), (key, typical, task))));
    }
    let (newest, beyond) = newest_in_turns(newest, MAX_TASKS, |(.., task)| task.step.observed_at);
    let mut groups = GroupSums::default();
    let mut tasks = Vec::with_capacity(newest.len());
    for (at, (_, (key, typical, task))) in newest.into_iter().chain(beyond).enumerate() {
        let run = run_of(task, facts.policy, &families).map(|(_, run)| run);
        let position = (at < MAX_TASKS).then_some(at);
        groups.add((run.as_deref(), &key.name), task, position);
        if position.is_some() {
            tasks.push((
                TaskDetail {
                    run,
                    pipeline: pipeline(task, facts.policy),
                    sample: sample_of(task, facts.policy).map(str::to_owned),
                    typical_seconds: typical,
                    findings: findings.about(key, task),
                    ..detail(&key.name, task)
                },
                at,
            ));
        }
    }
    groups.in_order(facts.now, tasks)
}

/// A task with its node.
type TaskOfNode<T> = (Option<NodeId>, T);

/// The newest `max` tasks in turns of their nodes, the newest first, and the other tasks.
fn newest_in_turns<T>(
    mut tasks: Vec<TaskOfNode<T>>,
    max: usize,
    observed_at: impl Fn(&T) -> Timestamp,
) -> (Vec<TaskOfNode<T>>, Vec<TaskOfNode<T>>) {
    let newest_first = |(_, task): &TaskOfNode<T>| Reverse(observed_at(task));
    tasks.sort_by_key(newest_first);
    if tasks.len() <= max {
        return (tasks, Vec::new());
    }
    let mut newest = first_in_turns(tasks, max / TURNS, usize::MAX);
    let others = newest.split_off(max);
    newest.sort_by_key(newest_first);
    (newest, others)
}

/// Positions in the order of observation, the newest first.
#[derive(Default)]
struct GroupSums {
    runs: BTreeMap<String, TaskGroup>,
    nodes: BTreeMap<String, TaskGroup>,
    steps: BTreeMap<String, TaskGroup>,
}

impl GroupSums {
    /// Adds a task to its groups; without a position, it is only counted.
    fn add(
        &mut self,
        (run, step): (Option<&str>, &str),
        task: &ObservedTask<'_>,
        at: Option<usize>,
    ) {
        let origin = task.step.origin;
        let run = run.unwrap_or(UNASSIGNED);
        let node = task.step.node.as_str();
        for (groups, name, limit) in [
            (&mut self.runs, run, MAX_TASKS),
            (&mut self.nodes, node, MAX_NODE_TASKS),
            (&mut self.steps, step, MAX_STEP_TASKS),
        ] {
            add_to(groups, name, limit, (origin, at));
        }
    }

    /// The groups with the tasks in order of their start.
    fn in_order(mut self, at: Timestamp, mut tasks: Vec<(TaskDetail, usize)>) -> TaskGroups {
        tasks.sort_by(|(a, _), (b, _)| (a.started_at, &a.id).cmp(&(b.started_at, &b.id)));
        let mut positions = vec![0; tasks.len()];
        for (to, (_, from)) in tasks.iter().enumerate() {
            positions[*from] = to;
        }
        for groups in [&mut self.runs, &mut self.nodes, &mut self.steps] {
            for group in groups.values_mut() {
                for task in &mut group.tasks {
                    *task = positions[*task];
                }
                group.tasks.sort_unstable();
            }
        }
        TaskGroups {
            at,
            tasks: tasks.into_iter().map(|(task, _)| task).collect(),
            runs: self.runs,
            nodes: self.nodes,
            steps: self.steps,
        }
    }
}

fn add_to(
    groups: &mut BTreeMap<String, TaskGroup>,
    name: &str,
    limit: usize,
    (origin, at): (Origin, Option<usize>),
) {
    // Most tasks belong to a known group, which needs no copy of its name.
    let group = match groups.get_mut(name) {
        Some(group) => group,
        None => groups.entry(name.to_owned()).or_insert(TaskGroup {
            origin,
            tasks: Vec::new(),
            left_out: 0,
        }),
    };
    group.origin = group.origin.max(origin);
    match at.filter(|_| group.tasks.len() < limit) {
        Some(at) => group.tasks.push(at),
        None => group.left_out += 1,
    }
}

/// The median duration of the successful tasks of a step; `None` with fewer than
/// [`MIN_TYPICAL_TASKS`].
fn typical_seconds(profiled: &StepHistory<'_>) -> Option<f64> {
    let successful = profiled.runs.iter();
    let successful = successful.filter(|task| task.end() == StepEnd::Exited(0));
    let mut walls: Vec<Duration> = successful.map(ObservedTask::wall).collect();
    walls.sort_unstable();
    let middle = walls.len() / 2;
    let upper = *walls.get(middle)?;
    let lower = match walls.len() % 2 {
        0 => walls[middle - 1],
        _ => upper,
    };
    (walls.len() >= MIN_TYPICAL_TASKS).then(|| (lower + upper).as_secs_f64() / 2.0)
}

/// The details of one task alone; those of its step and run are empty.
fn detail(step: &str, task: &ObservedTask<'_>) -> TaskDetail {
    let (placed, usage) = (task.step, &task.step.usage);
    let requested = task.requested();
    let network = usage.detail.network.as_ref();
    let gpu = usage.detail.gpu.as_ref();
    let states = usage.detail.states.iter();
    let mut tools: Vec<&ToolUsage> = usage.tools.iter().collect();
    tools.sort_by_key(|tool| Reverse(tool.cpu));
    TaskDetail {
        id: format!("{}/{:.8}/{}", placed.node, placed.boot, usage.id.key),
        step: step.to_owned(),
        name: label(task, "task").unwrap_or(&usage.name).to_owned(),
        kind: usage.id.kind,
        runtime: TaskRuntime::from_kind(usage.id.kind, task.job),
        run: None,
        pipeline: None,
        sample: None,
        node: placed.node.clone(),
        job: task.job.map(|job| job.id.as_str().to_owned()),
        attempt: attempt(task),
        user_id: usage.detail.user,
        queued_at: task.job.and_then(|job| job.created_at),
        started_at: placed.started_at,
        observed_at: placed.observed_at,
        last_progress_at: placed.last_progress_at,
        end: task.end(),
        typical_seconds: None,
        requested_cores: requested.cores.map(|cores| cores.as_cores()),
        requested_memory_bytes: requested.memory.map(|memory| memory.0),
        peak_cores: usage.peak_cores.map(|cores| cores.as_cores()),
        peak_memory_bytes: usage.peak_memory.map(|peak| peak.bytes.0),
        cpu_seconds: usage.cpu.as_secs_f64(),
        disk_read_bytes: usage.disk_read.map(|bytes| bytes.0),
        disk_written_bytes: usage.disk_written.map(|bytes| bytes.0),
        network_received_bytes: network.map(|network| network.received.0),
        network_sent_bytes: network.map(|network| network.sent.0),
        gpu_busy_seconds: gpu.and_then(|gpu| Some(gpu.busy?.as_secs_f64())),
        states: states
            .map(|(state, samples)| (state.to_string(), samples.time.as_secs_f64()))
            .collect(),
        tools: tools.into_iter().take(MAX_TOOLS).map(tool).collect(),
        points: vec![usage_points::latest(placed)],
        findings: Vec::new(),
    }
}

fn tool(tool: &ToolUsage) -> ToolDetail {
    let events = tool.events.as_ref();
    ToolDetail {
        name: tool.name.clone(),
        processes: tool.processes,
        cpu_seconds: tool.cpu.as_secs_f64(),
        peak_memory_bytes: tool.peak_memory.map(|bytes| bytes.0),
        disk_bytes: tool.disk.map(|bytes| bytes.0),
        started_after_seconds: events.map(|events| events.started_after.as_secs_f64()),
        ended_after_seconds: events.and_then(|events| Some(events.ended_after?.as_secs_f64())),
        failed: events.map(|events| events.failed),
        oom_kills: events.map(|events| events.oom_kills),
    }
}

/// The value of a label of the task.
fn label<'a>(task: &ObservedTask<'a>, key: &str) -> Option<&'a str> {
    let labels = task.step.usage.detail.scheduler_labels.as_ref()?;
    labels.labels.get(key).map(String::as_str)
}

/// The number of the attempt by the record of the engine, a tag of Nextflow, the attempts of the
/// Batch job or a label.
fn attempt(task: &ObservedTask<'_>) -> Option<u32> {
    let recorded = || {
        task.recorded
            .names()?
            .attempt
            .filter(|attempt| *attempt > 0)
    };
    let tagged = || nextflow_task::attempt_of(task.job?);
    let of_job = || attempt_of_job(task.job?, &task.step.usage.id);
    let labelled = || {
        let number = label(task, "attempt")?.parse();
        number.ok().filter(|attempt| *attempt > 0)
    };
    recorded().or_else(tagged).or_else(of_job).or_else(labelled)
}

/// The position of an ECS task among the attempts of its job. The running attempt is not among them.
fn attempt_of_job(job: &Job, id: &StepId) -> Option<u32> {
    let is_it = |arn: Option<&str>| arn.and_then(task_id) == Some(id.key.as_str());
    let mut ended = job.attempts.iter();
    let ended_before = match ended.position(|attempt| is_it(attempt.task_arn.as_deref())) {
        Some(position) => position,
        None if is_it(job.task_arn.as_deref()) => job.attempts.len(),
        None => return None,
    };
    u32::try_from(ended_before + 1).ok()
}

/// Ids of findings, by step and by task.
struct FindingsOfTasks<'f> {
    of_steps: BTreeMap<(&'f Region, &'f str), Vec<&'f Finding>>,
    of_tasks: BTreeMap<(&'f str, &'f StepId), Vec<&'f Finding>>,
}

impl<'f> FindingsOfTasks<'f> {
    fn from_findings(findings: &'f [Finding]) -> Self {
        let mut all = Self {
            of_steps: BTreeMap::new(),
            of_tasks: BTreeMap::new(),
        };
        for finding in findings {
            let resource = &finding.resource;
            if resource.node.is_none() {
                let step = (&resource.region, resource.id.as_str());
                all.of_steps.entry(step).or_default().push(finding);
            }
            for link in &finding.steps {
                let task = (link.node.as_str(), &link.id);
                all.of_tasks.entry(task).or_default().push(finding);
            }
        }
        all
    }

    fn about(&self, key: &StepKey, task: &ObservedTask<'_>) -> Vec<String> {
        let of_step = self.of_steps.get(&(&key.region, key.name.as_str()));
        let of_step = of_step.into_iter().flatten().filter(|finding| {
            AccountId::may_be_one(key.account.as_ref(), finding.resource.account.as_ref())
        });
        let id = (task.step.node.as_str(), &task.step.usage.id);
        let of_task = self.of_tasks.get(&id).into_iter().flatten();
        let mut ids: Vec<String> = of_step.chain(of_task).map(|f| f.id.clone()).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}
