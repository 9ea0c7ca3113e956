//! The recommendation API: each path returns a part of a report. The same router runs in the Lambda
//! function and on loopback. Only [`Service`] does I/O, to read the report.

use std::collections::BTreeMap;

use ebb_cloud::documents::report_files::LATEST_JSON;
use ebb_cloud::error_chain::reason;
use ebb_model::report::Report;
use ebb_report::report_file;
use ebb_report::report_file::ReportFileError;

use crate::http::{Answer, Request};
use crate::problem::Problem;

/// A Lambda function may return 6 MB, in which the body is escaped once more.
///
/// Source: "Lambda quotas", AWS Lambda developer guide.
pub(crate) const MAX_BODY_BYTES: usize = 4 << 20;

/// A sweep runs every few minutes, so an answer may be a minute old. It is private, because only
/// signed requests may see it.
const CACHE: &str = "private, max-age=60";

pub(crate) const JSON: &str = "application/json";

pub(crate) fn told(
    content_type: &str,
    body: String,
    etag: String,
    request: &Request,
) -> Result<Answer, Problem> {
    if is_known(request, &etag) {
        return Ok(unchanged(etag));
    }
    if body.len() > MAX_BODY_BYTES {
        return Err(Problem::TooLarge);
    }
    let mut answer = unchanged(etag);
    answer.status = 200;
    answer
        .headers
        .insert("content-type", content_type.to_owned());
    answer.body = body;
    Ok(answer)
}

fn is_known(request: &Request, etag: &str) -> bool {
    let known = request.header("if-none-match");
    known.is_some_and(|known| matches(known, etag))
}

pub(crate) fn read(bytes: &[u8]) -> Result<Report, Problem> {
    report_file::read(bytes).map_err(|error| {
        let said = reason(&error);
        let help = match error {
            ReportFileError::Schema(_) => ": deploy both programs of one release",
            ReportFileError::Form(_) => "",
        };
        Problem::Report(format!("{LATEST_JSON}: {said}{help}"))
    })
}

/// The answer changes with the report and with the program.
pub(crate) fn etag(of_report: &str) -> String {
    let bare = of_report.trim_matches('"');
    format!("\"{bare}-{}\"", env!("CARGO_PKG_VERSION"))
}

/// The weak comparison that `If-None-Match` requires.
fn matches(known: &str, etag: &str) -> bool {
    let mut listed = known.split(',').map(str::trim);
    listed.any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == etag)
}

fn unchanged(etag: String) -> Answer {
    Answer {
        status: 304,
        headers: BTreeMap::from([("etag", etag), ("cache-control", CACHE.to_owned())]),
        body: String::new(),
    }
}
