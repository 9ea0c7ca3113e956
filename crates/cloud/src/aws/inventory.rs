//! What is there: EC2 instances, volumes and addresses, and Batch with the ECS beneath it. A part that
//! refuses becomes a gap that names the permission, and the rest goes on.

mod batch;
mod ecs;
mod instances;
mod jobs;
mod storage;

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use ebb_domain::fleet::{BatchFleet, Gap, Inventory, Job, JobQueue, Storage, controller_from_tags};
use ebb_domain::identity::{NodeId, Region};
use jiff::Timestamp;

use super::AwsConfig;
use super::error::cloud_error;
use crate::permissions::DESCRIBE_REGIONS;
use crate::ports::{CloudError, CloudResult, InventorySource, bounded};

/// The inventory of the account that the credentials belong to.
#[derive(Debug, Clone)]
pub struct AwsInventory {
    config: AwsConfig,
}

impl AwsInventory {
    /// Of the account behind `config`.
    pub fn new(config: &AwsConfig) -> Self {
        Self {
            config: config.clone(),
        }
    }
}

#[async_trait]
impl InventorySource for AwsInventory {
    async fn regions(&self) -> CloudResult<Vec<Region>> {
        let answer = aws_sdk_ec2::Client::new(&self.config.sdk)
            .describe_regions()
            .send()
            .await
            .map_err(|e| cloud_error(DESCRIBE_REGIONS, "regions", &e))?;
        // Without `AllRegions` the answer has the enabled ones alone.
        let names = answer.regions().iter().filter_map(|r| r.region_name());
        let mut regions: Vec<_> = names.filter_map(|name| Region::new(name).ok()).collect();
        regions.sort_unstable();
        Ok(regions)
    }

    async fn gather(&self, region: &Region) -> CloudResult<Inventory> {
        let clients = Clients::new(&self.config, region);
        let (instances, volumes, addresses, environments, queues) = tokio::join!(
            instances::describe(&clients),
            storage::volumes(&clients),
            storage::addresses(&clients),
            batch::environments(&clients),
            batch::queues(&clients),
        );
        if let (Some(error), Some(_), Some(_)) =
            (instances.silent(), environments.silent(), queues.silent())
        {
            return Err(error.clone());
        }
        let clusters: BTreeSet<_> = environments
            .found
            .iter()
            .filter_map(|environment| environment.cluster_arn.clone())
            .collect();
        let (jobs, members) = tokio::join!(
            described_jobs(&clients, &queues.found),
            ecs::container_instances(&clients, clusters),
        );
        let mut gaps = Vec::new();
        let batch = BatchFleet {
            environments: environments.into_found(region, &mut gaps),
            queues: queues.into_found(region, &mut gaps),
            jobs: jobs
                .into_found(region, &mut gaps)
                .into_iter()
                .map(|job| (job.id.clone(), job))
                .collect(),
            container_instances: members.into_found(region, &mut gaps).into_iter().collect(),
        };
        let (mut found, mut storage) = (BTreeMap::new(), Storage::default());
        for (instance, stopped) in instances.into_found(region, &mut gaps) {
            let since = stopped.map(|since| (instance.id.clone(), since));
            storage.stopped_since.extend(since);
            found.insert(instance.id.clone(), instance);
        }
        let volumes = volumes.into_found(region, &mut gaps).into_iter();
        storage.volumes = volumes.map(|volume| (volume.id.clone(), volume)).collect();
        let addresses = addresses.into_found(region, &mut gaps).into_iter();
        storage.addresses = addresses
            .map(|address| (address.id.clone(), address))
            .collect();
        gaps.sort_unstable();
        let mut inventory = Inventory {
            instances: found,
            batch,
            storage,
            gaps,
        };
        name_controllers(&mut inventory);
        Ok(inventory)
    }
}

async fn described_jobs(clients: &Clients, queues: &[JobQueue]) -> Part<Job> {
    let listed = jobs::list(clients, queues, Timestamp::now()).await;
    let mut jobs = jobs::describe(clients, listed.found).await;
    jobs.refused.extend(listed.refused);
    jobs
}

/// Batch is asked before the tags: its instances stand in an Auto Scaling group
/// too, and who changes that group's size is fought by Batch.
fn name_controllers(inventory: &mut Inventory) {
    let batch = &inventory.batch;
    let members: BTreeSet<&NodeId> = batch
        .container_instances
        .values()
        .map(|c| &c.node)
        .collect();
    for instance in inventory.instances.values_mut() {
        let owner = members
            .contains(&instance.id)
            .then(|| batch.controller_of(&instance.id))
            .flatten();
        instance.controller = owner.or_else(|| controller_from_tags(&instance.tags));
    }
}

/// Clients of one region.
#[derive(Debug, Clone)]
struct Clients {
    region: Region,
    ec2: aws_sdk_ec2::Client,
    batch: aws_sdk_batch::Client,
    ecs: aws_sdk_ecs::Client,
}

impl Clients {
    fn new(config: &AwsConfig, region: &Region) -> Self {
        let there = config.in_region(region);
        Self {
            region: region.clone(),
            ec2: aws_sdk_ec2::Client::new(&there),
            batch: aws_sdk_batch::Client::new(&there),
            ecs: aws_sdk_ecs::Client::new(&there),
        }
    }
}

/// What one kind of call answered, and what it did not.
#[derive(Debug)]
struct Part<T> {
    found: Vec<T>,
    refused: Vec<CloudError>,
}

impl<T> Default for Part<T> {
    fn default() -> Self {
        Self {
            found: Vec::new(),
            refused: Vec::new(),
        }
    }
}

impl<T> Part<T> {
    fn absorb(&mut self, other: Self) {
        self.found.extend(other.found);
        self.refused.extend(other.refused);
    }

    /// Takes in what was understood; what was not is a gap of its own.
    fn take(&mut self, operation: &str, read: Result<T, String>) {
        match read {
            Ok(found) => self.found.push(found),
            Err(message) => self.refused.push(unreadable(operation, &message)),
        }
    }

    /// The refusal, when there was nothing but that.
    fn silent(&self) -> Option<&CloudError> {
        self.refused.first().filter(|_| self.found.is_empty())
    }

    fn into_found(self, region: &Region, gaps: &mut Vec<Gap>) -> Vec<T> {
        gaps.extend(self.refused.iter().map(|error| gap(region, error)));
        self.found
    }
}

fn unreadable(operation: &str, message: &str) -> CloudError {
    CloudError::Failed {
        operation: operation.to_owned(),
        message: bounded(message),
    }
}

fn gap(region: &Region, error: &CloudError) -> Gap {
    let (operation, reason) = match error {
        CloudError::Denied { operation, message } => (operation, format!("denied: {message}")),
        CloudError::Failed { operation, message } => (operation, message.clone()),
        CloudError::Missing { operation, what } => (operation, format!("{what} does not exist")),
        CloudError::Conflict { operation, what } => (operation, format!("{what} was changed")),
    };
    Gap {
        scope: format!("{region}: {operation}"),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use ebb_domain::fleet::{
        ComputeEnvironment, ContainerInstance, Controller, Instance, InstanceState, Market,
    };
    use ebb_domain::identity::InstanceType;

    use super::*;

    fn region() -> Region {
        Region::new("eu-central-1").expect("a region")
    }

    #[test]
    fn a_refusal_becomes_a_gap_that_names_the_permission() {
        let denied = CloudError::Denied {
            operation: "batch:DescribeJobs".to_owned(),
            message: "AccessDenied: no".to_owned(),
        };
        let shown = gap(&region(), &denied);
        assert_eq!(shown.scope, "eu-central-1: batch:DescribeJobs");
        assert_eq!(shown.reason, "denied: AccessDenied: no");
    }

    #[test]
    fn batch_owns_its_instances_whatever_their_group_is_called() {
        let node = |id: &str| NodeId::new(id).expect("a node");
        let group = ("aws:autoscaling:groupName".to_owned(), "g".to_owned());
        let instance = |id: &str| Instance {
            id: node(id),
            account: None,
            region: region(),
            instance_type: InstanceType::new("m5.large").expect("a type"),
            provider: ebb_domain::fleet::Provider::Aws,
            hardware: None,
            state: InstanceState::Running,
            launched_at: None,
            market: Market::OnDemand,
            controller: None,
            tags: BTreeMap::from([group.clone()]),
        };
        let mut inventory = Inventory::default();
        for id in ["i-1", "i-2"] {
            inventory.instances.insert(node(id), instance(id));
        }
        inventory.batch.environments.push(ComputeEnvironment {
            name: "ce".to_owned(),
            region: region(),
            status: None,
            cluster_arn: Some("cluster".to_owned()),
            min_vcpus: None,
        });
        let member = ContainerInstance {
            node: node("i-1"),
            cluster_arn: "cluster".to_owned(),
            region: region(),
            agent_connected: None,
            running_tasks: None,
        };
        let members = &mut inventory.batch.container_instances;
        members.insert("arn".to_owned(), member);
        name_controllers(&mut inventory);
        let check = |id: &str, expect: Controller| {
            assert_eq!(inventory.instances[&node(id)].controller, Some(expect));
        };
        check("i-1", Controller::BatchEnvironment("ce".to_owned()));
        check("i-2", Controller::AutoScalingGroup("g".to_owned()));
    }
}
