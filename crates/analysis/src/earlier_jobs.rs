//! Chooses the Batch jobs that sweeps remember. The inventory has a job for a day after its end.
//! Finished tasks are read for two weeks, and the cost of a day changes until its bill is complete.

use std::collections::{BTreeMap, BTreeSet};

use ebb_model::inventory::batch::BatchFleet;
use ebb_model::inventory::batch::job::{Attempt, Job, tasks};
use ebb_model::inventory::instance::OWNER_TAGS;
use ebb_model::policy::Policy;
use ebb_model::policy::name_rule::NameSource;
use ebb_model::visibility_gap::Gap;
use ebb_node_state::fleet_state::FleetState;
use ebb_telemetry::safe_text::counted;
use ebb_telemetry::step::{PlacedStep, StepKind};
use jiff::Timestamp;

/// Limit on remembered jobs, at about 1.5 KB of memory each.
const MAX_JOBS: usize = 100_000;

/// Limit on the text of all remembered jobs in bytes. A job can have 19 KB of tags.
const MAX_TEXT_BYTES: usize = 64 << 20;

/// Prefixes of the tags of Ebb and of Nextflow. Such tags name steps, runs, pipelines and samples, and
/// limit the machines of a step.
const TAG_PREFIXES: [&str; 3] = ["ebb:", "nextflow.io/", "nf_"];

/// The jobs that a sweep remembers for the next one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EarlierJobs {
    /// The jobs, those that ended last first.
    pub jobs: Vec<Job>,
    /// Number of jobs beyond the limits.
    pub left_out: usize,
}

impl EarlierJobs {
    /// A gap for the jobs beyond the limits.
    pub fn gap(&self) -> Option<Gap> {
        (self.left_out > 0).then(|| {
            let jobs = counted(self.left_out, "job that ended first is", "jobs that ended first are");
            Gap::new(
                "names of Batch jobs",
                format!(
                    "{jobs} not remembered, to limit memory; a day after their end, their tasks have \
                     no job"
                ),
            )
        })
    }
}

/// The jobs to remember: those with a task that a probe reported and that is still read. They have
/// only what naming and cost allocation need.
pub fn jobs_to_remember(
    batch: BatchFleet,
    (finished, fleet): (&[PlacedStep], &FleetState),
    policy: &Policy,
) -> EarlierJobs {
    // A fleet without Batch may have very many tasks.
    if batch.known_jobs().next().is_none() {
        return EarlierJobs::default();
    }
    let finished = finished.iter().map(|step| &step.usage.id);
    let finished = finished.filter(|id| id.kind == StepKind::EcsTask);
    let recent = fleet.nodes.values().flat_map(|node| node.ecs_tasks());
    let observed: BTreeSet<&str> = finished.map(|id| id.key.as_str()).chain(recent).collect();
    let is_observed = |job: &Job| tasks(job).any(|(task, _)| observed.contains(task));
    let all = batch
        .earlier_jobs
        .into_iter()
        .chain(batch.jobs.into_values());
    let jobs = all.filter(is_observed).map(|job| reduced(job, policy));
    newest(jobs.collect(), (MAX_JOBS, MAX_TEXT_BYTES))
}

/// The job without what neither names nor costs need.
fn reduced(job: Job, policy: &Policy) -> Job {
    let mut tags: BTreeMap<String, String> = job.tags;
    tags.retain(|tag, _| is_used(tag, policy));
    // The number of an attempt is its position. The only attempt has the task of the job.
    let is_only = matches!(&job.attempts[..], [one] if one.task_arn == job.task_arn);
    let attempts = job.attempts.into_iter().filter(|_| !is_only);
    let attempts = attempts.map(|attempt| Attempt {
        task_arn: attempt.task_arn,
        ..Attempt::default()
    });
    Job {
        definition: job.definition,
        created_at: job.created_at,
        started_at: job.started_at,
        stopped_at: job.stopped_at,
        task_arn: job.task_arn,
        requested: job.requested,
        tags,
        depends_on: job.depends_on,
        attempts: attempts.collect(),
        ..Job::new(job.id, job.name, job.queue, job.region, job.status)
    }
}

/// Whether a tag of a job names or limits its tasks, or divides their cost.
fn is_used(tag: &str, policy: &Policy) -> bool {
    let in_rule = |source: &NameSource| matches!(source, NameSource::Tag(key) if key == tag);
    TAG_PREFIXES.iter().any(|prefix| tag.starts_with(prefix))
        || OWNER_TAGS.contains(&tag)
        || policy.costs.cost_centre_tag.as_deref() == Some(tag)
        || policy.names.iter().any(|rule| in_rule(&rule.from))
}

/// The jobs that fit, those that ended last first: the bills of their days are not complete.
fn newest(mut jobs: Vec<Job>, (max_jobs, max_bytes): (usize, usize)) -> EarlierJobs {
    jobs.sort_by(|a, b| (last_known(b), &a.id).cmp(&(last_known(a), &b.id)));
    let mut bytes = 0_usize;
    let fitting = jobs.iter().take(max_jobs).take_while(|job| {
        bytes = bytes.saturating_add(text_bytes(job));
        bytes <= max_bytes
    });
    let fitting = fitting.count();
    let left_out = jobs.len() - fitting;
    jobs.truncate(fitting);
    EarlierJobs { jobs, left_out }
}

fn last_known(job: &Job) -> Option<Timestamp> {
    job.stopped_at.or(job.started_at).or(job.created_at)
}

fn text_bytes(job: &Job) -> usize {
    let texts = [Some(&job.name), job.definition.as_ref(), Some(&job.queue)];
    let texts = texts.into_iter().flatten().map(String::len);
    let attempts = job.attempts.iter().map(|attempt| &attempt.task_arn);
    let arns = attempts.chain([&job.task_arn]).flatten().map(String::len);
    let ids = job.depends_on.iter().chain([&job.id]);
    let ids = ids.map(|id| id.as_str().len());
    let tags = job.tags.iter().map(|(tag, value)| tag.len() + value.len());
    texts.chain(arns).chain(ids).chain(tags).sum()
}

#[cfg(test)]
mod tests {
    use ebb_model::inventory::batch::job::{JobId, JobStatus};
    use ebb_telemetry::testing::{at, placed_step};

    use crate::testing::{World, instance, region, step};

    use super::*;

    fn arn(task: &str) -> Option<String> {
        Some(format!("arn:aws:ecs:us-east-1:1:task/b/{task}"))
    }

    fn job(id: &str, task: &str, tags: &[&str]) -> Job {
        let id = JobId::new(id).expect("an id");
        let tags = tags.iter().map(|tag| ((*tag).to_owned(), "x".to_owned()));
        Job {
            task_arn: arn(task),
            tags: tags.collect(),
            ..Job::new(id, "align", "q", region(), JobStatus::Succeeded)
        }
    }

    fn finished(task: &str) -> PlacedStep {
        let mut finished = placed_step(1, 10);
        finished.usage.id.key = task.to_owned();
        finished
    }

    fn remembered(world: &World) -> EarlierJobs {
        let batch = world.inventory.batch.clone();
        jobs_to_remember(batch, (&world.finished, &world.state), &world.policy)
    }

    fn ids(jobs: &EarlierJobs) -> Vec<&str> {
        jobs.jobs.iter().map(|job| job.id.as_str()).collect()
    }

    #[test]
    fn a_job_that_left_the_inventory_still_names_its_task() {
        let mut world = World::with([instance(1)]);
        world.finished = vec![finished("t")];
        let mut named = job("a", "t", &["ebb:run", "ebb:pipeline"]);
        named.definition = Some("align-def".to_owned());
        world.inventory.batch.jobs.insert(named.id.clone(), named);
        let listed = world.evaluate();
        let run = &listed.runs.runs[0];
        assert_eq!(
            (run.run.as_str(), run.pipeline.as_deref()),
            ("x", Some("x"))
        );
        let jobs = remembered(&world).jobs;
        world.inventory.batch.jobs.clear();
        assert_ne!(world.evaluate().runs, listed.runs);
        world.inventory.batch.add_earlier(jobs);
        let later = world.evaluate();
        assert_eq!((later.runs, later.steps), (listed.runs, listed.steps));
        assert_eq!((listed.totals.jobs, later.totals.jobs), (1, 0));
        // The next sweep remembers the same.
        assert_eq!(remembered(&world).jobs, world.inventory.batch.earlier_jobs);
    }

    #[test]
    fn only_jobs_of_known_tasks_are_remembered_and_a_listed_job_replaces_its_earlier_form() {
        let mut world = World::with([instance(1)]);
        world.watch(1, 0, 1, |_, heartbeat| {
            heartbeat.steps = vec![step(60, |usage| usage.id.key = "running".to_owned())];
        });
        world.finished = vec![finished("ended"), finished("first-attempt")];
        let mut retried = job("c", "second-attempt", &[]);
        retried.attempts = ["first-attempt", "second-attempt"]
            .map(|task| Attempt {
                task_arn: arn(task),
                exit_code: Some(1),
                ..Attempt::default()
            })
            .into();
        let batch = &mut world.inventory.batch;
        let all = [
            job("a", "running", &[]),
            job("b", "never-observed", &[]),
            retried,
        ];
        batch.jobs.extend(all.map(|job| (job.id.clone(), job)));
        batch.add_earlier(vec![job("a", "ended", &[]), job("d", "ended", &[])]);
        let kept = remembered(&world);
        assert_eq!((ids(&kept), kept.gap()), (vec!["a", "c", "d"], None));
        assert_eq!(kept.jobs[0].task_arn, arn("running"));
        let attempts = kept.jobs[1].attempts.iter();
        let attempts: Vec<_> = attempts.map(|one| (&one.task_arn, one.exit_code)).collect();
        let expect = [
            (&arn("first-attempt"), None),
            (&arn("second-attempt"), None),
        ];
        assert_eq!(attempts, expect);
        // The lake no longer has their tasks.
        world.finished.clear();
        assert_eq!(ids(&remembered(&world)), ["a"]);
    }

    #[test]
    fn a_remembered_job_has_the_tags_that_names_and_costs_use() {
        let mut world = World::with([instance(1)]);
        world.policy = Policy::parse(
            "[costs]\ncost_centre_tag = \"Team\"\n\
             [[names]]\nfrom = \"tag:Batch\"\nform = \"{run}\"\n",
        )
        .expect("it is valid");
        world.finished = vec![finished("t")];
        let used = [
            "Batch",
            "CreatedBy",
            "Team",
            "ebb:run",
            "nextflow.io/runName",
            "nf_hash",
        ];
        let tags = [&used[..], &["Name", "aws:batch:x", "team"]].concat();
        world.inventory.batch.earlier_jobs = vec![job("a", "t", &tags)];
        let kept = remembered(&world);
        let tags: Vec<&str> = kept.jobs[0].tags.keys().map(String::as_str).collect();
        assert_eq!(tags, used);
    }

    #[test]
    fn of_too_many_jobs_those_that_ended_last_are_remembered_and_the_others_counted() {
        let jobs = [("a", 10), ("b", 30), ("c", 20)].map(|(id, second)| Job {
            stopped_at: Some(at(second)),
            ..job(id, "t", &["ebb:run"])
        });
        let size = text_bytes(&jobs[0]);
        let check = |max_jobs: usize, max_bytes: usize, expect: &[&str]| {
            let kept = newest(jobs.to_vec(), (max_jobs, max_bytes));
            assert_eq!(ids(&kept), expect, "{max_jobs} {max_bytes}");
            assert_eq!(kept.left_out, 3 - expect.len());
            assert_eq!(kept.gap().is_some(), expect.len() < 3);
        };
        check(3, 3 * size, &["b", "c", "a"]);
        check(2, 3 * size, &["b", "c"]);
        check(3, 2 * size - 1, &["b"]);
        check(0, 0, &[]);
    }
}
