//! Input of handlers from a request. Every refusal is a problem.

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, RawPathParams, State};
use axum::response::{IntoResponse, Response};
use ebb_model::report::Report;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{Request, StatusCode};
use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::caller::Caller;
use crate::openapi::{Input, Operation, Schemas};
use crate::problem::Problem;
use crate::store::{SetAside, Store};

/// Enough for a reason of 500 escaped characters.
const MAX_BODY_BYTES: usize = 16 << 10;

const DEFAULT_LIMIT: usize = 100;

/// The most entries of a page: a finding takes a few kilobytes, and the gateway allows six
/// megabytes.
pub(crate) const MAX_LIMIT: usize = 500;

/// State that all requests share.
pub(crate) type Shared = State<Arc<Store>>;

impl Input for Shared {}

/// When the request arrived, on a monotonic clock and on the wall clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) now: Instant,
    pub(crate) at: Timestamp,
}

impl<S: Sync> FromRequestParts<S> for Moment {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Response> {
        let moment = parts.extensions.get::<Self>().copied();
        // `Service::answer` adds it to every request.
        moment.ok_or_else(|| StatusCode::INTERNAL_SERVER_ERROR.into_response())
    }
}

impl Input for Moment {}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_default())
    }
}

impl Input for Caller {}

/// The newest report, as the newest sweep wrote it.
pub(crate) struct Newest {
    pub(crate) report: Arc<Report>,
    pub(crate) version: String,
}

impl FromRequestParts<Arc<Store>> for Newest {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, store: &Arc<Store>) -> Result<Self, Response> {
        let moment = Moment::from_request_parts(parts, store).await?;
        let held = store.newest(moment.now).await;
        let held = held.map_err(IntoResponse::into_response)?;
        Ok(Self {
            report: held.report,
            version: held.version,
        })
    }
}

impl Input for Newest {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        // A report that is too new, an answer that is too large, a bucket that does not answer, and
        // no report.
        operation.add_errors(&[400, 500, 502, 503]);
    }
}

/// The findings that decisions set aside; empty if they cannot be read.
pub(crate) struct SetAsideFindings(pub(crate) Arc<SetAside>);

impl FromRequestParts<Arc<Store>> for SetAsideFindings {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, store: &Arc<Store>) -> Result<Self, Response> {
        let moment = Moment::from_request_parts(parts, store).await?;
        Ok(Self(store.set_aside(moment).await))
    }
}

impl Input for SetAsideFindings {}

/// Input for storing a decision: the report, the caller and the time.
pub(crate) struct Change {
    pub(crate) store: Arc<Store>,
    pub(crate) report: Arc<Report>,
    pub(crate) caller: Caller,
    pub(crate) at: Timestamp,
}

impl FromRequestParts<Arc<Store>> for Change {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, store: &Arc<Store>) -> Result<Self, Response> {
        let moment = Moment::from_request_parts(parts, store).await?;
        let newest = Newest::from_request_parts(parts, store).await?;
        let Ok(caller) = Caller::from_request_parts(parts, store).await;
        Ok(Self {
            store: Arc::clone(store),
            report: newest.report,
            caller,
            at: moment.at,
        })
    }
}

impl Input for Change {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        Newest::describe(operation, schemas);
    }
}

/// The parameter in the path. A value that it does not accept is a path that does not exist.
pub(crate) struct Name<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Name<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let none = Problem::Path(parts.uri.path().to_owned());
        let Ok(names) = RawPathParams::from_request_parts(parts, state).await else {
            return Err(none);
        };
        // The router takes `//` for a name without letters.
        if names.iter().any(|(_, name)| name.is_empty()) {
            return Err(none);
        }
        let path = Path::from_request_parts(parts, state).await;
        path.map(|Path(name)| Self(name)).map_err(|_| none)
    }
}

impl<T: JsonSchema> Input for Name<T> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        operation.add_name(schemas.request::<T>());
        operation.add_errors(&[404]);
    }
}

/// The parameters in the query. `T` refuses unknown and repeated parameters, because a misspelt
/// filter must not be ignored.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned + JsonSchema, S: Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let query = axum::extract::Query::try_from_uri(&parts.uri);
        let query = query.map(|axum::extract::Query(query)| Self(query));
        query.map_err(|error| {
            let cause = error.source().map(ToString::to_string);
            let cause = cause.unwrap_or_else(|| error.body_text());
            Problem::Query(match cause.starts_with("unknown field") {
                true => format!("{cause}; the parameters are: {}.", parameters::<T>()),
                false => format!("{cause}."),
            })
        })
    }
}

/// The names of all parameters.
fn parameters<T: JsonSchema>() -> String {
    let schema = Schemas::default().request::<T>();
    let names = schema["properties"].as_object();
    let names: Vec<&str> = names
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .collect();
    names.join(", ")
}

impl<T: JsonSchema> Input for Query<T> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        operation.add_query(&schemas.request::<T>());
        operation.add_errors(&[400]);
    }
}

/// A body with the content type JSON. A browser asks the server before another site may send it.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request<axum::body::Body>, state: &S) -> Result<Self, Problem> {
        let kind = request.headers().get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/json") {
            return Err(Problem::MediaType);
        }
        let body = Bytes::from_request(request, state).await.ok();
        let body = body.filter(|body| body.len() <= MAX_BODY_BYTES);
        let body = body.ok_or_else(|| {
            Problem::Query(format!("the body has at most {MAX_BODY_BYTES} bytes."))
        })?;
        let read = serde_json::from_slice(&body);
        read.map(Self)
            .map_err(|error| Problem::Query(format!("the body: {error}.")))
    }
}

impl<T: JsonSchema> Input for Json<T> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        operation.set_body(&schemas.request::<T>());
        operation.add_errors(&[400, 415]);
    }
}

/// The requested part of a list.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct Page {
    /// Maximum number of entries
    #[serde(default)]
    pub(crate) limit: Limit,
    /// Value of `next` in the previous page
    pub(crate) after: Option<String>,
}

/// The most entries of a page.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Limit(pub(crate) usize);

impl Default for Limit {
    fn default() -> Self {
        Self(DEFAULT_LIMIT)
    }
}

impl TryFrom<String> for Limit {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let limit = text.parse().ok();
        let limit = limit.filter(|limit| (1..=MAX_LIMIT).contains(limit));
        limit
            .map(Self)
            .ok_or_else(|| format!("limit is between 1 and {MAX_LIMIT}"))
    }
}

impl JsonSchema for Limit {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Limit".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT,
        })
    }
}

/// The region and account, for a name that several regions or accounts have.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResourceScope {
    /// Region; required if the name is in several regions
    pub(crate) region: Option<String>,
    /// Account; required if the name is in several accounts
    pub(crate) account: Option<String>,
}

/// Whether a resource passes a filter by owner; `-` stands for resources without one.
pub(crate) fn is_owned_by(filter: Option<&String>, owner: Option<&str>) -> bool {
    match filter.map(String::as_str) {
        Some("-") => owner.is_none(),
        _ => passes(filter, owner),
    }
}

/// Whether a value passes a filter; no filter passes every value.
pub(crate) fn passes(filter: Option<&String>, value: Option<&str>) -> bool {
    filter.is_none_or(|wanted| value == Some(wanted.as_str()))
}
