//! Tests of the assignment of tasks to runs.

use ebb_model::inventory::batch::job::{Attempt, Job, JobId, JobStatus};
use ebb_model::policy::Policy;
use ebb_telemetry::identity::BootId;
use ebb_telemetry::step::resource_usage::RunName;
use ebb_telemetry::step::{StepId, StepKind};
use ebb_telemetry::testing::placed_step;

use crate::testing::{World, instance, region};

use super::*;

/// A task on node 1 with the ECS task id `t` followed by its number.
fn task(
    world: &mut World,
    n: u64,
    change: impl Fn(&mut ebb_telemetry::step::resource_usage::StepDetail),
) {
    let mut step = placed_step(1, n);
    step.boot = BootId::new("boot-1").expect("a boot id");
    step.usage.id = StepId {
        kind: StepKind::EcsTask,
        key: format!("t{n}"),
    };
    change(&mut step.usage.detail);
    world.finished.push(step);
}

/// The job of task `n`.
fn job(world: &mut World, n: u64, id: &str, name: &str, after: &[&str], tags: &[(&str, &str)]) {
    let id_of = |id: &str| JobId::new(id).expect("a job id");
    let tags = tags.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    let job = Job {
        task_arn: Some(format!("arn:aws:ecs:us-east-1:1:task/b/t{n}")),
        depends_on: after.iter().map(|id| id_of(id)).collect(),
        tags: tags.collect(),
        ..Job::new(id_of(id), name, "q", region(), JobStatus::Succeeded)
    };
    world.inventory.batch.jobs.insert(job.id.clone(), job);
}

fn label(key: &str, value: &str) -> Option<Box<SchedulerLabels>> {
    Some(Box::new(SchedulerLabels {
        trace_id: Some("4bf92f35".to_owned()),
        labels: [(key.to_owned(), value.to_owned())].into(),
    }))
}

fn launched(key: &str, pipeline: Option<&str>) -> Option<Box<RunName>> {
    Some(Box::new(RunName {
        launcher: "nextflow".to_owned(),
        key: key.to_owned(),
        pipeline: pipeline.map(str::to_owned),
    }))
}

fn runs(world: &World) -> Vec<(String, Option<JoinedBy>, usize)> {
    let runs = world.evaluate().runs.runs.into_iter();
    let mut runs: Vec<_> = runs.map(|run| (run.run, run.by, run.steps)).collect();
    runs.sort();
    runs
}

#[test]
fn steps_are_joined_by_what_names_their_run_and_never_by_a_guess() {
    let mut world = World::with([instance(1)]);
    let is = |run: &str, by: JoinedBy, steps: usize| (run.to_owned(), Some(by), steps);
    task(&mut world, 0, |d| {
        d.scheduler_labels = label("run", "from-label")
    });
    job(&mut world, 0, "j0", "a", &[], &[(RUN_TAG, "from-tag")]);
    task(&mut world, 1, |d| d.run = launched("7@1", None));
    job(&mut world, 1, "j1", "a", &[], &[(RUN_TAG, "from-tag")]);
    task(&mut world, 2, |d| d.run = launched("7@1", None));
    let session = [
        ("nextflow.io/sessionId", "5e55"),
        ("nextflow.io/runName", "angry_euler"),
    ];
    task(&mut world, 3, |_| ());
    job(&mut world, 3, "j3", "a", &[], &session);
    // Another project may use the same run name.
    task(&mut world, 4, |_| ());
    job(&mut world, 4, "j4", "a", &[], &session[1..]);
    for (n, id) in [(5, "arr:0"), (6, "arr:1")] {
        task(&mut world, n, |_| ());
        job(&mut world, n, id, "a", &[], &[]);
    }
    task(&mut world, 7, |_| ());
    job(&mut world, 7, "z-last", "a", &["m-mid"], &[]);
    task(&mut world, 8, |_| ());
    job(&mut world, 8, "m-mid", "a", &["b-first:3"], &[]);
    task(&mut world, 9, |_| ());
    job(&mut world, 9, "lonely", "a", &[], &[]);
    let mut expect = vec![
        is("from-label", JoinedBy::Label, 1),
        is("from-tag", JoinedBy::Tag, 1),
        is(
            "nextflow i-00000000000000001/boot-1/7@1",
            JoinedBy::Launcher,
            1,
        ),
        is("angry_euler 5e55", JoinedBy::Tag, 1),
        is("arr", JoinedBy::Array, 2),
        is("b-first", JoinedBy::Dependency, 2),
        (UNASSIGNED.to_owned(), None, 2),
    ];
    expect[2].0 = format!("nextflow {}/boot-1/7@1", instance(1).id);
    expect.sort();
    assert_eq!(runs(&world), expect);
    let report = world.evaluate().runs;
    assert_eq!((report.steps, report.joined_ppm()), (10, Some(800_000)));
    check_counts_of_names(&report);
    assert_eq!(
        report.runs.last().map(|run| run.run.as_str()),
        Some(UNASSIGNED)
    );
    let [labels] = &report.task_labels[..] else {
        panic!("one step has labels: {:?}", report.task_labels)
    };
    assert_eq!(
        (labels.key.as_str(), labels.run.as_str()),
        ("t0", "from-label")
    );
}

/// Tasks count once in the names by source and once in those by runtime.
fn check_counts_of_names(report: &Runs) {
    let of_runtimes: usize = report.named_by_runtime.values().map(|one| one.tasks).sum();
    let given = report.named.iter().filter(|(source, _)| source.is_given());
    let given: usize = given.map(|(_, tasks)| *tasks).sum();
    let named: usize = report.named_by_runtime.values().map(|one| one.named).sum();
    assert_eq!((of_runtimes, named), (10, given));
}

#[test]
fn labels_of_the_probe_are_not_those_of_a_scheduler() {
    let mut world = World::with([instance(1)]);
    for (n, key) in FROM_PROBE.iter().enumerate() {
        task(&mut world, n as u64, |detail| {
            let labels = [((*key).to_owned(), "x".to_owned())].into();
            detail.scheduler_labels = Some(Box::new(SchedulerLabels {
                trace_id: None,
                labels,
            }));
        });
    }
    task(&mut world, 9, |detail| {
        detail.scheduler_labels = label("run", "r7");
    });
    let labels = world.evaluate().runs.task_labels;
    let keys: Vec<&str> = labels.iter().map(|one| one.key.as_str()).collect();
    assert_eq!(keys, ["t9"]);
}

#[test]
fn a_step_of_an_earlier_attempt_is_its_jobs() {
    let mut world = World::with([instance(1)]);
    task(&mut world, 0, |_| ());
    job(&mut world, 5, "j", "a", &[], &[(RUN_TAG, "r")]);
    assert_eq!(runs(&world), [(UNASSIGNED.to_owned(), None, 1)]);
    world.job().attempts.push(Attempt {
        task_arn: Some("arn:aws:ecs:us-east-1:1:task/b/t0".to_owned()),
        ..Attempt::default()
    });
    assert_eq!(runs(&world), [("r".to_owned(), Some(JoinedBy::Tag), 1)]);
}

#[test]
fn samples_runs_and_pipelines_are_drawn_from_names_only_by_a_rule() {
    let mut world = World::with([instance(1)]);
    for (n, sample) in [(0, "S1"), (1, "S2"), (2, "S2")] {
        task(&mut world, n, |_| ());
        job(
            &mut world,
            n,
            &format!("j{n}"),
            &format!("rna_r7_{sample}"),
            &[],
            &[],
        );
    }
    task(&mut world, 3, |d| {
        d.scheduler_labels = label("sample", "S9")
    });
    let report = world.evaluate().runs;
    assert_eq!(report.joined_ppm(), Some(0));
    assert_eq!(report.runs[0].samples, ["S9"]);
    world.policy = Policy::parse(
        "[[names]]\nfrom = \"tag:none\"\nform = \"{run}\"\n\
         [[names]]\nfrom = \"job\"\nform = \"{pipeline}_{run}_{sample}\"\n",
    )
    .expect("it is valid");
    let report = world.evaluate().runs;
    let run = &report.runs[0];
    assert_eq!((run.run.as_str(), run.by), ("r7", Some(JoinedBy::Name)));
    assert_eq!((run.pipeline.as_deref(), run.steps), (Some("rna"), 3));
    assert_eq!(run.samples, ["S1", "S2"]);
    assert_eq!(report.joined_ppm(), Some(750_000));
    assert_eq!(report.task_labels[0].sample.as_deref(), Some("S9"));
}

#[test]
fn what_a_report_holds_of_runs_is_bounded_and_what_is_left_out_counted() {
    let mut world = World::with([instance(1)]);
    for n in 0..300 {
        task(&mut world, n, |d| {
            d.scheduler_labels = label("sample", &format!("s{n}"));
            d.run = (n > 0)
                .then(|| launched(&format!("{n}@1"), Some("rna")))
                .flatten();
        });
    }
    let report = world.evaluate().runs;
    assert_eq!((report.runs.len(), report.left_out), (MAX_RUNS, 100));
    assert_eq!(
        (report.task_labels.len(), report.task_labels_left_out),
        (MAX_TASK_LABELS, 100)
    );
    let last = report.runs.last().expect("the last");
    assert_eq!((last.run.as_str(), last.steps), (UNASSIGNED, 1));
    assert_eq!(world_without_steps().joined_ppm(), None);
}

#[test]
fn a_node_with_many_runs_hides_no_run_of_another() {
    let mut world = World::with([instance(1), instance(2)]);
    for n in 0..300 {
        task(&mut world, n + 1, |d| {
            d.run = launched(&format!("{n}@1"), None)
        });
    }
    // The oldest run.
    task(&mut world, 0, |d| d.run = launched("old", None));
    let own = world.finished.last_mut().expect("the task");
    own.node = ebb_telemetry::testing::node(2);
    let runs = world.evaluate().runs.runs;
    assert_eq!(runs.len(), MAX_RUNS);
    let last = runs.last().expect("the oldest");
    assert!(last.run.ends_with("/old"), "{}", last.run);
}

fn world_without_steps() -> Runs {
    World::default().evaluate().runs
}
