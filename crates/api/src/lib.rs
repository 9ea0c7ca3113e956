//! The HTTP API of a deployment. It answers from the newest report and stored documents.

pub mod answer;
pub mod decisions;
pub mod http;
pub mod list;
pub mod openapi;
pub mod prices;
pub mod problem;
pub mod query;
pub mod report_parts;
pub mod response;
pub mod route;
pub mod service;
pub mod targets;
#[cfg(test)]
mod tests;
pub mod variants;
