//! The HTTP API of a deployment and its web pages. They answer from the newest report and stored
//! documents.
//!
//! A new endpoint is one handler with a query type and an answer type, and one line in
//! [`service`]. The OpenAPI document comes from the types of the handler.

pub mod answer;
mod caller;
pub mod costs;
pub mod decisions;
pub mod detail_cache;
pub mod endpoints;
pub mod explanations;
pub mod extract;
pub mod findings;
pub mod gateway;
pub mod groups;
pub mod metrics;
pub mod nodes;
pub mod openapi;
pub mod page_access;
mod page_link;
pub mod pages;
pub mod prices;
pub mod probes;
pub mod problem;
pub mod runs;
pub mod service;
mod slack;
pub mod slack_signature;
pub mod steps;
pub mod store;
pub mod tasks;
#[cfg(test)]
mod tests;
pub mod whole_report;
