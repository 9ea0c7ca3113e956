//! The bill from files of the user: the billing export of Google Cloud, or exports in a place that the
//! policy names.

use std::collections::BTreeMap;
#[cfg(any(feature = "gcp", feature = "sweep"))]
use std::collections::BTreeSet;
#[cfg(any(feature = "gcp", feature = "sweep"))]
use std::path::Path;

use anyhow::Result;
#[cfg(any(feature = "gcp", feature = "sweep"))]
use anyhow::bail;
#[cfg(any(feature = "gcp", feature = "sweep"))]
use ebb_cloud::billing_export::{BillingExport, BillingExportError};
#[cfg(feature = "cost-exports")]
use ebb_cloud::cost_export::CostExport;
#[cfg(feature = "cost-exports")]
use ebb_cloud::ports::BillSource;
use ebb_model::bill::{BilledDay, ResourceCost};
use ebb_model::policy::Policy;
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::identity::NodeId;
use jiff::Timestamp;

#[cfg(any(feature = "gcp", feature = "sweep"))]
use crate::output;

/// Reads a file of the billing export and reports its invalid lines.
#[cfg(any(feature = "gcp", feature = "sweep"))]
pub(crate) fn read(
    path: &Path,
    tags: &BTreeSet<String>,
) -> Result<BillingExport, BillingExportError> {
    let export = BillingExport::read(path, tags)?;
    output::note_bad_lines(path, export.bad_lines());
    Ok(export)
}

/// The bill of a file or of the place in the policy, if there is one of them.
#[cfg(any(feature = "gcp", feature = "sweep"))]
pub(crate) fn choose<'a>(
    file: Option<&'a BillingExport>,
    export: Option<&'a CostExport<'_>>,
) -> Result<Option<&'a dyn BillSource>> {
    Ok(match (file, export) {
        (Some(_), Some(_)) => bail!(
            "two bills: the file of --billing and the place of the policy\n  remove --billing, or \
             `export` from [costs] of the policy"
        ),
        (Some(file), None) => Some(file as &dyn BillSource),
        (None, export) => export.map(|export| export as &dyn BillSource),
    })
}

/// A bill for a scan without a cloud.
#[derive(Debug, Default)]
pub(crate) struct ReadBill {
    pub(crate) by_resource: BTreeMap<NodeId, ResourceCost>,
    pub(crate) by_day: Vec<BilledDay>,
    pub(crate) gaps: Vec<Gap>,
}

/// Reads the exports that a policy names; empty if it names none.
#[cfg(feature = "cost-exports")]
pub(crate) async fn read_export(policy: &Policy, now: Timestamp) -> Result<ReadBill> {
    let Some(export) = CostExport::of_policy(policy)? else {
        return Ok(ReadBill::default());
    };
    Ok(ReadBill {
        by_resource: export.by_resource(now).await?,
        by_day: export.by_day(now, &[]).await?,
        gaps: export.gaps(now),
    })
}

#[cfg(not(feature = "cost-exports"))]
#[expect(clippy::unused_async, reason = "the same shape as with the feature")]
pub(crate) async fn read_export(policy: &Policy, _: Timestamp) -> Result<ReadBill> {
    match policy.costs.export {
        None => Ok(ReadBill::default()),
        Some(_) => anyhow::bail!(
            "this program was built without exports of bills\n  remove `export` from [costs] of the \
             policy, or build it: cargo run --release -p ebb-cli --features cost-exports -- scan"
        ),
    }
}
