//! The address of a link: stores the cookie, and shows the first page.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, LOCATION, SET_COOKIE};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::extract::{Moment, Query, Shared};
use crate::page_access::{PageAccess, TokenUse};
use crate::page_link::OPEN;
use crate::problem::Problem;

/// The token of the link.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkToken {
    token: String,
}

/// Stores the cookie, and leaves the token out of the next address.
pub(crate) async fn open(
    Query(link): Query<LinkToken>,
    State(store): Shared,
    moment: Moment,
) -> Result<Response, Problem> {
    let PageAccess::WithLink(secret) = &store.pages else {
        return Err(Problem::Path(OPEN.to_owned()));
    };
    let caller = secret.caller(TokenUse::Link, &link.token, moment.at);
    let caller = caller.ok_or(Problem::PageLink)?;
    let headers = [
        (SET_COOKIE, secret.set_cookie(&caller, moment.at)),
        (LOCATION, "/".to_owned()),
        (CACHE_CONTROL, "no-store".to_owned()),
    ];
    Ok((StatusCode::SEE_OTHER, headers).into_response())
}
