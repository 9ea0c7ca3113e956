//! Links with which a browser opens the pages of a deployment.

use axum::extract::State;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::answer::Answer;
use crate::caller::Caller;
use crate::extract::{Moment, Query, Shared};
use crate::openapi::NoParameters;
use crate::page_access::{LINK_TIME, PageAccess, TokenUse};
use crate::problem::Problem;

/// The path of the address that a browser opens.
pub(crate) const OPEN: &str = "/open";

/// A link to the pages, for the caller only.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PageLink {
    /// The name and version of the format.
    schema: &'static str,
    /// The path and query; the address of the API comes before it.
    path: String,
    /// The link must be opened before this time.
    until: Timestamp,
}

/// Makes a link for the caller. Without a secret for it, the path does not exist.
pub(crate) async fn page_link(
    Query(NoParameters {}): Query<NoParameters>,
    State(store): Shared,
    moment: Moment,
    caller: Caller,
) -> Result<Answer<PageLink>, Problem> {
    let PageAccess::WithLink(secret) = &store.pages else {
        return Err(Problem::Path("/v1/pages/link".to_owned()));
    };
    let until = moment.at.saturating_add(LINK_TIME).unwrap_or(moment.at);
    let token = secret.token(TokenUse::Link, &caller, until);
    Answer::changed(&PageLink {
        schema: "ebb.page_link/1",
        path: format!("{OPEN}?token={token}"),
        until,
    })
}
