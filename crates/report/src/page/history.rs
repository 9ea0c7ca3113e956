//! History of earlier sweeps and decisions of users, as text.

use ebb_model::decision::Verb;
use ebb_model::finding_history::ending::Ending;
use ebb_model::finding_history::trend::Past;
use ebb_model::finding_history::{Resolved, SetAside};
use ebb_model::report::Report;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::safe_text::{clip, counted, one_line};
use jiff::SignedDuration;
use serde::Serialize;

use crate::page::wording::SIMULATED;
use crate::zone::Zone;

/// Number of named resolved findings; the JSON contains the others.
const RESOLVED: usize = 50;

/// Number of named findings that are set aside; the others are counted.
const SET_ASIDE: usize = 50;

/// Maximum length of a name in a line, in characters.
pub const NAME_CHARS: usize = 120;

/// Trend of the totals.
#[derive(Debug, Serialize)]
pub struct TrendWords {
    /// Points of a line in a box of 1000 by 100, the newest at its right end.
    pub line: String,
    /// The greatest saving, at the top of the box.
    pub top: String,
    /// Time of the first report.
    pub from: String,
    /// Totals a day and a week ago, without those that no report is close to.
    pub then: Vec<String>,
}

/// One resolved finding in a line.
pub fn resolved_line(one: &Resolved) -> String {
    let name = one_line(one.name.as_ref().unwrap_or(&one.resource));
    let simulated = match one.origin {
        Origin::Simulated => format!(" ({SIMULATED})"),
        Origin::Measured => String::new(),
    };
    let what = format!(
        "{} {} in {}{simulated}: {}",
        one.kind,
        clip(&name, NAME_CHARS),
        one_line(&one.region),
        one.ending
    );
    match (one.saved, one.ending) {
        (Some(saved), _) => format!("{what}, saves {} a month ({})", saved.a_month, saved.basis),
        (None, Ending::StillThere) => what,
        (None, _) => format!("{what}; saving not known"),
    }
}

pub fn resolved(report: &Report, zone: &Zone) -> Vec<String> {
    let resolved = report.history.resolved.iter().take(RESOLVED);
    resolved
        .map(|one| {
            let day = zone.day(one.resolved_at);
            format!("{day} · {}", resolved_line(one))
        })
        .collect()
}

pub fn set_aside(report: &Report, zone: &Zone) -> Vec<String> {
    let all = &report.history.set_aside;
    let mut lines: Vec<String> = all
        .iter()
        .take(SET_ASIDE)
        .map(|one| aside(one, zone))
        .collect();
    if all.len() > SET_ASIDE {
        lines.push(format!("… and {} more", all.len() - SET_ASIDE));
    }
    lines
}

fn aside(one: &SetAside, zone: &Zone) -> String {
    let resource = &one.finding.resource;
    let name = one_line(resource.name.as_ref().unwrap_or(&resource.id));
    let decision = &one.decision;
    let verb = match decision.verb {
        Verb::Dismiss => "dismissed",
        Verb::Snooze => "snoozed",
    };
    let until = decision
        .until
        .map(|until| format!(" until {}", zone.minute(until)));
    format!(
        "{} {}: {verb} by {}{}: {}",
        one.finding.kind,
        clip(&name, NAME_CHARS),
        one_line(&decision.by),
        until.unwrap_or_default(),
        one_line(&decision.reason)
    )
}

/// `None` with fewer than two reports.
pub fn trend(report: &Report, zone: &Zone) -> Option<TrendWords> {
    let past = &report.history.trend;
    let (first, last) = (past.first()?, past.last()?);
    let span = last.at.as_second() - first.at.as_second();
    let top = past.iter().map(|one| one.saving_a_month).max()?;
    if past.len() < 2 || span <= 0 {
        return None;
    }
    let point = |one: &Past| {
        let x = (one.at.as_second() - first.at.as_second()) * 1000 / span;
        let share = i128::from(one.saving_a_month.micros()) * 100;
        let y = share.checked_div(i128::from(top.micros())).unwrap_or(0);
        format!("{x},{}", 100 - y.clamp(0, 100))
    };
    let line: Vec<String> = past.iter().map(point).collect();
    let ago = |hours: i64, words: &str| {
        let one = Past::before(past, report.at, SignedDuration::from_hours(hours))?;
        let findings = counted(one.findings, "finding", "findings");
        Some(format!(
            "{words}: {} a month in {findings}",
            one.saving_a_month
        ))
    };
    Some(TrendWords {
        line: line.join(" "),
        top: top.to_string(),
        from: zone.minute(first.at),
        then: [ago(24, "A day ago"), ago(7 * 24, "A week ago")]
            .into_iter()
            .flatten()
            .collect(),
    })
}
