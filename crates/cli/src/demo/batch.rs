//! The Batch environment of the account, its workers and jobs.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use ebb_model::inventory::batch::container_instances::ContainerInstance;
use ebb_model::inventory::batch::job::{Job, JobId, JobStatus};
use ebb_model::inventory::batch::{BatchFleet, ComputeEnvironment, JobQueue};
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::origin::SIMULATED_TAG;
use ebb_telemetry::tags::PIPELINE_TAG;
use ebb_telemetry::tags::RUN_TAG;

use super::account::{Account, JobSpec};
use super::fleet::ACCOUNT;

pub(super) fn batch(account: &Account) -> Result<BatchFleet> {
    let environment = &account.environment;
    let cluster_arn = arn(account, "cluster");
    let workers = account
        .nodes
        .iter()
        .filter(|node| node.environment.as_ref() == Some(&environment.name));
    let container_instances = workers.map(|node| {
        let jobs = account.jobs.iter();
        let running = jobs.filter(|job| job.node.as_ref() == Some(&node.id));
        let instance = ContainerInstance {
            agent_connected: Some(node.agent_lost.is_none()),
            running_tasks: u32::try_from(running.count()).ok(),
            ..ContainerInstance::new(node.id.clone(), &cluster_arn, node.region.clone())
        };
        (worker_arn(account, &node.id), instance)
    });
    let jobs = account.jobs.iter().map(|spec| job(account, spec));
    Ok(BatchFleet {
        environments: vec![ComputeEnvironment {
            status: Some("VALID".to_owned()),
            cluster_arn: Some(cluster_arn.clone()),
            min_vcpus: Some(0),
            instance_types: environment.instance_types.clone(),
            allocation: Some(environment.allocation.clone()),
            ..ComputeEnvironment::new(&environment.name, environment.region.clone())
        }],
        queues: vec![JobQueue {
            status: Some("VALID".to_owned()),
            ..JobQueue::new(&environment.queue, environment.region.clone())
        }],
        container_instances: container_instances.collect(),
        jobs: jobs.collect::<Result<_>>()?,
        earlier_jobs: Vec::new(),
        tasks: BTreeMap::new(),
        insights: BTreeMap::new(),
    })
}

fn job(account: &Account, spec: &JobSpec) -> Result<(JobId, Job)> {
    let id = JobId::new(spec.id.as_str()).with_context(|| spec.name.clone())?;
    let created = account.ago(spec.created)?;
    let started = spec.run.as_ref().map(|run| account.ago(run.started));
    let task_arn = spec
        .task
        .as_ref()
        .map(|task| format!("{}/{task}", arn(account, "task")));
    let mut tags = BTreeMap::from([
        ("Owner".to_owned(), spec.owner.clone()),
        (SIMULATED_TAG.to_owned(), "true".to_owned()),
    ]);
    let named = [(RUN_TAG, &spec.run_tag), (PIPELINE_TAG, &spec.pipeline)];
    tags.extend(
        named
            .into_iter()
            .filter_map(|(key, name)| Some((key.to_owned(), name.clone()?))),
    );
    let job = Job {
        status_reason: spec.reason.clone(),
        created_at: Some(created),
        started_at: started.transpose()?,
        container_instance_arn: spec
            .node
            .as_ref()
            .filter(|_| spec.status == JobStatus::Running)
            .map(|node| worker_arn(account, node)),
        task_arn,
        requested: spec.request.into(),
        tags,
        ..Job::new(
            id.clone(),
            &spec.name,
            &account.environment.queue,
            account.environment.region.clone(),
            spec.status,
        )
    };
    Ok((id, job))
}

fn worker_arn(account: &Account, node: &NodeId) -> String {
    format!("{}/{node}", arn(account, "container-instance"))
}

fn arn(account: &Account, kind: &str) -> String {
    let environment = &account.environment;
    format!(
        "arn:aws:ecs:{}:{ACCOUNT}:{kind}/{}",
        environment.region, environment.name
    )
}
