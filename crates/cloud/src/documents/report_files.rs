//! Where the reports are stored.

use ebb_model::report::Report;

/// Where the newest report lies.
pub const LATEST: &str = "reports/latest/";

/// The newest report for programs.
pub const LATEST_JSON: &str = "reports/latest/report.json";

/// Colons in a key are a nuisance in every shell and on every desktop.
pub fn dated(report: &Report) -> String {
    format!("reports/{}/", report.at.strftime("%Y-%m-%dT%H-%M-%SZ"))
}
