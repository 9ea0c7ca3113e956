//! The whole newest report, for programs on the user's machine such as `ebb scan --api`.

use axum::extract::State;
use ebb_cloud::documents::report_files::LATEST_JSON;
use jiff::Timestamp;
use schemars::JsonSchema;

use crate::answer::{Answer, JSON, MAX_BODY_BYTES};
use crate::extract::{Query, Shared};
use crate::openapi::NoParameters;
use crate::problem::Problem;
use crate::store::problem;

/// A report with all its parts.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "the fields that every version of a report has")]
pub(crate) struct WholeReport {
    /// The name and version of the format.
    schema: String,
    /// The time of the evaluation.
    at: Timestamp,
}

/// Answers with the newest report, byte for byte as the sweep stored it.
pub(crate) async fn whole_report(
    Query(NoParameters {}): Query<NoParameters>,
    State(store): Shared,
) -> Result<Answer<WholeReport>, Problem> {
    let objects = &store.objects;
    let listed = objects.list(LATEST_JSON, None, 1).await.map_err(problem)?;
    let stored = listed.iter().find(|object| object.key == LATEST_JSON);
    let bytes = stored.ok_or(Problem::NoReport)?.bytes;
    if bytes > MAX_BODY_BYTES as u64 {
        return Err(Problem::ReportTooLarge(bytes));
    }
    let object = objects.get(LATEST_JSON, MAX_BODY_BYTES as u64).await;
    let object = object.map_err(problem)?;
    let text = String::from_utf8(object.bytes);
    let text = text.map_err(|_| Problem::Report(format!("{LATEST_JSON} is not UTF-8")))?;
    Answer::text(JSON, text, &object.etag.0)
}
