//! Changes for other programs: one CloudEvent in JSON, or one event for each change.
//!
//! Source: CloudEvents 1.0.2, "JSON event format".

use std::collections::BTreeMap;

use ebb_model::finding::Finding;
use ebb_model::finding_history::Stage;
use ebb_model::pages_url::{PageOf, PagesUrl};
use ebb_model::report::Report;
use ebb_telemetry::safe_text::{clip, one_line};
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::diff;
use crate::diff::Changes;

/// Maximum number of complete findings in an event. A message of SNS is at most 256 KiB, and a
/// finding takes up to a few kilobytes.
const FINDINGS: usize = 50;

/// Maximum size of a message, with room for its envelope.
const MAX_BYTES: usize = 200 << 10;

/// Creates the event with this identifier; it contains the number of findings and resolved findings
/// that did not fit.
pub fn event(report: &Report, changes: &Changes, id: &str, links: Option<&PagesUrl>) -> String {
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
            .map(|(finding, change)| {
                let mut entry = json!({"change": change, "finding": finding});
                add_link(&mut entry, links, PageOf::Finding(&finding.id));
                entry
            })
            .collect();
        let resolved: Vec<_> = changes.resolved.iter().take(carried).collect();
        let left_out = changed.len() - findings.len() + changes.resolved.len() - resolved.len();
        let mut event = json!({
            "specversion": "1.0",
            "id": id,
            "source": "/ebb/sweeper",
            "type": "ebb.findings.changed.v2",
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
        add_link(&mut event["data"], links, PageOf::Overview);
        let text = event.to_string();
        if text.len() <= MAX_BYTES || carried == 0 {
            return text;
        }
        carried /= 2;
    }
}

/// Adds the link to a page; nothing without an address of the pages.
fn add_link(data: &mut Value, links: Option<&PagesUrl>, page: PageOf<'_>) {
    if let Some(links) = links {
        data["link"] = links.link(page).into();
    }
}

/// The event of one change.
pub struct Event {
    /// Id of the finding.
    pub finding: String,
    /// Kind of the change, see [`Changes::keys`].
    pub change: String,
    /// Unique identifier of the change; a receiver recognizes a repeated event by it.
    pub id: String,
    /// JSON text of the event.
    pub body: String,
}

/// Returns an event for each change, the most expensive finding first, then resolved findings.
/// `sending` contains the first send time of each change, so that a repeated event has the same
/// identifier.
pub fn events<'a>(
    report: &'a Report,
    changes: &'a Changes,
    sending: &'a BTreeMap<String, Timestamp>,
    links: Option<&'a PagesUrl>,
) -> impl Iterator<Item = Event> + 'a {
    let since = |what: &str, id: &str| {
        let begun = sending.get(&diff::key(what, id));
        begun.copied().unwrap_or(report.at)
    };
    let found = report.findings.iter().filter_map(move |finding| {
        let what = match changes.stage(&finding.id)? {
            Stage::New => "opened",
            Stage::Reopened => "reopened",
            Stage::Due => "due",
            _ => "grown",
        };
        let mut data = json!({"finding": finding});
        add_link(&mut data, links, PageOf::Finding(&finding.id));
        let begun = since(what, &finding.id);
        Some(of_change(report, (what, &finding.id), begun, data))
    });
    let resolved = changes.resolved.iter().map(move |one| {
        let mut data = json!({"resolved": one});
        add_link(&mut data, links, PageOf::Finding(&one.id));
        let begun = since("resolved", &one.id);
        of_change(report, ("resolved", &one.id), begun, data)
    });
    found.chain(resolved)
}

/// Identifier of a change of a finding that was first sent at `since`.
pub(crate) fn event_id(what: &str, since: Timestamp, id: &str) -> String {
    let named = Sha256::digest(format!("{what}\n{since}\n{id}"));
    named.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Maximum length of `subject` in characters.
const SUBJECT_CHARS: usize = 500;

fn of_change(report: &Report, (what, id): (&str, &str), since: Timestamp, data: Value) -> Event {
    let named = event_id(what, since, id);
    let mut event = json!({
        "specversion": "1.0",
        "id": named,
        "source": "/ebb/sweeper",
        "type": format!("io.ebb.finding.{what}.v2"),
        "subject": clip(&one_line(id), SUBJECT_CHARS),
        "time": report.at,
        "datacontenttype": "application/json",
        "data": data,
    });
    let mut body = event.to_string();
    if body.len() > MAX_BYTES {
        let link = event["data"].get("link").cloned();
        event["data"] = json!({"left_out": "too large for a message; the report contains it"});
        if let Some(link) = link {
            event["data"]["link"] = link;
        }
        body = event.to_string();
    }
    Event {
        finding: id.to_owned(),
        change: diff::key(what, id),
        id: named,
        body,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_report::testing;

    #[test]
    fn each_change_is_an_event_that_keeps_its_id_and_its_bounds() {
        let mut report = testing::small();
        let mut changes = crate::testing::all_new(&report);
        let grown = report.findings[1].id.clone();
        changes.new.remove(&grown);
        changes.grown.insert(grown);
        changes.resolved = testing::several_days().history.resolved;
        report.findings[2].remedy.advice = "x".repeat(300_000);
        let read_events = |report: &Report, begun: Option<Timestamp>| -> Vec<(String, Value)> {
            let keys = changes.keys();
            let sending = keys.filter_map(|key| Some((key, begun?))).collect();
            let events = events(report, &changes, &sending, None);
            let read = |text: &str| serde_json::from_str(text).expect("it is JSON");
            events.map(|event| (event.id, read(&event.body))).collect()
        };
        let begun = Some(report.at);
        let first_events = read_events(&report, begun);
        let types = first_events.iter().map(|(_, event)| event["type"].as_str());
        let types: Vec<_> = types.flatten().collect();
        let expect = ["opened", "grown", "opened", "resolved"];
        assert_eq!(
            types,
            expect.map(|what| format!("io.ebb.finding.{what}.v2"))
        );
        for (id, event) in &first_events {
            assert_eq!((event["specversion"].as_str(), id.len()), (Some("1.0"), 64));
            assert_eq!(event["id"].as_str(), Some(id.as_str()));
        }
        assert_eq!(first_events[0].1["data"]["finding"]["kind"], "idle_node");
        assert!(first_events[2].1["data"]["left_out"].is_string());
        assert_eq!(first_events[3].1["data"]["resolved"]["ending"], "stopped");
        let later = report.at.checked_add(std::time::Duration::from_secs(600));
        report.at = later.expect("a time");
        let same = |again: &[(String, Value)]| -> Vec<bool> {
            first_events
                .iter()
                .zip(again)
                .map(|(a, b)| a.0 == b.0)
                .collect()
        };
        assert_eq!(same(&read_events(&report, begun)), [true; 4], "sent again");
        let later = read_events(&report, Some(report.at));
        assert_eq!(same(&later), [false; 4], "changed again");
    }

    #[test]
    fn a_name_from_outside_is_one_line_of_the_subject() {
        let report = testing::many_hostile(1);
        let changes = crate::testing::all_new(&report);
        let sending = BTreeMap::new();
        let event = events(&report, &changes, &sending, None)
            .next()
            .expect("one");
        let event: Value = serde_json::from_str(&event.body).expect("JSON");
        let subject = event["subject"].as_str().expect("text");
        assert!(subject.chars().count() <= SUBJECT_CHARS);
        assert!(!subject.contains(['\r', '\n', '\u{202e}']), "{subject}");
    }

    #[test]
    fn an_event_carries_what_changed_and_counts_what_does_not_fit() {
        let check = |report: &Report, carried: usize, left_out: usize| {
            let text = event(report, &crate::testing::all_new(report), "ab12", None);
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
        check(&testing::small(), 3, 0);
        check(&testing::many(10_000), 50, 9_950);
        let mut wide = testing::many(100);
        for finding in &mut wide.findings {
            finding.remedy.advice = "x".repeat(20_000);
        }
        check(&wide, 6, 94);
        check(&testing::empty(), 0, 0);
    }

    #[test]
    fn an_event_has_links_if_the_address_of_the_pages_is_known() {
        let report = testing::small();
        let changes = crate::testing::all_new(&report);
        let links = "https://ebb.example.org".parse().expect("valid");
        let read = |text: &str| -> Value { serde_json::from_str(text).expect("JSON") };
        let whole = read(&event(&report, &changes, "ab12", Some(&links)));
        assert_eq!(whole["data"]["link"], "https://ebb.example.org/");
        let link = links.link(PageOf::Finding(&report.findings[0].id));
        assert_eq!(whole["data"]["findings"][0]["link"], link.as_str());
        let sending = BTreeMap::new();
        let one = events(&report, &changes, &sending, Some(&links)).next();
        assert_eq!(read(&one.expect("one").body)["data"]["link"], link.as_str());
        let plain = events(&report, &changes, &sending, None).next();
        assert!(
            read(&plain.expect("one").body)["data"]
                .get("link")
                .is_none()
        );
    }
}
