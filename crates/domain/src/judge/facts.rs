//! What a verdict rests on.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::catalogue::Catalogue;
use crate::fleet::{Instance, Inventory};
use crate::heartbeat::Origin;
use crate::hours::FleetHours;
use crate::identity::NodeId;
use crate::policy::Policy;
use crate::state::FleetState;
use crate::step::PlacedStep;
use crate::units::{Share, Usd};

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
    /// Since when sweeps have found an ECS agent disconnected; see
    /// [`disconnected_since`].
    pub disconnected_since: &'a BTreeMap<NodeId, Timestamp>,
    /// The thresholds.
    pub policy: &'a Policy,
    /// Machine types and list prices.
    pub catalogue: &'a Catalogue,
}

/// Carries from sweep to sweep since when each agent has been disconnected; ECS
/// itself does not say.
pub fn disconnected_since(
    before: &BTreeMap<NodeId, Timestamp>,
    inventory: &Inventory,
    now: Timestamp,
) -> BTreeMap<NodeId, Timestamp> {
    let instances = inventory.batch.container_instances.values();
    instances
        .filter(|instance| instance.agent_connected == Some(false))
        .map(|instance| {
            let since = before.get(&instance.node).copied().unwrap_or(now);
            (instance.node.clone(), since)
        })
        .collect()
}

/// Utilization of one node over time, from metrics of the cloud.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricSeries {
    /// Points in order of time.
    pub points: Vec<MetricPoint>,
}

impl MetricSeries {
    /// How busy a machine's hours get: the mean over hours of the greatest CPU seen
    /// in each. A mean over all samples hides bursts, and the one peak of a day says
    /// nothing of the rest; on half days of 3,500 machines this told best of all that
    /// were tried which ones stay quiet (`eval idle`). `None` without data.
    pub fn hourly_peak(&self) -> Option<Share> {
        let mut hours: BTreeMap<i64, Share> = BTreeMap::new();
        for point in &self.points {
            let Some(cpu) = point.cpu_max else { continue };
            let begin = point.end.as_second() - i64::from(point.period_seconds);
            let hour = hours.entry(begin.div_euclid(3600)).or_insert(cpu);
            *hour = cpu.max(*hour);
        }
        let sum: u64 = hours.values().map(|peak| u64::from(peak.ppm())).sum();
        let mean = sum.checked_div(hours.len() as u64)?;
        u32::try_from(mean).ok().map(Share::from_ppm)
    }
}

/// One point: what a period of `period_seconds` ending at `end` saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricPoint {
    /// The end of the period.
    pub end: Timestamp,
    /// The length of the period.
    pub period_seconds: u32,
    /// Greatest CPU utilization of the whole machine; `None` without data.
    pub cpu_max: Option<Share>,
    /// Bytes in and out; `None` without data.
    pub network_bytes: Option<u64>,
    /// Bytes to and from disks; `None` without data.
    pub disk_bytes: Option<u64>,
    /// Memory in use; `None` without data. It is shown and decides nothing: what holds
    /// memory may yet do nothing.
    #[serde(default)]
    pub memory: Option<Share>,
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

/// The tag that marks what a generator made, so that every reader says so.
pub const SIMULATED_TAG: &str = "ebb:simulated";

/// Whether tags label their resource as simulated.
pub(crate) fn labelled(tags: &BTreeMap<String, String>) -> Origin {
    match tags.get(SIMULATED_TAG).map(String::as_str) {
        Some("true") => Origin::Simulated,
        _ => Origin::Measured,
    }
}

impl Facts<'_> {
    /// The instance that `node` is, when the inventory knows it.
    pub(crate) fn instance(&self, node: &NodeId) -> Option<&Instance> {
        self.inventory.instances.get(node)
    }

    /// What starts and stops an instance, by its tags or by Batch's clusters.
    pub(crate) fn controller(&self, instance: &Instance) -> Option<crate::fleet::Controller> {
        let batch = self.inventory.batch.controller_of(&instance.id);
        batch.or_else(|| instance.controller.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_counts_by_its_greatest_sample_and_no_data_is_no_quiet() {
        let check = |samples: &[(i64, Option<u32>)], expect: Option<u32>| {
            let points = samples.iter().map(|(minute, percent)| MetricPoint {
                end: Timestamp::from_second(minute * 60).expect("a time"),
                period_seconds: 300,
                cpu_max: percent.map(|percent| Share::from_ppm(percent * 10_000)),
                network_bytes: None,
                disk_bytes: None,
                memory: None,
            });
            let series = MetricSeries {
                points: points.collect(),
            };
            let expect = expect.map(|percent| Share::from_ppm(percent * 10_000));
            assert_eq!(series.hourly_peak(), expect);
        };
        check(&[(5, Some(2)), (60, Some(40)), (65, Some(10))], Some(25));
        check(&[(5, Some(2)), (60, None)], Some(2));
        check(&[(5, None)], None);
        check(&[], None);
    }
}
