//! Scans an account and evaluates it. [`scan`] runs once, from a terminal: it writes nothing and
//! needs neither a deployment nor a lake. Without a probe the evidence is weaker, and the report
//! shows that.

use ebb_analysis::evaluate::faulty_nodes::evaluate_without_faulty_nodes;
use ebb_analysis::evaluate::{Details, evaluate, evaluate_in_detail};
use ebb_analysis::explain::Explanation;
use ebb_analysis::explain::explain;
use ebb_analysis::facts::Facts;
use ebb_analysis::sweep_memory::next_memory;
use ebb_catalog::catalog::Catalogue;
use ebb_catalog::refreshed_prices::Refreshed;
use ebb_model::inventory::Inventory;
use ebb_model::inventory::batch::job::Job;
use ebb_model::policy::Policy;
use ebb_model::report::Report;
use ebb_model::report::own_cost::OwnCost;
use ebb_model::sweep_memory::Memory;
use ebb_model::task_record::TaskRecord;
use ebb_model::visibility_gap::Gap;
use ebb_node_state::fleet_state::FleetState;
use ebb_node_state::hourly_activity::FleetHours;
use ebb_telemetry::step::PlacedStep;
use jiff::Timestamp;

use crate::collect::account::Account;
use crate::collect::cache::AnswerCache;
use crate::collect::inventory;
use crate::collect::metered_calls::budget::Wanted;
use crate::collect::price_list::Renew;

/// Data in addition to the answers of the account; empty by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Known {
    /// Data of probes.
    pub state: FleetState,
    /// Data of probes by hour.
    pub hours: FleetHours,
    /// Finished tasks.
    pub finished: Vec<PlacedStep>,
    /// Findings of earlier sweeps.
    pub memory: Memory,
    /// Prices and machine types that AWS returned after the program was built.
    pub prices: Refreshed,
}

/// Scans an account once and evaluates it.
pub async fn scan(account: &Account<'_>, known: &Known, policy: &Policy, now: Timestamp) -> Report {
    explained(account, known, (policy, now), None).await.0
}

/// The same, with an explanation of the result for one resource.
pub async fn explained(
    account: &Account<'_>,
    known: &Known,
    when: (&Policy, Timestamp),
    resource: Option<&str>,
) -> (Report, Option<Explanation>) {
    let decide = |facts: &Facts<'_>| {
        let explanation = resource.map(|resource| explain(facts, resource));
        (evaluate(facts), explanation)
    };
    let ((report, explanation), own_cost) = scan_known(account, known, when, decide).await;
    (Report { own_cost, ..report }, explanation)
}

/// The same, with the details for pages.
pub async fn detailed(
    account: &Account<'_>,
    known: &Known,
    when: (&Policy, Timestamp),
) -> (Report, Details) {
    let ((report, details), own_cost) = scan_known(account, known, when, evaluate_in_detail).await;
    (Report { own_cost, ..report }, details)
}

async fn scan_known<T>(
    account: &Account<'_>,
    known: &Known,
    when: (&Policy, Timestamp),
    decide: impl Fn(&Facts<'_>) -> T,
) -> (T, OwnCost) {
    let catalogue = Catalogue::built_in().with(&known.prices);
    let before = Before {
        state: &known.state,
        hours: &known.hours,
        finished: &known.finished,
        records: &[],
        memory: &known.memory,
        earlier_jobs: Vec::new(),
        gaps: Vec::new(),
        catalogue: &catalogue,
        renew: Renew::MISSING,
    };
    let mut kept = AnswerCache::default();
    let outcome = collect_and_decide(account, before, &mut kept, when, decide).await;
    (outcome.decided, outcome.own_cost)
}

/// Data that is known before the account is asked.
pub(crate) struct Before<'a> {
    pub(crate) state: &'a FleetState,
    pub(crate) hours: &'a FleetHours,
    pub(crate) finished: &'a [PlacedStep],
    /// Names of tasks from the records of engines.
    pub(crate) records: &'a [TaskRecord],
    pub(crate) memory: &'a Memory,
    /// Batch jobs that the inventory may not list any more.
    pub(crate) earlier_jobs: Vec<Job>,
    /// Gaps in this data.
    pub(crate) gaps: Vec<Gap>,
    /// The newest known machine types and list prices.
    pub(crate) catalogue: &'a Catalogue,
    /// Which prices and types are requested again.
    pub(crate) renew: Renew,
}

/// The decision, and what to store.
#[cfg_attr(
    not(feature = "lake"),
    expect(dead_code, reason = "a single scan has no state")
)]
pub(crate) struct ScanOutcome<T> {
    pub(crate) decided: T,
    /// The cost of Ebb itself.
    pub(crate) own_cost: OwnCost,
    /// Data for the next sweep.
    pub(crate) memory: Memory,
    /// Prices and machine types that were requested again.
    pub(crate) refreshed: Refreshed,
    /// The catalogue with them; `None` if it did not change.
    pub(crate) renewed: Option<Catalogue>,
    /// The inventory of the account.
    pub(crate) inventory: Inventory,
}

/// Collects the inventory, metrics, bill and prices, and calls `decide` on them, without the data of nodes
/// that make it panic.
pub(crate) async fn collect_and_decide<T>(
    account: &Account<'_>,
    before: Before<'_>,
    AnswerCache { paid, sold, listed }: &mut AnswerCache,
    (policy, now): (&Policy, Timestamp),
    decide: impl Fn(&Facts<'_>) -> T,
) -> ScanOutcome<T> {
    let mut inventory = inventory::inventory(account).await;
    ebb_analysis::unlisted_hosts::add_unlisted_hosts(&mut inventory, before.state, now);
    let wanted = Wanted {
        inventory: &inventory,
        fleet: before.state,
        policy: &policy.metrics,
        now,
    };
    let gaps = paid.refresh(account, &wanted).await;
    inventory.gaps.extend(gaps);
    inventory.batch.insights = paid.insights();
    inventory.batch.add_earlier(before.earlier_jobs);
    inventory.gaps.extend(before.gaps);
    let (refreshed, unlisted) = match account.prices {
        Some(source) => {
            let due = (before.renew, now);
            let refresh = listed.refresh(source, before.catalogue, &inventory, due);
            refresh.await
        }
        None => Default::default(),
    };
    inventory.gaps.extend(unlisted);
    let renewed = (!refreshed.is_empty()).then(|| before.catalogue.with(&refreshed));
    let catalogue = renewed.as_ref().unwrap_or(before.catalogue);
    if let Some(source) = account.markets {
        sold.refresh(source, &mut inventory, (catalogue, now)).await;
    }
    let plans = paid.plans(now).cloned();
    inventory.markets.commitments.extend(plans);
    let facts = Facts {
        now,
        state: before.state,
        hours: before.hours,
        inventory: &inventory,
        metrics: paid.series(),
        bill: paid.costs(),
        billed: paid.days(),
        finished: before.finished,
        left_out: &[],
        records: before.records,
        memory: before.memory,
        policy,
        catalogue,
    };
    let (decided, memory) = evaluate_without_faulty_nodes(&facts, |facts| {
        let memory = next_memory(facts);
        (decide(&facts.remembering(&memory)), memory)
    });
    ScanOutcome {
        decided,
        own_cost: paid.own_cost(),
        memory,
        refreshed,
        renewed,
        inventory,
    }
}
