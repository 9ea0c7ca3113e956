//! Answers: JSON with the state of the report, pages of lists, and text.

use std::borrow::Cow;
use std::marker::PhantomData;

use axum::response::{IntoResponse, Response};
use ebb_model::report::{Report, Totals};
use ebb_telemetry::origin::Origin;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::extract::{MAX_LIMIT, Page, is_owned_by};
use crate::openapi::{Operation, Output, Schemas};
use crate::problem::Problem;

/// A Lambda function may return 6 MB, in which the body is escaped once more.
///
/// Source: "Lambda quotas", AWS Lambda developer guide.
pub(crate) const MAX_BODY_BYTES: usize = 4 << 20;

/// A sweep runs every few minutes, so an answer may be a minute old. It is private, because only
/// signed requests may see it.
const CACHE: &str = "private, max-age=60";

pub(crate) const JSON: &str = "application/json";

/// A successful answer, whose JSON is a `T`. A `T` that borrows stands for one of any lifetime.
pub(crate) struct Answer<T> {
    body: String,
    content_type: &'static str,
    /// `None` for the answer to a change.
    etag: Option<String>,
    cache: &'static str,
    content: PhantomData<fn(T)>,
}

impl<T> Answer<T> {
    /// Text of this media type; `version` changes with the content.
    pub(crate) fn text(
        content_type: &'static str,
        body: String,
        version: &str,
    ) -> Result<Self, Problem> {
        if body.len() > MAX_BODY_BYTES {
            return Err(Problem::TooLarge);
        }
        // The answer changes with its source and with the program.
        let bare = version.trim_matches('"');
        Ok(Self {
            body,
            content_type,
            etag: Some(format!("\"{bare}-{}\"", env!("CARGO_PKG_VERSION"))),
            cache: CACHE,
            content: PhantomData,
        })
    }

    /// The same answer, which a client checks each time.
    pub(crate) fn uncached(self) -> Self {
        let cache = "no-cache";
        Self { cache, ..self }
    }
}

impl<T: Serialize> Answer<T> {
    /// The value as JSON; `version` changes with the value.
    pub(crate) fn json(value: &T, version: &str) -> Result<Self, Problem> {
        Self::text(JSON, written(value)?, version)
    }

    /// The value as JSON, in answer to a change; it must not be cached.
    pub(crate) fn changed(value: &T) -> Result<Self, Problem> {
        Ok(Self {
            body: written(value)?,
            content_type: JSON,
            etag: None,
            cache: "no-store",
            content: PhantomData,
        })
    }
}

pub(crate) fn written(value: &impl Serialize) -> Result<String, Problem> {
    serde_json::to_string(value).map_err(|error| Problem::Report(error.to_string()))
}

impl<T> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        let headers = [
            (CONTENT_TYPE, self.content_type),
            (CACHE_CONTROL, self.cache),
        ];
        let etag = self.etag.map(|etag| [(ETAG, etag)]);
        (headers, etag, self.body).into_response()
    }
}

impl<T: JsonSchema> Output for Answer<T> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        operation.set_content(json!({JSON: {"schema": schemas.answer::<T>()}}));
    }
}

/// The part of the report that every answer contains.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Head<'a> {
    /// The name and version of the format.
    schema: &'static str,
    /// The time of the evaluation.
    at: Timestamp,
    /// Simulated if any input is simulated; about one resource, it is that resource's origin.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Origin")]
    origin: Option<Origin>,
    /// The totals of the findings that match the filters.
    totals: Cow<'a, Totals>,
    /// The number of resources that a rule did not evaluate; the report lists them with the reason.
    not_evaluated: usize,
    /// The number of gaps; the report lists them with the reason.
    gaps: usize,
    /// The number of steps, nodes, pipelines, environments and runs that did not fit into the
    /// report.
    left_out: usize,
    /// The share of tasks that are assigned to a run, in parts per million; `None` without tasks.
    joined_ppm: Option<u32>,
}

impl<'a> Head<'a> {
    pub(crate) fn new(schema: &'static str, report: &'a Report) -> Self {
        Self {
            schema,
            at: report.at,
            origin: Some(report.origin),
            totals: Cow::Borrowed(&report.totals),
            not_evaluated: report.not_evaluated.len(),
            gaps: report.gaps.len(),
            left_out: report.steps_left_out
                + report.nodes_left_out
                + report.targets.left_out
                + report.runs.left_out,
            joined_ppm: report.runs.joined_ppm(),
        }
    }

    /// The same for a part that contains its own origin; a JSON object has each key once.
    pub(crate) fn without_origin(self) -> Self {
        Self {
            origin: None,
            ..self
        }
    }

    /// The same with other totals.
    pub(crate) fn with_totals(self, totals: Cow<'a, Totals>) -> Self {
        Self { totals, ..self }
    }
}

/// A part of a report with its head.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct OfReport<'a, T> {
    #[serde(flatten)]
    pub(crate) head: Head<'a>,
    #[serde(flatten)]
    pub(crate) part: T,
}

/// A page of a list of a report.
pub(crate) type PageOfReport<'a, T> = OfReport<'a, Paged<T>>;

/// A page of a list.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct Paged<T> {
    /// Entries on all pages.
    total: usize,
    #[schemars(length(max = MAX_LIMIT))]
    items: Vec<T>,
    /// The value of `?after=` for the next page; `None` on the last page.
    next: Option<String>,
}

impl<T> Paged<T> {
    /// One page of a list.
    pub(crate) fn cut(
        page: &Page,
        all: Vec<T>,
        id: impl Fn(&T) -> String,
    ) -> Result<Self, Problem> {
        let start = match &page.after {
            None => 0,
            Some(after) => {
                let before = all.iter().position(|entry| id(entry) == *after);
                before.ok_or_else(|| Problem::Cursor(after.clone()))? + 1
            }
        };
        let total = all.len();
        let items: Vec<T> = all.into_iter().skip(start).take(page.limit.0).collect();
        let is_last = start + items.len() >= total;
        let next = items.last().filter(|_| !is_last).map(id);
        Ok(Self { total, items, next })
    }

    /// Its entries.
    pub(crate) fn items(&self) -> &[T] {
        &self.items
    }

    /// The same page with its first `count` entries; the others begin the next page.
    pub(crate) fn shortened(mut self, count: usize, id: impl Fn(&T) -> String) -> Self {
        if count < self.items.len() {
            self.items.truncate(count);
            self.next = self.items.last().map(id);
        }
        self
    }

    /// The same page with other entries in place of its own.
    pub(crate) fn with_items<U>(self, items: Vec<U>) -> Paged<U> {
        Paged {
            total: self.total,
            items,
            next: self.next,
        }
    }

    /// The same page with each entry converted.
    pub(crate) fn map<U>(self, convert: impl Fn(T) -> U) -> Paged<U> {
        Paged {
            total: self.total,
            items: self.items.into_iter().map(convert).collect(),
            next: self.next,
        }
    }
}

/// The totals of an owner's findings, if a list is filtered by owner.
pub(crate) fn owner_totals<'a>(report: &'a Report, owner: Option<&String>) -> Cow<'a, Totals> {
    if owner.is_none() {
        return Cow::Borrowed(&report.totals);
    }
    let findings = report.findings.iter();
    let theirs = findings.filter(|one| is_owned_by(owner, one.resource.owner.as_deref()));
    Cow::Owned(report.totals.of_part(theirs))
}
