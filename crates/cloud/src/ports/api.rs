//! The HTTP API of a deployment.

use async_trait::async_trait;

use super::CloudResult;

/// A request to the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiRequest {
    /// The path with its query, percent-encoded, such as `/v1/report`.
    pub path: String,
    /// The JSON body of a POST; `None` for a GET.
    pub body: Option<String>,
}

impl ApiRequest {
    /// The HTTP method.
    pub const fn method(&self) -> &'static str {
        match self.body {
            Some(_) => "POST",
            None => "GET",
        }
    }
}

/// An answer of the API, whatever its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// The API of a deployment.
#[async_trait]
pub trait Api: Send + Sync {
    /// Sends one request. An answer with an error status is an answer; an answer of more than
    /// `max_bytes` is an error.
    async fn send(&self, request: &ApiRequest, max_bytes: usize) -> CloudResult<ApiAnswer>;
}
