//! Inputs of an evaluation.

use std::collections::BTreeMap;

use ebb_catalog::catalog::Catalogue;
use ebb_model::bill::{BilledDay, ResourceCost};
use ebb_model::inventory::Inventory;
use ebb_model::inventory::batch::job::{Job, tasks};
use ebb_model::inventory::instance::Instance;
use ebb_model::metric_series::MetricSeries;
use ebb_model::policy::Policy;
use ebb_model::sweep_memory::Memory;
use ebb_model::task_record::TaskRecord;
use ebb_model::visibility_gap::Gap;
use ebb_node_state::fleet_state::FleetState;
use ebb_node_state::hourly_activity::FleetHours;
use ebb_sizing::cheapest_type::MachineSize;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::origin::{Origin, labelled};
use ebb_telemetry::step::{PlacedStep, StepKind};
use jiff::Timestamp;

/// All inputs of an evaluation; rules use no other data.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Time of the evaluation.
    pub now: Timestamp,
    /// State of the nodes from their probes.
    pub state: &'a FleetState,
    /// Hourly activity from the probes, for 14 days.
    pub hours: &'a FleetHours,
    /// Machines, jobs and other resources that exist.
    pub inventory: &'a Inventory,
    /// Metrics of nodes without a probe.
    pub metrics: &'a BTreeMap<NodeId, MetricSeries>,
    /// Billed cost of each resource.
    pub bill: &'a BTreeMap<NodeId, ResourceCost>,
    /// Billed cost of whole days.
    pub billed: &'a [BilledDay],
    /// Nodes whose data is left out because it stops the evaluation; see
    /// [`evaluate_without_faulty_nodes`](crate::evaluate::faulty_nodes::evaluate_without_faulty_nodes).
    pub left_out: &'a [NodeId],
    /// Ended tasks, from the lake.
    pub finished: &'a [PlacedStep],
    /// Names of tasks from the records of engines and schedulers.
    pub records: &'a [TaskRecord],
    /// Observations of earlier sweeps, updated with those of this sweep.
    pub memory: &'a Memory,
    /// Thresholds.
    pub policy: &'a Policy,
    /// Machine types and list prices.
    pub catalogue: &'a Catalogue,
}

impl<'a> Facts<'a> {
    /// The same facts with the observations of another sweep.
    #[must_use]
    pub fn remembering(&self, memory: &'a Memory) -> Self {
        Self { memory, ..*self }
    }
}

impl Facts<'_> {
    /// The size of a machine as its probe reports it; `None` without a probe.
    pub(crate) fn measured_size(&self, node: &NodeId) -> Option<MachineSize> {
        let hardware = self.state.nodes.get(node)?.latest.as_ref()?.hardware;
        Some(MachineSize {
            cores: hardware.cores,
            memory: hardware.memory,
            gpus: hardware.gpus.unwrap_or(0),
        })
    }

    /// Whether the costs of whole days may be too low, because a part of the bill is missing.
    pub(crate) fn is_bill_partial(&self) -> bool {
        self.inventory.gaps.iter().any(Gap::is_of_whole_days)
    }

    /// Whether any node or machine is simulated.
    pub(crate) fn origin(&self) -> Origin {
        let nodes = self.state.nodes.values();
        let nodes = nodes.filter_map(|node| node.latest.as_ref());
        let instances = self.inventory.instances.values();
        nodes
            .map(|latest| latest.origin)
            .chain(instances.map(|instance| labelled(&instance.tags)))
            .max()
            .unwrap_or(Origin::Measured)
    }

    /// `None` if the inventory does not contain the node.
    pub(crate) fn instance(&self, node: &NodeId) -> Option<&Instance> {
        self.inventory.instances.get(node)
    }

    /// The Batch job of a task; a linear search through all jobs.
    pub(crate) fn job_of(&self, step: &PlacedStep) -> Option<&Job> {
        let id = &step.usage.id;
        let is_its = |job: &&Job| tasks(job).any(|(task, _)| task == id.key);
        let mut jobs = self.inventory.batch.jobs.values();
        jobs.find(|job| id.kind == StepKind::EcsTask && is_its(job))
    }

    /// The service that starts and stops an instance, by its tags or by the clusters of Batch.
    pub(crate) fn controller(
        &self,
        instance: &Instance,
    ) -> Option<ebb_model::inventory::instance::Controller> {
        let batch = self.inventory.batch.controller_of(&instance.id);
        batch.or_else(|| instance.controller.clone())
    }
}
