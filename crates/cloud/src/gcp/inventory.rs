//! The inventory of a project: instances of all zones, and properties of their machine types.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use ebb_model::inventory::Inventory;
use ebb_model::inventory::instance::{Controller, Instance, InstanceState, Market, Provider};
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::heartbeat::Hardware;
use ebb_telemetry::identity::{AccountId, InstanceType, NodeId, Region};
use ebb_telemetry::units::{Bytes, MilliCores};
use google_cloud_compute_v1::client::MachineTypes;
use google_cloud_compute_v1::model::instance::Status;
use google_cloud_compute_v1::model::scheduling::ProvisioningModel;
use google_cloud_compute_v1::model::{Instance as GcpInstance, MachineType};
use jiff::Timestamp;

use super::error::cloud_error;
use super::{GcpConfig, last_part, region_of};
use crate::ports::{CloudError, CloudResult, InventorySource};

const LIST: &str = "compute.instances.list";
const TYPES: &str = "compute.machineTypes.get";

/// Maximum number of instances in one page.
///
/// Source: Compute Engine API, `instances.aggregatedList`, `maxResults`.
const PAGE: u32 = 500;

/// Maximum number of pages, which is half a million instances.
const MAX_PAGES: usize = 1_000;

/// The region name for all regions, because one list contains the instances of every zone.
const EVERYWHERE: &str = "global";

/// The inventory of Compute Engine.
#[derive(Debug, Clone)]
pub struct GcpInventory {
    config: GcpConfig,
}

impl GcpInventory {
    /// For a project.
    pub fn new(config: &GcpConfig) -> Self {
        Self {
            config: config.clone(),
        }
    }
}

#[async_trait]
impl InventorySource for GcpInventory {
    async fn regions(&self) -> CloudResult<Vec<Region>> {
        Ok(Region::new(EVERYWHERE).into_iter().collect())
    }

    async fn gather(&self, region: &Region) -> CloudResult<Inventory> {
        let mut gathered = Gathered::new(self.config.project());
        let client = self.config.instances().await?;
        let mut page = None;
        for _ in 0..MAX_PAGES {
            let answer = client
                .aggregated_list()
                .set_project(self.config.project())
                .set_max_results(PAGE)
                .set_or_clear_page_token(page)
                .send()
                .await
                .map_err(|error| cloud_error(LIST, self.config.project(), &error))?;
            let unreachable = answer.unreachables.iter().map(|scope| {
                Gap::new(
                    format!("{}: {LIST}", last_part(scope)),
                    "no response from the zone",
                )
            });
            gathered.inventory.gaps.extend(unreachable);
            let scopes = answer.items.into_iter();
            let here = scopes.filter(|(scope, _)| {
                let zone = last_part(scope);
                region.as_str() == EVERYWHERE || region_of(zone) == region.as_str()
            });
            for (scope, list) in here {
                let zone = last_part(&scope);
                list.instances
                    .iter()
                    .for_each(|gcp_instance| gathered.take(zone, gcp_instance));
            }
            page = answer.next_page_token.filter(|token| !token.is_empty());
            if page.is_none() {
                break;
            }
        }
        if page.is_some() {
            gathered.gap(
                LIST,
                format!("more than {MAX_PAGES} pages; further pages were not read"),
            );
        }
        gathered.with_types(&self.config).await
    }

    fn not_entered(&self) -> Vec<Gap> {
        Vec::new()
    }
}

/// The results so far.
struct Gathered<'a> {
    project: &'a str,
    inventory: Inventory,
    /// A zone in which each machine type can be described.
    types: BTreeMap<InstanceType, String>,
    /// GPUs attached to machines whose type has none of its own.
    attached: BTreeMap<NodeId, u32>,
}

impl<'a> Gathered<'a> {
    fn new(project: &'a str) -> Self {
        Self {
            project,
            inventory: Inventory::default(),
            types: BTreeMap::new(),
            attached: BTreeMap::new(),
        }
    }

    fn gap(&mut self, what: &str, reason: String) {
        self.inventory
            .gaps
            .push(Gap::new(format!("{}: {what}", self.project), reason));
    }

    fn take(&mut self, zone: &str, gcp_instance: &GcpInstance) {
        match instance(self.project, zone, gcp_instance) {
            Ok(instance) => {
                let types = self.types.entry(instance.instance_type.clone());
                types.or_insert_with(|| zone.to_owned());
                let gpus = gcp_instance.guest_accelerators.iter();
                let gpus = gpus.map(|a| count(a.accelerator_count)).sum();
                self.attached.insert(instance.id.clone(), gpus);
                self.inventory
                    .instances
                    .insert(instance.id.clone(), instance);
            }
            Err(reason) => self.gap(LIST, reason),
        }
    }

    /// Adds the properties of machine types. If a type cannot be read, it is unknown whether its
    /// machines have GPUs.
    async fn with_types(mut self, config: &GcpConfig) -> CloudResult<Inventory> {
        if self.types.is_empty() {
            return Ok(self.inventory);
        }
        let client = config.machine_types().await?;
        let mut known = BTreeMap::new();
        let mut refused: BTreeSet<String> = BTreeSet::new();
        for (name, zone) in &self.types {
            match machine_type(&client, self.project, (zone, name)).await {
                Ok(hardware) => known.insert(name.clone(), hardware),
                Err(error) => {
                    refused.insert(error.to_string());
                    continue;
                }
            };
        }
        refused.into_iter().for_each(|why| self.gap(TYPES, why));
        for (id, instance) in &mut self.inventory.instances {
            let attached = self.attached.get(id).copied().unwrap_or(0);
            let of_type = known.get(&instance.instance_type);
            instance.hardware = of_type.map(|of_type| Hardware {
                gpus: of_type
                    .gpus
                    .map(|built_in| built_in.saturating_add(attached)),
                ..*of_type
            });
        }
        Ok(self.inventory)
    }
}

async fn machine_type(
    client: &MachineTypes,
    project: &str,
    (zone, name): (&str, &InstanceType),
) -> CloudResult<Hardware> {
    let request = client
        .get()
        .set_project(project)
        .set_zone(zone)
        .set_machine_type(name.as_str());
    let answer = request.send().await;
    let answer = answer.map_err(|error| cloud_error(TYPES, name.as_str(), &error))?;
    hardware(&answer).ok_or_else(|| CloudError::Failed {
        operation: TYPES.to_owned(),
        message: format!("{name} has no number of processors or no memory size"),
    })
}

fn hardware(machine: &MachineType) -> Option<Hardware> {
    let gpus = machine.accelerators.iter();
    let gpus = gpus.map(|a| count(a.guest_accelerator_count));
    Some(Hardware {
        cores: MilliCores::cores(u64::try_from(machine.guest_cpus?).ok()?),
        memory: Bytes::mib(u64::try_from(machine.memory_mb?).ok()?),
        gpus: Some(gpus.sum()),
    })
}

/// The number of GPUs; 1 if the count is missing.
fn count(listed_count: Option<i32>) -> u32 {
    listed_count.map_or(1, |count| u32::try_from(count).unwrap_or(0))
}

/// Converts an instance; the error states which required value is missing.
fn instance(project: &str, zone: &str, gcp_instance: &GcpInstance) -> Result<Instance, String> {
    let name = gcp_instance
        .name
        .as_deref()
        .unwrap_or("instance without a name");
    let about = |why: String| format!("{name}: {why}");
    let id = gcp_instance.id.ok_or_else(|| about("no id".to_owned()))?;
    let machine = gcp_instance.machine_type.as_deref().map(last_part);
    let machine = machine.ok_or_else(|| about("no machine type".to_owned()))?;
    let mut tags: BTreeMap<String, String> = gcp_instance.labels.clone().into_iter().collect();
    tags.insert("Name".to_owned(), name.to_owned());
    let parse_time = |text: &Option<String>| text.as_deref()?.parse::<Timestamp>().ok();
    Ok(Instance {
        id: NodeId::new(id.to_string()).map_err(|e| about(e.to_string()))?,
        account: AccountId::new(project).ok(),
        region: Region::new(region_of(zone)).map_err(|e| about(e.to_string()))?,
        instance_type: InstanceType::new(machine).map_err(|e| about(e.to_string()))?,
        provider: Provider::Gcp {
            project: project.to_owned(),
            zone: zone.to_owned(),
        },
        hardware: None,
        state: state(gcp_instance.status.as_ref()).map_err(about)?,
        launched_at: parse_time(&gcp_instance.last_start_timestamp)
            .or_else(|| parse_time(&gcp_instance.creation_timestamp)),
        market: market(gcp_instance),
        controller: controller(gcp_instance),
        tags,
        image: None,
        state_since: None,
        is_taken_back: false,
    })
}

/// Source: Compute Engine, "Instance life cycle": only a running instance is billed for
/// its processors and memory.
fn state(status: Option<&Status>) -> Result<InstanceState, String> {
    match status {
        Some(Status::Running) => Ok(InstanceState::Running),
        Some(Status::Provisioning | Status::Staging | Status::Pending | Status::Repairing) => {
            Ok(InstanceState::Pending)
        }
        Some(
            Status::Stopping | Status::PendingStop | Status::Suspending | Status::Deprovisioning,
        ) => Ok(InstanceState::Stopping),
        Some(Status::Stopped | Status::Terminated | Status::Suspended) => {
            Ok(InstanceState::Stopped)
        }
        Some(other) => Err(format!("unknown status {other}")),
        None => Err("no status".to_owned()),
    }
}

fn market(gcp_instance: &GcpInstance) -> Market {
    let scheduling = gcp_instance.scheduling.as_ref();
    let spot = |model: &ProvisioningModel| *model == ProvisioningModel::Spot;
    let model = scheduling.and_then(|s| s.provisioning_model.as_ref());
    let preemptible = scheduling.and_then(|s| s.preemptible);
    match model.is_some_and(spot) || preemptible == Some(true) {
        true => Market::Spot,
        false => Market::OnDemand,
    }
}

/// Source: Compute Engine, "Getting information about managed instance groups". The instances of a
/// group have the metadata `created-by`, the group's URL. Other metadata is not read.
fn controller(gcp_instance: &GcpInstance) -> Option<Controller> {
    let items = &gcp_instance.metadata.as_ref()?.items;
    let created = items
        .iter()
        .find(|i| i.key.as_deref() == Some("created-by"))?;
    let group = created.value.as_deref()?;
    group
        .contains("/instanceGroupManagers/")
        .then(|| Controller::InstanceGroup(last_part(group).to_owned()))
}
