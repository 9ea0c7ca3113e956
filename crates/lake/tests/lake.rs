//! The lake through its public face, on a local folder and on a simulated S3.

#[path = "lake/costs.rs"]
mod costs;
#[path = "lake/findings.rs"]
mod findings;
#[path = "lake/local.rs"]
mod local;
#[path = "lake/once.rs"]
mod once;
#[path = "lake/sample.rs"]
mod sample;
#[path = "lake/stored.rs"]
mod stored;
#[path = "lake/upkeep.rs"]
mod upkeep;
