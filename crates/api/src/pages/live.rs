//! The version of the report and of the decisions. The script of a page asks for it at intervals,
//! and loads the page again when it changes.

use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde_json::json;

use crate::answer::JSON;
use crate::pages::view::View;

/// The version.
pub(crate) async fn live(view: View) -> Response {
    let headers = [(CONTENT_TYPE, JSON), (CACHE_CONTROL, "no-store")];
    let body = json!({"at": view.report.at, "version": view.version});
    (headers, body.to_string()).into_response()
}
