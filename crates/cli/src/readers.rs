//! Readers of users' files, for the fuzz targets. Nothing else uses this module.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use ebb_cloud::ports::BillSource;
use ebb_model::bill::{BilledDay, ResourceCost};
use ebb_model::policy::Policy;
use ebb_model::report::Report;
use ebb_model::visibility_gap::Gap;
use ebb_sweep::collect::account::Account;
use ebb_telemetry::identity::NodeId;
use jiff::Timestamp;

use crate::billing::BillingExport;
use crate::{demo, scan};

/// Evaluates a CSV file of metrics, as `ebb scan --metrics` does.
///
/// # Errors
/// If the file cannot be read or contains no valid row.
pub fn scan_metrics(path: &Path, policy: &Policy) -> Result<Report> {
    Ok(scan::scan_metrics(path, None, policy)?.0)
}

/// The content of a billing export.
#[derive(Debug)]
pub struct BillContents {
    /// Cost by machine.
    pub by_resource: BTreeMap<NodeId, ResourceCost>,
    /// Cost by day.
    pub by_day: Vec<BilledDay>,
    /// The parts that could not be used.
    pub gaps: Vec<Gap>,
}

/// Reads a billing export of Google Cloud, as of `now`.
///
/// # Errors
/// If the file is not readable or is not a billing export.
pub async fn read_bill(
    path: &Path,
    tags: &BTreeSet<String>,
    now: Timestamp,
) -> Result<BillContents> {
    let export = BillingExport::read(path, tags)?;
    let names: Vec<String> = tags.iter().cloned().collect();
    Ok(BillContents {
        by_resource: export.by_resource(now).await?,
        by_day: export.by_day(now, &names).await?,
        gaps: export.gaps(now),
    })
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
