//! Hourly activity of nodes by day, as cells and as text.

use ebb_model::report::Report;
use ebb_model::report::timeline::NodeHours;
use ebb_telemetry::safe_text::{clip, counted, one_line};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::page::history::NAME_CHARS;

/// Hours in a day.
const DAY: usize = 24;

/// Classes of cells in the style sheet: not observed, idle, and four levels of activity.
const CLASSES: [&str; 6] = ["u", "a0", "a1", "a2", "a3", "a4"];

/// Hourly activity of a node.
#[derive(Debug, Serialize)]
pub struct HoursRow {
    /// Name or id.
    pub name: String,
    /// All days as text.
    pub words: String,
    /// Days in order of time.
    pub days: Vec<Day>,
}

/// One day of a node, in UTC.
#[derive(Debug, Serialize)]
pub struct Day {
    /// Name of the day.
    pub label: String,
    /// The hours as text, for screen readers.
    pub words: String,
    /// The cells in a box of 24 by 1: a path for each class that occurs.
    pub paths: Vec<(&'static str, String)>,
}

pub fn rows(report: &Report) -> Vec<HoursRow> {
    let Some(from) = report.timeline.from else {
        return Vec::new();
    };
    let nodes = report.timeline.nodes.iter();
    nodes.map(|node| row(node, from)).collect()
}

/// The activity of one node; `from` is the start of the first hour.
pub fn row(node: &NodeHours, from: Timestamp) -> HoursRow {
    let observed_hours = node.hours.iter().flatten();
    let busy = observed_hours
        .clone()
        .filter(|percent| **percent > 0)
        .count();
    let observed_count = observed_hours.count();
    let unobserved_count = node.hours.len() - observed_count;
    let mut words = format!(
        "active in {busy} of {}",
        counted(observed_count, "observed hour", "observed hours")
    );
    if unobserved_count > 0 {
        words.push_str(&format!("; {unobserved_count} not observed"));
    }
    let name = node.name.as_deref().unwrap_or(node.node.as_str());
    let days = node.hours.chunks(DAY).zip(0..);
    HoursRow {
        name: clip(&one_line(name), NAME_CHARS).into_owned(),
        words,
        days: days.map(|(hours, n)| day(hours, from, n)).collect(),
    }
}

fn day(hours: &[Option<u8>], from: Timestamp, n: i64) -> Day {
    let begin = from.checked_add(SignedDuration::from_hours(24 * n));
    let begin = begin.unwrap_or(from);
    let classes: Vec<usize> = hours.iter().map(|hour| class(*hour)).collect();
    let runs = |of: &dyn Fn(usize) -> bool| -> Vec<(usize, usize)> {
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for at in (0..classes.len()).filter(|at| of(classes[*at])) {
            match runs.last_mut() {
                Some((_, end)) if *end == at => *end += 1,
                _ => runs.push((at, at + 1)),
            }
        }
        runs
    };
    let spoken = |what: &str, of: &dyn Fn(usize) -> bool| {
        let runs = runs(of);
        let spans = runs.iter().map(|(from, to)| format!("{from:02}–{to:02}"));
        let spans: Vec<_> = spans.collect();
        (!spans.is_empty()).then(|| format!("{what} {}", spans.join(", ")))
    };
    let parts = [
        spoken("active", &|class| class > 1),
        spoken("idle", &|class| class == 1),
        spoken("not observed", &|class| class == 0),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    let label = begin.strftime("%a %-d %b").to_string();
    let path = |(n, class): (usize, &'static str)| {
        let cells: Vec<_> = runs(&|other| other == n)
            .into_iter()
            .map(|(from, to)| format!("M{from} .5h{}", to - from))
            .collect();
        (!cells.is_empty()).then(|| (class, cells.concat()))
    };
    Day {
        words: format!("{label}: {}", parts.join("; ")),
        label,
        paths: CLASSES.into_iter().enumerate().filter_map(path).collect(),
    }
}

/// Class of an hour, by its share of activity in percent; `None` is not observed.
fn class(hour: Option<u8>) -> usize {
    match hour {
        None => 0,
        Some(0) => 1,
        Some(percent) => 2 + usize::from(percent.min(99) / 25),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_day_is_told_in_words_and_what_was_not_seen_is_not_at_rest() {
        let check = |hours: &[Option<u8>], words: &str, paths: &[(&str, &str)]| {
            let day = day(hours, testing::empty().at, 0);
            let drawn_paths: Vec<_> = day.paths.iter().map(|(c, d)| (*c, d.as_str())).collect();
            assert_eq!((day.words.as_str(), drawn_paths.as_slice()), (words, paths));
        };
        check(
            &[None, Some(0), Some(1), Some(100)],
            "Wed 4 Mar: active 02–04; idle 01–02; not observed 00–01",
            &[
                ("u", "M0 .5h1"),
                ("a0", "M1 .5h1"),
                ("a1", "M2 .5h1"),
                ("a4", "M3 .5h1"),
            ],
        );
        check(
            &[Some(60), Some(70), None, Some(60)],
            "Wed 4 Mar: active 00–02, 03–04; not observed 02–03",
            &[("u", "M2 .5h1"), ("a3", "M0 .5h2M3 .5h1")],
        );
        check(
            &[None; 24],
            "Wed 4 Mar: not observed 00–24",
            &[("u", "M0 .5h24")],
        );
    }

    #[test]
    fn days_follow_each_other_and_the_last_is_not_over() {
        let mut report = testing::several_days();
        report.timeline.from = Some("2026-02-27T00:00:00Z".parse().expect("a time"));
        report.timeline.nodes[0].hours = vec![None; 24 * 2 + 3];
        let rows = rows(&report);
        let days = rows[0].days.iter();
        let days: Vec<_> = days.map(|d| d.words.as_str()).collect();
        assert_eq!(
            days,
            [
                "Fri 27 Feb: not observed 00–24",
                "Sat 28 Feb: not observed 00–24",
                "Sun 1 Mar: not observed 00–03"
            ]
        );
        assert_eq!(
            rows[0].words,
            "active in 0 of 0 observed hours; 51 not observed"
        );
    }
}
