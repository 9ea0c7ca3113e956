//! Readers of users' files, for the fuzz targets. Nothing else uses this module.

use std::path::Path;

use anyhow::Result;
use ebb_model::policy::Policy;
use ebb_model::report::Report;
use ebb_sweep::collect::account::Account;

use crate::{demo, scan};

/// Evaluates a CSV file of metrics, as `ebb scan --metrics` does.
///
/// # Errors
/// If the file cannot be read or contains no valid row.
pub async fn scan_metrics(path: &Path, policy: &Policy) -> Result<Report> {
    Ok(scan::scan_metrics((path, false), None, policy).await?.0)
}

/// Evaluates the built-in demo account, as `ebb scan --demo` does.
///
/// # Errors
/// If the policy is not suitable for it.
pub async fn scan_demo(policy: &Policy) -> Result<Report> {
    let demo = demo::load(policy)?;
    let account = Account {
        inventory: &demo.inventory,
        metrics: Some(&demo.metrics),
        bill: Some(&demo.bill),
        markets: None,
        prices: None,
        regions: &[],
    };
    Ok(ebb_sweep::scan::scan(&account, &demo.known, policy, demo.now).await)
}
