//! Decisions of people about findings over the API: dismiss, snooze, reopen. The API applies a
//! decision at once, and sweeps apply it from the next one on.

use std::hash::{DefaultHasher, Hash, Hasher};

use axum::extract::State;
use ebb_cloud::documents::decisions;
use ebb_cloud::documents::decisions::DecisionsError;
use ebb_model::decision;
use ebb_model::decision::{Decision, MAX_REASON_CHARS, Verb};
use ebb_model::finding_kind::current_id;
use ebb_model::report::Report;
use ebb_telemetry::safe_text::one_line;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::answer::{Answer, Paged, written};
use crate::extract::{Change, Json, Moment, Name, Page, Query, Shared, passes};
use crate::openapi::NoParameters;
use crate::problem::Problem;

/// Filters of decisions.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DecisionQuery {
    #[serde(flatten)]
    page: Page,
    /// Only decisions of this kind
    verb: Option<Verb>,
    /// Only decisions that are in force, or only ended decisions
    holds: Option<bool>,
    /// Only decisions of this person
    by: Option<String>,
}

/// ID of a finding, percent-encoded
#[derive(Deserialize, JsonSchema)]
pub(crate) struct FindingId(#[schemars(length(min = 1))] String);

/// The reason to stop notifications.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Dismissal {
    #[schemars(schema_with = "reason_schema")]
    reason: Option<String>,
    #[serde(default)]
    #[schemars(schema_with = "until_schema")]
    until: Option<String>,
}

/// The reason to stop notifications until a day.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Snooze {
    #[schemars(schema_with = "reason_schema")]
    reason: Option<String>,
    #[schemars(schema_with = "until_schema")]
    until: Option<String>,
}

/// Nothing is required to withdraw a decision.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reopening {
    #[serde(default, rename = "reason")]
    #[schemars(schema_with = "reason_schema")]
    _reason: Option<String>,
    #[serde(default, rename = "until")]
    #[schemars(schema_with = "until_schema")]
    _until: Option<String>,
}

fn reason_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string", "minLength": 1, "maxLength": MAX_REASON_CHARS, "pattern": "\\S",
    })
}

fn until_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "anyOf": [{"format": "date"}, {"format": "date-time"}],
        "description": "later than now; a day holds through its end in UTC",
    })
}

/// The answer to a decision.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Decided<'a> {
    /// The name and version of the format.
    schema: &'static str,
    /// The finding's id.
    finding: &'a str,
    /// The decision that is in force, or the withdrawn one.
    decision: Decision,
    /// Whether it is in force.
    holds: bool,
}

/// A page of all decisions.
#[derive(Serialize, JsonSchema)]
pub(crate) struct DecisionList<'a> {
    /// The name and version of the format.
    schema: &'static str,
    #[serde(flatten)]
    page: Paged<DecisionEntry<'a>>,
}

/// One decision.
#[derive(Serialize, JsonSchema)]
struct DecisionEntry<'a> {
    finding: &'a str,
    decision: &'a Decision,
    /// Whether it is in force; an ended decision is kept for a month.
    holds: bool,
}

/// Lists decisions by the finding's id.
pub(crate) async fn decisions(
    Query(query): Query<DecisionQuery>,
    State(store): Shared,
    moment: Moment,
) -> Result<Answer<DecisionList<'static>>, Problem> {
    let all = decisions::load(&*store.objects).await.map_err(problem)?;
    let entries = all
        .findings
        .iter()
        .map(|(finding, decision)| DecisionEntry {
            finding,
            decision,
            holds: decision.holds_at(moment.at),
        });
    let is_wanted = |entry: &DecisionEntry<'_>| {
        query.verb.is_none_or(|verb| verb == entry.decision.verb)
            && query.holds.is_none_or(|holds| holds == entry.holds)
            && passes(query.by.as_ref(), Some(&entry.decision.by))
    };
    let id = |entry: &DecisionEntry<'_>| entry.finding.to_owned();
    let page = Paged::cut(&query.page, entries.filter(is_wanted).collect(), id)?;
    let list = DecisionList {
        schema: "ebb.decision_list/1.0",
        page,
    };
    let mut hasher = DefaultHasher::new();
    written(&list)?.hash(&mut hasher);
    let version = format!("decisions-{:016x}", hasher.finish());
    // A person who decides wants to see the result at once.
    Answer::json(&list, &version).map(Answer::uncached)
}

type Changed = Result<Answer<Decided<'static>>, Problem>;

/// Stops notifications about a finding.
pub(crate) async fn dismiss(
    Name(FindingId(finding)): Name<FindingId>,
    Query(NoParameters {}): Query<NoParameters>,
    change: Change,
    Json(body): Json<Dismissal>,
) -> Changed {
    decide(&finding, change, (Verb::Dismiss, body.reason, body.until)).await
}

/// Stops notifications about a finding until a day.
pub(crate) async fn snooze(
    Name(FindingId(finding)): Name<FindingId>,
    Query(NoParameters {}): Query<NoParameters>,
    change: Change,
    Json(body): Json<Snooze>,
) -> Changed {
    decide(&finding, change, (Verb::Snooze, body.reason, body.until)).await
}

/// Withdraws a decision about a finding.
pub(crate) async fn reopen(
    Name(FindingId(finding)): Name<FindingId>,
    Query(NoParameters {}): Query<NoParameters>,
    change: Change,
    Json(Reopening { .. }): Json<Reopening>,
) -> Changed {
    let finding = current_id(&finding);
    check_is_known(&finding, &change.report)?;
    let objects = &*change.store.objects;
    let withdrawn = decisions::change(objects, |all| all.reopen(&finding, change.at)).await;
    answer(&finding, withdrawn.map_err(problem)?, false, &change).await
}

/// Stores a decision about a finding of the report and returns it.
async fn decide(
    finding: &str,
    change: Change,
    (verb, reason, until): (Verb, Option<String>, Option<String>),
) -> Changed {
    let finding = &*current_id(finding);
    check_is_known(finding, &change.report)?;
    let until = until.as_deref().map(decision::until).transpose();
    let decision = Decision {
        verb,
        reason: one_line(&reason.unwrap_or_default()),
        by: change.caller.0.clone(),
        at: change.at,
        until: until.map_err(|error| Problem::Query(error.to_string()))?,
    };
    let objects = &*change.store.objects;
    decisions::change(objects, |all| all.decide(finding, decision.clone()))
        .await
        .map_err(problem)?;
    answer(finding, decision, true, &change).await
}

/// Refuses a finding that is not in the report.
fn check_is_known(finding: &str, report: &Report) -> Result<(), Problem> {
    let set_aside = report.history.set_aside.iter().map(|aside| &aside.finding);
    let mut known = report.findings.iter().chain(set_aside);
    match known.any(|known| known.id == finding) {
        true => Ok(()),
        false => Err(Problem::Finding(finding.to_owned())),
    }
}

async fn answer<'a>(
    finding: &'a str,
    decision: Decision,
    holds: bool,
    change: &Change,
) -> Result<Answer<Decided<'a>>, Problem> {
    // The next request sees the decision.
    change.store.forget_decisions().await;
    Answer::changed(&Decided {
        schema: "ebb.decision/1.0",
        finding,
        decision,
        holds,
    })
}

pub(crate) fn problem(error: DecisionsError) -> Problem {
    match error {
        DecisionsError::Refused(decision::DecisionError::None(id)) => Problem::NoDecision(id),
        DecisionsError::Refused(
            refused @ (decision::DecisionError::Ended(_)
            | decision::DecisionError::Full
            | decision::DecisionError::Repeated
            | decision::DecisionError::TooMany),
        ) => Problem::Undecidable(format!("{refused}.")),
        DecisionsError::Refused(refused) => Problem::Query(format!("{refused}.")),
        DecisionsError::Contended => Problem::Contended,
        error => {
            tracing::warn!(
                error = ebb_cloud::error_chain::reason(&error),
                "failed to store the decision"
            );
            Problem::Unreachable
        }
    }
}
