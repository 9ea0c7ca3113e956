//! The report as JSON, with exact values in the order of the fields.

use ebb_model::report::Report;
use ebb_telemetry::safe_text;

/// Formatted JSON with a newline at its end; the same report gives the same bytes. Control
/// characters of names are escaped, because people also read the document in a terminal.
pub fn json(report: &Report) -> String {
    finished(serde_json::to_string_pretty(report))
}

/// The same on one line, which takes two thirds of the space.
pub fn compact(report: &Report) -> String {
    finished(serde_json::to_string(report))
}

fn finished(text: serde_json::Result<String>) -> String {
    let mut text = text.expect("a report holds only values that JSON can express");
    text.push('\n');
    safe_text::json(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn what_is_written_reads_back_as_the_same_report() {
        for report in [testing::empty(), testing::small(), testing::hostile()] {
            let text = json(&report);
            let back: Report = serde_json::from_str(&text).expect("it is a report");
            assert_eq!(back, report);
            assert_eq!(json(&back), text);
            let on_one_line = compact(&report);
            assert_eq!(on_one_line.lines().count(), 1);
            assert_eq!(
                serde_json::from_str::<Report>(&on_one_line).ok(),
                Some(back)
            );
        }
    }

    #[test]
    fn characters_that_control_a_terminal_are_escaped() {
        let mut report = testing::small();
        report.gaps[0].reason = "a\u{9b}2J\u{202e}b\u{7f}".to_owned();
        let text = json(&report);
        assert!(text.contains(r"a\u009b2J\u202eb\u007f"), "{text}");
        let back: Report = serde_json::from_str(&text).expect("it is a report");
        assert_eq!(back, report);
    }

    /// The test of the schema validates this file; this crate has no validator.
    #[test]
    fn the_example_of_a_history_is_what_a_report_has() {
        let example = include_str!("../schema/history.example.json");
        let example: serde_json::Value = serde_json::from_str(example).expect("it is JSON");
        let history = serde_json::to_value(testing::several_days().history).expect("it is JSON");
        assert_eq!(example, history, "{history}");
    }
}
