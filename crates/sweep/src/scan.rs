//! Looks at an account and judges what it sees. [`scan`] does it once, from a
//! terminal: nothing is written anywhere, and no deployment or lake is needed.
//! Without a probe's word the evidence is weaker, and the report says so.

use ebb_analysis::evaluate::judge;
use ebb_analysis::explain::Explanation;
use ebb_analysis::explain::explain;
use ebb_analysis::facts::Facts;
use ebb_analysis::sweep_memory::next_memory;
use ebb_catalog::catalog::Catalogue;
use ebb_catalog::refreshed_prices::Refreshed;
use ebb_model::policy::Policy;
use ebb_model::report::Report;
use ebb_model::sweep_memory::Memory;
use ebb_model::visibility_gap::Gap;
use ebb_node_state::fleet_state::FleetState;
use ebb_node_state::hourly_activity::FleetHours;
use ebb_telemetry::step::PlacedStep;
use jiff::Timestamp;

use crate::collect::account::Account;
use crate::collect::cache::Kept;
use crate::collect::inventory;
use crate::collect::metered_calls::budget::Wanted;
use crate::collect::price_list::Renew;

/// What is known beside what the account answers; by default nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Known {
    /// What probes saw.
    pub state: FleetState,
    /// What they saw by the hour.
    pub hours: FleetHours,
    /// Steps that ended.
    pub finished: Vec<PlacedStep>,
    /// What earlier sweeps found.
    pub memory: Memory,
    /// Prices and machine types that AWS told after the program was built.
    pub prices: Refreshed,
}

/// Looks at an account once and judges what it sees.
pub async fn scan(account: &Account<'_>, known: &Known, policy: &Policy, now: Timestamp) -> Report {
    explained(account, known, (policy, now), None).await.0
}

/// The same, with how the verdict about one resource came about.
pub async fn explained(
    account: &Account<'_>,
    known: &Known,
    (policy, now): (&Policy, Timestamp),
    resource: Option<&str>,
) -> (Report, Option<Explanation>) {
    let catalogue = Catalogue::built_in().with(&known.prices);
    let before = Before {
        state: &known.state,
        hours: &known.hours,
        finished: &known.finished,
        memory: &known.memory,
        gaps: Vec::new(),
        catalogue: &catalogue,
        renew: Renew::MISSING,
    };
    let decide = |facts: &Facts<'_>| {
        let explanation = resource.map(|resource| explain(facts, resource));
        (judge(facts), explanation)
    };
    let mut kept = Kept::default();
    see(account, before, &mut kept, (policy, now), decide)
        .await
        .decided
}

/// What is known before the account is asked.
pub(crate) struct Before<'a> {
    pub(crate) state: &'a FleetState,
    pub(crate) hours: &'a FleetHours,
    pub(crate) finished: &'a [PlacedStep],
    pub(crate) memory: &'a Memory,
    /// What of it could not be known.
    pub(crate) gaps: Vec<Gap>,
    /// Machine types and list prices as they are best known.
    pub(crate) catalogue: &'a Catalogue,
    /// Which of them are asked for anew.
    pub(crate) renew: Renew,
}

/// What was decided, and what is to be remembered.
#[cfg_attr(
    not(feature = "lake"),
    expect(dead_code, reason = "a single look remembers nothing")
)]
pub(crate) struct Seen<T> {
    pub(crate) decided: T,
    /// What the next sweep is to know.
    pub(crate) memory: Memory,
    /// Prices and machine types that were told anew.
    pub(crate) told: Refreshed,
}

/// Gathers and decides.
pub(crate) async fn see<T>(
    account: &Account<'_>,
    before: Before<'_>,
    Kept { paid, sold, listed }: &mut Kept,
    (policy, now): (&Policy, Timestamp),
    decide: impl FnOnce(&Facts<'_>) -> T,
) -> Seen<T> {
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
    inventory.gaps.extend(before.gaps);
    let (told, unlisted) = match account.prices {
        Some(source) => {
            let due = (before.renew, now);
            let told = listed.refresh(source, before.catalogue, &inventory, due);
            told.await
        }
        None => Default::default(),
    };
    inventory.gaps.extend(unlisted);
    let renewed = (!told.is_empty()).then(|| before.catalogue.with(&told));
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
        memory: before.memory,
        policy,
        catalogue,
    };
    let memory = next_memory(&facts);
    let decided = decide(&Facts {
        memory: &memory,
        ..facts
    });
    Seen {
        decided,
        memory,
        told,
    }
}
