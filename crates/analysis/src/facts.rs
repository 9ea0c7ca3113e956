//! What a verdict rests on.

use std::collections::BTreeMap;

use ebb_catalog::catalog::Catalogue;
use ebb_model::bill::{BilledDay, ResourceCost};
use ebb_model::inventory::Inventory;
use ebb_model::inventory::batch::job::{Job, tasks};
use ebb_model::inventory::instance::Instance;
use ebb_model::metric_series::MetricSeries;
use ebb_model::policy::Policy;
use ebb_model::sweep_memory::Memory;
use ebb_node_state::fleet_state::FleetState;
use ebb_node_state::hourly_activity::FleetHours;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::step::{PlacedStep, StepKind};
use jiff::Timestamp;

/// What a verdict rests on; nothing else does.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The time of judging.
    pub now: Timestamp,
    /// What the probes saw.
    pub state: &'a FleetState,
    /// What they saw by the hour, for a fortnight.
    pub hours: &'a FleetHours,
    /// What is there.
    pub inventory: &'a Inventory,
    /// Metrics of nodes without a probe.
    pub metrics: &'a BTreeMap<NodeId, MetricSeries>,
    /// What the bill says.
    pub bill: &'a BTreeMap<NodeId, ResourceCost>,
    /// What it says of whole days.
    pub billed: &'a [BilledDay],
    /// Steps that ended, from the lake.
    pub finished: &'a [PlacedStep],
    /// What sweeps before this one found, and this one where it has looked.
    pub memory: &'a Memory,
    /// The thresholds.
    pub policy: &'a Policy,
    /// Machine types and list prices.
    pub catalogue: &'a Catalogue,
}

impl Facts<'_> {
    /// The instance that `node` is, when the inventory knows it.
    pub(crate) fn instance(&self, node: &NodeId) -> Option<&Instance> {
        self.inventory.instances.get(node)
    }

    /// The Batch job that a step was; looked for among all of them.
    pub(crate) fn job_of(&self, step: &PlacedStep) -> Option<&Job> {
        let id = &step.usage.id;
        let is_its = |job: &&Job| tasks(job).any(|(task, _)| task == id.key);
        let mut jobs = self.inventory.batch.jobs.values();
        jobs.find(|job| id.kind == StepKind::EcsTask && is_its(job))
    }

    /// What starts and stops an instance, by its tags or by Batch's clusters.
    pub(crate) fn controller(
        &self,
        instance: &Instance,
    ) -> Option<ebb_model::inventory::instance::Controller> {
        let batch = self.inventory.batch.controller_of(&instance.id);
        batch.or_else(|| instance.controller.clone())
    }
}
