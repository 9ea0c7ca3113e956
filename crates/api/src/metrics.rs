//! Figures of the newest report for Prometheus.
//!
//! Source: "Exposition formats", Prometheus documentation, text format 0.0.4.

use std::collections::BTreeMap;
use std::fmt::Write;

use ebb_model::report::Report;
use ebb_model::report::probe_problem::ProbeProblem;
use ebb_telemetry::money::Usd;
use serde_json::json;

use crate::answer::Answer;
use crate::extract::Newest;
use crate::openapi::{Operation, Output, Schemas};
use crate::problem::Problem;

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Metrics in the text format.
pub(crate) struct Metrics;

impl Output for Answer<Metrics> {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        operation.set_content(json!({"text/plain": {"schema": {"type": "string"}}}));
    }
}

/// The figures of the newest report.
pub(crate) async fn metrics(newest: Newest) -> Result<Answer<Metrics>, Problem> {
    Answer::text(CONTENT_TYPE, exposition(&newest.report), &newest.version)
}

fn exposition(report: &Report) -> String {
    let totals = &report.totals;
    let count = |many: usize| many as f64;
    let mut out = String::new();
    let mut gauge = |name: &str, help: &str, value: f64| {
        family(&mut out, name, help, [(String::new(), value)]);
    };
    gauge(
        "ebb_report_timestamp_seconds",
        "Time of the newest evaluation.",
        report.at.as_millisecond() as f64 / 1e3,
    );
    gauge(
        "ebb_waste_usd_per_hour",
        "Present waste of all findings with a known price.",
        dollars(totals.waste_per_hour.0),
    );
    gauge(
        "ebb_saving_usd_per_month",
        "Saving in a month if all findings with a known price are fixed.",
        dollars(totals.saving_a_month),
    );
    gauge(
        "ebb_running_instances",
        "Running instances.",
        count(totals.running_instances),
    );
    gauge(
        "ebb_instances_with_probe",
        "Running instances whose probe sends heartbeats.",
        count(totals.with_probe),
    );
    gauge(
        "ebb_not_evaluated",
        "Resources that a rule did not evaluate.",
        count(report.not_evaluated.len()),
    );
    gauge(
        "ebb_missing_data",
        "Sources of data that could not be read.",
        count(report.gaps.len()),
    );
    let mut by_kind: BTreeMap<&str, f64> = BTreeMap::new();
    for finding in &report.findings {
        *by_kind.entry(finding.kind.slug()).or_default() += 1.0;
    }
    let kinds = by_kind.into_iter();
    let kinds = kinds.map(|(kind, many)| (format!("{{kind=\"{kind}\"}}"), many));
    family(&mut out, "ebb_findings", "Open findings by kind.", kinds);
    let problems = ProbeProblem::ALL.into_iter().map(|problem| {
        let many = report.probe_problems.get(&problem).copied();
        let label = format!("{{problem=\"{}\"}}", problem.slug());
        (label, many.unwrap_or_default() as f64)
    });
    let help = "Probes with a problem; one probe may have several.";
    family(&mut out, "ebb_probe_problems", help, problems);
    out
}

fn dollars(usd: Usd) -> f64 {
    usd.micros() as f64 / 1e6
}

/// A gauge with its samples. The labels need no escapes, because all are names of Ebb.
fn family(
    out: &mut String,
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = (String, f64)>,
) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge");
    for (labels, value) in samples {
        let _ = writeln!(out, "{name}{labels} {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_a_report_are_gauges() {
        let text = exposition(&ebb_report::testing::small());
        for line in [
            "ebb_report_timestamp_seconds 1772625600",
            "ebb_waste_usd_per_hour 1.212",
            "ebb_saving_usd_per_month 884.76",
            "ebb_findings{kind=\"idle_node\"} 1",
            "ebb_probe_problems{problem=\"silent\"} 0",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
        let is_sound = |line: &str| line.starts_with("# ") || line.split(' ').count() == 2;
        assert!(text.lines().all(is_sound), "{text}");
    }
}
