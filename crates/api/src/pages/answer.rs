//! The last step of every answer that is not of the API: headers that limit what a browser does
//! with a page, and problems as pages.

use axum::body::Body;
use axum::response::Response;
use http::HeaderValue;
use http::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use serde::Deserialize;

use crate::pages::view;
use crate::service::{Form, collect};

/// Nothing from other hosts, no inline script or style, no frame and no form to elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; \
     frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 6] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// The parts of a problem that a page shows.
#[derive(Deserialize)]
struct Shown {
    detail: String,
    title: String,
}

/// Adds the headers. A problem of a page becomes a page with the same status.
pub(crate) async fn finish(response: Response, form: Form) -> Response {
    let kind = response.headers().get(CONTENT_TYPE);
    let is_problem = kind.is_some_and(|kind| kind == "application/problem+json");
    let mut response = match is_problem && form == Form::Page {
        true => problem_page(response).await,
        false => response,
    };
    for (name, value) in HEADERS {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}

async fn problem_page(response: Response) -> Response {
    let (mut parts, body) = collect(response).await.into_parts();
    let shown = serde_json::from_slice(&body).unwrap_or_else(|_| Shown {
        detail: String::new(),
        title: "The request failed".to_owned(),
    });
    let of_api = "/v1/openapi.json lists all paths.";
    let detail = shown
        .detail
        .replace(of_api, "The overview links to all pages.");
    let page = view::problem(&shown.title, &detail);
    let (of_page, body) = page.into_parts();
    if let Some(kind) = of_page.headers.get(CONTENT_TYPE) {
        parts.headers.insert(CONTENT_TYPE, kind.clone());
    }
    Response::from_parts(parts, Body::new(body))
}
