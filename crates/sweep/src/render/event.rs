//! What changed, for other programs: one CloudEvent in JSON.
//!
//! Source: CloudEvents 1.0.2, "JSON event format".

use ebb_domain::finding::Finding;
use ebb_domain::report::Report;
use serde_json::{Value, json};

use crate::changes::Changes;

/// Findings carried whole: a message of SNS is at most 256 KiB, and a finding takes up
/// to a few kilobytes.
const FINDINGS: usize = 50;

/// What a message may take, with room for its envelope.
const MAX_BYTES: usize = 200 << 10;

/// The event; findings and resolved ones that did not fit are counted in it.
pub fn event(report: &Report, changes: &Changes) -> String {
    let changed: Vec<(&Finding, &str)> = report
        .findings
        .iter()
        .filter_map(|finding| Some((finding, changes.word(&finding.id)?)))
        .collect();
    let mut carried = FINDINGS;
    loop {
        let findings: Vec<Value> = changed
            .iter()
            .take(carried)
            .map(|(finding, change)| json!({"change": change, "finding": finding}))
            .collect();
        let resolved: Vec<_> = changes.resolved.iter().take(carried).collect();
        let left_out = changed.len() - findings.len() + changes.resolved.len() - resolved.len();
        let event = json!({
            "specversion": "1.0",
            "id": report.at,
            "source": "/ebb/sweeper",
            "type": "ebb.findings.changed.v1",
            "time": report.at,
            "datacontenttype": "application/json",
            "data": {
                "origin": report.origin,
                "totals": report.totals,
                "findings": findings,
                "resolved": resolved,
                "left_out": left_out,
            },
        });
        let text = event.to_string();
        if text.len() <= MAX_BYTES || carried == 0 {
            return text;
        }
        carried /= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

    #[test]
    fn an_event_carries_what_changed_and_counts_what_does_not_fit() {
        let check = |report: &Report, carried: usize, left_out: usize| {
            let text = event(report, &sample::all_new(report));
            assert!(text.len() <= MAX_BYTES);
            let event: Value = serde_json::from_str(&text).expect("it is JSON");
            assert_eq!(event["specversion"], "1.0");
            let data = &event["data"];
            let findings = data["findings"].as_array().map(Vec::len);
            assert_eq!(
                (findings, &data["left_out"]),
                (Some(carried), &json!(left_out))
            );
        };
        check(&sample::small(), 3, 0);
        check(&sample::many(10_000), 50, 9_950);
        let mut wide = sample::many(100);
        for finding in &mut wide.findings {
            finding.remedy.advice = "x".repeat(20_000);
        }
        check(&wide, 6, 94);
        check(&sample::empty(), 0, 0);
    }
}
