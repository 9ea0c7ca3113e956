//! Writes the files of a report to the bucket. A failed write is retried and then reported; it
//! never stops a sweep.

use ebb_cloud::documents::report_files::{LATEST, dated};
use ebb_cloud::ports::{Objects, PutOptions};
use ebb_model::report::Report;
use ebb_notify::retry::{Failure, attempt};
use ebb_report::{csv, html, json, zone};

/// Which copies of a report are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportCopies {
    /// One under its time, which stays, and one as the latest.
    DatedAndLatest,
    /// Only the latest, for sweeps that follow each other within seconds.
    Latest,
}

/// Writes these copies of the report as HTML, CSV and JSON. Returns the keys that were written and
/// the writes that failed.
pub async fn report(
    objects: &dyn Objects,
    report: &Report,
    copies: ReportCopies,
) -> (Vec<String>, Vec<Failure>) {
    let forms = [
        (
            "report.html",
            "text/html; charset=utf-8",
            html::html(report, &zone::Zone::utc()),
        ),
        ("report.csv", "text/csv; charset=utf-8", csv::csv(report)),
        ("report.json", "application/json", json::compact(report)),
    ];
    let (mut keys, mut failures) = (Vec::new(), Vec::new());
    let dated = (copies == ReportCopies::DatedAndLatest).then(|| dated(report));
    for folder in dated.into_iter().chain([LATEST.to_owned()]) {
        for (name, content_type, text) in &forms {
            let key = format!("{folder}{name}");
            let put = || {
                let options = PutOptions {
                    content_type: Some(content_type),
                    ..PutOptions::default()
                };
                objects.put(&key, text.clone().into_bytes(), options)
            };
            match attempt(&key, put).await {
                Ok(_) => keys.push(key),
                Err(failure) => failures.push(failure),
            }
        }
    }
    (keys, failures)
}
