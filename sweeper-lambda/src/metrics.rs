//! The metrics of a sweep as one line of its log, in the embedded metric format of CloudWatch.
//!
//! Source: "Specification: Embedded metric format", Amazon CloudWatch user guide.

use std::time::Duration;

use ebb_model::report::probe_problem::ProbeProblem;
use ebb_sweep::run::Summary;
use serde_json::{Value, json};

/// Also in `terraform/modules/observability`.
const NAMESPACE: &str = "Ebb";

/// The values that become metrics; all are counts. CloudWatch charges for each of them, so they
/// are only what no service of AWS measures. Logs Insights finds the other values of the line.
const METRICS: [&str; 4] = [
    "Findings",
    "NotificationFailures",
    "WriteFailures",
    "ProbesSilent",
];

/// The line of a sweep of the shard that reports. A value that is not known is left out.
pub(crate) fn line(summary: &Summary, took: Duration, function: &str) -> String {
    let mut values = values(summary, took);
    values.retain(|_, value| !value.is_null());
    let metrics = METRICS.map(|name| json!({"Name": name, "Unit": "Count"}));
    let directive = json!({
        "Namespace": NAMESPACE,
        "Dimensions": [["FunctionName"]],
        "Metrics": metrics,
    });
    let about = json!({
        "Timestamp": summary.at.as_millisecond(),
        "CloudWatchMetrics": [directive],
    });
    values.insert("FunctionName".to_owned(), function.into());
    values.insert("_aws".to_owned(), about);
    Value::Object(values).to_string()
}

fn values(summary: &Summary, took: Duration) -> serde_json::Map<String, Value> {
    let folding = &summary.folding;
    let refused: u64 = folding.refused.values().sum();
    let failures = summary.failures.len();
    let since = summary.previous.map(|previous| {
        let since = summary.at.duration_since(previous);
        since.as_secs().max(0)
    });
    let problems = |problem| {
        let count = summary.probe_problems.get(&problem);
        json!(count.copied().unwrap_or(0))
    };
    let values = [
        ("Findings", json!(summary.findings)),
        ("NewFindings", json!(summary.new)),
        ("ResolvedFindings", json!(summary.resolved)),
        ("NotificationFailures", json!(summary.failed_notifications)),
        (
            "WriteFailures",
            json!(failures.saturating_sub(summary.failed_notifications)),
        ),
        ("SecondsSincePreviousSweep", json!(since)),
        ("SweepMilliseconds", json!(took.as_millis())),
        ("RunningNodes", json!(summary.totals.running_instances)),
        ("NodesWithProbe", json!(summary.totals.with_probe)),
        ("ProbesSilent", problems(ProbeProblem::Silent)),
        ("ProbesThatLostEvents", problems(ProbeProblem::EventsLost)),
        ("ProbesThatLostRecords", problems(ProbeProblem::RecordsLost)),
        ("ResourcesNotEvaluated", json!(summary.not_evaluated)),
        ("MissingData", json!(summary.gaps.len())),
        ("Messages", json!(folding.messages)),
        ("Heartbeats", json!(folding.heartbeats)),
        ("FinishedTasks", json!(folding.steps)),
        ("Duplicates", json!(folding.duplicates)),
        ("RefusedArrivals", json!(refused)),
        ("RefusedTasks", json!(folding.refused_steps)),
        ("NodesLeftOut", json!(folding.left_out_nodes)),
        ("StoppedEarly", json!(folding.stopped_early)),
    ];
    values
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

#[cfg(test)]
mod tests {
    use ebb_notify::retry::Failure;
    use jiff::Timestamp;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn failed(channel: &str) -> Failure {
        Failure {
            channel: channel.to_owned(),
            reason: "it refused\nthe call".to_owned(),
        }
    }

    fn summary(previous: Option<Timestamp>) -> Summary {
        Summary {
            at: at(1_790_000_600),
            previous,
            folding: ebb_ingest::fold::folder::Folding {
                heartbeats: 7,
                refused: [("unreadable", 2), ("too_large", 1)].into(),
                ..Default::default()
            },
            findings: 3,
            new: 1,
            reopened: 0,
            grown: 0,
            resolved: 2,
            set_aside: 0,
            not_evaluated: 4,
            gaps: Vec::new(),
            totals: Default::default(),
            probe_problems: [(ProbeProblem::Silent, 5)].into(),
            published: Vec::new(),
            notified_channels: Vec::new(),
            failed_notifications: 2,
            upkeep: Default::default(),
            failures: vec![failed("slack"), failed("email"), failed("details")],
        }
    }

    fn read(line: &str) -> Value {
        serde_json::from_str(line).expect("JSON")
    }

    #[test]
    fn each_metric_has_a_value_in_one_line() {
        let line = line(
            &summary(Some(at(1_790_000_000))),
            Duration::from_millis(1_500),
            "ebb-sweeper",
        );
        assert!(!line.contains('\n'), "{line}");
        let line = read(&line);
        let about = &line["_aws"]["CloudWatchMetrics"][0];
        assert_eq!(line["_aws"]["Timestamp"], 1_790_000_600_000_i64);
        assert_eq!(about["Namespace"], "Ebb");
        assert_eq!(about["Dimensions"], json!([["FunctionName"]]));
        assert_eq!(line["FunctionName"], "ebb-sweeper");
        let metrics = about["Metrics"].as_array().expect("a list");
        assert_eq!(metrics.len(), METRICS.len());
        for metric in metrics {
            let name = metric["Name"].as_str().expect("a name");
            assert!(line[name].is_u64(), "{name}: {line}");
        }
        let check = |name: &str, expect: u64| assert_eq!(line[name], expect, "{name}");
        check("Findings", 3);
        check("NotificationFailures", 2);
        check("WriteFailures", 1);
        check("SecondsSincePreviousSweep", 600);
        check("SweepMilliseconds", 1_500);
        check("Heartbeats", 7);
        check("ProbesSilent", 5);
        check("ProbesThatLostEvents", 0);
        check("RefusedArrivals", 3);
    }

    #[test]
    fn a_value_that_is_not_known_is_left_out() {
        let line = read(&line(&summary(None), Duration::ZERO, "ebb-sweeper"));
        assert_eq!(line.get("SecondsSincePreviousSweep"), None);
    }
}
