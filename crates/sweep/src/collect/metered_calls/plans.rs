//! Savings Plans and their utilization: a request of one cent, once a day, for each account.

use std::time::Duration;

use ebb_model::inventory::commitments::Commitment;
use ebb_model::visibility_gap::{Gap, Refused};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::collect::account::{Account, is_older};
use crate::collect::metered_calls::budget::{Wanted, requests_for};
use crate::collect::metered_calls::{Paid, spent};

/// Savings Plans last for years, and the data of a past day seldom changes.
const AGE: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plans {
    /// When they were requested last.
    at: Timestamp,
    /// The last answer, or the one before if that was refused.
    commitments: Vec<Commitment>,
    /// Accounts that refused.
    refused: Vec<Gap>,
}

impl Paid {
    pub(crate) async fn refresh_plans(
        &mut self,
        account: &Account<'_>,
        wanted: &Wanted<'_>,
    ) -> Vec<Gap> {
        let gap = |refused: Refused| vec![refused.gap("Savings Plans")];
        // Only Cost Explorer has Savings Plans.
        let Some(source) = account.bill.filter(|bill| bill.least_plan_requests() > 0) else {
            self.plans = None;
            return Vec::new();
        };
        let fresh = self
            .plans
            .as_ref()
            .filter(|kept| !is_older(kept.at, wanted.now, AGE));
        if let Some(kept) = fresh {
            return kept.refused.clone();
        }
        if self.left(wanted.policy) < requests_for(source.least_plan_requests()) {
            return gap(spent());
        }
        let before = source.requests();
        let answer = source.plans(wanted.now).await;
        let made = source.requests().saturating_sub(before);
        self.spent = self.spent + requests_for(made);
        let kept = self.plans.take().map(|kept| kept.commitments);
        let (commitments, refused) = match answer {
            Ok(commitments) => (commitments, source.take_gaps()),
            Err(error) => (kept.unwrap_or_default(), gap(error.into())),
        };
        let at = wanted.now;
        let plans = self.plans.insert(Plans {
            at,
            commitments,
            refused,
        });
        plans.refused.clone()
    }

    /// The plans that have not expired.
    pub fn plans(&self, now: Timestamp) -> impl Iterator<Item = &Commitment> {
        let commitments = self.plans.iter().flat_map(|kept| &kept.commitments);
        commitments.filter(move |plan| plan.until.is_none_or(|until| now < until))
    }
}
