//! Looks at an account and judges what it sees. [`scan`] does it once, from a
//! terminal: nothing is written anywhere, and no deployment or lake is needed.
//! Without a probe's word the evidence is weaker, and the report says so.

use std::collections::BTreeMap;

use ebb_domain::catalogue::{Catalogue, Refreshed};
use ebb_domain::fleet::Gap;
use ebb_domain::hours::FleetHours;
use ebb_domain::identity::NodeId;
use ebb_domain::judge::{Explanation, Facts, disconnected_since, explain, judge};
use ebb_domain::policy::Policy;
use ebb_domain::report::Report;
use ebb_domain::state::FleetState;
use ebb_domain::step::PlacedStep;
use jiff::Timestamp;

use crate::catalogue;
use crate::gather::{self, Account, Kept, Wanted};

/// What is known beside what the account answers; by default nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Known {
    /// What probes saw.
    pub state: FleetState,
    /// What they saw by the hour.
    pub hours: FleetHours,
    /// Steps that ended.
    pub finished: Vec<PlacedStep>,
    /// Since when each ECS agent has been disconnected.
    pub disconnected_since: BTreeMap<NodeId, Timestamp>,
    /// Prices that AWS told after the program was built.
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
        disconnected_since: &known.disconnected_since,
        gaps: Vec::new(),
        catalogue: &catalogue,
    };
    let decide = |facts: &Facts<'_>| {
        let explanation = resource.map(|resource| explain(facts, resource));
        (judge(facts), explanation)
    };
    let mut kept = Kept::default();
    see(account, before, &mut kept, (policy, now), decide)
        .await
        .0
}

/// What is known before the account is asked.
pub(crate) struct Before<'a> {
    pub(crate) state: &'a FleetState,
    pub(crate) hours: &'a FleetHours,
    pub(crate) finished: &'a [PlacedStep],
    pub(crate) disconnected_since: &'a BTreeMap<NodeId, Timestamp>,
    /// What of it could not be known.
    pub(crate) gaps: Vec<Gap>,
    /// Machine types and list prices as they are best known.
    pub(crate) catalogue: &'a Catalogue,
}

/// Gathers and decides; tells also since when each agent has been disconnected by now.
pub(crate) async fn see<T>(
    account: &Account<'_>,
    before: Before<'_>,
    Kept { paid, sold }: &mut Kept,
    (policy, now): (&Policy, Timestamp),
    decide: impl FnOnce(&Facts<'_>) -> T,
) -> (T, BTreeMap<NodeId, Timestamp>) {
    let mut inventory = gather::inventory(account).await;
    inventory.take_in_hosts(before.state, now);
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
    if let Some(source) = account.markets {
        sold.refresh(source, &mut inventory, now).await;
    }
    let plans = paid.plans(now).cloned();
    inventory.markets.commitments.extend(plans);
    let (told, unlisted) = match account.prices {
        Some(source) => catalogue::where_missing(source, before.catalogue, &inventory, now).await,
        None => Default::default(),
    };
    inventory.gaps.extend(unlisted);
    let priced = (!told.regions.is_empty()).then(|| before.catalogue.with(&told));
    let disconnected_since = disconnected_since(before.disconnected_since, &inventory, now);
    let decided = decide(&Facts {
        now,
        state: before.state,
        hours: before.hours,
        inventory: &inventory,
        metrics: paid.series(),
        bill: paid.costs(),
        billed: paid.days(),
        finished: before.finished,
        disconnected_since: &disconnected_since,
        policy,
        catalogue: priced.as_ref().unwrap_or(before.catalogue),
    });
    (decided, disconnected_since)
}
