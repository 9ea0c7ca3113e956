//! The keys of the reports.

use ebb_model::report::Report;

/// The prefix of the newest report.
pub const LATEST: &str = "reports/latest/";

/// The newest report in JSON.
pub const LATEST_JSON: &str = "reports/latest/report.json";

/// The prefix of a report by its time. It has no colons, which are inconvenient in shells and on
/// desktops.
pub fn dated(report: &Report) -> String {
    format!("reports/{}/", report.at.strftime("%Y-%m-%dT%H-%M-%SZ"))
}
