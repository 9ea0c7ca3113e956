//! Which path answers with what part of the newest report. Reading the report is
//! the only I/O; the rest is pure.

mod body;
mod route;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use ebb_cloud::ports::{CloudError, Etag, Objects};
use ebb_domain::report::Report;
use ebb_sweep::publish::LATEST_JSON;

use crate::http::{Answer, Request};
use crate::problem::Problem;
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
pub(crate) async fn handle(objects: &dyn Objects, request: &Request) -> Answer {
    let answer = async {
        let route = Route::of(request)?;
        let object = objects.get(LATEST_JSON, MAX_REPORT_BYTES).await;
        let object = object.map_err(|error| {
            tracing::warn!(%error, "the report was not read");
            match error {
                CloudError::Missing { .. } => Problem::NoReport,
                _ => Problem::Unreachable,
            }
        })?;
        let etag = etag(&object.etag);
        if request
            .header("if-none-match")
            .is_some_and(|known| matches(known, &etag))
        {
            return Ok(unchanged(etag));
        }
        let report = read(&object.bytes)?;
        let body = body::of(&route, &report)?;
        if body.len() > MAX_BODY_BYTES {
            return Err(Problem::TooLarge);
        }
        Ok(found(etag, body))
    };
    answer
        .await
        .unwrap_or_else(|problem: Problem| problem.answer())
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
fn etag(of_report: &Etag) -> String {
    let bare = of_report.0.trim_matches('"');
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
