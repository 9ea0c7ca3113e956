//! Decisions of people about findings over the API: dismiss, snooze, reopen. A decision takes
//! effect in the next sweep.

use std::hash::{DefaultHasher, Hash, Hasher};

use ebb_cloud::documents::decisions;
use ebb_cloud::documents::decisions::DecisionsError;
use ebb_cloud::ports::Objects;
use ebb_model::decision;
use ebb_model::decision::{Decision, Verb};
use ebb_model::finding_kind::current_id;
use ebb_model::report::Report;
use ebb_telemetry::safe_text::one_line;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::answer::{Paged, cut, json};
use crate::http::Request;
use crate::list::List;
use crate::problem::Problem;
use crate::query::Page;

/// Enough for a reason of 500 escaped characters.
const MAX_BYTES: usize = 16 << 10;

/// An action on a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// No further notifications about it.
    Dismiss,
    /// No notifications about it until a date.
    Snooze,
    /// The decision is withdrawn.
    Reopen,
}

impl Act {
    pub(crate) const ALL: [Self; 3] = [Self::Dismiss, Self::Snooze, Self::Reopen];

    /// The last part of its path.
    pub(crate) const fn slug(self) -> &'static str {
        match self {
            Self::Dismiss => "dismiss",
            Self::Snooze => "snooze",
            Self::Reopen => "reopen",
        }
    }
}

/// The body of a request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    reason: Option<String>,
    until: Option<String>,
}

#[derive(Serialize)]
struct Decided<'a> {
    schema: &'static str,
    /// The finding's id.
    finding: &'a str,
    /// The decision that is in force, or the withdrawn one.
    decision: Decision,
    /// Whether it is in force.
    holds: bool,
}

/// A page of all decisions.
pub(crate) struct Listed {
    pub(crate) text: String,
    /// Changes with the content.
    pub(crate) version: String,
}

#[derive(Serialize)]
struct DecisionList<'a> {
    schema: &'static str,
    #[serde(flatten)]
    page: Paged<Entry<'a>>,
}

/// One decision.
#[derive(Serialize)]
struct Entry<'a> {
    finding: &'a str,
    decision: &'a Decision,
    /// Whether it is in force; an ended decision is kept for a month.
    holds: bool,
}

/// All decisions by the finding's id.
pub(crate) async fn list(
    objects: &dyn Objects,
    page: &Page,
    at: Timestamp,
) -> Result<Listed, Problem> {
    let all = decisions::load(objects).await.map_err(problem)?;
    let entries = all.findings.iter().map(|(finding, decision)| Entry {
        finding,
        decision,
        holds: decision.holds_at(at),
    });
    let verb = |decision: &Decision| match decision.verb {
        Verb::Dismiss => "dismiss",
        Verb::Snooze => "snooze",
    };
    let is_wanted = |entry: &Entry<'_>| {
        let holds = if entry.holds { "true" } else { "false" };
        page.only.lets("verb", Some(verb(entry.decision)))
            && page.only.lets("holds", Some(holds))
            && page.only.lets("by", Some(&entry.decision.by))
    };
    let id = |entry: &Entry<'_>| entry.finding.to_owned();
    let page = cut(page, entries.filter(is_wanted).collect(), id)?;
    let schema = List::Decisions.schema();
    let text = json(&DecisionList { schema, page })?;
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let version = format!("decisions-{:016x}", hasher.finish());
    Ok(Listed { text, version })
}

/// Stores a decision about a finding of the report and returns it.
pub(crate) async fn decide(
    objects: &dyn Objects,
    report: &Report,
    (finding, act): (&str, Act),
    (request, at): (&Request, Timestamp),
) -> Result<String, Problem> {
    let finding = &*current_id(finding);
    let said = said(request)?;
    let set_aside = report.history.set_aside.iter().map(|aside| &aside.finding);
    let mut known = report.findings.iter().chain(set_aside);
    if !known.any(|known| known.id == finding) {
        return Err(Problem::Finding(finding.to_owned()));
    }
    let verb = match act {
        Act::Dismiss => Verb::Dismiss,
        Act::Snooze => Verb::Snooze,
        Act::Reopen => {
            let taken_back = decisions::change(objects, |all| all.reopen(finding, at)).await;
            return told(finding, taken_back.map_err(problem)?, false);
        }
    };
    let until = said.until.as_deref().map(decision::until).transpose();
    let decision = Decision {
        verb,
        reason: one_line(&said.reason.unwrap_or_default()),
        by: request.caller().to_owned(),
        at,
        until: until.map_err(|error| Problem::Query(error.to_string()))?,
    };
    decisions::change(objects, |all| all.decide(finding, decision.clone()))
        .await
        .map_err(problem)?;
    told(finding, decision, true)
}

fn told(finding: &str, decision: Decision, holds: bool) -> Result<String, Problem> {
    json(&Decided {
        schema: "ebb.decision/1.0",
        finding,
        decision,
        holds,
    })
}

/// Accepts only JSON: a browser asks before another site may send it.
fn said(request: &Request) -> Result<Said, Problem> {
    let kind = request.header("content-type").unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err(Problem::MediaType);
    }
    let body = request.body().filter(|body| body.len() <= MAX_BYTES);
    let body =
        body.ok_or_else(|| Problem::Query(format!("the body has at most {MAX_BYTES} bytes.")))?;
    serde_json::from_slice(&body).map_err(|error| Problem::Query(format!("the body: {error}.")))
}

fn problem(error: DecisionsError) -> Problem {
    match error {
        DecisionsError::Refused(decision::DecisionError::None(id)) => Problem::NoDecision(id),
        DecisionsError::Refused(
            refused @ (decision::DecisionError::Ended(_) | decision::DecisionError::Full),
        ) => Problem::Undecidable(format!("{refused}.")),
        DecisionsError::Refused(refused) => Problem::Query(format!("{refused}.")),
        DecisionsError::Contended => Problem::Contended,
        error => {
            tracing::warn!(
                error = ebb_cloud::error_chain::reason(&error),
                "no decision was kept"
            );
            Problem::Unreachable
        }
    }
}
