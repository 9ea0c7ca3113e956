//! Exemptions of resources. Each has a reason and a last day, so that none is forgotten.

use std::collections::BTreeMap;
use std::fmt;

use ebb_telemetry::identity::AccountId;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::finding_kind::FindingKind;
use crate::policy::error::PolicyError;
use crate::policy::ids;
use crate::policy::weekly_schedule::Schedule;

/// One exemption. At least one of `tag`, `resource`, `account` and `kind` is set, and all that are
/// set must match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Exemption {
    /// Tag of the resource or its machine: `key` or `key=value`.
    #[serde(default)]
    pub tag: Option<String>,
    /// Id of the resource or its machine. A `*` at the end matches any text.
    #[serde(default)]
    pub resource: Option<String>,
    /// Account of the resource.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub account: Option<AccountId>,
    /// Kind of finding; without another key it applies to all accounts.
    #[serde(default)]
    pub kind: Option<FindingKind>,
    /// Hours of the week in which the exemption applies; all hours by default.
    #[serde(default)]
    pub schedule: Option<Schedule>,
    /// Last day of the exemption in UTC: `"2027-01-31"`.
    #[serde(deserialize_with = "read_day")]
    pub until: Date,
    /// Reason for the exemption.
    pub reason: String,
}

/// Reads a day, with an error that says how to write it.
fn read_day<'de, D: Deserializer<'de>>(value: D) -> Result<Date, D::Error> {
    const FORM: &str = "write the day as \"2027-01-31\", in quotes";
    let text = String::deserialize(value).map_err(|_| D::Error::custom(FORM))?;
    text.parse()
        .map_err(|_| D::Error::custom(format!("'{text}' is not a day; {FORM}")))
}

/// Finding that an exemption may match.
#[derive(Debug, Clone, Copy)]
pub struct Exemptable<'a> {
    /// Kind of finding.
    pub kind: FindingKind,
    /// Account of the resource; `None` if unknown.
    pub account: Option<&'a AccountId>,
    /// Ids of the resource and its machine.
    pub ids: &'a [&'a str],
    /// Tags of the resource and its machine.
    pub tags: &'a [&'a BTreeMap<String, String>],
}

impl Exemption {
    /// Whether the exemption matches, regardless of its last day.
    pub fn covers(&self, what: &Exemptable<'_>) -> bool {
        let tagged = |wanted: &str| {
            let has = |tags: &&BTreeMap<String, String>| match wanted.split_once('=') {
                Some((key, value)) => tags.get(key).is_some_and(|v| v == value),
                None => tags.contains_key(wanted),
            };
            what.tags.iter().any(has)
        };
        let named = |wanted: &str| what.ids.iter().any(|id| ids::means(wanted, id));
        let account = self.account.as_ref();
        self.kind.is_none_or(|kind| kind == what.kind)
            && account.is_none_or(|account| Some(account) == what.account)
            && self.resource.as_deref().is_none_or(named)
            && self.tag.as_deref().is_none_or(tagged)
    }

    /// Whether the last day is over.
    pub fn has_ended(&self, now: Timestamp) -> bool {
        now.to_zoned(TimeZone::UTC).date() > self.until
    }

    /// Whether the exemption applies at this time, by its last day and its schedule.
    pub fn holds_at(&self, now: Timestamp) -> bool {
        let schedule = self.schedule.as_ref();
        !self.has_ended(now) && schedule.is_none_or(|schedule| schedule.covers(now))
    }

    pub(crate) fn check(&self, index: usize) -> Result<(), PolicyError> {
        let by = [&self.tag, &self.resource];
        let is_of_all = by.iter().all(|by| by.is_none()) && self.account.is_none();
        let schedule = self.schedule.as_ref();
        let problem = if is_of_all && self.kind.is_none() {
            "it has no tag, resource, account or kind"
        } else if let Some(problem) = schedule.and_then(Schedule::problem) {
            problem
        } else if self.resource.as_deref().is_some_and(ids::has_inner_star) {
            "in resource, a * is allowed only at the end"
        } else if self.reason.trim().is_empty() {
            "the reason is empty"
        } else {
            return Ok(());
        };
        Err(PolicyError::Exemption {
            index,
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
            self.account.as_ref().map(|id| format!("account {id}")),
            self.schedule.as_ref().map(ToString::to_string),
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
        let account = AccountId::new("111122223333").expect("an account");
        let check = |parts: &str, expect: bool| {
            let policy = exempt(&format!("{parts}\nuntil = \"2026-12-31\"\nreason = \"r\""));
            let policy = policy.expect("it is valid");
            let what = Exemptable {
                kind: FindingKind::IdleNode,
                account: Some(&account),
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
        check("resource = \"job-*\"", true);
        check("resource = \"jobs-*\"", false);
        check("resource = \"*\"", true);
        check("kind = \"idle_node\"", true);
        check("kind = \"idle_node\"\nresource = \"i-2\"", false);
        check("kind = \"stuck_batch_job\"\ntag = \"Team\"", false);
        check("account = \"111122223333\"", true);
        check("account = \"999999999999\"", false);
        check("account = \"999999999999\"\ntag = \"Team\"", false);
    }

    #[test]
    fn a_kind_may_have_the_name_of_an_earlier_release() {
        let rest = "until = \"2026-12-31\"\nreason = \"r\"";
        let policy = exempt(&format!("kind = \"held_gpu_memory\"\n{rest}"));
        let kind = policy.expect("it is valid").exempt[0].kind;
        assert_eq!(kind, Some(FindingKind::GpuMemoryHeld));
    }

    #[test]
    fn one_with_a_schedule_holds_in_its_hours_and_ends_all_the_same() {
        let night = "schedule = { begins = \"19:00\", ends = \"07:00\", days = [\"sun\"] }";
        let policy = exempt(&format!(
            "tag = \"a\"\n{night}\nuntil = \"2026-12-31\"\nreason = \"r\""
        ));
        let exemption = &policy.expect("it is valid").exempt[0];
        let check = |at: &str, holds: bool, ended: bool| {
            let at: Timestamp = at.parse().expect("a time");
            let got = (exemption.holds_at(at), exemption.has_ended(at));
            assert_eq!(got, (holds, ended), "{at}");
        };
        check("2026-12-30T20:00:00Z", true, false);
        check("2026-12-30T12:00:00Z", false, false);
        check("2026-12-27T12:00:00Z", true, false);
        check("2027-01-03T20:00:00Z", false, true);
        let words = "tag a and 19:00 to 07:00 and all of sun (UTC) until 2026-12-31";
        assert_eq!(exemption.to_string(), words);
    }

    #[test]
    fn one_without_subject_end_or_reason_is_refused() {
        let check = |body: &str, expect: &str| {
            let error = exempt(body).expect_err(expect).to_string();
            assert!(error.contains(expect), "{error} should say: {expect}");
        };
        check(
            "until = \"2026-12-31\"\nreason = \"r\"",
            "it has no tag, resource, account or kind",
        );
        check("tag = \"a\"\nreason = \"r\"", "missing field `until`");
        check(
            "tag = \"a\"\nuntil = \"2026-12-31\"",
            "missing field `reason`",
        );
        check(
            "tag = \"a\"\nuntil = \"2026-12-31\"\nreason = \" \"",
            "the reason is empty",
        );
        let with = |schedule: &str| {
            format!("tag = \"a\"\nschedule = {schedule}\nuntil = \"2026-12-31\"\nreason = \"r\"")
        };
        check(&with("{ }"), "its schedule covers no time");
        check(&with("{ time_zone = \"Mars\" }"), "is not a time zone");
        check(
            "account = \"\"\nuntil = \"2026-12-31\"\nreason = \"r\"",
            "line 2",
        );
        check(
            "resource = \"rack*-1\"\nuntil = \"2026-12-31\"\nreason = \"r\"",
            "a * is allowed only at the end",
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
