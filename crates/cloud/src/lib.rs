//! Ports to the cloud. Programs use the traits of [`ports`]. The implementations are in [`aws`],
//! each behind a feature; [`fake`] and [`failing`] replace them in tests. Only this crate uses a
//! cloud SDK.

#[cfg(feature = "account")]
pub mod accounts;
#[cfg(feature = "aws")]
pub mod aws;
#[cfg(feature = "account")]
pub mod billing_export;
#[cfg(feature = "cost-exports")]
pub mod cost_export;
#[cfg(feature = "account")]
mod data_unit;
pub mod documents;
pub mod endpoint;
pub mod error_chain;
pub mod failing;
pub mod fake;
#[cfg(feature = "gcp")]
pub mod gcp;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "http-api")]
pub mod http_api;
#[cfg(feature = "http-post")]
pub mod http_post;
pub mod permissions;
pub mod ports;
#[cfg(feature = "stores")]
pub mod store;
#[cfg(any(feature = "account", feature = "queue"))]
mod turns;
