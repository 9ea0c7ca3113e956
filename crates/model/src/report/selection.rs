//! The selection of findings that a reader wants to see.

use std::fmt;

use ebb_telemetry::money::Usd;
use serde::{Deserialize, Serialize};

use crate::finding::Finding;
use crate::finding_kind::FindingKind;
use crate::report::Report;

/// Filters for findings. A finding must match every filter, and any value of a filter matches. A
/// filter without values matches all findings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// Owners; `None` for resources without an owner.
    pub owners: Vec<Option<String>>,
    /// Kinds.
    pub kinds: Vec<FindingKind>,
    /// Tags of the resource or its machine.
    pub tags: Vec<TagFilter>,
    /// Minimum saving in a month. Findings without a price do not match; for a price that is an
    /// upper bound, the bound of the saving counts.
    pub min_saving: Option<Usd>,
}

/// A tag that a resource must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagFilter {
    /// The key.
    pub key: String,
    /// The value; `None` for any value.
    pub value: Option<String>,
}

/// The filter of a report with only a part of its findings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Selected {
    /// The filter as text.
    pub by: String,
    /// Number of findings that were left out.
    pub left_out: usize,
}

impl Selection {
    /// True if all findings match.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }

    /// Keeps only the findings that match, with their sums. The other parts of the report still
    /// cover the whole account.
    pub fn apply(&self, report: &mut Report) {
        if self.is_all() {
            return;
        }
        let before = report.findings.len();
        report.findings.retain(|finding| self.wants(finding));
        report.totals = report.totals.of_part(&report.findings);
        report.selected = Some(Selected {
            by: self.to_string(),
            left_out: before - report.findings.len(),
        });
    }

    fn wants(&self, finding: &Finding) -> bool {
        let resource = &finding.resource;
        let has = |tag: &TagFilter| {
            let value = resource.tags.get(&tag.key);
            value.is_some_and(|value| tag.value.as_ref().is_none_or(|wanted| wanted == value))
        };
        // An upper bound counts, because the saving may reach it. Otherwise, a filter against noise
        // would hide each stuck job on a spot machine.
        let saving = finding.cost.as_ref().map(|cost| cost.saving_a_month);
        (self.owners.is_empty() || self.owners.contains(&resource.owner))
            && (self.kinds.is_empty() || self.kinds.contains(&finding.kind))
            && (self.tags.is_empty() || self.tags.iter().any(has))
            && self.min_saving.is_none_or(|least| saving >= Some(least))
    }
}

impl fmt::Display for TagFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={value}", self.key),
            None => f.write_str(&self.key),
        }
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = |owner: &Option<String>| owner.clone().unwrap_or_else(|| "nobody".to_owned());
        let or = |words: Vec<String>| words.join(" or ");
        let parts = [
            ("owner", or(self.owners.iter().map(owner).collect())),
            (
                "kind",
                or(self.kinds.iter().map(|k| k.slug().to_owned()).collect()),
            ),
            (
                "tag",
                or(self.tags.iter().map(ToString::to_string).collect()),
            ),
            (
                "saving of at least",
                self.min_saving
                    .map_or_else(String::new, |usd| format!("{usd} a month")),
            ),
        ];
        let parts = parts.into_iter().filter(|(_, words)| !words.is_empty());
        let parts: Vec<String> = parts
            .map(|(what, words)| format!("{what} {words}"))
            .collect();
        f.write_str(&parts.join(", "))
    }
}
