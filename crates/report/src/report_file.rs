//! Reads JSON reports of this release, and of `ebb.report/1.0` for one more release.

use ebb_model::report::Report;
use serde::Deserialize;

/// Previous schema before [`Report::SCHEMA`]. Its amounts are in millionths of a dollar, in fields
/// without a unit in their names. The types of the fields read both forms.
const BEFORE: &str = "ebb.report/1.0";

/// Reason why a file is not a valid report.
#[derive(Debug, thiserror::Error)]
pub enum ReportFileError {
    /// The file has a schema that this program does not read.
    #[error("schema {0} is not supported; this version reads {current} and {BEFORE}", current = Report::SCHEMA)]
    Schema(String),
    /// The file is not a report.
    #[error("not an Ebb report in JSON format")]
    Form(#[source] serde_json::Error),
}

/// Reads a report and converts the previous schema to the current one.
///
/// # Errors
/// If the file is not a report, or has neither of the two schemas.
pub fn read(json: &[u8]) -> Result<Report, ReportFileError> {
    let mut report: Report = match serde_json::from_slice(json) {
        Ok(report) => report,
        Err(error) => return Err(why_not(json, error)),
    };
    match report.schema.as_str() {
        Report::SCHEMA => Ok(report),
        BEFORE => {
            Report::SCHEMA.clone_into(&mut report.schema);
            // The sums of the previous schema include upper bounds.
            let findings = std::mem::take(&mut report.findings);
            report.totals.sum_up(&findings);
            report.findings = findings;
            Ok(report)
        }
        other => Err(ReportFileError::Schema(other.to_owned())),
    }
}

/// Reports an unknown schema first, because a later schema may lack required fields.
fn why_not(json: &[u8], error: serde_json::Error) -> ReportFileError {
    #[derive(Deserialize)]
    struct Head {
        schema: String,
    }
    match serde_json::from_slice::<Head>(json) {
        Ok(Head { schema }) if schema != Report::SCHEMA && schema != BEFORE => {
            ReportFileError::Schema(schema)
        }
        _ => ReportFileError::Form(error),
    }
}

#[cfg(test)]
mod tests {
    use ebb_model::cost::PriceBasis;
    use ebb_telemetry::money::Usd;
    use serde_json::{Value, json};

    use super::*;
    use crate::json::json;
    use crate::testing;

    /// A report with amounts in the form of `ebb.report/1.0`.
    fn before(report: &Report) -> Value {
        let mut value: Value = serde_json::from_str(&json(report)).expect("JSON");
        rename(&mut value);
        value["schema"] = json!(BEFORE);
        let totals = value["totals"].as_object_mut().expect("totals");
        totals.retain(|name, _| !name.contains("at_most") && !name.starts_with("cost"));
        value
    }

    /// Reverses the changes of the migration note.
    fn rename(value: &mut Value) {
        match value {
            Value::Array(all) => all.iter_mut().for_each(rename),
            Value::Object(fields) => {
                for (name, mut value) in std::mem::take(fields) {
                    if ["counted", "price_as_of", "list_as_of"].contains(&name.as_str()) {
                        continue;
                    }
                    rename(&mut value);
                    let name = match name.strip_suffix("_usd") {
                        Some(name) => {
                            micros(&mut value);
                            name.to_owned()
                        }
                        None => name,
                    };
                    fields.insert(name, value);
                }
            }
            _ => {}
        }
    }

    fn micros(value: &mut Value) {
        let usd = value.as_str().and_then(Usd::parse);
        if let Some(usd) = usd {
            *value = json!(usd.micros());
        }
    }

    #[test]
    fn a_report_of_the_schema_before_is_read_as_one_of_this() {
        for report in [testing::small(), testing::several_days()] {
            let old = before(&report);
            assert!(
                old["findings"][0]["cost"]["saving_a_month"].is_i64(),
                "{old}"
            );
            let read = read(old.to_string().as_bytes()).expect("it is read");
            let expect = |cost: Option<&ebb_model::cost::Cost>| cost.map(|cost| cost.whole());
            for (a, b) in read.findings.iter().zip(&report.findings) {
                assert_eq!(expect(a.cost.as_ref()), expect(b.cost.as_ref()));
            }
            assert_eq!(read.schema, Report::SCHEMA);
            assert_eq!(read.totals.saving_a_month, report.totals.saving_a_month);
            assert_eq!(read.totals.at_most, report.totals.at_most);
            assert_eq!(read.history.trend, report.history.trend);
            assert_eq!(read.history.saved_so_far, report.history.saved_so_far);
        }
    }

    #[test]
    fn this_schema_reads_back_and_others_are_refused_by_name() {
        let report = testing::small();
        let again = read(json(&report).as_bytes()).expect("it is read");
        assert_eq!(again, report);
        assert!(report.findings.iter().any(|f| {
            f.cost
                .as_ref()
                .is_some_and(|cost| cost.basis == PriceBasis::ListPriceAsUpperBound)
        }));
        let check = |text: &str, expect: &str| {
            let error = read(text.as_bytes()).expect_err(text);
            assert!(error.to_string().contains(expect), "{error}");
        };
        check("{}", "not an Ebb report");
        check("[", "not an Ebb report");
        check(
            r#"{"schema": "ebb.report/3"}"#,
            "schema ebb.report/3 is not supported; this version reads",
        );
        check(r#"{"schema": "ebb.report/2"}"#, "not an Ebb report");
    }
}
