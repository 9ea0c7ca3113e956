//! Long queue times: a job waits far longer for a machine than earlier jobs of its definition. Only
//! the longest wait of each queue and definition is reported. Otherwise a queue of a thousand jobs
//! would give a thousand findings.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::evidence::Evidence;
use ebb_model::finding::evidence::batch::Queued;
use ebb_model::finding::{Action, Finding, Remedy, Resource};
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::batch::job::{Job, JobStatus};
use ebb_telemetry::identity::Region;
use ebb_telemetry::origin::labelled;
use ebb_telemetry::time::Window;
use ebb_telemetry::units::HumanDuration;

use crate::facts::Facts;
use crate::rules::batch;
use crate::rules::batch::context;
use crate::rules::trace::{Check, RuleTrace};
use crate::rules::verdict::Verdict;
use crate::shell;

const KIND: FindingKind = FindingKind::LongQueuedJob;

/// Waiting jobs of a queue and definition that are evaluated, the longest wait first. The first of
/// them may be one that another rule reports.
const CANDIDATES: usize = 10;

/// Evaluates the longest waiting jobs of each queue and definition, and reports at most one.
pub fn evaluate(facts: &Facts<'_>) -> Vec<Verdict> {
    let mut alike: BTreeMap<_, Vec<&Job>> = BTreeMap::new();
    for job in facts.inventory.batch.jobs.values() {
        alike.entry(group(job)).or_default().push(job);
    }
    let since = |job: &Job| {
        let time = facts.inventory.batch.queue_time(job);
        let since = time.runnable_at.or(time.created_at);
        (since.is_none(), since)
    };
    let longest = alike.values().filter_map(|alike| {
        let waiting = alike.iter().copied();
        let mut waiting: Vec<&Job> = waiting
            .filter(|job| job.status == JobStatus::Runnable)
            .collect();
        waiting.sort_by_cached_key(|job| (since(job), job.id.clone()));
        let mut first = waiting.into_iter().take(CANDIDATES);
        first.find_map(|job| evaluate_job(facts, job, alike, &mut RuleTrace::unwritten(KIND)))
    });
    longest.collect()
}

/// Jobs of one definition in one queue. The ARN of the queue contains the account.
fn group(job: &Job) -> (&Region, &str, &str) {
    (&job.region, &job.queue, name(job))
}

/// Questions about one job.
pub(crate) fn explain(facts: &Facts<'_>, job: &Job) -> Vec<Check> {
    let mut questions = RuleTrace::from_rule(KIND);
    if job.status == JobStatus::Runnable {
        let jobs = facts.inventory.batch.jobs.values();
        let is_alike = |other: &&Job| group(other) == group(job);
        let alike: Vec<&Job> = jobs.filter(is_alike).collect();
        evaluate_job(facts, job, &alike, &mut questions);
    }
    questions.checks
}

/// Compares a job with all jobs of its queue and definition; `alike` contains the job itself.
fn evaluate_job(
    facts: &Facts<'_>,
    job: &Job,
    alike: &[&Job],
    q: &mut RuleTrace,
) -> Option<Verdict> {
    let policy = &facts.policy.batch;
    let of_batch = batch::evaluate_job(facts, job, &mut RuleTrace::unwritten(KIND)).is_some();
    let time = facts.inventory.batch.queue_time(job);
    let from = time.runnable_at.or(time.created_at);
    let waited = from.and_then(|from| context::since(facts, from));
    let mut before = history(facts, alike);
    before.sort_unstable();
    let runs = u32::try_from(before.len()).unwrap_or(u32::MAX);
    let longest = before.last().copied().unwrap_or_default();
    let usual = before.get(before.len() / 2).copied().unwrap_or_default();
    let bound = longest * 2 + Duration::from_secs(policy.queued_by_seconds);
    let shown = waited.map_or_else(|| "unknown".to_owned(), |t| HumanDuration(t).to_string());
    let goes_on = q.holds(
        "Is the job already reported as stuck?",
        (if of_batch { "yes" } else { "no" }, ""),
        !of_batch,
    ) && q.holds(
        "How many earlier jobs of this definition have a known wait?",
        (runs, format_args!("at least {}", policy.queued_runs)),
        (runs >= policy.queued_runs).then_some(true),
    ) && q.holds(
        "How long has the job waited for a machine?",
        (shown, format_args!("at least {}", HumanDuration(bound))),
        waited.map(|waited| waited >= bound),
    );
    let (from, waited) = from.zip(waited).filter(|_| goes_on)?;
    let queued = Queued {
        waited,
        usual,
        longest,
        jobs: runs,
        why: context::lacks(time.cause.as_ref()),
    };
    let window = Window {
        from,
        to: facts.now,
    };
    Some(Verdict::Waste(Box::new(make_finding(job, window, queued))))
}

fn make_finding(job: &Job, window: Window, queued: Queued) -> Finding {
    Finding {
        id: Finding::id_of(KIND, &job.region, job.id.as_str()),
        kind: KIND,
        window,
        coverage: None,
        confidence: Confidence {
            level: Level::Medium,
            reason: format!(
                "{} earlier jobs of this definition waited less than half as long",
                queued.jobs
            ),
        },
        evidence: Evidence::Queued(queued),
        // The job occupies no machine, so the finding has no cost.
        cost: None,
        remedy: Remedy {
            action: Action::Investigate,
            advice: "Check the job queue: maximum vCPUs, instance types and Availability Zones of \
                     its compute environments, and jobs with a higher priority."
                .into(),
            command: Some(format!(
                "aws batch get-job-queue-snapshot --region {} {}",
                job.region,
                shell::option("--job-queue", &job.queue)
            )),
        },
        recommendation: None,
        steps: Vec::new(),
        resource: Resource {
            owner: job.owner().map(str::to_owned),
            origin: labelled(&job.tags),
            ..Resource::named(job.id.as_str().to_owned(), &job.name, &job.region)
        },
    }
}

fn name(job: &Job) -> &str {
    job.definition.as_deref().unwrap_or(&job.name)
}

/// Queue times of the jobs that got a machine.
fn history(facts: &Facts<'_>, alike: &[&Job]) -> Vec<Duration> {
    let batch = &facts.inventory.batch;
    let had_one = |job: &&&Job| job.status != JobStatus::Runnable;
    let waits = alike.iter().filter(had_one).filter_map(|other| {
        let time = batch.queue_time(other);
        let from = time.runnable_at.or(time.created_at)?;
        let to = time.starting_at.or(time.started_at)?;
        Duration::try_from(to.duration_since(from)).ok()
    });
    waits.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, requested};
    use ebb_model::inventory::batch::job::JobId;
    use ebb_telemetry::testing::at;

    #[test]
    fn a_job_is_queued_for_long_when_it_waits_past_twice_what_others_ever_did() {
        let check = |waited_min: u64, before_min: &[u64], expect: Option<&str>| {
            let mut world = World::default().with_job(JobStatus::Runnable, requested(1, 1));
            world.job().started_at = None;
            let waiting = world.job().clone();
            for (n, waited) in (2..).zip(before_min) {
                let mut done = waiting.clone();
                done.id = JobId::new(format!("job-{n}")).expect("an id");
                done.status = JobStatus::Succeeded;
                done.started_at = Some(at(waited * 60));
                world.inventory.batch.jobs.insert(done.id.clone(), done);
            }
            world.now = at(waited_min * 60);
            let found = world.evaluate().findings;
            let evidence = found.first().map(|finding| finding.evidence.to_string());
            assert_eq!(evidence.as_deref(), expect, "{waited_min} {before_min:?}");
        };
        let long = "RUNNABLE for 60 min; 5 other jobs of this definition waited 10 min (median), \
                    at most 20 min; the reason is unknown";
        check(60, &[5, 10, 10, 10, 20], Some(long));
        check(50, &[5, 10, 10, 10, 20], None);
        check(60, &[5, 10, 10, 20], None);
    }

    #[test]
    fn of_a_thousand_waiting_jobs_one_is_told() {
        let mut world = World::default().with_job(JobStatus::Runnable, requested(1, 1));
        let waiting = world.job().clone();
        for n in 2..1_000 {
            let mut other = waiting.clone();
            other.id = JobId::new(format!("job-{n}")).expect("an id");
            if n < 10 {
                other.status = JobStatus::Succeeded;
                other.started_at = Some(at(60));
            }
            world.inventory.batch.jobs.insert(other.id.clone(), other);
        }
        world.now = at(7_200);
        assert_eq!(world.evaluate().findings.len(), 1);
    }

    #[test]
    fn other_queues_are_no_history_and_a_blocked_job_hides_no_other() {
        let check = |change: fn(&mut World), expect: usize| {
            let mut world = World::default().with_job(JobStatus::Runnable, requested(1, 1));
            world.job().started_at = None;
            let waiting = world.job().clone();
            for n in 2..7 {
                let mut done = waiting.clone();
                done.id = JobId::new(format!("job-{n}")).expect("an id");
                done.status = JobStatus::Succeeded;
                done.started_at = Some(at(600));
                world.inventory.batch.jobs.insert(done.id.clone(), done);
            }
            world.now = at(7_200);
            change(&mut world);
            let findings = world.evaluate().findings;
            let long = findings.iter().filter(|finding| finding.kind == KIND);
            assert_eq!(long.count(), expect);
        };
        check(|_| {}, 1);
        let another_account = |world: &mut World| {
            let jobs = world.inventory.batch.jobs.values_mut();
            for job in jobs.filter(|job| job.status == JobStatus::Succeeded) {
                job.queue = "arn:aws:batch:us-east-1:000000000002:job-queue/queue".to_owned();
            }
        };
        check(another_account, 0);
        let a_blocked_job = |world: &mut World| {
            let mut blocked = world.job().clone();
            blocked.id = JobId::new("job-0").expect("an id");
            blocked.status_reason = Some("MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT".to_owned());
            world
                .inventory
                .batch
                .jobs
                .insert(blocked.id.clone(), blocked);
        };
        check(a_blocked_job, 1);
    }
}
