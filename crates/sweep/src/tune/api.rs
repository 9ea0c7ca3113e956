//! The recommendation API: which path answers with what part of a report. The same
//! router serves in the Lambda and on loopback. Reading the report is the only I/O;
//! the rest is pure.

mod body;
mod http;
mod openapi;
mod problem;
mod route;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use ebb_cloud::ports::{CloudError, Objects};
use ebb_domain::report::Report;

use crate::publish::LATEST_JSON;
pub use http::{Answer, Request};
use problem::Problem;
use route::Route;

/// 10,000 findings take about 30 MB.
const MAX_REPORT_BYTES: u64 = 64 << 20;

/// A function may answer with 6 MB, in which the body is escaped once more.
///
/// Source: "Lambda quotas", AWS Lambda developer guide.
const MAX_BODY_BYTES: usize = 4 << 20;

/// A sweep runs every few minutes, so a minute-old answer is as good as a new one.
/// Private, because only who signs may see it.
const CACHE: &str = "private, max-age=60";

/// Answers one request from what lies in the bucket.
pub async fn handle(objects: &dyn Objects, request: &Request) -> Answer {
    let answer = async {
        let route = Route::of(request)?;
        if route == Route::OpenApi {
            return Ok(document());
        }
        let object = objects.get(LATEST_JSON, MAX_REPORT_BYTES).await;
        let object = object.map_err(|error| {
            tracing::warn!(%error, "the report was not read");
            match error {
                CloudError::Missing { .. } => Problem::NoReport,
                _ => Problem::Unreachable,
            }
        })?;
        let etag = etag(&object.etag.0);
        if is_known(request, &etag) {
            return Ok(unchanged(etag));
        }
        told(&route, &read(&object.bytes)?, etag)
    };
    answer
        .await
        .unwrap_or_else(|problem: Problem| problem.answer())
}

/// Answers one request from a report at hand; `version` tells it from others.
pub fn answer(report: &Report, version: &str, request: &Request) -> Answer {
    let answer = || {
        let route = Route::of(request)?;
        if route == Route::OpenApi {
            return Ok(document());
        }
        let etag = etag(version);
        match is_known(request, &etag) {
            true => Ok(unchanged(etag)),
            false => told(&route, report, etag),
        }
    };
    answer().unwrap_or_else(|problem: Problem| problem.answer())
}

fn told(route: &Route, report: &Report, etag: String) -> Result<Answer, Problem> {
    let body = body::of(route, report)?;
    match body.len() > MAX_BODY_BYTES {
        true => Err(Problem::TooLarge),
        false => Ok(found(etag, body)),
    }
}

/// The document that describes the API, which changes with the program only.
fn document() -> Answer {
    found(etag("openapi"), openapi::document().to_string())
}

fn is_known(request: &Request, etag: &str) -> bool {
    let known = request.header("if-none-match");
    known.is_some_and(|known| matches(known, etag))
}

fn read(bytes: &[u8]) -> Result<Report, Problem> {
    let report: Report = serde_json::from_slice(bytes)
        .map_err(|error| Problem::Report(format!("{LATEST_JSON}: {error}")))?;
    if report.schema == Report::SCHEMA {
        return Ok(report);
    }
    Err(Problem::Report(format!(
        "{LATEST_JSON} is of schema {}, this program reads {}: deploy both programs of one release",
        report.schema,
        Report::SCHEMA
    )))
}

/// What is answered changes with the report and with the program.
fn etag(of_report: &str) -> String {
    let bare = of_report.trim_matches('"');
    format!("\"{bare}-{}\"", env!("CARGO_PKG_VERSION"))
}

/// The weak comparison, which `If-None-Match` asks for.
fn matches(known: &str, etag: &str) -> bool {
    let mut listed = known.split(',').map(str::trim);
    listed.any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == etag)
}

fn found(etag: String, body: String) -> Answer {
    let mut answer = unchanged(etag);
    answer.status = 200;
    answer
        .headers
        .insert("content-type", "application/json".to_owned());
    answer.body = body;
    answer
}

fn unchanged(etag: String) -> Answer {
    Answer {
        status: 304,
        headers: BTreeMap::from([("etag", etag), ("cache-control", CACHE.to_owned())]),
        body: String::new(),
    }
}
