//! Errors as problem details (RFC 9457).

use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;

use crate::answer::MAX_BODY_BYTES;

/// A client of a server on loopback that runs neither as the user of the server nor as root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtherUser {
    /// The id of the user of the server.
    pub server: u32,
    /// The id of the user of the client; `None` when unknown.
    pub client: Option<u32>,
}

/// Why a request fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Problem {
    /// Only these methods are offered.
    Method(String),
    /// The path does not exist.
    Path(String),
    /// A query parameter is wrong.
    Query(String),
    /// The entry before the page is no longer in the report.
    Cursor(String),
    /// The report has no step of this name.
    Step(String),
    /// The report has no finding with this id.
    Finding(String),
    /// No decision about the finding is in force.
    NoDecision(String),
    /// Others changed the decisions at the same time on every attempt.
    Contended,
    /// The request is valid, but the state of the finding does not allow it.
    Undecidable(String),
    /// The request is not signed by Slack, or not recently.
    Signature,
    /// The browser has no valid cookie, or its link is not valid.
    PageLink,
    /// `ebb serve` answers only its own user and root.
    OtherUser(OtherUser),
    /// The content type of the body is not JSON.
    MediaType,
    /// Several entries have this name.
    Ambiguous { what: String, ids: Vec<String> },
    /// The step has too few runs for a recommendation.
    Samples { step: String, needed: u32 },
    /// The report has no pipeline, environment or node of this name.
    Target { what: &'static str, detail: String },
    /// No sweep has finished yet.
    NoReport,
    /// The bucket did not answer; the log contains the reason.
    Unreachable,
    /// This program does not support the format of the report.
    Report(String),
    /// The answer is larger than the limit of the gateway.
    TooLarge,
    /// The whole report is larger than the limit of the gateway.
    ReportTooLarge(u64),
}

/// The parts of a problem that are the same for all requests.
struct ProblemKind {
    status: u16,
    slug: &'static str,
    title: &'static str,
}

impl ProblemKind {
    const fn new(status: u16, slug: &'static str, title: &'static str) -> Self {
        Self {
            status,
            slug,
            title,
        }
    }
}

impl Problem {
    fn kind(&self) -> ProblemKind {
        let new = ProblemKind::new;
        match self {
            Self::Method(_) => new(405, "method", "Method not allowed"),
            Self::Path(_) => new(404, "path", "No such path"),
            Self::Query(_) => new(400, "query", "Invalid query"),
            Self::Cursor(_) => new(404, "cursor", "No such entry"),
            Self::Step(_) => new(404, "step", "No such step"),
            Self::Finding(_) => new(404, "finding", "No such finding"),
            Self::NoDecision(_) => new(404, "decision", "No decision in force"),
            Self::Contended => new(409, "contended", "Concurrent decisions"),
            Self::Undecidable(_) => new(409, "undecidable", "Decision not possible"),
            Self::Signature => new(401, "signature", "Invalid signature"),
            Self::PageLink => new(403, "page-link", "No access"),
            Self::OtherUser(_) => new(403, "other-user", "No access"),
            Self::MediaType => new(415, "media-type", "Content type is not JSON"),
            Self::Ambiguous { .. } => new(409, "ambiguous", "Ambiguous name"),
            Self::Samples { .. } => new(409, "samples", "Too few tasks"),
            Self::Target { what, .. } => new(404, what, "Name not found"),
            Self::NoReport => new(503, "no-report", "No report yet"),
            Self::Unreachable => new(502, "bucket", "Report not readable"),
            Self::Report(_) => new(500, "report", "Report format not supported"),
            Self::TooLarge => new(400, "size", "Answer too large"),
            Self::ReportTooLarge(_) => new(413, "report-size", "Report too large"),
        }
    }

    fn detail(&self) -> String {
        match self {
            Self::Query(detail)
            | Self::Undecidable(detail)
            | Self::Target { detail, .. }
            | Self::Report(detail) => detail.clone(),
            Self::Method(allowed) => format!("The path accepts only {allowed}."),
            Self::Path(path) => {
                format!("{path} does not exist. /v1/openapi.json lists all paths.")
            }
            Self::Cursor(id) => format!(
                "The report has no entry '{id}' (parameter 'after'). Start at the first page."
            ),
            Self::Step(step) => {
                format!("The newest report has no step '{step}'. /v1/steps lists all steps.")
            }
            Self::Finding(id) => {
                format!("The newest report has no finding '{id}'. /v1/findings lists all findings.")
            }
            Self::NoDecision(id) => format!("No decision about '{id}' is in force."),
            Self::Contended => {
                "Others changed the decisions at the same time on every attempt. Try again.".into()
            }
            Self::Signature => {
                "The signature is missing or wrong, or the request is not from the last five \
                 minutes."
                    .into()
            }
            Self::PageLink => {
                "The pages need a link. Print one with `ebb pages --api URL`, and open it within 15 \
                 minutes. It gives this browser access for 12 hours."
                    .into()
            }
            Self::OtherUser(OtherUser { server, client }) => {
                let client = client.map_or_else(|| "unknown".to_owned(), |id| format!("uid {id}"));
                format!(
                    "This `ebb serve` answers only its own user (uid {server}) and root. The user \
                     of this client is {client}. Run `ebb serve` and the client as the same user, on \
                     the same machine or in the same container."
                )
            }
            Self::MediaType => "Send the header content-type: application/json.".into(),
            Self::Ambiguous { what, ids } => format!(
                "'{what}' can be {}. Use the job definition, or add ?region= or ?account=.",
                ids.join(", ")
            ),
            Self::Samples { step, needed } => format!(
                "No task of '{step}' shows yet what the step needs, because each was too short, \
                 failed or hung. {needed} more successful tasks are required."
            ),
            Self::NoReport => "No sweep has finished yet. Try again after the next sweep.".into(),
            Self::Unreachable => {
                "The bucket did not answer. The log of the function contains the reason.".into()
            }
            Self::TooLarge => "Request fewer entries with ?limit=.".into(),
            Self::ReportTooLarge(bytes) => format!(
                "The report has {bytes} bytes, and the API can answer {MAX_BODY_BYTES}. Read the \
                 bucket: ebb --bucket NAME, or its object reports/latest/report.json."
            ),
        }
    }
}

/// The body of a problem.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(crate) struct Details {
    detail: String,
    status: u16,
    title: &'static str,
    /// `urn:ebb:problem:` and the kind.
    r#type: String,
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let ProblemKind {
            status,
            slug,
            title,
        } = self.kind();
        let details = Details {
            detail: self.detail(),
            status,
            title,
            r#type: format!("urn:ebb:problem:{slug}"),
        };
        // It holds only text and a number.
        let body = serde_json::to_string(&details).unwrap_or_default();
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let kind = [
            (CONTENT_TYPE, "application/problem+json"),
            (CACHE_CONTROL, "no-store"),
        ];
        let mut response = (status, kind, body).into_response();
        let headers = response.headers_mut();
        if let Self::Method(allowed) = &self
            && let Ok(allowed) = HeaderValue::from_str(allowed)
        {
            headers.insert(ALLOW, allowed);
        }
        if matches!(self, Self::NoReport) {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("60"));
        }
        response
    }
}
