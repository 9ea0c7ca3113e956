//! The sender of a request.

/// The caller, as the gateway or a cookie names it.
#[derive(Debug, Clone)]
pub(crate) struct Caller(pub(crate) String);

impl Default for Caller {
    fn default() -> Self {
        Self("somebody over the API".to_owned())
    }
}
