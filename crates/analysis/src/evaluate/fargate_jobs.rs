//! Batch jobs on Fargate, from Batch, ECS and Container Insights.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use ebb_catalog::machine_type::Architecture;
use ebb_model::advice::sized_request::SizedRequest;
use ebb_model::inventory::batch::BatchFleet;
use ebb_model::inventory::batch::job::{Job, JobStatus, Platform};
use ebb_model::inventory::batch::task::{Task, TaskFamily, task_id};
use ebb_model::inventory::instance::Market;
use ebb_model::report::fargate_jobs::{FargateJob, FargateJobs};
use ebb_telemetry::identity::{AccountId, Region};
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::origin::labelled;
use ebb_telemetry::units::Share;
use jiff::Timestamp;

use crate::facts::Facts;
use crate::rules::batch::on_fargate;

/// Limit on reported jobs; the newest are reported.
pub const MAX_FARGATE_JOBS: usize = 1_000;

/// Minimum charge of Fargate for a task.
///
/// Source: "AWS Fargate Pricing", "Duration".
const LEAST: Duration = Duration::from_secs(60);

/// Queues on Fargate by region and name, with account and market. The market is `None` if it
/// differs between jobs.
type Queues<'a> = BTreeMap<(&'a Region, &'a str), Vec<(Option<&'a AccountId>, Option<Market>)>>;

/// Returns the jobs, the newest first. The parent of an array job never runs itself and is left
/// out.
pub(crate) fn jobs(facts: &Facts<'_>) -> FargateJobs {
    let batch = &facts.inventory.batch;
    let queues = queues(batch);
    let market = |job: &Job| {
        let named = queues.get(&(&job.region, job.queue_name()))?;
        let of = job.account();
        let mut named = named.iter();
        let its = named.find(|(account, _)| AccountId::may_be_one(of.as_ref(), *account));
        Some(its?.1)
    };
    let mut jobs: Vec<(&Job, Option<Market>)> = batch
        .jobs
        .values()
        .filter(|job| job.array_size.is_none())
        .filter_map(|job| Some((job, market(job)?)))
        .collect();
    jobs.sort_by_key(|(job, _)| (Reverse(job.created_at), &job.id));
    let left_out = jobs.len().saturating_sub(MAX_FARGATE_JOBS);
    jobs.truncate(MAX_FARGATE_JOBS);
    let jobs = jobs
        .into_iter()
        .map(|(job, market)| one(facts, job, market));
    FargateJobs {
        jobs: jobs.collect(),
        left_out,
    }
}

fn queues(batch: &BatchFleet) -> Queues<'_> {
    let mut queues = Queues::new();
    for queue in &batch.queues {
        let kinds = batch.environments_of(queue);
        let mut markets = kinds.filter_map(|one| bought(one.kind.as_deref()?));
        if let Some(first) = markets.next() {
            let same = markets.all(|other| other == first).then_some(first);
            let named = queues.entry((&queue.region, queue.name.as_str()));
            named.or_default().push((queue.account.as_ref(), same));
        }
    }
    queues
}

/// Parses the environment type of Batch or the capacity provider of ECS.
fn bought(kind: &str) -> Option<Market> {
    match kind {
        "FARGATE" => Some(Market::OnDemand),
        "FARGATE_SPOT" => Some(Market::Spot),
        _ => None,
    }
}

fn one(facts: &Facts<'_>, job: &Job, market: Option<Market>) -> FargateJob {
    let task = facts.inventory.batch.task_of(job);
    let asks = SizedRequest {
        cores: task.and_then(|task| task.cores).or(job.requested.cores),
        memory: task.and_then(|task| task.memory).or(job.requested.memory),
    };
    let provider = task.and_then(|task| task.capacity_provider.as_deref());
    let market = market.or_else(|| provider.and_then(bought));
    let price = price(facts, job, (market, asks));
    let spans = spans(job, facts.now);
    let ran = (!spans.is_empty()).then(|| spans.iter().map(|(from, to)| length(*from, *to)).sum());
    let peaks = task.and_then(|task| peaks(facts, task, &spans));
    let stopped = task.and_then(|task| task.stopped_reason.clone());
    FargateJob {
        id: job.id.clone(),
        name: job.name.clone(),
        definition: job.definition.clone(),
        queue: job.queue_name().to_owned(),
        region: job.region.clone(),
        owner: job.owner().map(str::to_owned),
        origin: labelled(&job.tags),
        status: job.status,
        reason: stopped.or_else(|| job.status_reason.clone()),
        task: job.task_arn.as_deref().and_then(task_id).map(str::to_owned),
        task_status: task.and_then(|task| task.last_status.clone()),
        asks,
        started_at: job.started_at,
        stopped_at: job.stopped_at,
        ran,
        market,
        per_hour: price.as_ref().ok().map(|(price, _)| *price),
        price_as_of: price.as_ref().ok().and_then(|(_, as_of)| *as_of),
        cost: price.as_ref().ok().map(|(price, _)| cost(*price, &spans)),
        unpriced: price.err(),
        cpu: peaks.and_then(|(cpu, _)| cpu),
        memory: peaks.and_then(|(_, memory)| memory),
        not_evaluated: match job.status {
            _ if spans.is_empty() => None,
            JobStatus::Running => on_fargate::why_not(facts, job),
            _ => {
                Some("the job has ended, and only running jobs on Fargate are evaluated".to_owned())
            }
        },
    }
}

/// List price of an hour, and its date. The error is the reason why the price is unknown.
fn price(
    facts: &Facts<'_>,
    job: &Job,
    (market, asks): (Option<Market>, SizedRequest),
) -> Result<(UsdPerHour, Option<Timestamp>), String> {
    match market {
        Some(Market::OnDemand) => {}
        Some(_) => return Err("the Fargate Spot price is unknown".to_owned()),
        None => return Err("it is unknown whether the job runs on Fargate Spot".to_owned()),
    }
    let architecture = match job.platform {
        // Default of Batch for a job definition without an architecture.
        None => Architecture::X86_64,
        Some(Platform::Linux(architecture)) => architecture,
        Some(Platform::Other) => {
            return Err("the Fargate price is known for Linux only".to_owned());
        }
    };
    let rates = facts.catalogue.fargate(&job.region, architecture);
    let rates = rates.ok_or_else(|| {
        let region = &job.region;
        format!("the Fargate price in {region} is unknown")
    })?;
    let (cores, memory) = asks
        .cores
        .zip(asks.memory)
        .ok_or("the requested vCPUs and memory are unknown")?;
    let as_of = facts.catalogue.fargate_as_of(&job.region, architecture);
    Ok((rates.price(cores, memory), as_of))
}

/// Intervals in which its containers ran, one for each attempt. An ended attempt without an end
/// time is left out.
fn spans(job: &Job, now: Timestamp) -> Vec<(Timestamp, Timestamp)> {
    let ended = job.attempts.iter();
    let mut spans: Vec<_> = ended
        .filter_map(|attempt| attempt.started_at.zip(attempt.stopped_at))
        .collect();
    match job.status {
        JobStatus::Running => spans.extend(job.started_at.map(|started| (started, now))),
        // The list of attempts contains the last attempt, if the list is not empty.
        _ if spans.is_empty() => spans.extend(job.started_at.zip(job.stopped_at)),
        _ => {}
    }
    spans
}

fn length(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

fn cost(price: UsdPerHour, spans: &[(Timestamp, Timestamp)]) -> Usd {
    let each = spans.iter();
    each.map(|(from, to)| price.over(length(*from, *to).max(LEAST)))
        .sum()
}

/// Peak CPU and memory of all tasks of its family while it ran; `None` if Container Insights has no
/// data of this time.
fn peaks(
    facts: &Facts<'_>,
    task: &Task,
    spans: &[(Timestamp, Timestamp)],
) -> Option<(Option<Share>, Option<Share>)> {
    let family = TaskFamily::new(task.cluster_arn.as_ref()?, task.family.as_ref()?);
    let series = facts.inventory.batch.insights.get(&family)?;
    let (from, to) = *spans.last()?;
    let then = || {
        series
            .points()
            .filter(|point| from < point.end && point.end <= to)
    };
    Some((
        then().filter_map(|point| point.cpu_max).max(),
        then().filter_map(|point| point.memory).max(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, region, requested};
    use ebb_model::inventory::batch::JobQueue;
    use ebb_model::inventory::batch::job::Attempt;
    use ebb_model::metric_series::MetricPoint;
    use ebb_telemetry::testing::at;

    const CLUSTER: &str = "arn:aws:ecs:us-east-1:1:cluster/b";

    /// A job of 2 vCPU and 4 GiB on Fargate that started at the zero of the clock, an hour ago.
    fn world(status: JobStatus, kinds: &[&str]) -> World {
        let mut world = World::default().with_job(status, requested(2, 4));
        world.now = at(3_600);
        let job = world.job();
        job.container_instance_arn = None;
        job.stopped_at = (status != JobStatus::Running).then(|| at(1_800));
        let batch = &mut world.inventory.batch;
        let environment = batch.environments.remove(0);
        let mut queue = JobQueue::new("q", region());
        for kind in kinds {
            let mut one = environment.clone();
            (one.name, one.kind) = ((*kind).to_owned(), Some((*kind).to_owned()));
            queue.environments.push(one.name.clone());
            batch.environments.push(one);
        }
        batch.queues.push(queue);
        world
    }

    fn only(world: &World) -> FargateJob {
        let fargate = world.evaluate().fargate;
        let [only] = &fargate.jobs[..] else {
            panic!("one job: {fargate:?}")
        };
        only.clone()
    }

    #[test]
    fn a_job_costs_what_it_asked_for_as_long_as_it_ran_where_the_price_is_known() {
        // 2 x 0.04048 and 4 x 0.004445 USD an hour.
        let check = |world: World, expect: Result<i64, &str>| {
            let job = only(&world);
            assert_eq!(job.unpriced.is_some(), job.cost.is_none());
            let got = job.cost.map(|cost| cost.micros());
            let got = got.ok_or_else(|| job.unpriced.unwrap_or_default());
            assert_eq!(got.as_ref().map_err(String::as_str).copied(), expect);
        };
        check(world(JobStatus::Running, &["FARGATE"]), Ok(98_740));
        check(world(JobStatus::Succeeded, &["FARGATE"]), Ok(49_370));
        let mut tried = world(JobStatus::Failed, &["FARGATE"]);
        let ten_seconds = Attempt {
            started_at: Some(at(0)),
            stopped_at: Some(at(10)),
            ..Attempt::default()
        };
        tried.job().attempts = vec![ten_seconds.clone(), ten_seconds];
        assert_eq!(only(&tried).ran, Some(Duration::from_secs(20)));
        // Each attempt costs at least one minute.
        check(tried, Ok(2 * 1_646));
        let mut arm = world(JobStatus::Running, &["FARGATE"]);
        arm.job().platform = Some(Platform::Linux(Architecture::Arm64));
        check(arm, Ok(79_000));
        let mut windows = world(JobStatus::Running, &["FARGATE"]);
        windows.job().platform = Some(Platform::Other);
        let linux = "the Fargate price is known for Linux only";
        check(windows, Err(linux));
        let spot = "the Fargate Spot price is unknown";
        check(world(JobStatus::Running, &["FARGATE_SPOT"]), Err(spot));
        let mut both = world(JobStatus::Running, &["FARGATE", "FARGATE_SPOT"]);
        let unknown = "it is unknown whether the job runs on Fargate Spot";
        check(
            world(JobStatus::Running, &["FARGATE", "FARGATE_SPOT"]),
            Err(unknown),
        );
        let task = Task {
            capacity_provider: Some("FARGATE".to_owned()),
            ..Task::default()
        };
        let arn = both.job().task_arn.clone().expect("it has a task");
        both.inventory.batch.tasks.insert(arn, task);
        check(both, Ok(98_740));
    }

    #[test]
    fn what_runs_on_machines_or_is_the_parent_of_an_array_is_no_job_of_fargates() {
        let many = |world: &World| world.evaluate().fargate.jobs.len();
        assert_eq!(many(&world(JobStatus::Running, &["EC2"])), 0);
        let mut parent = world(JobStatus::Pending, &["FARGATE"]);
        assert_eq!(many(&parent), 1);
        parent.job().array_size = Some(10);
        assert_eq!(many(&parent), 0);
    }

    #[test]
    fn a_job_is_judged_by_the_only_task_of_its_family_and_else_says_why_not() {
        let check = |tasks: u32, cpu: Option<u32>, expect: (Option<u32>, Option<&str>)| {
            let mut world = world(JobStatus::Running, &["FARGATE"]);
            let arn = world.job().task_arn.clone().expect("it has a task");
            let task = Task {
                region: Some(region()),
                cluster_arn: Some(CLUSTER.to_owned()),
                family: Some("align".to_owned()),
                launch_type: Some("FARGATE".to_owned()),
                last_status: Some("RUNNING".to_owned()),
                ..Task::default()
            };
            let batch = &mut world.inventory.batch;
            for n in 1..tasks {
                let other = format!("arn:aws:ecs:us-east-1:1:task/b/{n}");
                batch.tasks.insert(other, task.clone());
            }
            batch.tasks.insert(arn, task);
            let point = |cpu| MetricPoint {
                cpu_max: Some(Share::from_ppm(cpu)),
                ..MetricPoint::new(at(1_800), 300)
            };
            let family = TaskFamily::new(CLUSTER, "align");
            let series = cpu.map(|cpu| (family, [point(cpu)].into_iter().collect()));
            batch.insights.extend(series);
            let job = only(&world);
            assert_eq!(job.task_status.as_deref(), Some("RUNNING"));
            let why = job.not_evaluated.unwrap_or_default();
            assert!(why.contains(expect.1.unwrap_or_default()), "{why}");
            assert_eq!(
                (job.cpu.map(Share::ppm), why.is_empty()),
                (expect.0, expect.1.is_none())
            );
            // The rule gives the same reason.
            let report = world.evaluate();
            let mut listed = report.not_evaluated.iter();
            let listed = listed.any(|one| one.resource == "job-1" && one.reason == why);
            assert_eq!(listed, expect.1.is_some());
        };
        check(1, None, (None, Some("Container Insights has no data")));
        check(1, Some(700_000), (Some(700_000), None));
        check(
            2,
            Some(700_000),
            (Some(700_000), Some("busiest of the 2 tasks")),
        );
    }
}
