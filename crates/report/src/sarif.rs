//! The findings as SARIF, for tools that show the results of checks in CI.
//!
//! Source: SARIF 2.1.0; GitHub, "SARIF support for code scanning" (a result needs a physical
//! location, and at most 5,000 results of a run are shown).

use std::collections::BTreeMap;

use ebb_model::confidence::Level;
use ebb_model::finding::Finding;
use ebb_model::report::Report;
use ebb_telemetry::safe_text::{clip, one_line};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::page::money::bounded;

const RESULTS: usize = 5_000;

/// Maximum length of a message in characters.
const MESSAGE_CHARS: usize = 1_000;

/// The findings as one run, the greatest saving first.
pub fn sarif(report: &Report) -> String {
    let results: Vec<Value> = report.findings.iter().take(RESULTS).map(result).collect();
    let kinds: BTreeMap<&str, String> = report
        .findings
        .iter()
        .map(|finding| (finding.kind.slug(), finding.kind.to_string()))
        .collect();
    let rules: Vec<Value> = kinds
        .iter()
        .map(|(slug, words)| json!({"id": slug, "shortDescription": {"text": words}}))
        .collect();
    let run = json!({
        "tool": {"driver": {
            "name": "Ebb",
            "semanticVersion": env!("CARGO_PKG_VERSION"),
            "rules": rules,
        }},
        "results": results,
        "columnKind": "unicodeCodePoints",
        "properties": {
            "at": report.at,
            "origin": report.origin,
            "leftOut": report.findings.len().saturating_sub(RESULTS),
        },
    });
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    });
    format!("{log:#}\n")
}

fn result(finding: &Finding) -> Value {
    let resource = &finding.resource;
    let name = resource.name.as_ref().unwrap_or(&resource.id);
    let saving = finding.cost.as_ref().map(|cost| cost.saving_a_month);
    let is_bound = finding
        .cost
        .as_ref()
        .is_some_and(|cost| cost.basis.is_bound());
    let saving_words = saving.map_or("saving not known".to_owned(), |usd| {
        format!("{} a month", bounded(usd, is_bound))
    });
    let message = format!(
        "{} {} ({saving_words}): {}. {}: {}",
        finding.kind,
        clip(&one_line(name), 160),
        one_line(&finding.evidence.to_string()),
        finding.remedy.action,
        one_line(&finding.remedy.advice)
    );
    json!({
        "ruleId": finding.kind.slug(),
        "level": match finding.confidence.level {
            Level::High | Level::Medium => "warning",
            Level::Low => "note",
        },
        "message": {"text": clip(&message, MESSAGE_CHARS)},
        "locations": [{
            "physicalLocation": {
                "artifactLocation": {"uri": uri(&finding.id)},
                "region": {"startLine": 1},
            },
            "logicalLocations": [{
                "name": one_line(&clip(name, 160)),
                "fullyQualifiedName": one_line(&clip(&finding.id, MESSAGE_CHARS)),
                "kind": "resource",
            }],
        }],
        "partialFingerprints": {"ebbFindingId/v1": finding.id},
        "properties": {
            "region": resource.region,
            "owner": resource.owner,
            "origin": resource.origin,
            "savingPerMonthUsd": saving.filter(|_| !is_bound),
            "atMostPerMonthUsd": saving.filter(|_| is_bound),
            "countedPerMonthUsd": finding.cost.as_ref().map(|cost| cost.in_totals().saving_a_month),
        },
    })
}

/// Characters of a path that need an escape.
///
/// Source: RFC 3986, "Unreserved Characters"; `~` is escaped as well.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'/');

/// The id as a relative URI; no such file exists, but viewers require a URI.
fn uri(id: &str) -> String {
    utf8_percent_encode(&clip(id, MESSAGE_CHARS), ESCAPED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn each_finding_is_a_result_of_its_kinds_rule() {
        let log: Value = serde_json::from_str(&sarif(&testing::small())).expect("JSON");
        let run = &log["runs"][0];
        let rules = run["tool"]["driver"]["rules"].as_array().map(Vec::len);
        assert_eq!((log["version"].as_str(), rules), (Some("2.1.0"), Some(3)));
        let first = &run["results"][0];
        assert_eq!(first["ruleId"], "idle_node");
        assert_eq!(first["level"], "warning");
        assert_eq!(
            first["message"]["text"],
            "Idle node gpu-notebook ($884.76 a month): no activity for 3 h 05 min; background \
             processes use 0.02 cores; task session of ana exists without activity. Stop: Stop it; \
             its volumes stay."
        );
        let third = &run["results"][2]["properties"]["savingPerMonthUsd"];
        assert!(third.is_null(), "unknown is not zero");
    }

    /// Required and optional properties of each object. The format allows no other properties.
    ///
    /// Source: SARIF 2.1.0, sections 3.13 to 3.49, and its schema.
    const FORMAT: [(&str, &[&str], &[&str]); 12] = [
        ("log", &["version", "runs"], &["$schema"]),
        ("run", &["tool"], &["results", "columnKind", "properties"]),
        ("tool", &["driver"], &[]),
        ("driver", &["name"], &["semanticVersion", "rules"]),
        ("rule", &["id"], &["shortDescription"]),
        ("text", &["text"], &[]),
        (
            "result",
            &["message"],
            &[
                "ruleId",
                "level",
                "locations",
                "partialFingerprints",
                "properties",
            ],
        ),
        ("location", &[], &["physicalLocation", "logicalLocations"]),
        ("physical", &["artifactLocation"], &["region"]),
        ("artifact", &["uri"], &[]),
        ("region", &[], &["startLine"]),
        ("logical", &[], &["name", "fullyQualifiedName", "kind"]),
    ];

    fn is_a(name: &str, value: &Value) {
        let mut all = FORMAT.iter();
        let (_, must, may) = all.find(|(other, ..)| *other == name).expect("it is known");
        let object = value.as_object().expect("an object");
        let has = |key: &&str| object.contains_key(*key);
        assert!(must.iter().all(has), "{name} lacks something: {value}");
        let known = |key: &String| must.contains(&key.as_str()) || may.contains(&key.as_str());
        assert!(object.keys().all(known), "{name} has too much: {value}");
    }

    fn each<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
        value[key].as_array().expect("an array").iter()
    }

    fn is_valid(report: &Report) {
        let log: Value = serde_json::from_str(&sarif(report)).expect("JSON");
        is_a("log", &log);
        assert_eq!(log["version"], "2.1.0");
        let run = &log["runs"][0];
        is_a("run", run);
        assert_eq!(run["columnKind"], "unicodeCodePoints");
        assert!(run["properties"].is_object());
        is_a("tool", &run["tool"]);
        let driver = &run["tool"]["driver"];
        is_a("driver", driver);
        let rules: Vec<&str> = each(driver, "rules")
            .inspect(|rule| is_a("rule", rule))
            .inspect(|rule| is_a("text", &rule["shortDescription"]))
            .filter_map(|rule| rule["id"].as_str())
            .collect();
        let once: std::collections::BTreeSet<_> = rules.iter().collect();
        assert_eq!(once.len(), rules.len(), "a rule is described once");
        for result in each(run, "results") {
            is_a("result", result);
            is_a("text", &result["message"]);
            assert_ne!(result["message"]["text"], "", "a message says something");
            assert!(["warning", "note"].contains(&result["level"].as_str().expect("text")));
            let rule = result["ruleId"].as_str().expect("text");
            assert!(rules.contains(&rule), "{rule} is described");
            let prints = result["partialFingerprints"].as_object();
            assert!(prints.expect("an object").values().all(Value::is_string));
            for location in each(result, "locations") {
                is_a("location", location);
                let physical = &location["physicalLocation"];
                is_a("physical", physical);
                is_a("artifact", &physical["artifactLocation"]);
                is_a("region", &physical["region"]);
                assert!(physical["region"]["startLine"].as_u64() >= Some(1));
                let uri = physical["artifactLocation"]["uri"].as_str().expect("text");
                let base = url::Url::parse("file:///report/").expect("a URL");
                let url = base.join(uri).expect("a relative reference");
                assert!(url.as_str().ends_with(uri), "{uri} is taken as it is");
                each(location, "logicalLocations").for_each(|it| is_a("logical", it));
            }
        }
    }

    #[test]
    fn it_is_what_the_format_says_whatever_the_report() {
        for report in [
            testing::empty(),
            testing::small(),
            testing::several_days(),
            testing::hostile(),
            testing::many_hostile(20),
            testing::many(6_000),
        ] {
            is_valid(&report);
        }
    }

    #[test]
    fn names_from_outside_stay_in_their_place_and_the_rest_is_counted() {
        let text = sarif(&testing::hostile());
        let log: Value = serde_json::from_str(&text).expect("JSON");
        let location = &log["runs"][0]["results"][0]["locations"][0];
        let uri = location["physicalLocation"]["artifactLocation"]["uri"].as_str();
        let uri = uri.expect("a URI");
        assert!(uri.starts_with("%3Dcmd%28%29/%3Cscript%3E"), "{uri}");
        let log: Value = serde_json::from_str(&sarif(&testing::many(6_000))).expect("JSON");
        let run = &log["runs"][0];
        assert_eq!(run["results"].as_array().map(Vec::len), Some(RESULTS));
        assert_eq!(run["properties"]["leftOut"], 1_000);
    }
}
