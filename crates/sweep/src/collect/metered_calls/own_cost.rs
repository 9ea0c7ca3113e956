//! The cost of Ebb itself: the bill of its own resources, requested once a day with the bill, and the
//! price of the charged requests.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_model::bill::BilledDay;
use ebb_model::report::own_cost::{OWN_TAG, OWN_VALUE, OwnCost};
use ebb_telemetry::money::Usd;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::collect::account::is_older;

/// A day of the bill changes little after its end, and a request costs one cent.
const AGE: Duration = Duration::from_secs(24 * 3600);

/// The bill of Ebb's own resources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OwnBill {
    at: Timestamp,
    /// By day (`YYYY-MM-DD`, UTC); empty if the bill has no such resource.
    by_day: BTreeMap<String, Usd>,
    /// The last day of the bill.
    to: Option<String>,
}

impl OwnBill {
    /// Whether the next request of the bill also requests the cost by the tag of Ebb.
    fn is_due(known: Option<&Self>, now: Timestamp) -> bool {
        known.is_none_or(|known| is_older(known.at, now, AGE))
    }

    /// These tags, and that of Ebb if its cost is due and the budget affords the request.
    pub(crate) fn requested_tags(
        known: Option<&Self>,
        tags: &[String],
        (is_charged_for, affords_own): (bool, bool),
        now: Timestamp,
    ) -> Vec<String> {
        let mut requested = tags.to_vec();
        let is_due = !is_charged_for || Self::is_due(known, now);
        if is_due && affords_own && !requested.iter().any(|tag| tag == OWN_TAG) {
            requested.push(OWN_TAG.to_owned());
        }
        requested
    }

    /// Takes the cost of Ebb's resources out of a bill that was requested with the tag of Ebb.
    /// `tags` are those that the report shows.
    pub(crate) fn take(days: &mut [BilledDay], tags: &[String], now: Timestamp) -> Self {
        let of_day = |day: &BilledDay| {
            let usd = day.by_tag.get(OWN_TAG)?.get(OWN_VALUE)?;
            Some((day.day.clone(), *usd))
        };
        let own = Self {
            at: now,
            by_day: days.iter().filter_map(of_day).collect(),
            to: days.iter().map(|day| day.day.clone()).max(),
        };
        if !tags.iter().any(|tag| tag == OWN_TAG) {
            for day in days {
                day.by_tag.remove(OWN_TAG);
            }
        }
        own
    }

    /// The cost of Ebb itself. `requests` is the price of the requests by day, the last one today.
    pub(crate) fn cost(known: Option<&Self>, mut requests: BTreeMap<String, Usd>) -> OwnCost {
        let nothing = BTreeMap::new();
        let billed = known.map_or(&nothing, |own| &own.by_day);
        let to = known.and_then(|own| own.to.as_deref());
        // Today is not over, unless it is the first day.
        if requests.len() > 1 {
            requests.pop_last();
        }
        OwnCost::from_days((billed, to), &requests)
    }
}
