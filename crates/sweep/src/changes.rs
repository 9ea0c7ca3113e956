//! What is new, grew or ended since the last sweep, which is all that people are
//! told about. Pure.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use ebb_domain::finding::{Finding, FindingKind};
use ebb_domain::report::Report;
use ebb_domain::units::Usd;
use serde::{Deserialize, Serialize};

/// A finding grew when its price or saving passed what was told by this share, in
/// percent: less is the noise of prices and windows.
const GROWTH_PERCENT: i64 = 10;

/// How the gap of a call that covers the whole account begins.
pub const ALL_REGIONS: &str = "all regions";

/// What people were told about a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// What kind of waste.
    pub kind: FindingKind,
    /// The resource's id.
    pub resource: String,
    /// Its name; `None` when it has none.
    pub name: Option<String>,
    /// Where it is.
    pub region: String,
    /// What was wasted an hour; `None` without a price.
    pub per_hour: Option<Usd>,
    /// What mending saves a month; `None` without a price.
    pub saving_a_month: Option<Usd>,
}

/// What is known by finding.
pub type Findings = BTreeMap<String, Known>;

/// What was told where. Each channel has its own, so that one that failed is told
/// the next time, and the others nothing twice.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Told {
    /// By the report before.
    pub report: Findings,
    /// To the chat.
    pub slack: Findings,
    /// By email.
    pub email: Findings,
}

impl Known {
    fn of(finding: &Finding) -> Self {
        let cost = finding.cost.as_ref();
        Self {
            kind: finding.kind,
            resource: finding.resource.id.clone(),
            name: finding.resource.name.clone(),
            region: finding.resource.region.to_string(),
            per_hour: cost.map(|c| c.per_hour.0),
            saving_a_month: cost.map(|c| c.saving_a_month),
        }
    }

    /// The price or the saving is what was told and a tenth more, or is told for
    /// the first time.
    fn grew_to(&self, now: &Self) -> bool {
        let grew = |before: Option<Usd>, now: Option<Usd>| match (before, now) {
            (None, Some(_)) => true,
            (Some(before), Some(now)) => {
                let bound = before.micros().saturating_mul(100 + GROWTH_PERCENT);
                now.micros().saturating_mul(100) > bound
            }
            (_, None) => false,
        };
        grew(self.per_hour, now.per_hour) || grew(self.saving_a_month, now.saving_a_month)
    }
}

/// What is new, grew or ended; each by finding id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Found now and not before.
    pub new: BTreeSet<String>,
    /// Found before, and dearer by now.
    pub grown: BTreeSet<String>,
    /// Found before, and looked at again without being found.
    pub ended: BTreeMap<String, Known>,
}

impl Changes {
    /// True when there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.new.is_empty() && self.grown.is_empty() && self.ended.is_empty()
    }
}

/// Compares a report with what was told, and says what is known once it is told too. What could not be looked at this time has not ended. A price is
/// remembered as it was told, so that slow growth is told in the end.
pub fn since(told: &Findings, report: &Report) -> (Changes, Findings) {
    let mut changes = Changes::default();
    let mut knows = Findings::new();
    for finding in &report.findings {
        let (id, now) = (finding.id.clone(), Known::of(finding));
        match told.get(&id) {
            None => changes.new.insert(id.clone()),
            Some(before) if before.grew_to(&now) => changes.grown.insert(id.clone()),
            Some(before) => {
                knows.insert(id, before.clone());
                continue;
            }
        };
        knows.insert(id, now);
    }
    for (id, before) in told {
        if changes.new.contains(id) || knows.contains_key(id) {
            continue;
        }
        match was_looked_at(before, report) {
            true => changes.ended.insert(id.clone(), before.clone()),
            false => knows.insert(id.clone(), before.clone()),
        };
    }
    (changes, knows)
}

fn was_looked_at(known: &Known, report: &Report) -> bool {
    let hidden = |scope: &str| {
        let rest = scope.strip_prefix(known.region.as_str());
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-'))
            || scope.starts_with(ALL_REGIONS)
    };
    let unjudged = report
        .not_judged
        .iter()
        .any(|n| n.resource == known.resource);
    !unjudged && !report.gaps.iter().any(|gap| hidden(&gap.scope))
}
