//! A sweep from a terminal: nothing is written anywhere, and no deployment or lake
//! is needed. Without a probe's word the evidence is weaker, and the report says so.

use std::collections::BTreeMap;

use ebb_domain::catalogue::Catalogue;
use ebb_domain::identity::NodeId;
use ebb_domain::judge::{Facts, disconnected_since, judge};
use ebb_domain::policy::Policy;
use ebb_domain::report::Report;
use ebb_domain::state::FleetState;
use ebb_domain::step::PlacedStep;
use jiff::Timestamp;

use crate::gather::{self, Account, Paid, Wanted};

/// What is known beside what the account answers; by default nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Known {
    /// What probes saw.
    pub state: FleetState,
    /// Steps that ended.
    pub finished: Vec<PlacedStep>,
    /// Since when each ECS agent has been disconnected.
    pub disconnected_since: BTreeMap<NodeId, Timestamp>,
}

/// Looks at an account once and judges what it sees.
pub async fn scan(account: &Account<'_>, known: &Known, policy: &Policy, now: Timestamp) -> Report {
    let mut inventory = gather::inventory(account).await;
    let mut paid = Paid::default();
    let wanted = Wanted {
        inventory: &inventory,
        fleet: &known.state,
        policy: &policy.metrics,
        now,
    };
    let gaps = paid.refresh(account, &wanted).await;
    inventory.gaps.extend(gaps);
    judge(&Facts {
        now,
        state: &known.state,
        inventory: &inventory,
        metrics: &paid.series(),
        bill: &paid.costs(),
        finished: &known.finished,
        disconnected_since: &disconnected_since(&known.disconnected_since, &inventory, now),
        policy,
        catalogue: Catalogue::built_in(),
    })
}
