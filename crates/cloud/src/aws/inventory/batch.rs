//! Batch compute environments and job queues.

use aws_sdk_batch::types::{
    CeState, ComputeEnvironmentDetail, FrontOfQueueJobSummary, JobQueueDetail, JqState,
};
use ebb_model::inventory::batch::job::JobId;
use ebb_model::inventory::batch::{ComputeEnvironment, FrontJob, JobQueue};
use ebb_telemetry::identity::{AccountId, Region};
use jiff::Timestamp;

use super::super::error::cloud_error;
use super::region_part::{Clients, Part};
use crate::permissions::{
    DESCRIBE_COMPUTE_ENVIRONMENTS, DESCRIBE_JOB_QUEUES, GET_JOB_QUEUE_SNAPSHOT,
};
use crate::ports::CloudError;
use crate::turns::in_turns;

/// All compute environments of the region.
pub(super) async fn environments(clients: &Clients) -> Part<ComputeEnvironment> {
    let mut part = Part::default();
    let call = clients.batch.describe_compute_environments();
    let pages = call.into_paginator().send();
    let operation = DESCRIBE_COMPUTE_ENVIRONMENTS;
    paged!(part, operation, "compute environments", pages, |page| {
        for detail in page.compute_environments() {
            part.take(operation, environment(detail, &clients.region));
        }
    });
    part
}

/// All job queues of the region.
pub(super) async fn queues(clients: &Clients) -> Part<JobQueue> {
    let mut part = Part::default();
    let pages = clients.batch.describe_job_queues().into_paginator().send();
    paged!(part, DESCRIBE_JOB_QUEUES, "job queues", pages, |page| {
        for detail in page.job_queues() {
            part.take(DESCRIBE_JOB_QUEUES, queue(detail, &clients.region));
        }
    });
    part
}

/// The jobs at the front of each of these queues, by the queue's name.
pub(super) async fn fronts(
    clients: &Clients,
    queues: impl IntoIterator<Item = String>,
) -> Part<(String, Vec<FrontJob>)> {
    let calls = queues
        .into_iter()
        .map(|queue| front(clients.clone(), queue));
    let mut all = Part::default();
    for answer in in_turns(calls.collect::<Vec<_>>()).await {
        match answer {
            Ok(queue_front) => all.found.push(queue_front),
            Err(refused) => all.refused.push(refused),
        }
    }
    all
}

async fn front(clients: Clients, queue: String) -> Result<(String, Vec<FrontJob>), CloudError> {
    let call = clients.batch.get_job_queue_snapshot().job_queue(&queue);
    let answer = call.send().await;
    let answer = answer.map_err(|e| cloud_error(GET_JOB_QUEUE_SNAPSHOT, &queue, &e))?;
    let jobs = answer
        .front_of_queue()
        .map_or(&[][..], |front| front.jobs());
    Ok((queue, jobs.iter().filter_map(front_job).collect()))
}

fn front_job(summary: &FrontOfQueueJobSummary) -> Option<FrontJob> {
    let id = summary.job_arn()?.rsplit('/').next()?;
    let since = summary.earliest_time_at_position();
    Some(FrontJob {
        job: JobId::new(id).ok()?,
        since: since.and_then(|millis| Timestamp::from_millisecond(millis).ok()),
    })
}

fn environment(
    detail: &ComputeEnvironmentDetail,
    region: &Region,
) -> Result<ComputeEnvironment, String> {
    let name = detail
        .compute_environment_name()
        .ok_or("compute environment without a name")?;
    let resources = detail.compute_resources();
    let whole = |n: Option<i32>| n.and_then(|n| u32::try_from(n).ok());
    let scaling = resources.and_then(|r| r.scaling_policy());
    Ok(ComputeEnvironment {
        account: detail.compute_environment_arn().and_then(AccountId::of_arn),
        status: detail.status().map(|s| s.as_str().to_owned()),
        status_reason: detail.status_reason().map(str::to_owned),
        enabled: detail.state().map(|state| *state == CeState::Enabled),
        kind: resources.and_then(|r| Some(r.r#type()?.as_str().to_owned())),
        instance_types: resources.map_or_else(Vec::new, |r| r.instance_types().to_vec()),
        allocation: resources.and_then(|r| Some(r.allocation_strategy()?.as_str().to_owned())),
        cluster_arn: detail.ecs_cluster_arn().map(str::to_owned),
        min_vcpus: whole(resources.and_then(|r| r.minv_cpus())),
        desired_vcpus: whole(resources.and_then(|r| r.desiredv_cpus())),
        max_vcpus: whole(resources.and_then(|r| r.maxv_cpus())),
        scale_down_delay_minutes: whole(scaling.and_then(|s| s.min_scale_down_delay_minutes())),
        ..ComputeEnvironment::new(name, region.clone())
    })
}

fn queue(detail: &JobQueueDetail, region: &Region) -> Result<JobQueue, String> {
    let name = detail.job_queue_name().ok_or("job queue without a name")?;
    let mut order: Vec<_> = detail.compute_environment_order().iter().collect();
    order.sort_by_key(|one| one.order());
    let named = |one: &str| one.rsplit('/').next().unwrap_or(one).to_owned();
    let environments = order.iter().filter_map(|one| one.compute_environment());
    Ok(JobQueue {
        account: detail.job_queue_arn().and_then(AccountId::of_arn),
        status: detail.status().map(|s| s.as_str().to_owned()),
        status_reason: detail.status_reason().map(str::to_owned),
        enabled: detail.state().map(|state| *state == JqState::Enabled),
        priority: detail.priority(),
        environments: environments.map(named).collect(),
        ..JobQueue::new(name, region.clone())
    })
}

#[cfg(test)]
mod tests {
    use aws_sdk_batch::types::{
        CeStatus, ComputeEnvironmentOrder, ComputeResource, CrAllocationStrategy, JqStatus,
    };

    use super::*;

    fn region() -> Region {
        Region::new("eu-west-1").expect("a region")
    }

    #[test]
    fn an_environment_is_read_as_batch_describes_it() {
        let resources = ComputeResource::builder()
            .minv_cpus(4)
            .maxv_cpus(64)
            .instance_types("m5")
            .allocation_strategy(CrAllocationStrategy::BestFit)
            .build();
        let detail = ComputeEnvironmentDetail::builder()
            .compute_environment_name("ce")
            .compute_environment_arn("arn:aws:batch:r:000000000001:compute-environment/ce")
            .ecs_cluster_arn("arn:cluster")
            .status(CeStatus::Invalid)
            .compute_resources(resources)
            .build();
        let read = environment(&detail, &region()).expect("it has a name");
        assert_eq!(read.account, AccountId::new("000000000001").ok());
        assert_eq!(read.status.as_deref(), Some("INVALID"));
        assert_eq!((read.min_vcpus, read.max_vcpus), (Some(4), Some(64)));
        assert_eq!(read.instance_types, ["m5"]);
        assert_eq!(read.allocation.as_deref(), Some("BEST_FIT"));
        let bare = ComputeEnvironmentDetail::builder()
            .compute_environment_name("ce")
            .build();
        let read = environment(&bare, &region()).expect("it has a name");
        assert_eq!((read.min_vcpus, read.status), (None, None));
        let nameless = ComputeEnvironmentDetail::builder().build();
        assert!(environment(&nameless, &region()).is_err());
    }

    #[test]
    fn a_queue_is_read_as_batch_describes_it() {
        let order = |place: i32, arn: &str| {
            let one = ComputeEnvironmentOrder::builder().order(place);
            one.compute_environment(arn).build()
        };
        let detail = JobQueueDetail::builder()
            .job_queue_name("q")
            .job_queue_arn("arn:aws:batch:r:000000000001:job-queue/q")
            .status(JqStatus::Valid)
            .status_reason("JobQueue Healthy")
            .state(JqState::Disabled)
            .compute_environment_order(order(2, "arn:aws:batch:r:a:compute-environment/b"))
            .compute_environment_order(order(1, "a"))
            .build();
        let read = queue(&detail, &region()).expect("it has a name");
        assert_eq!(read.account, AccountId::new("000000000001").ok());
        assert_eq!(read.status.as_deref(), Some("VALID"));
        assert_eq!(read.status_reason.as_deref(), Some("JobQueue Healthy"));
        assert_eq!(read.enabled, Some(false));
        assert_eq!(read.environments, ["a", "b"]);
        assert!(queue(&JobQueueDetail::builder().build(), &region()).is_err());
    }
}
