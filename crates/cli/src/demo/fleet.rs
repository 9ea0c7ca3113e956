//! Instances, metrics and bill of the account.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use ebb_model::bill::{BilledDay, ResourceCost};
use ebb_model::inventory::instance::{Controller, Instance};
use ebb_model::metric_series::{MetricPoint, MetricSeries};
use ebb_model::report::own_cost::{OWN_TAG, OWN_VALUE};
use ebb_telemetry::identity::{AccountId, NodeId};
use ebb_telemetry::money::Usd;
use ebb_telemetry::origin::SIMULATED_TAG;
use ebb_telemetry::tags::PIPELINE_TAG;
use ebb_telemetry::units::Share;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

use super::account::{Account, MetricsSpec, Node};

/// Amazon's account id for examples.
pub(super) const ACCOUNT: &str = "111122223333";

pub(super) fn instance(node: &Node, now: Timestamp) -> Result<Instance> {
    let launched = now.checked_sub(Duration::from_secs(node.age_hours * 3600))?;
    let mut tags = BTreeMap::from([(SIMULATED_TAG.to_owned(), "true".to_owned())]);
    tags.extend(node.name.clone().map(|name| ("Name".to_owned(), name)));
    let pipeline = node.pipeline.clone();
    tags.extend(pipeline.map(|name| (PIPELINE_TAG.to_owned(), name)));
    tags.extend(node.owner.clone().map(|owner| ("Owner".to_owned(), owner)));
    if node.standby {
        tags.insert("ebb:standby".to_owned(), "true".to_owned());
    }
    Ok(Instance {
        account: Some(AccountId::new(ACCOUNT)?),
        launched_at: Some(launched),
        controller: node.group.clone().map(Controller::AutoScalingGroup),
        tags,
        ..Instance::new(
            node.id.clone(),
            node.region.clone(),
            node.instance_type.clone(),
            node.state,
            node.market,
        )
    })
}

pub(super) fn metrics(account: &Account) -> BTreeMap<NodeId, MetricSeries> {
    let nodes = account.nodes.iter();
    nodes
        .filter_map(|node| Some((node.id.clone(), series(account.now, node.metrics.as_ref()?))))
        .collect()
}

/// Five-minute points, as in basic monitoring.
fn series(now: Timestamp, spec: &MetricsSpec) -> MetricSeries {
    const PERIOD: u64 = 300;
    let periods = spec.hours * 3600 / PERIOD;
    let points = (0..periods).rev().filter_map(|back| {
        let busy = spec.busy.is_some_and(|hours| back * PERIOD >= hours * 3600);
        Some(MetricPoint {
            cpu_max: Some(Share::from_ppm(if busy { 430_000 } else { 8_000 })),
            network_bytes: Some(if busy { 80_000_000 } else { 40_000 }),
            disk_bytes: Some(if busy { 25_000_000 } else { 0 }),
            ..MetricPoint::new(
                now.checked_sub(Duration::from_secs(back * PERIOD)).ok()?,
                300,
            )
        })
    });
    points.collect()
}

/// The bill by machine and in total.
pub(super) struct DemoBill {
    pub(super) by_machine: BTreeMap<NodeId, ResourceCost>,
    pub(super) days: Vec<BilledDay>,
}

/// The bill of one week of closed days; a machine costs money since its launch.
pub(super) fn bill(account: &Account) -> Result<DemoBill> {
    let mut bill = DemoBill {
        by_machine: BTreeMap::new(),
        days: Vec::new(),
    };
    let today = account.now.to_zoned(TimeZone::UTC).start_of_day()?;
    for back in (2..9).rev() {
        let begin = today.checked_sub(back.days())?.timestamp();
        let day = begin.strftime("%Y-%m-%d").to_string();
        let mut of_machines = Usd::ZERO;
        let mut charge = |id: &NodeId, usd: Usd| {
            let cost = bill.by_machine.entry(id.clone()).or_default();
            cost.by_day.insert(day.clone(), usd);
            of_machines = of_machines + usd;
        };
        for node in &account.nodes {
            let Some(a_day) = &node.bill_a_day else {
                continue;
            };
            let launched = account.ago(node.age_hours * 60)?;
            let since = launched.duration_since(begin).max(SignedDuration::ZERO);
            let ran = SignedDuration::from_hours(24) - since;
            let seconds = u128::try_from(ran.as_secs()).unwrap_or(0);
            if seconds > 0 {
                charge(&node.id, dollars(a_day)?.part(seconds, 24 * 3600));
            }
        }
        for (id, a_day) in &account.bill.past_machines {
            charge(id, dollars(a_day)?);
        }
        let services = account.bill.services.iter();
        let services = services.map(|(name, a_day)| Ok((name.clone(), dollars(a_day)?)));
        let mut by_service: BTreeMap<String, Usd> = services.collect::<Result<_>>()?;
        by_service.insert(MACHINES.to_owned(), of_machines);
        let total: Usd = by_service.values().copied().sum();
        let ebb = dollars(&account.bill.ebb_a_day)?;
        let by_value = [(OWN_VALUE.to_owned(), ebb), (String::new(), total - ebb)];
        bill.days.push(BilledDay {
            day,
            total,
            of_machines: Some(of_machines),
            by_service,
            by_tag: [(OWN_TAG.to_owned(), by_value.into())].into(),
            ..BilledDay::default()
        });
    }
    Ok(bill)
}

/// The name of the service of the machines in the bill.
const MACHINES: &str = "Amazon Elastic Compute Cloud - Compute";

fn dollars(text: &str) -> Result<Usd> {
    Usd::parse(text).with_context(|| format!("{text} is not an amount"))
}
