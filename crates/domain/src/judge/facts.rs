//! What a verdict rests on.

pub use ebb_telemetry::origin::SIMULATED_TAG;
pub(crate) use ebb_telemetry::origin::labelled;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Memory, MetricSeries};
use crate::catalogue::Catalogue;
use crate::fleet::{Instance, Inventory, Job};
use crate::hours::FleetHours;
use crate::identity::NodeId;
use crate::policy::Policy;
use crate::profile::gather::tasks;
use crate::state::FleetState;
use crate::step::{PlacedStep, StepKind};
use crate::units::Usd;

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

/// What the bill says one resource cost, net and amortized, by closed day.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceCost {
    /// Cost by day (`YYYY-MM-DD`, UTC); days without a charge are left out.
    pub by_day: BTreeMap<String, Usd>,
}

/// What the bill says of one day in all, net and amortized.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BilledDay {
    /// `YYYY-MM-DD`, UTC.
    pub day: String,
    /// The sum over all services.
    pub total: Usd,
    /// Of that, what the service bills that has the machines; `None` when not told.
    pub of_machines: Option<Usd>,
    /// True while the cloud may still change it.
    pub estimated: bool,
    /// By service, as the bill names it.
    pub by_service: BTreeMap<String, Usd>,
    /// By cost allocation tag and its value; `""` where a resource has none.
    pub by_tag: BTreeMap<String, BTreeMap<String, Usd>>,
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
    pub(crate) fn controller(&self, instance: &Instance) -> Option<crate::fleet::Controller> {
        let batch = self.inventory.batch.controller_of(&instance.id);
        batch.or_else(|| instance.controller.clone())
    }
}
