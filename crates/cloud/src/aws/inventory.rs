//! The inventory: EC2 instances, volumes and addresses, and Batch with its ECS clusters. If a part
//! refuses, a gap names the missing permission, and the other parts are still read.

/// Reads pages into a part, until the last page or a refusal.
macro_rules! paged {
    ($part:ident, $operation:expr, $what:expr, $pages:expr, |$page:ident| $read:block) => {{
        let mut pages = $pages;
        while let Some(page) = pages.next().await {
            match page {
                Ok($page) => $read,
                Err(error) => {
                    $part.refused.push(cloud_error($operation, $what, &error));
                    break;
                }
            }
        }
    }};
}

mod batch;
mod ecs;
mod instances;
mod jobs;
mod region_part;
mod storage;

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use ebb_model::inventory::batch::job::{Job, JobStatus};
use ebb_model::inventory::batch::{BatchFleet, FrontJob, JobQueue};
use ebb_model::inventory::instance::controller_from_tags;
use ebb_model::inventory::second_opinion::SecondOpinion;
use ebb_model::inventory::storage::Storage;
use ebb_model::inventory::{Inventory, InventoryScope};
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::identity::Region;
use jiff::Timestamp;

use self::region_part::{Clients, Part, gap};
use super::config::AwsConfig;
use super::error::cloud_error;
use crate::permissions::DESCRIBE_REGIONS;
use crate::ports::{CloudError, CloudResult, InventorySource};

/// The inventory of the account of the credentials.
#[derive(Debug, Clone)]
pub struct AwsInventory {
    config: AwsConfig,
}

impl AwsInventory {
    /// For the account of `config`.
    pub fn new(config: &AwsConfig) -> Self {
        Self {
            config: config.clone(),
        }
    }

    /// An empty inventory of the account, if it is known.
    fn without_resources(&self) -> Inventory {
        Inventory {
            scope: InventoryScope {
                accounts: self.config.account.iter().cloned().collect(),
                ..InventoryScope::default()
            },
            ..Inventory::default()
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
        // Without `AllRegions` the answer contains only enabled regions.
        let names = answer.regions().iter().filter_map(|r| r.region_name());
        let mut regions: Vec<_> = names.filter_map(|name| Region::new(name).ok()).collect();
        regions.sort_unstable();
        Ok(regions)
    }

    async fn gather(&self, region: &Region) -> CloudResult<Inventory> {
        let clients = Clients::new(&self.config, region);
        let (instances, volumes, addresses, snapshots, environments, queues) = tokio::join!(
            instances::describe(&clients),
            storage::volumes(&clients),
            storage::addresses(&clients),
            storage::snapshots(&clients),
            batch::environments(&clients),
            batch::queues(&clients),
        );
        if let (Some(error), Some(_), Some(_)) =
            (instances.silent(), environments.silent(), queues.silent())
        {
            return Err(error.clone());
        }
        let clusters = environments.found.iter();
        let clusters: BTreeSet<_> = clusters.filter_map(|e| e.cluster_arn.clone()).collect();
        let ((jobs, fronts), members, mut tasks, fargate, (opinions, errors)) = tokio::join!(
            jobs_and_fronts(&clients, &queues.found),
            ecs::container_instances(&clients, clusters.clone()),
            ecs::tasks(&clients, clusters.clone()),
            ecs::fargate(&clients, &clusters),
            second_opinions(&self.config, region, instances.found.len()),
        );
        tasks.absorb(fargate);
        let mut gaps: Vec<Gap> = errors.iter().map(|error| gap(region, error)).collect();
        let mut fronts: BTreeMap<_, _> = fronts.into_found(region, &mut gaps).into_iter().collect();
        let mut queues = queues.into_found(region, &mut gaps);
        for queue in &mut queues {
            queue.front = fronts.remove(&queue.name);
        }
        let jobs = jobs.into_found(region, &mut gaps).into_iter();
        let batch = BatchFleet {
            environments: environments.into_found(region, &mut gaps),
            queues,
            jobs: jobs.map(|job| (job.id.clone(), job)).collect(),
            earlier_jobs: Vec::new(),
            container_instances: members.into_found(region, &mut gaps).into_iter().collect(),
            tasks: tasks.into_found(region, &mut gaps).into_iter().collect(),
            insights: BTreeMap::new(),
        };
        let instances = instances.into_found(region, &mut gaps);
        let storage = Storage {
            volumes: by_id(volumes.into_found(region, &mut gaps), |v| &v.id),
            addresses: by_id(addresses.into_found(region, &mut gaps), |a| &a.id),
            snapshots: by_id(snapshots.into_found(region, &mut gaps), |s| &s.id),
        };
        let found = instances.into_iter().map(|i| (i.id.clone(), i)).collect();
        gaps.sort_unstable();
        let mut inventory = Inventory {
            instances: found,
            batch,
            storage,
            opinions,
            gaps,
            ..self.without_resources()
        };
        name_controllers(&mut inventory);
        Ok(inventory)
    }

    fn not_entered(&self) -> Vec<Gap> {
        Vec::new()
    }
}

/// Without machines in a region there are no second opinions.
#[cfg(feature = "second-opinion")]
async fn second_opinions(
    config: &AwsConfig,
    region: &Region,
    machines: usize,
) -> (Vec<SecondOpinion>, Vec<CloudError>) {
    match machines {
        0 => Default::default(),
        _ => super::opinions::of_region(config, region).await,
    }
}

#[cfg(not(feature = "second-opinion"))]
async fn second_opinions(
    _: &AwsConfig,
    _: &Region,
    _: usize,
) -> (Vec<SecondOpinion>, Vec<CloudError>) {
    Default::default()
}

/// The jobs of these queues, and the jobs at the front of queues with waiting jobs.
async fn jobs_and_fronts(
    clients: &Clients,
    queues: &[JobQueue],
) -> (Part<Job>, Part<(String, Vec<FrontJob>)>) {
    let listed = jobs::list(clients, queues, Timestamp::now()).await;
    let mut jobs = jobs::describe(clients, listed.found).await;
    jobs.refused.extend(listed.refused);
    let waiting = jobs
        .found
        .iter()
        .filter(|job| job.status == JobStatus::Runnable);
    let waited_for: BTreeSet<_> = waiting.map(|job| job.queue_name().to_owned()).collect();
    let fronts = batch::fronts(clients, waited_for).await;
    (jobs, fronts)
}

fn by_id<T>(found: Vec<T>, id: impl Fn(&T) -> &String) -> BTreeMap<String, T> {
    found
        .into_iter()
        .map(|one| (id(&one).clone(), one))
        .collect()
}

/// Batch takes precedence over tags: its instances are in an Auto Scaling group too, but Batch
/// would revert a change of the group's size.
fn name_controllers(inventory: &mut Inventory) {
    let batch = &inventory.batch;
    for instance in inventory.instances.values_mut() {
        let owner = batch.controller_of(&instance.id);
        instance.controller = owner.or_else(|| controller_from_tags(&instance.tags));
    }
}

#[cfg(test)]
mod tests {
    use ebb_model::inventory::batch::ComputeEnvironment;
    use ebb_model::inventory::batch::container_instances::ContainerInstance;
    use ebb_model::inventory::instance::{Controller, Instance, InstanceState, Market};
    use ebb_telemetry::identity::{AccountId, InstanceType, NodeId};

    use super::*;

    fn region() -> Region {
        Region::new("eu-central-1").expect("a region")
    }

    #[test]
    fn the_inventory_of_a_known_account_names_it() {
        let named = |account: Option<AccountId>| {
            let sdk = aws_config::SdkConfig::builder().build();
            let source = AwsInventory::new(&AwsConfig { sdk, account });
            source.without_resources().scope.accounts
        };
        let account = AccountId::new("111111111111").expect("an account");
        assert_eq!(named(Some(account.clone())), BTreeSet::from([account]));
        assert!(named(None).is_empty());
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
        assert_eq!(shown.denied.as_deref(), Some("batch:DescribeJobs"));
    }

    #[test]
    fn batch_owns_its_instances_whatever_their_group_is_called() {
        let node = |id: &str| NodeId::new(id).expect("a node");
        let group = ("aws:autoscaling:groupName".to_owned(), "g".to_owned());
        let instance = |id: &str| {
            let kind = InstanceType::new("m5.large").expect("a type");
            let running = InstanceState::Running;
            Instance {
                tags: BTreeMap::from([group.clone()]),
                ..Instance::new(node(id), region(), kind, running, Market::OnDemand)
            }
        };
        let mut inventory = Inventory::default();
        for id in ["i-1", "i-2"] {
            inventory.instances.insert(node(id), instance(id));
        }
        inventory.batch.environments.push(ComputeEnvironment {
            cluster_arn: Some("cluster".to_owned()),
            ..ComputeEnvironment::new("ce", region())
        });
        let member = ContainerInstance::new(node("i-1"), "cluster", region());
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
