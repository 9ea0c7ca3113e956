//! Tests of the names that tasks get from Snakemake and other engines.

use super::*;
use crate::kernel::engine_task::EngineTask;
use crate::kernel::snakemake::{Snakemake, SnakemakeJob};

fn job(rule: &str, sample: &str) -> Option<Snakemake> {
    Some(Snakemake::Job(SnakemakeJob {
        rule: rule.to_owned(),
        wildcards: vec![("s".to_owned(), sample.to_owned())],
        attempt: Some(1),
        run: None,
    }))
}

fn python(pid: u32, start_ms: u64, parent: u32, cgroup: CgroupId) -> Process {
    process(pid, start_ms, parent, cgroup, "python3.12")
}

fn started(process: Process, snakemake: Option<Snakemake>) -> ProcessEvent {
    ProcessEvent::Executed {
        process,
        maxrss_before: Bytes(0),
        start: Start {
            snakemake,
            ..Start::default()
        },
    }
}

/// The kind, the key and the labels of each task, running or ended.
pub(super) fn names(aggregator: &mut IntervalAggregator) -> Vec<String> {
    let mut steps = aggregator.close(at(60_000), 0, None).running;
    steps.extend(aggregator.take_all_ended());
    let named = steps.iter().map(|step| {
        let labels = step.detail.scheduler_labels.as_ref();
        let labels = labels.map_or(String::new(), |labels| {
            let pairs = labels.labels.iter().map(|(k, v)| format!(" {k}={v}"));
            pairs.collect()
        });
        format!("{:?} {:.4}{labels}", step.id.kind, step.id.key)
    });
    let mut named: Vec<_> = named.collect();
    named.sort();
    named
}

/// The names of the tasks after these starts of Python in one ECS task. The pid of a start is that
/// of an earlier process that ends before it.
fn names_in_a_task(starts: &[(Option<Snakemake>, Option<u32>)]) -> Vec<String> {
    let mut aggregator = aggregator();
    run_in_task(&mut aggregator, 60, 2_000);
    for (n, (what, gone)) in (61..).zip(starts) {
        if let Some(pid) = gone {
            let gone = python(*pid, 3_000, 60, TASK_CGROUP);
            aggregator.event(ended(gone, 3_500, ExitStatus::Code(0), totals(1, 0)));
        }
        aggregator.event(started(python(n, 3_000, 60, TASK_CGROUP), what.clone()));
    }
    names(&mut aggregator)
}

#[test]
fn the_job_of_a_container_names_it_unless_it_runs_several_jobs_or_a_workflow() {
    let check = |starts: &[(Option<Snakemake>, Option<u32>)], labels: &str| {
        let expect = format!("EcsTask 0123{labels}");
        assert_eq!(names_in_a_task(starts), [expect], "{starts:?}");
    };
    let (a, b) = (
        " attempt=1 step=map task=s=A",
        " attempt=1 step=map task=s=B",
    );
    check(&[(job("map", "A"), None)], a);
    // The outer process of an array has the arguments of its first job.
    check(&[(job("map", "A"), None), (job("map", "B"), None)], b);
    // One job after the other.
    check(&[(job("map", "A"), None), (job("sort", "A"), Some(61))], "");
    check(&[(job("map", "A"), None), (job("map", "A"), Some(61))], a);
    // A group, one of whose jobs has a process of its own.
    check(
        &[
            (Some(Snakemake::UnnamedJobs), None),
            (job("map", "A"), None),
        ],
        "",
    );
    // A workflow inside of the container, and a workflow that a job starts.
    check(
        &[(Some(Snakemake::Workflow), None), (job("map", "A"), None)],
        "",
    );
    let nested = [
        (job("map", "A"), None),
        (Some(Snakemake::Workflow), None),
        (job("inner", "B"), None),
    ];
    check(&nested, a);
    // The batch step of a Slurm job only waits.
    check(&[(Some(Snakemake::Delegation), None)], "");
    check(
        &[(Some(Snakemake::Delegation), None), (job("map", "A"), None)],
        a,
    );
    check(&[(None, None)], "");
}

#[test]
fn a_workflow_in_a_container_is_known_by_its_program_too() {
    let mut aggregator = aggregator();
    run_in_task(&mut aggregator, 60, 2_000);
    let workflow = process(61, 3_000, 60, TASK_CGROUP, "snakemake");
    aggregator.event(exec(workflow));
    aggregator.event(started(python(62, 3_000, 61, TASK_CGROUP), job("map", "A")));
    assert_eq!(names(&mut aggregator), ["EcsTask 0123"]);
}

#[test]
fn labels_that_a_scheduler_sends_come_before_those_of_the_arguments() {
    let mut aggregator = aggregator();
    run_in_task(&mut aggregator, 60, 2_000);
    let inner = python(61, 3_000, 60, TASK_CGROUP);
    aggregator.event(started(inner, job("map", "A")));
    let request = TaskLabels {
        pid: None,
        labels: SchedulerLabels {
            trace_id: None,
            labels: [("step".to_owned(), "mine".to_owned())].into(),
        },
    };
    assert_eq!(
        aggregator.label(Requester::new(inner.key), &request),
        Ok(())
    );
    assert_eq!(
        names(&mut aggregator),
        ["EcsTask 0123 attempt=1 step=mine task=s=A"]
    );
}

#[test]
fn masked_names_stay_on_the_node() {
    let mut aggregator = aggregator();
    aggregator.set_rules(Rules::parse("mask = [\"A*\"]").expect("valid"));
    run_in_task(&mut aggregator, 60, 2_000);
    aggregator.event(started(
        python(61, 3_000, 60, TASK_CGROUP),
        job("map", "A1"),
    ));
    assert_eq!(
        names(&mut aggregator),
        ["EcsTask 0123 attempt=1 step=map task=s=***"]
    );
}

/// A local job with `run:`, and the shells of a workflow whose process is named after Python.
#[test]
fn local_jobs_are_tasks_of_the_workflow_that_started_them() {
    let mut aggregator = aggregator();
    let workflow = python(70, 2_000, 1, ROOT_CGROUP);
    aggregator.event(started(workflow, Some(Snakemake::Workflow)));
    let shell = |pid| process(pid, 3_000, 70, ROOT_CGROUP, "bash");
    for pid in [71, 72] {
        aggregator.event(exec(shell(pid)));
    }
    aggregator.event(exec(process(73, 3_000, 70, ROOT_CGROUP, "sh")));
    aggregator.event(started(python(74, 3_100, 73, ROOT_CGROUP), job("run", "A")));
    // A process that the job starts belongs to the job.
    aggregator.event(exec(process(75, 3_200, 74, ROOT_CGROUP, "bash")));
    let request = |pid, rule: &str| TaskLabels {
        pid: Some(pid),
        labels: SchedulerLabels {
            trace_id: None,
            labels: [("step".to_owned(), rule.to_owned())].into(),
        },
    };
    let launcher = Requester::new(workflow.key);
    assert_eq!(aggregator.label(launcher, &request(71, "map")), Ok(()));
    // The request for a short process comes after its end.
    aggregator.event(ended(shell(72), 3_300, ExitStatus::Code(0), totals(1, 0)));
    aggregator.event(reaped(shell(72), totals(1, 0)));
    assert_eq!(aggregator.label(launcher, &request(72, "sort")), Ok(()));
    // A process inside of a task, one that no event contains, and one of somebody else.
    let refused = |pid| Err(Refusal::NotStarter(pid));
    assert_eq!(aggregator.label(launcher, &request(75, "x")), refused(75));
    assert_eq!(aggregator.label(launcher, &request(99, "x")), refused(99));
    // The program of this one is not known yet.
    aggregator.event(ProcessEvent::Forked(shell(76)));
    assert_eq!(
        aggregator.label(launcher, &request(76, "x")),
        Err(Refusal::Unknown)
    );
    let other = Requester::new(python(74, 3_100, 73, ROOT_CGROUP).key);
    assert_eq!(aggregator.label(other, &request(71, "x")), refused(71));
    assert_eq!(
        names(&mut aggregator),
        [
            "SnakemakeJob 71@3 step=map",
            "SnakemakeJob 72@3 step=sort",
            "SnakemakeJob 73@3 attempt=1 step=run task=s=A",
            "Tree 70@2"
        ]
    );
}

#[test]
fn a_job_without_a_scheduler_is_a_task_of_its_own() {
    let mut aggregator = aggregator();
    aggregator.event(exec(process(80, 2_000, 1, ROOT_CGROUP, "pbs_mom_helper")));
    aggregator.event(started(python(81, 3_000, 80, ROOT_CGROUP), job("map", "A")));
    aggregator.event(started(
        python(82, 3_000, 80, ROOT_CGROUP),
        job("sort", "A"),
    ));
    assert_eq!(
        names(&mut aggregator),
        [
            "SnakemakeJob 81@3 attempt=1 step=map task=s=A",
            "SnakemakeJob 82@3 attempt=1 step=sort task=s=A",
            "Tree 80@2"
        ]
    );
}

/// The limit of the labels of all tasks holds for these names too, and the loss is counted.
#[test]
fn names_beyond_the_limit_are_counted() {
    let mut aggregator = aggregator();
    let sample = "x".repeat(100);
    for pid in 1_000..2_000 {
        aggregator.event(started(
            python(pid, 3_000, 1, ROOT_CGROUP),
            job("a_rule", &sample),
        ));
    }
    let running = aggregator.close(at(60_000), 0, None).running;
    let labels = running
        .iter()
        .filter_map(|step| step.detail.scheduler_labels.as_deref());
    let bytes: usize = labels.map(label::bytes_of).sum();
    assert!(bytes <= label::MAX_BYTES_IN_ALL, "{bytes}");
    let unnamed = running
        .iter()
        .filter(|step| step.detail.scheduler_labels.is_none());
    assert_eq!(aggregator.names_left_out(), unnamed.count() as u64);
    assert!(aggregator.names_left_out() > 0);
}

fn engine_task(step: &str, run: Option<&str>) -> Option<Box<EngineTask>> {
    Some(Box::new(EngineTask {
        engine: "toil",
        step: step.to_owned(),
        task: None,
        attempt: None,
        run: run.map(str::to_owned),
        pipeline: None,
    }))
}

fn begun(process: Process, engine_task: Option<Box<EngineTask>>) -> ProcessEvent {
    ProcessEvent::Executed {
        process,
        maxrss_before: Bytes(0),
        start: Start {
            engine_task,
            ..Start::default()
        },
    }
}

#[test]
fn a_worker_with_a_name_is_one_task_and_each_command_of_another_worker_is_one() {
    let mut aggregator = aggregator();
    let started_by = |pid, parent, program| process(pid, 3_000, parent, ROOT_CGROUP, program);
    aggregator.event(exec(started_by(80, 1, "leader")));
    let named = started_by(81, 80, "_toil_worker");
    aggregator.event(begun(named, engine_task("align", None)));
    aggregator.event(exec(started_by(82, 81, "bwa")));
    // A fork of the worker is still the worker.
    aggregator.event(ProcessEvent::Forked(started_by(83, 81, "_toil_worker")));
    aggregator.event(exec(started_by(84, 83, "sort")));
    aggregator.event(exec(started_by(85, 80, "_toil_worker")));
    aggregator.event(exec(started_by(86, 85, "bwa")));
    assert_eq!(
        names(&mut aggregator),
        ["Tree 80@3", "Tree 81@3 step=align", "Tree 86@3"]
    );
}

#[test]
fn a_task_of_an_engine_names_its_container_and_starts_no_second_task_of_its_run() {
    let mut aggregator = aggregator();
    run_in_task(&mut aggregator, 60, 2_000);
    let shell = process(61, 3_000, 60, TASK_CGROUP, "bash");
    aggregator.event(begun(shell, engine_task("sort", Some("r1"))));
    // Airflow starts a second process for the same task.
    for (pid, parent) in [(70, 1), (71, 70)] {
        let process = process(pid, 3_000, parent, ROOT_CGROUP, "airflow");
        aggregator.event(begun(process, engine_task("load", Some("r2"))));
    }
    assert_eq!(
        names(&mut aggregator),
        [
            "EcsTask 0123 run=r1 step=sort",
            "Tree 70@3 run=r2 step=load"
        ]
    );
}
