//! Compute environments and job queues of Batch.

use aws_sdk_batch::types::{ComputeEnvironmentDetail, JobQueueDetail};
use ebb_domain::fleet::{ComputeEnvironment, JobQueue};
use ebb_domain::identity::Region;

use super::super::error::cloud_error;
use super::{Clients, Part};
use crate::permissions::{DESCRIBE_COMPUTE_ENVIRONMENTS, DESCRIBE_JOB_QUEUES};

/// All compute environments of the region.
pub(super) async fn environments(clients: &Clients) -> Part<ComputeEnvironment> {
    let mut part = Part::default();
    let mut pages = clients
        .batch
        .describe_compute_environments()
        .into_paginator()
        .send();
    while let Some(page) = pages.next().await {
        match page {
            Ok(page) => {
                for told in page.compute_environments() {
                    let read = environment(told, &clients.region);
                    part.take(DESCRIBE_COMPUTE_ENVIRONMENTS, read);
                }
            }
            Err(error) => {
                let what = "compute environments";
                let refused = cloud_error(DESCRIBE_COMPUTE_ENVIRONMENTS, what, &error);
                part.refused.push(refused);
                break;
            }
        }
    }
    part
}

/// All job queues of the region.
pub(super) async fn queues(clients: &Clients) -> Part<JobQueue> {
    let mut part = Part::default();
    let mut pages = clients.batch.describe_job_queues().into_paginator().send();
    while let Some(page) = pages.next().await {
        match page {
            Ok(page) => {
                for told in page.job_queues() {
                    part.take(DESCRIBE_JOB_QUEUES, queue(told, &clients.region));
                }
            }
            Err(error) => {
                let refused = cloud_error(DESCRIBE_JOB_QUEUES, "job queues", &error);
                part.refused.push(refused);
                break;
            }
        }
    }
    part
}

fn environment(
    told: &ComputeEnvironmentDetail,
    region: &Region,
) -> Result<ComputeEnvironment, String> {
    let name = told
        .compute_environment_name()
        .ok_or("a compute environment has no name")?;
    let least = told.compute_resources().and_then(|r| r.minv_cpus());
    Ok(ComputeEnvironment {
        name: name.to_owned(),
        region: region.clone(),
        status: told.status().map(|s| s.as_str().to_owned()),
        cluster_arn: told.ecs_cluster_arn().map(str::to_owned),
        min_vcpus: least.and_then(|n| u32::try_from(n).ok()),
    })
}

fn queue(told: &JobQueueDetail, region: &Region) -> Result<JobQueue, String> {
    let name = told.job_queue_name().ok_or("a job queue has no name")?;
    Ok(JobQueue {
        name: name.to_owned(),
        region: region.clone(),
        status: told.status().map(|s| s.as_str().to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use aws_sdk_batch::types::{CeStatus, ComputeResource, JqStatus};

    use super::*;

    fn region() -> Region {
        Region::new("eu-west-1").expect("a region")
    }

    #[test]
    fn an_environment_is_read_as_it_is_told() {
        let resources = ComputeResource::builder().minv_cpus(4).build();
        let told = ComputeEnvironmentDetail::builder()
            .compute_environment_name("ce")
            .ecs_cluster_arn("arn:cluster")
            .status(CeStatus::Invalid)
            .compute_resources(resources)
            .build();
        let read = environment(&told, &region()).expect("it has a name");
        assert_eq!(read.status.as_deref(), Some("INVALID"));
        assert_eq!(read.min_vcpus, Some(4));
        let bare = ComputeEnvironmentDetail::builder()
            .compute_environment_name("ce")
            .build();
        let read = environment(&bare, &region()).expect("it has a name");
        assert_eq!((read.min_vcpus, read.status), (None, None));
        let nameless = ComputeEnvironmentDetail::builder().build();
        assert!(environment(&nameless, &region()).is_err());
    }

    #[test]
    fn a_queue_is_read_as_it_is_told() {
        let told = JobQueueDetail::builder()
            .job_queue_name("q")
            .status(JqStatus::Valid)
            .build();
        let read = queue(&told, &region()).expect("it has a name");
        assert_eq!(read.status.as_deref(), Some("VALID"));
        assert!(queue(&JobQueueDetail::builder().build(), &region()).is_err());
    }
}
