//! ECS container instances and tasks: the node of a Batch job, and the id in its cgroup path.

use std::collections::BTreeSet;

use aws_sdk_ecs::types::{
    Connectivity, ContainerInstance as EcsContainerInstance, ContainerInstanceField, DesiredStatus,
    HealthStatus, InstanceHealthCheckState, LaunchType, Task as EcsTask,
};
use ebb_model::inventory::batch::container_instances::ContainerInstance;
use ebb_model::inventory::batch::task::{Health, Task};
use ebb_telemetry::identity::{NodeId, Region};
use ebb_telemetry::units::{Bytes, MilliCores};

use super::super::error::cloud_error;
use super::super::time::timestamp;
use super::region_part::{Clients, Part, unreadable};
use crate::permissions::{
    DESCRIBE_CONTAINER_INSTANCES, DESCRIBE_TASKS, LIST_CLUSTERS, LIST_CONTAINER_INSTANCES,
    LIST_TASKS,
};
use crate::turns::in_turns;

/// Maximum number of entries in one describe call.
const PAGE: usize = 100;

/// The failure reason of ECS for a resource that does not exist.
///
/// Source: ECS developer guide, "API failure reasons".
const MISSING: &str = "MISSING";

/// The container instances of these clusters, each with its ARN.
pub(super) async fn container_instances(
    clients: &Clients,
    clusters: BTreeSet<String>,
) -> Part<(String, ContainerInstance)> {
    let calls = clusters
        .into_iter()
        .map(|cluster| of_cluster(clients.clone(), cluster));
    let mut all = Part::default();
    for part in in_turns(calls.collect::<Vec<_>>()).await {
        all.absorb(part);
    }
    all
}

async fn of_cluster(clients: Clients, cluster: String) -> Part<(String, ContainerInstance)> {
    let mut part = Part::default();
    let mut arns: Vec<String> = Vec::new();
    let call = clients.ecs.list_container_instances().cluster(&cluster);
    let pages = call.into_paginator().send();
    paged!(part, LIST_CONTAINER_INSTANCES, &cluster, pages, |page| {
        arns.extend_from_slice(page.container_instance_arns());
    });
    for page in arns.chunks(PAGE) {
        describe(&clients, &cluster, page, &mut part).await;
    }
    part
}

async fn describe(
    clients: &Clients,
    cluster: &str,
    arns: &[String],
    part: &mut Part<(String, ContainerInstance)>,
) {
    let answer = clients
        .ecs
        .describe_container_instances()
        .cluster(cluster)
        .set_container_instances(Some(arns.to_vec()))
        .include(ContainerInstanceField::ContainerInstanceHealth)
        .send()
        .await;
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            let refused = cloud_error(DESCRIBE_CONTAINER_INSTANCES, cluster, &error);
            part.refused.push(refused);
            return;
        }
    };
    for ecs_instance in answer.container_instances() {
        let read = container_instance(ecs_instance, cluster, &clients.region);
        part.take(DESCRIBE_CONTAINER_INSTANCES, read);
    }
    // An instance that left between the two calls is no error.
    let failures = answer.failures().iter();
    for failure in failures.filter(|failure| failure.reason() != Some(MISSING)) {
        let what = failure.arn().unwrap_or("a container instance");
        let reason = failure.reason().unwrap_or("no reason given");
        let message = format!("{what}: {reason}");
        part.refused
            .push(unreadable(DESCRIBE_CONTAINER_INSTANCES, &message));
    }
}

fn container_instance(
    ecs_instance: &EcsContainerInstance,
    cluster: &str,
    region: &Region,
) -> Result<(String, ContainerInstance), String> {
    let arn = ecs_instance
        .container_instance_arn()
        .ok_or("container instance without an ARN")?;
    let node = ecs_instance
        .ec2_instance_id()
        .ok_or_else(|| format!("{arn}: no EC2 instance"))?;
    let node = NodeId::new(node).map_err(|e| format!("{arn}: {e}"))?;
    let health = ecs_instance.health_status();
    let details = health.map_or(&[][..], |health| health.details());
    let health = health.and_then(|health| health.overall_status());
    // If several checks have the same status, the earliest change counts.
    let same = details.iter().filter(|check| check.status() == health);
    let changed = same.filter_map(|check| timestamp(check.last_status_change()?));
    let instance = ContainerInstance {
        agent_connected: Some(ecs_instance.agent_connected()),
        running_tasks: u32::try_from(ecs_instance.running_tasks_count()).ok(),
        pending_tasks: u32::try_from(ecs_instance.pending_tasks_count()).ok(),
        status: ecs_instance.status().map(str::to_owned),
        health: health.and_then(|state| match state {
            InstanceHealthCheckState::Ok => Some(Health::Ok),
            InstanceHealthCheckState::Impaired => Some(Health::Impaired),
            InstanceHealthCheckState::Initializing => Some(Health::Initializing),
            _ => None,
        }),
        health_since: changed.min(),
        registered_at: ecs_instance.registered_at().and_then(timestamp),
        ..ContainerInstance::new(node, cluster, region.clone())
    };
    Ok((arn.to_owned(), instance))
}

/// The tasks of these clusters, each with its ARN: running tasks, stopping tasks, and tasks that
/// stopped within the last hour, for which ECS keeps them.
pub(super) async fn tasks(clients: &Clients, clusters: BTreeSet<String>) -> Part<(String, Task)> {
    let calls = clusters.into_iter().flat_map(|cluster| {
        let wanted = [DesiredStatus::Running, DesiredStatus::Stopped];
        wanted.map(|status| tasks_of(clients.clone(), cluster.clone(), (status, None)))
    });
    let mut all = Part::default();
    for part in in_turns(calls.collect::<Vec<_>>()).await {
        all.absorb(part);
    }
    all
}

/// Fargate tasks in all clusters except the known ones, which belong to Batch and are read
/// separately.
pub(super) async fn fargate(clients: &Clients, known: &BTreeSet<String>) -> Part<(String, Task)> {
    let mut all = Part::default();
    let mut clusters: Vec<String> = Vec::new();
    let pages = clients.ecs.list_clusters().into_paginator().send();
    paged!(all, LIST_CLUSTERS, "clusters", pages, |page| {
        let others = page
            .cluster_arns()
            .iter()
            .filter(|arn| !known.contains(*arn));
        clusters.extend(others.cloned());
    });
    let calls = clusters.into_iter().map(|cluster| {
        let wanted = (DesiredStatus::Running, Some(LaunchType::Fargate));
        tasks_of(clients.clone(), cluster, wanted)
    });
    for part in in_turns(calls.collect::<Vec<_>>()).await {
        all.absorb(part);
    }
    all
}

async fn tasks_of(
    clients: Clients,
    cluster: String,
    (wanted, on): (DesiredStatus, Option<LaunchType>),
) -> Part<(String, Task)> {
    let mut part = Part::default();
    let mut arns: Vec<String> = Vec::new();
    let call = clients.ecs.list_tasks().cluster(&cluster);
    let call = call.desired_status(wanted).set_launch_type(on);
    let pages = call.into_paginator().send();
    paged!(part, LIST_TASKS, &cluster, pages, |page| {
        arns.extend_from_slice(page.task_arns());
    });
    for some in arns.chunks(PAGE) {
        let call = clients.ecs.describe_tasks().cluster(&cluster);
        // A task that ended between the two calls is in the failures, and is no error.
        match call.set_tasks(Some(some.to_vec())).send().await {
            Ok(answer) => {
                for ecs_task in answer.tasks() {
                    part.take(DESCRIBE_TASKS, task(ecs_task, &clients.region));
                }
            }
            Err(error) => {
                let refused = cloud_error(DESCRIBE_TASKS, &cluster, &error);
                part.refused.push(refused);
            }
        }
    }
    part
}

fn task(ecs_task: &EcsTask, region: &Region) -> Result<(String, Task), String> {
    let arn = ecs_task.task_arn().ok_or("task without an ARN")?;
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let task = Task {
        region: Some(region.clone()),
        cluster_arn: owned(ecs_task.cluster_arn()),
        container_instance_arn: owned(ecs_task.container_instance_arn()),
        launch_type: ecs_task.launch_type().map(|on| on.as_str().to_owned()),
        capacity_provider: owned(ecs_task.capacity_provider_name()),
        cores: ecs_task.cpu().and_then(cores),
        memory: ecs_task
            .memory()
            .and_then(|mib| Some(Bytes::mib(mib.parse::<u32>().ok()?.into()))),
        group: owned(ecs_task.group()),
        family: ecs_task.task_definition_arn().and_then(family),
        desired_status: owned(ecs_task.desired_status()),
        last_status: owned(ecs_task.last_status()),
        health: ecs_task.health_status().and_then(|health| match health {
            HealthStatus::Healthy => Some(Health::Ok),
            HealthStatus::Unhealthy => Some(Health::Impaired),
            _ => None,
        }),
        connected: ecs_task
            .connectivity()
            .map(|at| *at == Connectivity::Connected),
        created_at: ecs_task.created_at().and_then(timestamp),
        pull_started_at: ecs_task.pull_started_at().and_then(timestamp),
        pull_stopped_at: ecs_task.pull_stopped_at().and_then(timestamp),
        started_at: ecs_task.started_at().and_then(timestamp),
        stopping_at: ecs_task.stopping_at().and_then(timestamp),
        stopped_at: ecs_task.stopped_at().and_then(timestamp),
        stopped_reason: owned(ecs_task.stopped_reason()),
    };
    Ok((arn.to_owned(), task))
}

/// 1,024 units are one vCPU.
///
/// Source: ECS API reference, `Task`, "cpu".
fn cores(units: &str) -> Option<MilliCores> {
    let units: u32 = units.parse().ok()?;
    Some(MilliCores(u64::from(units) * 1_000 / 1_024))
}

/// The family in `arn:…:task-definition/family:revision`.
fn family(arn: &str) -> Option<String> {
    let (_, named) = arn.rsplit_once('/')?;
    let (family, _) = named.rsplit_once(':')?;
    Some(family.to_owned())
}

#[cfg(test)]
mod tests {
    use aws_sdk_ecs::primitives::DateTime;
    use aws_sdk_ecs::types::{ContainerInstanceHealthStatus, InstanceHealthCheckResult};

    use super::*;

    #[test]
    fn a_task_tells_the_family_of_its_definition() {
        let check = |arn: &str, expect: Option<&str>| {
            assert_eq!(family(arn).as_deref(), expect, "{arn}");
        };
        let arn = "arn:aws:ecs:us-east-1:111122223333:task-definition/api:7";
        check(arn, Some("api"));
        check("api", None);
    }

    #[test]
    fn units_of_cpu_are_parts_of_a_core() {
        let check = |units: &str, expect: Option<u64>| {
            assert_eq!(cores(units).map(|cores| cores.0), expect, "{units}");
        };
        check("256", Some(250));
        check("4096", Some(4_000));
        check(".5 vCPU", None);
    }

    #[test]
    fn a_container_instance_tells_since_when_its_runtime_fails() {
        let check = |overall: InstanceHealthCheckState, expect: (Option<Health>, Option<i64>)| {
            let detail = |status: InstanceHealthCheckState, at| {
                let changed = DateTime::from_secs(at);
                let check = InstanceHealthCheckResult::builder().status(status);
                check.last_status_change(changed).build()
            };
            let status = ContainerInstanceHealthStatus::builder()
                .overall_status(overall)
                .details(detail(InstanceHealthCheckState::Ok, 100))
                .details(detail(InstanceHealthCheckState::Impaired, 300))
                .details(detail(InstanceHealthCheckState::Impaired, 200));
            let ecs_instance = EcsContainerInstance::builder()
                .container_instance_arn("arn:ci")
                .ec2_instance_id("i-1")
                .health_status(status.build());
            let region = Region::new("eu-west-1").expect("a region");
            let (_, read) =
                container_instance(&ecs_instance.build(), "c", &region).expect("it is whole");
            let since = read.health_since.map(|at| at.as_second());
            assert_eq!((read.health, since), expect);
        };
        use InstanceHealthCheckState::{Impaired, Initializing, Ok};
        check(Impaired, (Some(Health::Impaired), Some(200)));
        check(Ok, (Some(Health::Ok), Some(100)));
        check(Initializing, (Some(Health::Initializing), None));
    }

    #[test]
    fn a_container_instance_tells_its_node() {
        let region = Region::new("eu-west-1").expect("a region");
        let ecs_instance = EcsContainerInstance::builder()
            .container_instance_arn("arn:ci")
            .ec2_instance_id("i-1")
            .agent_connected(true)
            .running_tasks_count(3)
            .build();
        let (arn, read) = container_instance(&ecs_instance, "c", &region).expect("it has a node");
        assert_eq!((arn.as_str(), read.node.as_str()), ("arn:ci", "i-1"));
        assert_eq!(
            (read.agent_connected, read.running_tasks),
            (Some(true), Some(3))
        );
        let homeless = EcsContainerInstance::builder()
            .container_instance_arn("arn:ci")
            .build();
        let refused = container_instance(&homeless, "c", &region);
        assert_eq!(refused.err().as_deref(), Some("arn:ci: no EC2 instance"));
    }
}
