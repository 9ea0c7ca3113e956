//! The bill from a file of the user.

use std::collections::BTreeSet;
use std::path::Path;

use ebb_cloud::billing_export::{BillingExport, BillingExportError};

use crate::output;

/// Reads a file of the billing export and reports its invalid lines.
pub(crate) fn read(
    path: &Path,
    tags: &BTreeSet<String>,
) -> Result<BillingExport, BillingExportError> {
    let export = BillingExport::read(path, tags)?;
    output::note_bad_lines(path, export.bad_lines());
    Ok(export)
}
