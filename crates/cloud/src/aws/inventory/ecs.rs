//! Container instances of ECS: which node is beneath a Batch job.

use std::collections::BTreeSet;

use aws_sdk_ecs::types::ContainerInstance as Told;
use ebb_domain::fleet::ContainerInstance;
use ebb_domain::identity::{NodeId, Region};

use super::super::error::cloud_error;
use super::super::turns::in_turns;
use super::{Clients, Part, unreadable};
use crate::permissions::{DESCRIBE_CONTAINER_INSTANCES, LIST_CONTAINER_INSTANCES};

/// The most that one call describes.
const PAGE: usize = 100;

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
    let mut arns = Vec::new();
    let mut pages = clients
        .ecs
        .list_container_instances()
        .cluster(&cluster)
        .into_paginator()
        .items()
        .send();
    while let Some(arn) = pages.next().await {
        match arn {
            Ok(arn) => arns.push(arn),
            Err(error) => {
                let refused = cloud_error(LIST_CONTAINER_INSTANCES, &cluster, &error);
                part.refused.push(refused);
                break;
            }
        }
    }
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
    for told in answer.container_instances() {
        let read = container_instance(told, cluster, &clients.region);
        part.take(DESCRIBE_CONTAINER_INSTANCES, read);
    }
    for failure in answer.failures() {
        let what = failure.arn().unwrap_or("a container instance");
        let reason = failure.reason().unwrap_or("no reason given");
        let message = format!("{what}: {reason}");
        part.refused
            .push(unreadable(DESCRIBE_CONTAINER_INSTANCES, &message));
    }
}

fn container_instance(
    told: &Told,
    cluster: &str,
    region: &Region,
) -> Result<(String, ContainerInstance), String> {
    let arn = told
        .container_instance_arn()
        .ok_or("a container instance has no ARN")?;
    let node = told
        .ec2_instance_id()
        .ok_or_else(|| format!("{arn}: no instance beneath"))?;
    let instance = ContainerInstance {
        node: NodeId::new(node).map_err(|e| format!("{arn}: {e}"))?,
        cluster_arn: cluster.to_owned(),
        region: region.clone(),
        agent_connected: Some(told.agent_connected()),
        running_tasks: u32::try_from(told.running_tasks_count()).ok(),
    };
    Ok((arn.to_owned(), instance))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_instance_tells_its_node() {
        let region = Region::new("eu-west-1").expect("a region");
        let told = Told::builder()
            .container_instance_arn("arn:ci")
            .ec2_instance_id("i-1")
            .agent_connected(true)
            .running_tasks_count(3)
            .build();
        let (arn, read) = container_instance(&told, "c", &region).expect("it has a node");
        assert_eq!((arn.as_str(), read.node.as_str()), ("arn:ci", "i-1"));
        assert_eq!(
            (read.agent_connected, read.running_tasks),
            (Some(true), Some(3))
        );
        let homeless = Told::builder().container_instance_arn("arn:ci").build();
        let refused = container_instance(&homeless, "c", &region);
        assert_eq!(
            refused.err().as_deref(),
            Some("arn:ci: no instance beneath")
        );
    }
}
