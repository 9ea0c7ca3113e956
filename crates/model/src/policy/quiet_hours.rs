//! Quiet hours without notifications, and their exceptions.

use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::civil::Time;
use serde::{Deserialize, Serialize};

use crate::finding_kind::FindingKind;
use crate::policy::error::PolicyError;
use crate::policy::weekly_schedule;
use crate::policy::weekly_schedule::Day;

/// Hours without notifications by chat and email. Notifications that are still relevant are sent
/// when the quiet hours end. Webhooks and topics have no quiet hours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct QuietPolicy {
    /// Start of the quiet hours, such as "19:00". The same start and end mean no quiet hours.
    pub begins: Time,
    /// End of the quiet hours, such as "07:30"; on the next day if it is before the start.
    pub ends: Time,
    /// Days that are quiet from midnight to midnight, such as "sat" and "sun".
    pub days: BTreeSet<Day>,
    /// Time zone from the IANA database, such as "Europe/Berlin".
    pub time_zone: String,
    /// Kinds of findings that are notified at all hours, such as "retry_storm".
    pub pass: BTreeSet<FindingKind>,
}

impl Default for QuietPolicy {
    fn default() -> Self {
        Self {
            begins: Time::midnight(),
            ends: Time::midnight(),
            days: BTreeSet::new(),
            time_zone: "UTC".to_owned(),
            pass: BTreeSet::new(),
        }
    }
}

impl QuietPolicy {
    /// Whether notifications are held back; false for an unknown time zone.
    pub fn is_quiet(&self, at: Timestamp) -> bool {
        weekly_schedule::covers((self.begins, self.ends), &self.days, &self.time_zone, at)
    }

    /// Whether findings of this kind are notified at all hours.
    pub fn passes(&self, kind: FindingKind) -> bool {
        self.pass.contains(&kind)
    }

    pub(crate) fn check(&self) -> Result<(), PolicyError> {
        let refused = |key, problem| Err(PolicyError::Quiet { key, problem });
        if weekly_schedule::time_zone(&self.time_zone).is_none() {
            let name = &self.time_zone;
            let problem = format!("{name:?} is not a time zone; use one such as \"Europe/Berlin\"");
            return refused("quiet.time_zone", problem);
        }
        if self.days.len() == 7 && self.pass.is_empty() {
            return refused(
                "quiet.days",
                "quiet hours cover the whole week, so nobody would be notified".to_owned(),
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::Policy;

    #[test]
    fn quiet_hours_follow_the_clock_of_their_zone() {
        let check = |file: &str, at: &str, expect: bool| {
            let policy = Policy::parse(&format!("[quiet]\n{file}")).expect("a policy");
            let time = at.parse().expect("a time");
            assert_eq!(policy.quiet.is_quiet(time), expect, "{file} at {at}");
        };
        check("", "2026-03-04T00:00:00Z", false);
        let night = "begins = \"19:00\"\nends = \"07:30\"\n";
        check(night, "2026-03-04T18:59:59Z", false);
        check(night, "2026-03-04T19:00:00Z", true);
        check(night, "2026-03-04T07:29:59Z", true);
        check(night, "2026-03-04T07:30:00Z", false);
        let noon = "begins = \"12:00\"\nends = \"13:00\"\n";
        check(noon, "2026-03-04T12:30:00Z", true);
        check(noon, "2026-03-04T23:30:00Z", false);
        // Berlin is an hour ahead in winter and two in summer.
        let there = format!("{night}time_zone = \"Europe/Berlin\"\n");
        check(&there, "2026-03-04T17:30:00Z", false);
        check(&there, "2026-03-04T18:00:00Z", true);
        check(&there, "2026-07-04T17:00:00Z", true);
        check(&there, "2026-07-04T05:30:00Z", false);
        let weekend = "days = [\"sat\", \"sun\"]\n";
        check(weekend, "2026-03-07T12:00:00Z", true);
        check(weekend, "2026-03-09T12:00:00Z", false);
    }

    #[test]
    fn a_zone_that_is_none_and_days_that_are_all_are_refused() {
        let check = |file: &str, expect: &str| {
            let error = Policy::parse(&format!("[quiet]\n{file}"));
            let error = error.expect_err(expect).to_string();
            assert!(error.contains(expect), "{error}");
        };
        check(
            "time_zone = \"Berlin\"",
            "quiet.time_zone: \"Berlin\" is not",
        );
        let all = "days = [\"mon\", \"tue\", \"wed\", \"thu\", \"fri\", \"sat\", \"sun\"]";
        check(all, "quiet.days: quiet hours cover");
        check("days = [\"monday\"]", "unknown variant");
        check("pass = [\"every\"]", "unknown variant");
        check("begins = \"25:00\"", "line 2");
    }
}
