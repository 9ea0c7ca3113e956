//! Events of an HTTP API of API Gateway, in payload format 2.0.
//!
//! Source: "Create AWS Lambda proxy integrations for HTTP APIs", Amazon API Gateway developer guide.

use std::time::Instant;

pub use aws_lambda_events::apigw::{
    ApiGatewayV2httpRequest as Event, ApiGatewayV2httpResponse as Reply,
};
use aws_lambda_events::encodings;
use axum::body::Bytes;
use axum::response::IntoResponse;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::header::{COOKIE, SET_COOKIE};
use http::{HeaderValue, Request};
use jiff::Timestamp;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::caller::Caller;
use crate::problem::Problem;
use crate::service::{Service, collect};

/// Bytes that a path or query must not contain. `%` stays, because it may begin an escape.
const INVALID: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// In a path, the gateway decodes `%3F` as well.
const INVALID_IN_PATH: &AsciiSet = &INVALID.add(b'?');

/// Answers one event; `now` is on a monotonic clock and `at` on the wall clock.
pub async fn answer(service: &Service, event: Event, now: Instant, at: Timestamp) -> Reply {
    let response = match request(event) {
        Ok(request) => service.answer(request, now, at).await,
        Err(problem) => collect(problem.into_response()).await,
    };
    let (mut parts, body) = response.into_parts();
    let mut reply = Reply::default();
    reply.status_code = i64::from(parts.status.as_u16());
    let cookies = parts.headers.get_all(SET_COOKIE).into_iter();
    let cookies = cookies.filter_map(|cookie| cookie.to_str().ok().map(str::to_owned));
    reply.cookies = cookies.collect();
    parts.headers.remove(SET_COOKIE);
    reply.headers = parts.headers;
    reply.body = Some(encodings::Body::Text(
        String::from_utf8_lossy(&body).into_owned(),
    ));
    reply
}

fn request(event: Event) -> Result<Request<Bytes>, Problem> {
    let path = event.raw_path.unwrap_or_default();
    let mut target = utf8_percent_encode(&path, INVALID_IN_PATH).to_string();
    if let Some(query) = event.raw_query_string.filter(|query| !query.is_empty()) {
        target.push('?');
        target.extend(utf8_percent_encode(&query, INVALID));
    }
    let text = event.body.unwrap_or_default();
    let body = match event.is_base64_encoded {
        true => BASE64_STANDARD.decode(&text).ok(),
        false => Some(text.into_bytes()),
    };
    let body = body.ok_or_else(|| Problem::Query("the body is not Base64.".to_owned()))?;
    let request = Request::builder()
        .method(event.request_context.http.method)
        .uri(target)
        .body(Bytes::from(body));
    let mut request = request.map_err(|_| Problem::Path(path))?;
    *request.headers_mut() = event.headers;
    // The gateway takes cookies out of the headers.
    let cookies = event.cookies.unwrap_or_default().join("; ");
    if let Ok(cookies) = HeaderValue::from_str(&cookies)
        && !cookies.is_empty()
    {
        request.headers_mut().insert(COOKIE, cookies);
    }
    // The gateway verified the caller.
    let authorizer = event.request_context.authorizer.unwrap_or_default();
    let iam = authorizer.iam.and_then(|iam| iam.user_arn);
    let mut claims = authorizer.jwt.map(|jwt| jwt.claims).unwrap_or_default();
    let claim = claims.remove("email").or_else(|| claims.remove("sub"));
    if let Some(caller) = iam.or(claim) {
        request.extensions_mut().insert(Caller(caller));
    }
    Ok(request)
}
