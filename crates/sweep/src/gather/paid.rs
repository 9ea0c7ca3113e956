//! What every call is charged for: metrics and the bill. Answers are kept between
//! sweeps, and a daily budget bounds what is asked; what was left out is said.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ebb_cloud::ports::{METRICS_PER_NODE, MetricsSource, PRICE_PER_METRIC};
use ebb_domain::fleet::{Gap, InstanceState, Inventory};
use ebb_domain::identity::{NodeId, Region};
use ebb_domain::judge::{MetricSeries, ResourceCost};
use ebb_domain::policy::MetricsPolicy;
use ebb_domain::state::FleetState;
use ebb_domain::units::Usd;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Account;

/// What a request to Cost Explorer costs.
///
/// Source: "AWS Cost Management Pricing", 0.01 USD per paginated request.
const PRICE_PER_BILL: Usd = Usd::from_micros(10_000);

/// Cost Explorer refreshes what it knows at least once a day.
const BILL_AGE: Duration = Duration::from_secs(6 * 3600);

/// Metrics are asked for this often within the time that makes a node idle: hourly
/// by the default policy of six hours.
const METRICS_PER_IDLE_TIME: u32 = 6;

/// Periods end late and are told later; looking back further costs nothing, because
/// a metric is paid for whatever its length.
const METRICS_SLACK: Duration = Duration::from_secs(15 * 60);

/// How the opt-in is switched on.
const OPT_IN: &str = "list prices are used; to see what each resource really costs, switch on \
     Resource-level data at daily granularity under Billing and Cost Management > Cost \
     Management preferences, and allow ce:GetCostAndUsageWithResources";

/// What was paid for, and is kept between sweeps.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Paid {
    /// The UTC day that `spent` counts.
    day: String,
    spent: Usd,
    metrics: BTreeMap<NodeId, Asked>,
    bill: Option<Bill>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Asked {
    at: Timestamp,
    series: MetricSeries,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Bill {
    at: Timestamp,
    by_node: BTreeMap<NodeId, ResourceCost>,
}

/// Why something is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// What is there.
    pub inventory: &'a Inventory,
    /// What probes see; such nodes need no metrics.
    pub fleet: &'a FleetState,
    /// Budget and times.
    pub policy: &'a MetricsPolicy,
    /// The time of the sweep.
    pub now: Timestamp,
}

impl Paid {
    /// Asks for what is wanted, not fresh, and within the budget; tells what could
    /// not be asked for.
    pub async fn refresh(&mut self, account: &Account<'_>, wanted: &Wanted<'_>) -> Vec<Gap> {
        let today = wanted.now.strftime("%Y-%m-%d").to_string();
        if self.day != today {
            self.day = today;
            self.spent = Usd::ZERO;
        }
        let mut gaps = Vec::new();
        self.refresh_bill(account, wanted, &mut gaps).await;
        self.refresh_metrics(account, wanted, &mut gaps).await;
        gaps
    }

    /// Series of the nodes that were last asked about.
    pub fn series(&self) -> BTreeMap<NodeId, MetricSeries> {
        let known = self.metrics.iter();
        known
            .filter(|(_, asked)| !asked.series.points.is_empty())
            .map(|(node, asked)| (node.clone(), asked.series.clone()))
            .collect()
    }

    /// Costs by resource; nothing without an opt-in.
    pub fn costs(&self) -> BTreeMap<NodeId, ResourceCost> {
        self.bill
            .as_ref()
            .map(|bill| bill.by_node.clone())
            .unwrap_or_default()
    }

    fn left(&self, policy: &MetricsPolicy) -> Usd {
        Usd::from_micros(policy.paid_calls_usd_micros_a_day) - self.spent
    }

    async fn refresh_bill(
        &mut self,
        account: &Account<'_>,
        wanted: &Wanted<'_>,
        gaps: &mut Vec<Gap>,
    ) {
        let fresh = |bill: &Bill| !is_older(bill.at, wanted.now, BILL_AGE);
        let Some(source) = account.bill else { return };
        if self.bill.as_ref().is_some_and(fresh) {
            return;
        }
        let mut gap = |reason| {
            gaps.push(Gap {
                scope: "bill by resource".to_owned(),
                reason,
            });
        };
        if self.left(wanted.policy) < PRICE_PER_BILL {
            return gap("today's budget for paid calls is spent".to_owned());
        }
        match source.by_resource(wanted.now).await {
            Ok(by_node) => {
                self.spent = self.spent + PRICE_PER_BILL;
                self.bill = Some(Bill {
                    at: wanted.now,
                    by_node,
                });
            }
            Err(error) => gap(format!("{error}; {OPT_IN}")),
        }
    }

    async fn refresh_metrics(
        &mut self,
        account: &Account<'_>,
        wanted: &Wanted<'_>,
        gaps: &mut Vec<Gap>,
    ) {
        let without_probe = nodes_without_probe(wanted);
        let wanted_nodes: BTreeSet<&NodeId> = without_probe.iter().map(|(_, node)| node).collect();
        self.metrics.retain(|node, _| wanted_nodes.contains(node));
        let Some(source) = account.metrics else {
            return;
        };
        let every = wanted.policy.idle_after() / METRICS_PER_IDLE_TIME;
        let mut due: Vec<(Region, NodeId)> = without_probe
            .into_iter()
            .filter(|(_, node)| {
                let asked = self.metrics.get(node);
                asked.is_none_or(|asked| is_older(asked.at, wanted.now, every))
            })
            .collect();
        // Who has waited longest is asked about first.
        due.sort_by_key(|(region, node)| {
            let asked = self.metrics.get(node).map(|asked| asked.at);
            (asked, region.clone(), node.clone())
        });
        let affordable = affordable(self.left(wanted.policy));
        if due.len() > affordable {
            gaps.push(Gap {
                scope: format!("metrics of {} nodes", due.len() - affordable),
                reason: "today's budget for paid calls is spent".to_owned(),
            });
            due.truncate(affordable);
        }
        let mut by_region: BTreeMap<Region, Vec<NodeId>> = BTreeMap::new();
        for (region, node) in due {
            by_region.entry(region).or_default().push(node);
        }
        for (region, nodes) in by_region {
            self.ask(source, wanted, (&region, &nodes), gaps).await;
        }
    }

    async fn ask(
        &mut self,
        source: &dyn MetricsSource,
        wanted: &Wanted<'_>,
        (region, nodes): (&Region, &[NodeId]),
        gaps: &mut Vec<Gap>,
    ) {
        let back = wanted.policy.idle_after() * 2 + METRICS_SLACK;
        let from = wanted.now.saturating_sub(back).unwrap_or(Timestamp::MIN);
        let before = source.metrics_requested();
        let answer = source.utilization(region, nodes, from, wanted.now).await;
        let asked = source.metrics_requested().saturating_sub(before);
        let price = i64::try_from(asked)
            .unwrap_or(i64::MAX)
            .saturating_mul(PRICE_PER_METRIC.micros());
        self.spent = self.spent + Usd::from_micros(price);
        match answer {
            Ok(mut series) => {
                for node in nodes {
                    let asked = Asked {
                        at: wanted.now,
                        series: series.remove(node).unwrap_or_default(),
                    };
                    self.metrics.insert(node.clone(), asked);
                }
            }
            Err(error) => gaps.push(Gap {
                scope: format!("{region}: metrics"),
                reason: error.to_string(),
            }),
        }
    }
}

fn nodes_without_probe(wanted: &Wanted<'_>) -> Vec<(Region, NodeId)> {
    let instances = wanted.inventory.instances.values();
    instances
        .filter(|i| i.state == InstanceState::Running)
        .filter(|i| {
            let node = wanted.fleet.nodes.get(&i.id);
            node.is_none_or(|node| node.latest.is_none())
        })
        .map(|i| (i.region.clone(), i.id.clone()))
        .collect()
}

fn affordable(left: Usd) -> usize {
    let per_node = i64::try_from(METRICS_PER_NODE)
        .unwrap_or(i64::MAX)
        .saturating_mul(PRICE_PER_METRIC.micros());
    usize::try_from(left.micros().max(0) / per_node.max(1)).unwrap_or(usize::MAX)
}

fn is_older(at: Timestamp, now: Timestamp, age: Duration) -> bool {
    at.saturating_add(age).is_ok_and(|until| until <= now)
}
