//! Instances, metrics and bill of the account.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use ebb_domain::fleet::{Controller, Instance};
use ebb_domain::identity::{AccountId, NodeId};
use ebb_domain::judge::{MetricPoint, MetricSeries, ResourceCost, SIMULATED_TAG};
use ebb_domain::targets::PIPELINE_TAG;
use ebb_domain::units::{Share, Usd};
use jiff::Timestamp;

use super::account::{Account, MetricsSpec, Node};

/// Amazon's own number for examples.
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

/// Points of five minutes, as basic monitoring has them.
fn series(now: Timestamp, spec: &MetricsSpec) -> MetricSeries {
    const PERIOD: u64 = 300;
    let periods = spec.hours * 3600 / PERIOD;
    let points = (0..periods).rev().filter_map(|back| {
        let busy = spec.busy.is_some_and(|hours| back * PERIOD >= hours * 3600);
        Some(MetricPoint {
            cpu_max: Some(Share::from_ppm(if busy { 430_000 } else { 12_000 })),
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

pub(super) fn bill(account: &Account) -> Result<BTreeMap<NodeId, ResourceCost>> {
    let mut costs = BTreeMap::new();
    for node in &account.nodes {
        let Some(a_day) = &node.bill_a_day else {
            continue;
        };
        let usd = Usd::parse(a_day).with_context(|| format!("{a_day} is not an amount"))?;
        let days = (2..9).map(|back| {
            let day = account.ago(back * 24 * 60)?;
            Ok((day.strftime("%Y-%m-%d").to_string(), usd))
        });
        let by_day = days.collect::<Result<_>>()?;
        costs.insert(node.id.clone(), ResourceCost { by_day });
    }
    Ok(costs)
}
