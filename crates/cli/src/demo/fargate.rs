//! The account's Fargate queue: jobs without a machine, with data of Batch, ECS and Container
//! Insights.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use ebb_model::inventory::batch::job::{Job, JobId};
use ebb_model::inventory::batch::task::{Task, TaskFamily};
use ebb_model::inventory::batch::{BatchFleet, ComputeEnvironment, JobQueue};
use ebb_model::metric_series::{MetricPoint, MetricSeries};
use ebb_telemetry::origin::SIMULATED_TAG;
use ebb_telemetry::step::Requested;
use ebb_telemetry::units::Share;

use super::account::{Account, FargateJobSpec, InsightsSpec};
use super::fleet::ACCOUNT;

/// Seconds between two points of Container Insights.
const PERIOD: u32 = 300;

/// Adds the queue, and returns its data of Container Insights.
pub(super) fn add(
    account: &Account,
    batch: &mut BatchFleet,
) -> Result<BTreeMap<TaskFamily, MetricSeries>> {
    let mut family_metrics = BTreeMap::new();
    let (spec, region) = (&account.fargate, &account.environment.region);
    let cluster = arn(account, "cluster");
    batch.environments.push(ComputeEnvironment {
        status: Some("VALID".to_owned()),
        cluster_arn: Some(cluster.clone()),
        enabled: Some(true),
        kind: Some("FARGATE".to_owned()),
        ..ComputeEnvironment::new(&spec.name, region.clone())
    });
    batch.queues.push(JobQueue {
        status: Some("VALID".to_owned()),
        environments: vec![spec.name.clone()],
        ..JobQueue::new(&spec.queue, region.clone())
    });
    for job_spec in &spec.jobs {
        let id = JobId::new(job_spec.id.as_str()).with_context(|| job_spec.name.clone())?;
        let task_arn = format!("{}/{}", arn(account, "task"), job_spec.task);
        batch
            .tasks
            .insert(task_arn.clone(), task(account, job_spec)?);
        batch
            .jobs
            .insert(id.clone(), job(account, job_spec, (id, task_arn))?);
        if let Some(insights) = job_spec.insights {
            let family = TaskFamily::new(&cluster, &job_spec.name);
            let series = series(account, job_spec, insights)?;
            family_metrics.insert(family, series);
        }
    }
    Ok(family_metrics)
}

fn job(account: &Account, spec: &FargateJobSpec, (id, task_arn): (JobId, String)) -> Result<Job> {
    let region = account.environment.region.clone();
    let tags = [("Owner", spec.owner.as_str()), (SIMULATED_TAG, "true")];
    let tags = tags.map(|(key, value)| (key.to_owned(), value.to_owned()));
    Ok(Job {
        definition: Some(spec.name.clone()),
        created_at: Some(account.ago(spec.created)?),
        started_at: Some(account.ago(spec.started)?),
        stopped_at: spec.stopped.map(|at| account.ago(at)).transpose()?,
        task_arn: Some(task_arn),
        requested: spec.request.into(),
        tags: BTreeMap::from(tags),
        ..Job::new(id, &spec.name, &account.fargate.queue, region, spec.status)
    })
}

fn task(account: &Account, spec: &FargateJobSpec) -> Result<Task> {
    let request = Requested::from(spec.request);
    let stands = if spec.stopped.is_some() {
        "STOPPED"
    } else {
        "RUNNING"
    };
    let why = spec
        .stopped
        .map(|_| "Essential container in task exited".to_owned());
    Ok(Task {
        region: Some(account.environment.region.clone()),
        cluster_arn: Some(arn(account, "cluster")),
        launch_type: Some("FARGATE".to_owned()),
        cores: request.cores,
        memory: request.memory,
        family: Some(spec.name.clone()),
        desired_status: Some(stands.to_owned()),
        last_status: Some(stands.to_owned()),
        started_at: Some(account.ago(spec.started)?),
        stopped_at: spec.stopped.map(|at| account.ago(at)).transpose()?,
        stopped_reason: why,
        ..Task::default()
    })
}

/// The same values in each period since its start.
fn series(
    account: &Account,
    spec: &FargateJobSpec,
    insights: InsightsSpec,
) -> Result<MetricSeries> {
    let share = |percent: u32| Some(Share::from_ppm(percent * 10_000));
    let periods = spec.started * 60 / u64::from(PERIOD);
    let points = (0..periods).rev().map(|back| {
        let end = Duration::from_secs(back * u64::from(PERIOD));
        Ok(MetricPoint {
            cpu_max: share(insights.cpu_percent),
            memory: share(insights.memory_percent),
            network_bytes: Some(9_000_000),
            ..MetricPoint::new(account.now.checked_sub(end)?, PERIOD)
        })
    });
    points.collect()
}

fn arn(account: &Account, kind: &str) -> String {
    let (region, name) = (&account.environment.region, &account.fargate.name);
    format!("arn:aws:ecs:{region}:{ACCOUNT}:{kind}/{name}")
}
