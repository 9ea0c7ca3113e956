//! The built-in demo account. Its file is converted to answers of a cloud and data of probes. From
//! there on the normal code runs: fold, collection and rules.

mod account;
mod batch;
mod fargate;
mod fleet;
mod watch;

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use ebb_cloud::fake::{FakeBill, FakeInventory, FakeMetrics};
use ebb_model::inventory::Inventory;
use ebb_model::policy::Policy;
use ebb_model::sweep_memory::Memory;
use ebb_sweep::scan::Known;
use ebb_telemetry::identity::{NodeId, Region};
use jiff::Timestamp;

use account::Account;

/// The demo account as its cloud and probes present it.
pub(crate) struct Demo {
    /// The fixed time of every scan.
    pub(crate) now: Timestamp,
    /// Its inventory by region.
    pub(crate) inventory: FakeInventory,
    /// Metrics of its nodes without a probe.
    pub(crate) metrics: FakeMetrics,
    /// Its bill.
    pub(crate) bill: FakeBill,
    /// Data of its probes.
    pub(crate) known: Known,
}

/// Reads the account and generates the heartbeats of its probes.
pub(crate) fn load(policy: &Policy) -> Result<Demo> {
    load_before(policy, 0)
}

/// The same with the data of probes up to `minutes` before the fixed time.
pub(crate) fn load_before(policy: &Policy, minutes: u64) -> Result<Demo> {
    let account: Account = toml::from_str(include_str!("demo/account.toml"))
        .context("failed to load the built-in demo account")?;
    let mut by_region: BTreeMap<Region, Inventory> = BTreeMap::new();
    for node in &account.nodes {
        let instance = fleet::instance(node, account.now)?;
        let inventory = by_region.entry(node.region.clone()).or_default();
        inventory.instances.insert(node.id.clone(), instance);
    }
    let environment = by_region
        .entry(account.environment.region.clone())
        .or_default();
    environment.batch = batch::batch(&account)?;
    let insights = fargate::add(&account, &mut environment.batch)?;
    for gap in &account.gaps {
        let of_it = by_region
            .iter_mut()
            .find(|(region, _)| gap.scope.starts_with(region.as_str()));
        let (_, inventory) = of_it.with_context(|| format!("no region of {}", gap.scope))?;
        inventory.gaps.push(gap.clone());
    }
    let bill = fleet::bill(&account)?;
    let now = account.ago(minutes)?;
    let mut finished = watch::finished(&account)?;
    finished.retain(|step| step.observed_at <= now);
    let (state, hours) = watch::folded(&account, (policy, minutes))?;
    Ok(Demo {
        now,
        inventory: FakeInventory::new(by_region),
        metrics: FakeMetrics::new(fleet::metrics(&account)).with_insights(insights),
        bill: FakeBill::new(Ok(bill.by_machine)).with_days(bill.days),
        known: Known {
            state,
            hours,
            finished,
            memory: Memory {
                disconnected_since: disconnected(&account)?,
                ..Memory::default()
            },
            ..Known::default()
        },
    })
}

fn disconnected(account: &Account) -> Result<BTreeMap<NodeId, Timestamp>> {
    let lost = account.nodes.iter().filter_map(|node| {
        let minutes = node.agent_lost?;
        Some(account.ago(minutes).map(|since| (node.id.clone(), since)))
    });
    lost.collect()
}

#[cfg(test)]
mod tests {
    use ebb_catalog::catalog::Catalogue;

    use super::*;

    /// A retry that fits no machine would wait forever.
    #[test]
    fn each_retry_fits_a_machine_of_its_step_or_a_recommended_one() {
        let (report, _) = crate::tune::of_demo(0).expect("a report");
        let mut retries = 0;
        for step in &report.steps {
            let offered = step.offers.best.iter().map(|offer| &offer.instance_type);
            let types = step.machines.iter().chain(offered);
            let memory = types.filter_map(|name| Some(Catalogue::built_in().spec(name)?.memory));
            let most = memory.max().expect("known types");
            retries += step.risk.attempts.len();
            for retry in &step.risk.attempts {
                assert!(*retry <= most, "{}: {retry} of {most}", step.step);
            }
        }
        assert!(retries > 3, "{retries}");
    }

    #[test]
    fn the_account_kept_in_the_program_is_readable() {
        let demo = load(&Policy::default()).expect("it loads");
        assert!(demo.known.state.nodes.len() > 5);
        assert!(!demo.known.finished.is_empty());
    }
}
