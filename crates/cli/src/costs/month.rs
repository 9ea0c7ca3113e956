//! The days of a month: those of the report, and closed ones from the lake of the deployment.

#[cfg(feature = "sweep")]
mod lake_rows;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use ebb_model::cost_record::CostRecord;
use ebb_model::report::Report;
use ebb_model::report::cost_table::CostMonth;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::safe_text::one_line;
use jiff::civil::Date;
use jiff::tz::TimeZone;

#[cfg(feature = "sweep")]
use self::lake_rows::read_lake;
use crate::deployment::Source;
#[cfg(not(feature = "sweep"))]
use crate::deployment::Target;

/// The most ranges of missing days that a note names.
const MAX_RANGES: usize = 5;

/// The days that a table has.
#[derive(Debug, Default)]
pub(super) struct MonthDays {
    /// The days that come from the lake.
    pub(super) of_lake: BTreeSet<String>,
    /// Sentences about missing days.
    pub(super) notes: Vec<String>,
}

/// A month, or its first days.
#[derive(Debug, Clone, Copy)]
pub(super) struct MonthPart<'a> {
    pub(super) month: &'a CostMonth,
    /// The last day; `None` for the whole month.
    pub(super) through: Option<Date>,
}

/// Adds the days of the lake to a report, and removes those after the part of the month.
pub(super) fn with_lake(
    report: &mut Report,
    part: MonthPart<'_>,
    source: &Source<'_>,
) -> MonthDays {
    let days = report.costs.days.iter();
    let reached = reached(days.map(|day| day.day.as_str()), report, part);
    let (LakeRows { rows, cut }, remedy) = match source {
        Source::Deployment(target) => match read_lake(target, part) {
            Ok(read) => (read, "Neither the report nor the lake has them.".to_owned()),
            Err(error) => {
                let why = one_line(&format!("{error:#}"));
                (LakeRows::default(), format!("The lake was not read: {why}"))
            }
        },
        _ => (LakeRows::default(), USE_LAKE.to_owned()),
    };
    let mut of_lake = report.costs.add_lake_days(&mut report.ledger, &rows);
    if rows.iter().any(|row| row.origin == Origin::Simulated) {
        report.origin = Origin::Simulated;
    }
    if let Some(through) = part.through {
        end_at(report, through);
        of_lake.retain(|day| is_through(day, through));
    }
    let days = report.costs.days.iter().map(|day| day.day.as_str());
    let mut known: BTreeSet<&str> = days.collect();
    let cut = cut.iter().map(Date::to_string);
    let cut: Vec<String> = cut.filter(|day| !known.contains(day.as_str())).collect();
    known.extend(cut.iter().map(String::as_str));
    let mut notes = missing(part.month, reached, known, &remedy);
    notes.extend(too_many_rows(&cut));
    MonthDays { of_lake, notes }
}

/// Removes the days after the part of the month. The lake has no tags of the bill.
pub(super) fn of_report(report: &mut Report, part: MonthPart<'_>) -> MonthDays {
    let days = report.ledger.iter();
    let reached = reached(days.map(|day| day.day.as_str()), report, part);
    if let Some(through) = part.through {
        end_at(report, through);
    }
    let days = report.ledger.iter().map(|day| day.day.as_str());
    let remedy = "Only reports have the tags of the bill, for at most 14 days.";
    MonthDays {
        of_lake: BTreeSet::new(),
        notes: missing(part.month, reached, days.collect(), remedy),
    }
}

const USE_LAKE: &str = "A report has at most 14 days of the bill. The lake of a deployment has more: \
                        give --lake URL or --bucket NAME.";

/// The last day that the part of the month can have by now.
fn reached<'a>(
    days: impl DoubleEndedIterator<Item = &'a str>,
    report: &Report,
    part: MonthPart<'_>,
) -> Date {
    let last = days.rev().find_map(|day| day.parse().ok());
    let last = last.unwrap_or_else(|| report.at.to_zoned(TimeZone::UTC).date());
    part.through.map_or(last, |through| through.min(last))
}

fn is_through(day: &str, through: Date) -> bool {
    day.parse::<Date>().is_ok_and(|day| day <= through)
}

fn end_at(report: &mut Report, through: Date) {
    report.ledger.retain(|day| is_through(&day.day, through));
    let costs = &mut report.costs;
    costs.days.retain(|day| is_through(&day.day, through));
    for share in costs.by_run.iter_mut().chain(&mut costs.by_step) {
        share.by_day.retain(|day, _| is_through(day, through));
    }
}

/// A sentence about the days of a month that are not known; none if all are.
fn missing(month: &CostMonth, reached: Date, known: BTreeSet<&str>, remedy: &str) -> Vec<String> {
    let first = month.first_day();
    let days = first.into_iter().flat_map(|first| {
        let days = std::iter::successors(Some(first), |day| day.tomorrow().ok());
        days.take_while(move |day| *day <= reached && *day <= first.last_of_month())
    });
    let mut ranges: Vec<(Date, Date)> = Vec::new();
    for day in days.filter(|day| !known.contains(day.to_string().as_str())) {
        match ranges.last_mut() {
            Some((_, last)) if last.tomorrow().is_ok_and(|next| next == day) => *last = day,
            _ => ranges.push((day, day)),
        }
    }
    if ranges.is_empty() {
        return Vec::new();
    }
    let named = ranges.iter().take(MAX_RANGES);
    let mut named: Vec<String> = named
        .map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first} to {last}"),
        })
        .collect();
    if ranges.len() > MAX_RANGES {
        named.push("and others".to_owned());
    }
    vec![format!(
        "Missing days of {month}: {}. {remedy}",
        named.join(", ")
    )]
}

/// A sentence about days that are not shown although the lake has them; none without such days.
fn too_many_rows(days: &[String]) -> Option<String> {
    let days = (!days.is_empty()).then(|| days.join(", "))?;
    Some(format!(
        "These days have too many rows in the lake: {days}."
    ))
}

/// Rows of the lake, of the newest evaluation of each day.
#[derive(Debug, Default)]
struct LakeRows {
    rows: Vec<CostRecord>,
    /// Days with more rows than one read returns. Rows of the newest evaluation may be missing.
    cut: BTreeSet<Date>,
}

#[cfg(not(feature = "sweep"))]
fn read_lake(_: &Target, _: MonthPart<'_>) -> anyhow::Result<LakeRows> {
    anyhow::bail!("this program was built without the lake")
}
