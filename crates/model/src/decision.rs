//! User decisions about findings: to dismiss a finding, to snooze it until a day, or to assign it to
//! a person. All decisions together are one small object; the sweep decides where it is stored.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::finding_kind;

/// Maximum number of decisions. Every sweep reads the one object that contains them.
pub const MAX_DECISIONS: usize = 5_000;

/// The longest id of a finding, in bytes.
const MAX_ID_BYTES: usize = 1_000;

/// The longest reason, in characters: one or two sentences with a link to a ticket.
pub const MAX_REASON_CHARS: usize = 500;

/// The longest name of the user who decided, in characters. ARNs are shorter.
const MAX_BY_CHARS: usize = 200;

/// Days for which a snooze is kept after its end, so that users can look it up.
const KEPT_DAYS: i64 = 30;

/// Why a decision was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DecisionError {
    /// A required text is empty.
    #[error("{0} is empty")]
    Empty(&'static str),
    /// A text is too long.
    #[error("{what} is longer than {max}")]
    TooLong {
        /// The name of the text.
        what: &'static str,
        /// The limit with its unit.
        max: &'static str,
    },
    /// A text contains a control character.
    #[error("{0} contains a control character; write it on one line")]
    Control(&'static str),
    /// A snooze has no end.
    #[error("a snooze needs an end: add `until` (--until DAY), or dismiss the finding")]
    NoEnd,
    /// The end of the decision is not later than its time.
    #[error("the end is in the past ({0}); use a later day")]
    Ended(Timestamp),
    /// The end is neither a day nor a time.
    #[error("'{0}' is neither a day such as 2027-01-31 nor a time such as 2027-01-31T12:00:00Z")]
    Until(String),
    /// The maximum number of decisions is reached.
    #[error(
        "the limit of {MAX_DECISIONS} decisions is reached; reopen some findings, or add an \
         exemption by tag or kind to the policy"
    )]
    Full,
    /// The request is a repetition of one that was carried out.
    #[error("this action was carried out before")]
    Repeated,
    /// More requests than people can make.
    #[error("too many actions in {HANDLED_MINUTES} minutes; try again later")]
    TooMany,
    /// No decision about that finding is in effect.
    #[error("there is no decision about {0}")]
    None(String),
}

/// Minutes for which carried out requests are stored, to recognise their repetition. A request is
/// valid for five minutes, and the clocks may differ.
const HANDLED_MINUTES: i64 = 15;

/// Maximum number of stored requests.
const MAX_HANDLED: usize = 1_000;

/// The kind of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// The finding is known and accepted; it is not reported again.
    Dismiss,
    /// The finding is not reported until the end of the snooze.
    Snooze,
}

impl Verb {
    /// The state of a finding after this decision.
    pub const fn done(self) -> &'static str {
        match self {
            Self::Dismiss => "dismissed",
            Self::Snooze => "snoozed",
        }
    }
}

/// One decision about one finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Decision {
    /// The kind of the decision.
    pub verb: Verb,
    /// The reason.
    pub reason: String,
    /// The user who decided.
    pub by: String,
    /// When the user decided.
    pub at: Timestamp,
    /// The end; `None` for a decision without an end. A snooze always has an end.
    pub until: Option<Timestamp>,
}

impl Decision {
    /// True while the decision is in effect.
    pub fn holds_at(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until)
    }

    fn check(&self) -> Result<(), DecisionError> {
        check_text(
            "the reason",
            &self.reason,
            MAX_REASON_CHARS,
            "500 characters",
        )?;
        check_text("the user name", &self.by, MAX_BY_CHARS, "200 characters")?;
        match (self.verb, self.until) {
            (Verb::Snooze, None) => Err(DecisionError::NoEnd),
            (_, Some(until)) if until <= self.at => Err(DecisionError::Ended(until)),
            _ => Ok(()),
        }
    }
}

/// The person who takes care of a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Assignee {
    /// The person: `slack:` and the id of a user of Slack.
    pub who: String,
    /// The user who assigned the finding.
    pub by: String,
    /// When the user assigned it.
    pub at: Timestamp,
}

impl Assignee {
    /// The id of the user of Slack; `None` for any other text.
    pub fn slack_user(&self) -> Option<&str> {
        let user = self.who.strip_prefix("slack:")?;
        crate::slack_action::is_user_id(user).then_some(user)
    }
}

fn check_text(
    what: &'static str,
    text: &str,
    chars: usize,
    max: &'static str,
) -> Result<(), DecisionError> {
    if text.trim().is_empty() {
        return Err(DecisionError::Empty(what));
    }
    if text.chars().count() > chars {
        return Err(DecisionError::TooLong { what, max });
    }
    match text.chars().any(char::is_control) {
        true => Err(DecisionError::Control(what)),
        false => Ok(()),
    }
}

fn check_id(finding: &str) -> Result<(), DecisionError> {
    if finding.len() > MAX_ID_BYTES {
        return Err(DecisionError::TooLong {
            what: "the finding id",
            max: "1000 bytes",
        });
    }
    check_text("the finding id", finding, MAX_ID_BYTES, "1000 bytes")
}

/// Parses the end of a decision: a time, or a day that counts until its end in UTC.
///
/// # Errors
/// `Until` when the text is neither.
pub fn until(text: &str) -> Result<Timestamp, DecisionError> {
    let text = text.trim();
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    let day = text
        .parse::<Date>()
        .ok()
        .and_then(|day| day.tomorrow().ok());
    let end = day.and_then(|next| next.to_zoned(TimeZone::UTC).ok());
    let end = end.map(|end| end.timestamp());
    end.ok_or_else(|| DecisionError::Until(text.chars().take(40).collect()))
}

/// All decisions, by the id of their finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decisions {
    /// `ebb.decisions/1.0`.
    pub schema: String,
    /// The newest decision about each finding.
    #[serde(deserialize_with = "finding_kind::read_by_id")]
    pub findings: BTreeMap<String, Decision>,
    /// The assignee of each finding that has one.
    #[serde(
        default,
        deserialize_with = "finding_kind::read_by_id",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub assignees: BTreeMap<String, Assignee>,
    /// Requests that were carried out in the last minutes, by their signature.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub handled: BTreeMap<String, Timestamp>,
}

impl Default for Decisions {
    fn default() -> Self {
        Self {
            schema: Self::SCHEMA.to_owned(),
            findings: BTreeMap::new(),
            assignees: BTreeMap::new(),
            handled: BTreeMap::new(),
        }
    }
}

impl Decisions {
    /// The value of [`Decisions::schema`].
    pub const SCHEMA: &'static str = "ebb.decisions/1.0";

    /// The decision about a finding that is in effect at `now`.
    pub fn holding(&self, finding: &str, now: Timestamp) -> Option<&Decision> {
        let decision = self.findings.get(finding)?;
        decision.holds_at(now).then_some(decision)
    }

    /// Stores a decision and replaces an earlier one about the same finding.
    ///
    /// # Errors
    /// An incomplete decision, or no room for another decision. The stored decisions stay
    /// unchanged.
    pub fn decide(&mut self, finding: &str, decision: Decision) -> Result<(), DecisionError> {
        check_id(finding)?;
        decision.check()?;
        self.forget(decision.at);
        if !self.findings.contains_key(finding) && self.findings.len() >= MAX_DECISIONS {
            return Err(DecisionError::Full);
        }
        self.findings.insert(finding.to_owned(), decision);
        Ok(())
    }

    /// Assigns a finding to a person, and replaces an earlier assignee. When there is no room, the
    /// oldest assignment is removed.
    ///
    /// # Errors
    /// An incomplete assignment. The stored ones stay unchanged.
    pub fn assign(&mut self, finding: &str, assignee: Assignee) -> Result<(), DecisionError> {
        check_id(finding)?;
        check_text(
            "the assignee",
            &assignee.who,
            MAX_BY_CHARS,
            "200 characters",
        )?;
        check_text(
            "the user name",
            &assignee.by,
            MAX_BY_CHARS,
            "200 characters",
        )?;
        let is_full =
            !self.assignees.contains_key(finding) && self.assignees.len() >= MAX_DECISIONS;
        let oldest = self.assignees.iter().min_by_key(|(_, one)| one.at);
        if let Some(oldest) = oldest.map(|(id, _)| id.clone()).filter(|_| is_full) {
            self.assignees.remove(&oldest);
        }
        self.assignees.insert(finding.to_owned(), assignee);
        Ok(())
    }

    /// Records that a request is carried out.
    ///
    /// # Errors
    /// `Repeated` if it was recorded before; `TooMany` if there is no room for its record.
    pub fn handle(&mut self, request: &str, now: Timestamp) -> Result<(), DecisionError> {
        let kept = jiff::SignedDuration::from_mins(HANDLED_MINUTES);
        let oldest = now.saturating_sub(kept).unwrap_or(Timestamp::MIN);
        self.handled.retain(|_, at| *at >= oldest);
        if self.handled.contains_key(request) {
            return Err(DecisionError::Repeated);
        }
        if self.handled.len() >= MAX_HANDLED {
            return Err(DecisionError::TooMany);
        }
        self.handled.insert(request.to_owned(), now);
        Ok(())
    }

    /// Removes a decision.
    ///
    /// # Errors
    /// `None` when no decision is in effect.
    pub fn reopen(&mut self, finding: &str, now: Timestamp) -> Result<Decision, DecisionError> {
        let none = || DecisionError::None(finding.chars().take(MAX_ID_BYTES).collect());
        self.holding(finding, now).ok_or_else(none)?;
        self.findings.remove(finding).ok_or_else(none)
    }

    /// Removes decisions that ended more than [`KEPT_DAYS`] days ago.
    fn forget(&mut self, now: Timestamp) {
        let kept = jiff::SignedDuration::from_hours(24 * KEPT_DAYS);
        let oldest = now.saturating_sub(kept).unwrap_or(Timestamp::MIN);
        self.findings
            .retain(|_, decision| decision.until.is_none_or(|until| until >= oldest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    fn decision(verb: Verb, end: Option<&str>) -> Decision {
        Decision {
            verb,
            reason: "a course".to_owned(),
            by: "ana".to_owned(),
            at: at("2026-11-21T12:00:00Z"),
            until: end.map(|end| until(end).expect("an end")),
        }
    }

    #[test]
    fn a_decision_holds_until_its_end_and_a_dismissal_for_ever() {
        let check = |verb, end: Option<&str>, now: &str, expect: bool| {
            let mut all = Decisions::default();
            all.decide("idle_node/r/i-1", decision(verb, end))
                .expect("it is whole");
            let holds = all.holding("idle_node/r/i-1", at(now)).is_some();
            assert_eq!(holds, expect, "{verb:?} {end:?} {now}");
        };
        let end = Some("2026-11-30");
        check(Verb::Snooze, end, "2026-11-30T23:59:59Z", true);
        check(Verb::Snooze, end, "2026-12-01T00:00:00Z", false);
        let end = Some("2026-11-30T12:00:00Z");
        check(Verb::Snooze, end, "2026-11-30T12:00:00Z", false);
        check(Verb::Dismiss, None, "2036-01-01T00:00:00Z", true);
    }

    #[test]
    fn what_is_not_whole_is_refused_and_changes_nothing() {
        let check = |id: &str, change: &dyn Fn(&mut Decision), expect: &str| {
            let mut all = Decisions::default();
            let mut one = decision(Verb::Snooze, Some("2026-12-01"));
            change(&mut one);
            let error = all.decide(id, one).expect_err(expect).to_string();
            assert!(error.contains(expect), "{error} should say: {expect}");
            assert_eq!(all, Decisions::default());
        };
        check("a", &|d| d.until = None, "a snooze needs an end");
        check("a", &|d| d.until = Some(d.at), "in the past");
        check("a", &|d| d.reason = " ".into(), "the reason is empty");
        check("a", &|d| d.reason = "x".repeat(501), "longer than 500");
        check("a", &|d| d.reason = "a\nb".into(), "on one line");
        check("a", &|d| d.by = String::new(), "the user name is empty");
        check("", &|_| {}, "the finding id is empty");
        check(&"ö".repeat(501), &|_| {}, "longer than 1000 bytes");
        assert!(matches!(until("soon"), Err(DecisionError::Until(_))));
    }

    #[test]
    fn what_was_decided_is_taken_back_once() {
        let mut all = Decisions::default();
        all.decide("a", decision(Verb::Dismiss, None))
            .expect("whole");
        let now = at("2026-11-22T00:00:00Z");
        assert_eq!(all.reopen("a", now).map(|d| d.verb), Ok(Verb::Dismiss));
        let none = DecisionError::None("a".to_owned());
        assert_eq!(all.reopen("a", now), Err(none));
    }

    #[test]
    fn a_decision_holds_under_the_new_name_of_a_kind() {
        let one = decision(Verb::Dismiss, None);
        let stored = serde_json::json!({
            "schema": Decisions::SCHEMA,
            "findings": {"low_duty_node/r/i-1": one},
        });
        let all: Decisions = serde_json::from_value(stored).expect("it is read");
        let now = at("2026-11-22T00:00:00Z");
        assert_eq!(all.holding("underutilized_node/r/i-1", now), Some(&one));
    }

    #[test]
    fn there_is_a_bound_and_what_ended_long_ago_makes_room() {
        let mut all = Decisions::default();
        for n in 0..MAX_DECISIONS {
            let one = decision(Verb::Snooze, Some("2026-12-01"));
            all.findings.insert(n.to_string(), one);
        }
        let one = decision(Verb::Dismiss, None);
        assert_eq!(all.decide("new", one.clone()), Err(DecisionError::Full));
        assert_eq!(all.decide("7", one.clone()), Ok(()), "it replaces one");
        let later = Decision {
            at: at("2027-02-01T00:00:00Z"),
            ..one
        };
        assert_eq!(all.decide("new", later), Ok(()));
        assert_eq!(all.findings.len(), 2, "the dismissals");
    }

    #[test]
    fn an_earlier_document_has_no_assignees() {
        let stored = r#"{"schema": "ebb.decisions/1.0", "findings": {}}"#;
        let mut all: Decisions = serde_json::from_str(stored).expect("it is read");
        assert_eq!(all, Decisions::default());
        assert_eq!(
            serde_json::to_value(&all).expect("JSON")["assignees"],
            serde_json::Value::Null
        );
        let assignee = |who: &str, day| Assignee {
            who: who.to_owned(),
            by: "ana".to_owned(),
            at: at(day),
        };
        let one = assignee("slack:U1", "2026-11-21T12:00:00Z");
        assert_eq!(one.slack_user(), Some("U1"));
        assert_eq!(assignee("U1", "2026-11-21T12:00:00Z").slack_user(), None);
        for n in 0..MAX_DECISIONS {
            all.assignees.insert(n.to_string(), one.clone());
        }
        let oldest = assignee("slack:U2", "2026-11-20T12:00:00Z");
        all.assignees.insert("7".to_owned(), oldest);
        assert_eq!(all.assign("new", one), Ok(()));
        assert_eq!(all.assignees.len(), MAX_DECISIONS);
        assert!(!all.assignees.contains_key("7"), "the oldest made room");
        let bad = assignee("a\nb", "2026-11-21T12:00:00Z");
        assert_eq!(
            all.assign("new", bad),
            Err(DecisionError::Control("the assignee"))
        );
    }

    #[test]
    fn a_request_is_carried_out_once() {
        let mut all = Decisions::default();
        let (now, later) = (at("2026-11-21T12:00:00Z"), at("2026-11-21T12:15:01Z"));
        assert_eq!(all.handle("a", now), Ok(()));
        assert_eq!(all.handle("a", now), Err(DecisionError::Repeated));
        for n in 0..MAX_HANDLED {
            all.handled.insert(n.to_string(), now);
        }
        assert_eq!(all.handle("b", now), Err(DecisionError::TooMany));
        assert_eq!(all.handle("b", later), Ok(()), "the others are forgotten");
        assert_eq!(all.handled.len(), 1);
    }
}
