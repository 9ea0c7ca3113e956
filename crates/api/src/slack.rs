//! Actions of buttons in Slack. Slack signs each request, which is the only authorization of this
//! path: the gateway passes it without a token. The answer is the whole reply; nothing is sent to
//! the `response_url`.
//!
//! Source: Slack, "Verifying requests from Slack" (signature, at most five minutes old) and
//! "Interactivity payloads", `block_actions`.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts};
use axum::response::{IntoResponse, Response};
use ebb_cloud::documents::decisions;
use ebb_model::decision::{Assignee, Decision, Decisions, Verb};
use ebb_model::report::Report;
use ebb_model::slack_action::{SNOOZE_DAYS, SlackAction, block_id, is_user_id};
use ebb_telemetry::safe_text::{clip, one_line};
use http::Request;
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::answer::Answer;
use crate::extract::{Moment, Query};
use crate::openapi::{Input, NoParameters, Operation, Schemas};
use crate::problem::Problem;
use crate::store::Store;

/// An action contains the message of its button, URL-encoded.
const MAX_BODY_BYTES: usize = 256 << 10;

/// Maximum length of the name of a user in characters.
const NAME_CHARS: usize = 60;

/// A request that Slack signed.
pub(crate) struct SlackRequest {
    store: Arc<Store>,
    moment: Moment,
    signature: String,
    payload: Payload,
}

/// The part of a payload that is used. Slack adds many other fields.
#[derive(Deserialize)]
struct Payload {
    r#type: String,
    user: PayloadUser,
    #[serde(default)]
    actions: Vec<PayloadAction>,
}

#[derive(Deserialize)]
struct PayloadUser {
    id: String,
    #[serde(default)]
    username: Option<String>,
}

#[derive(Deserialize)]
struct PayloadAction {
    action_id: String,
    block_id: String,
    #[serde(default)]
    selected_user: Option<String>,
}

impl FromRequest<Arc<Store>> for SlackRequest {
    type Rejection = Response;

    async fn from_request(request: Request<Body>, store: &Arc<Store>) -> Result<Self, Response> {
        let refused = |problem: Problem| problem.into_response();
        let (mut parts, body) = request.into_parts();
        let moment = Moment::from_request_parts(&mut parts, store).await?;
        // Without a secret the path does not exist.
        let none = || refused(Problem::Path(parts.uri.path().to_owned()));
        let secret = store.slack.as_ref().ok_or_else(none)?;
        let body = axum::body::to_bytes(body, MAX_BODY_BYTES).await;
        let body: Bytes = body.map_err(|_| {
            let detail = format!("the body has at most {MAX_BODY_BYTES} bytes.");
            refused(Problem::Query(detail))
        })?;
        let signature = secret.verified(&parts.headers, &body, moment.at);
        let signature = signature.ok_or_else(|| refused(Problem::Signature))?;
        let mut fields = url::form_urlencoded::parse(&body);
        let payload = fields.find(|(name, _)| name == "payload");
        let payload = payload.map(|(_, text)| serde_json::from_str(&text));
        let invalid = || refused(Problem::Query("the payload is not an action.".to_owned()));
        Ok(Self {
            store: Arc::clone(store),
            moment,
            signature: signature.to_owned(),
            payload: payload.ok_or_else(invalid)?.map_err(|_| invalid())?,
        })
    }
}

impl Input for SlackRequest {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        let payload = json!({"type": "string", "description": "JSON of the action"});
        let schema = json!({
            "type": "object",
            "properties": {"payload": payload},
            "required": ["payload"],
        });
        operation.set_body_of("application/x-www-form-urlencoded", &schema);
        for name in ["X-Slack-Request-Timestamp", "X-Slack-Signature"] {
            operation.add_header(name);
        }
        operation.add_errors(&[400, 401, 404, 409, 500, 502, 503]);
    }
}

/// A reply that only the user sees.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SlackReply {
    /// `ephemeral`.
    response_type: &'static str,
    /// False: the message stays.
    replace_original: bool,
    /// The result.
    text: String,
}

impl SlackReply {
    fn answer(text: impl Into<String>) -> Result<Answer<Self>, Problem> {
        Answer::changed(&Self {
            response_type: "ephemeral",
            replace_original: false,
            text: text.into(),
        })
    }
}

/// Carries out the action of a button.
pub(crate) async fn actions(
    Query(NoParameters {}): Query<NoParameters>,
    request: SlackRequest,
) -> Result<Answer<SlackReply>, Problem> {
    let payload = &request.payload;
    let user = &payload.user;
    if payload.r#type != "block_actions" || !is_user_id(&user.id) {
        return Err(Problem::Query("the payload is not an action.".to_owned()));
    }
    let mut own = payload.actions.iter();
    let own = own.find_map(|one| Some((SlackAction::of_id(&one.action_id)?, one)));
    let Some((action, element)) = own else {
        return SlackReply::answer("Ebb has no such button.");
    };
    let held = request.store.newest(request.moment.now).await?;
    let Some(finding) = finding_of(&held.report, &element.block_id) else {
        return SlackReply::answer("This finding is no longer in the report.");
    };
    let (change, text) = change_of(&request, action, element)?;
    let at = request.moment.at;
    let apply = |all: &mut Decisions| {
        all.handle(&request.signature, at)?;
        match change.clone() {
            SlackChange::Decide(decision) => all.decide(finding, decision),
            SlackChange::Assign(assignee) => all.assign(finding, assignee),
        }
    };
    let changed = decisions::change(&*request.store.objects, apply).await;
    changed.map_err(crate::decisions::problem)?;
    request.store.forget_decisions().await;
    SlackReply::answer(text)
}

/// The change that an action makes.
#[derive(Clone)]
enum SlackChange {
    Decide(Decision),
    Assign(Assignee),
}

fn change_of(
    request: &SlackRequest,
    action: SlackAction,
    element: &PayloadAction,
) -> Result<(SlackChange, String), Problem> {
    let (user, at) = (&request.payload.user, request.moment.at);
    let name = one_line(&clip(user.username.as_deref().unwrap_or("?"), NAME_CHARS));
    let by = format!("slack:{} ({name})", user.id);
    let decide = |verb, reason: &str, until| {
        SlackChange::Decide(Decision {
            verb,
            reason: reason.to_owned(),
            by: by.clone(),
            at,
            until,
        })
    };
    Ok(match action {
        SlackAction::Dismiss => (
            decide(Verb::Dismiss, "dismissed in Slack", None),
            "Dismissed. `ebb findings reopen` withdraws it.".to_owned(),
        ),
        SlackAction::Snooze => {
            let week = SignedDuration::from_hours(24 * SNOOZE_DAYS);
            let until = at.saturating_add(week).unwrap_or(Timestamp::MAX);
            (
                decide(Verb::Snooze, "snoozed in Slack", Some(until)),
                format!("Snoozed for {SNOOZE_DAYS} days."),
            )
        }
        SlackAction::Assign => {
            let selected = element.selected_user.as_deref();
            let selected = selected.filter(|user| is_user_id(user));
            let selected = selected
                .ok_or_else(|| Problem::Query("the payload has no selected user.".to_owned()))?;
            let who = format!("slack:{selected}");
            (
                SlackChange::Assign(Assignee { who, by, at }),
                format!("Assigned to <@{selected}>. Later messages show it."),
            )
        }
    })
}

/// The finding of a block, also if a decision sets it aside.
fn finding_of<'a>(report: &'a Report, block: &str) -> Option<&'a str> {
    let set_aside = report.history.set_aside.iter().map(|aside| &aside.finding);
    let mut known = report.findings.iter().chain(set_aside);
    let found = known.find(|finding| block_id(&finding.id) == block);
    found.map(|finding| finding.id.as_str())
}
