//! Exemptions: what is known to be so and meant to be. Each has a reason and an
//! end, so that none outlives its reason unnoticed.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::PolicyError;
use crate::finding::FindingKind;

/// One exemption. Of `tag`, `resource` and `kind` at least one is set; where
/// several are, all must hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exemption {
    /// A tag of the resource or its machine: `key` or `key=value`.
    #[serde(default)]
    pub tag: Option<String>,
    /// The id of the resource or its machine.
    #[serde(default)]
    pub resource: Option<String>,
    /// A kind of finding; alone it holds for the whole account.
    #[serde(default)]
    pub kind: Option<FindingKind>,
    /// The last day on which it holds, in UTC: `"2027-01-31"`.
    pub until: Date,
    /// Why.
    pub reason: String,
}

/// What an exemption is compared with.
#[derive(Debug, Clone, Copy)]
pub struct Exemptable<'a> {
    /// The kind of finding.
    pub kind: FindingKind,
    /// The ids of the resource and its machine.
    pub ids: &'a [&'a str],
    /// Their tags.
    pub tags: &'a [&'a BTreeMap<String, String>],
}

impl Exemption {
    /// True when it is about this, whether or not it has ended.
    pub fn covers(&self, what: &Exemptable<'_>) -> bool {
        let tagged = |wanted: &str| {
            let has = |tags: &&BTreeMap<String, String>| match wanted.split_once('=') {
                Some((key, value)) => tags.get(key).is_some_and(|v| v == value),
                None => tags.contains_key(wanted),
            };
            what.tags.iter().any(has)
        };
        self.kind.is_none_or(|kind| kind == what.kind)
            && self
                .resource
                .as_deref()
                .is_none_or(|id| what.ids.contains(&id))
            && self.tag.as_deref().is_none_or(tagged)
    }

    /// True on its last day and before.
    pub fn holds_at(&self, now: Timestamp) -> bool {
        now.to_zoned(TimeZone::UTC).date() <= self.until
    }

    pub(super) fn check(&self) -> Result<(), PolicyError> {
        let problem = if self.tag.is_none() && self.resource.is_none() && self.kind.is_none() {
            "it names neither tag nor resource nor kind"
        } else if self.reason.trim().is_empty() {
            "its reason is empty"
        } else {
            return Ok(());
        };
        Err(PolicyError::Exemption {
            subject: self.to_string(),
            problem,
        })
    }
}

impl fmt::Display for Exemption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            self.kind.map(|kind| format!("kind {}", kind.slug())),
            self.resource.as_ref().map(|id| format!("resource {id}")),
            self.tag.as_ref().map(|tag| format!("tag {tag}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        write!(f, "{} until {}", parts.join(" and "), self.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    fn exempt(body: &str) -> Result<Policy, PolicyError> {
        Policy::parse(&format!("[[exempt]]\n{body}"))
    }

    #[test]
    fn it_covers_what_all_its_parts_hold_for() {
        let tags = BTreeMap::from([("Team".to_owned(), "lab".to_owned())]);
        let check = |parts: &str, expect: bool| {
            let policy = exempt(&format!("{parts}\nuntil = \"2026-12-31\"\nreason = \"r\""));
            let policy = policy.expect("it is valid");
            let what = Exemptable {
                kind: FindingKind::IdleNode,
                ids: &["job-1", "i-1"],
                tags: &[&tags],
            };
            assert_eq!(policy.exempt[0].covers(&what), expect, "{parts}");
        };
        check("tag = \"Team\"", true);
        check("tag = \"Team=lab\"", true);
        check("tag = \"Team=ops\"", false);
        check("resource = \"i-1\"", true);
        check("resource = \"i-2\"", false);
        check("kind = \"idle_node\"", true);
        check("kind = \"idle_node\"\nresource = \"i-2\"", false);
        check("kind = \"stuck_batch_job\"\ntag = \"Team\"", false);
    }

    #[test]
    fn one_without_subject_end_or_reason_is_refused() {
        let check = |body: &str, expect: &str| {
            let error = exempt(body).expect_err(expect).to_string();
            assert!(error.contains(expect), "{error} should say: {expect}");
        };
        check("until = \"2026-12-31\"\nreason = \"r\"", "neither tag nor");
        check("tag = \"a\"\nreason = \"r\"", "missing field `until`");
        check(
            "tag = \"a\"\nuntil = \"2026-12-31\"",
            "missing field `reason`",
        );
        check(
            "tag = \"a\"\nuntil = \"2026-12-31\"\nreason = \" \"",
            "its reason is empty",
        );
        check("tag = \"a\"\nuntil = \"soon\"\nreason = \"r\"", "line 3");
        check(
            "kind = \"lazy\"\nuntil = \"2026-12-31\"\nreason = \"r\"",
            "lazy",
        );
    }

    #[test]
    fn it_holds_to_the_end_of_its_last_day() {
        let policy = exempt("tag = \"a\"\nuntil = \"2026-12-31\"\nreason = \"r\"");
        let policy = policy.expect("it is valid");
        let check = |at: &str, expect: bool| {
            let at: Timestamp = at.parse().expect("a time");
            assert_eq!(policy.exempt[0].holds_at(at), expect, "{at}");
        };
        check("2026-12-31T23:59:59Z", true);
        check("2027-01-01T00:00:00Z", false);
    }
}
