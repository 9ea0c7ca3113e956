//! Cost allocation of the bill by day: as text for all days together, and as bars for a page.

use std::iter;

use ebb_model::report::bill_day::BilledDayShares;
use ebb_model::report::cost_shares::RestKind;
use ebb_telemetry::money::Usd;
use ebb_telemetry::safe_text::one_line;
use jiff::civil::Date;
use serde::Serialize;

/// Number of drawn days, the newest; Ebb requests the bill by resource for the same number of days.
const MAX_DAYS: usize = 14;

/// Parts of the bill of a day, in the order of [`BilledDayShares::parts`]: class on a page and text.
/// Money for work is first.
const PARTS: [(&str, &str); 5] = [
    ("steps", "tasks"),
    ("other", "services and sessions"),
    ("found", "waste in findings"),
    ("idle", "idle"),
    ("rest", "without a probe, other services and machines"),
];

/// The difference between two sums of waste.
const OF_THESE_DAYS: &str = "Waste in findings is that of these days. Wasted so far is that of each finding since it began.";

/// Days as bars.
#[derive(Debug, Serialize)]
pub struct Bars {
    /// Class and text of each part of a bar.
    key: [(&'static str, &'static str); 5],
    days: Vec<BillDay>,
}

/// One day as a bar.
#[derive(Debug, Serialize)]
pub struct BillDay {
    /// The day, such as `Mon 2 Mar`, and whether the cloud may still change its bill.
    label: String,
    /// All parts as text.
    words: String,
    /// Billed amount.
    billed: String,
    /// Class, start and length of each part, in thousandths of the most expensive day.
    parts: Vec<(&'static str, i64, i64)>,
}

/// One line for all complete days, and one for all estimated days.
pub fn lines(days: &[BilledDayShares]) -> Vec<String> {
    let together = |open: bool| {
        let of_it = || days.iter().filter(move |day| day.estimated == open);
        let sum = |part: fn(&BilledDayShares) -> Usd| of_it().map(part).sum::<Usd>();
        let (first, last) = (of_it().next()?, of_it().next_back()?);
        let span = match first.day == last.day {
            true => one_line(&first.day),
            false => format!("{} to {}", one_line(&first.day), one_line(&last.day)),
        };
        let open = if open {
            ", estimated because the bill is not final"
        } else {
            ""
        };
        Some(format!(
            "{span}: {} billed = {}{open}",
            sum(|day| day.billed),
            divided(of_it()),
        ))
    };
    let mut lines: Vec<String> = [false, true].into_iter().filter_map(together).collect();
    if !lines.is_empty() {
        lines.push(OF_THESE_DAYS.to_owned());
    }
    lines
}

/// The parts of some days, with the names of the rows of `ebb costs`.
fn divided<'a>(days: impl Iterator<Item = &'a BilledDayShares> + Clone) -> String {
    let sum = |part: fn(&BilledDayShares) -> Usd| days.clone().map(part).sum::<Usd>();
    let rest = [
        (RestKind::OtherWork, sum(|day| day.other_work)),
        (RestKind::Findings, sum(|day| day.findings)),
        (RestKind::Idle, sum(|day| day.idle)),
        (RestKind::Unwatched, sum(|day| day.unwatched)),
        (RestKind::Elsewhere, sum(|day| day.elsewhere)),
        (RestKind::Rounding, sum(|day| day.rounding)),
    ];
    let is_shown = |(kind, usd): &(RestKind, Usd)| *kind != RestKind::Rounding || *usd != Usd::ZERO;
    let rest = rest.into_iter().filter(is_shown);
    let parts = rest.map(|(kind, usd)| format!("{usd} {kind}"));
    let tasks = iter::once(format!("{} tasks", sum(|day| day.steps)));
    tasks.chain(parts).collect::<Vec<_>>().join(" + ")
}

/// The newest days with bars in proportion to their cost; `None` for a single day, because a line
/// is enough.
pub fn bars(days: &[BilledDayShares]) -> Option<Bars> {
    let days = &days[days.len().saturating_sub(MAX_DAYS)..];
    // A credit makes a day cheaper than its other parts together.
    let drawn_cost = |day: &BilledDayShares| -> i64 {
        let parts = day.parts().into_iter().map(|usd| usd.micros().max(0));
        parts.fold(0, i64::saturating_add)
    };
    let dearest = days.iter().map(drawn_cost).max();
    let dearest = dearest.filter(|micros| *micros > 0 && days.len() > 1)?;
    Some(Bars {
        key: PARTS,
        days: days.iter().map(|day| drawn(day, dearest)).collect(),
    })
}

fn drawn(day: &BilledDayShares, dearest: i64) -> BillDay {
    let thousandths = |usd: Usd| {
        // A credit makes a part negative, which has no length.
        let part = i128::from(usd.micros().max(0)) * 1_000 / i128::from(dearest);
        i64::try_from(part).unwrap_or(1_000).min(1_000)
    };
    let mut begin = 0;
    let mut parts = Vec::new();
    for ((class, _), amount) in PARTS.into_iter().zip(day.parts()) {
        let length = thousandths(amount);
        if length > 0 {
            parts.push((class, begin, length));
        }
        begin += length;
    }
    let date: Option<Date> = day.day.parse().ok();
    let label = date.map(|date| date.strftime("%a %-d %b").to_string());
    let open = if day.estimated { ", estimated" } else { "" };
    let label = label.unwrap_or_else(|| one_line(&day.day));
    BillDay {
        // Next to the amount it would take the width of every bar on a phone.
        label: format!("{label}{open}"),
        words: divided(iter::once(day)),
        billed: day.billed.to_string(),
        parts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(day: &str, micros: i64) -> BilledDayShares {
        let usd = Usd::from_micros;
        BilledDayShares {
            day: day.to_owned(),
            billed: usd(micros),
            steps: usd(micros / 2),
            other_work: usd(micros / 4),
            elsewhere: usd(micros - micros / 2 - micros / 4),
            ..BilledDayShares::default()
        }
    }

    #[test]
    fn a_day_with_credits_fits_its_bar() {
        let mut credited = day("2026-03-02", 4_000_000);
        credited.billed = Usd::from_micros(1_000_000);
        credited.elsewhere = Usd::from_micros(-2_000_000);
        let shown = days(&[day("2026-03-01", 2_000_000), credited]);
        let ends = shown[1]
            .parts
            .iter()
            .map(|(_, begin, length)| begin + length);
        assert!(ends.max() <= Some(1_000), "{:?}", shown[1].parts);
    }

    #[test]
    fn credits_make_the_other_services_negative_and_rounding_is_shown_if_there_is_any() {
        let mut one = day("2026-03-01", 0);
        one.unwatched = Usd::from_micros(4_000_000);
        one.elsewhere = Usd::from_micros(-3_000_000);
        let shown = lines(&[one.clone()]);
        let expect = " + $4.00 without a probe + -$3.00 other services and machines";
        assert!(shown[0].ends_with(expect), "{shown:?}");
        one.rounding = Usd::from_micros(20_000);
        assert!(lines(&[one])[0].ends_with(" + $0.02 rounding"));
    }

    fn days(days: &[BilledDayShares]) -> Vec<BillDay> {
        bars(days).map(|bars| bars.days).unwrap_or_default()
    }

    #[test]
    fn closed_days_are_one_line_and_open_ones_another() {
        let open = BilledDayShares {
            estimated: true,
            ..day("2026-03-03", 1_000_000)
        };
        let days = [
            day("2026-03-01", 3_000_000),
            day("2026-03-02", 1_000_000),
            open,
        ];
        let shown = lines(&days);
        insta::assert_snapshot!(shown[0], @"2026-03-01 to 2026-03-02: $4.00 billed = $2.00 tasks + $1.00 services and sessions + $0.00 waste in findings + $0.00 idle + $0.00 without a probe + $1.00 other services and machines");
        insta::assert_snapshot!(shown[1], @"2026-03-03: $1.00 billed = $0.50 tasks + $0.25 services and sessions + $0.00 waste in findings + $0.00 idle + $0.00 without a probe + $0.25 other services and machines, estimated because the bill is not final");
    }

    #[test]
    fn a_bar_is_as_long_as_its_day_was_dear() {
        let shown = days(&[day("2026-03-01", 4_000_000), day("2026-03-02", 1_000_000)]);
        let parts = |n: usize| shown[n].parts.as_slice();
        assert_eq!(
            parts(0),
            [("steps", 0, 500), ("other", 500, 250), ("rest", 750, 250)]
        );
        assert_eq!(
            parts(1),
            [("steps", 0, 125), ("other", 125, 62), ("rest", 187, 62)]
        );
        assert_eq!(
            (&*shown[1].label, &*shown[1].billed),
            ("Mon 2 Mar", "$1.00")
        );
        let mut open = [day("2026-03-01", 4_000_000), day("2026-03-02", 1_000_000)];
        open[1].estimated = true;
        assert_eq!(days(&open)[1].label, "Mon 2 Mar, estimated");
    }

    #[test]
    fn what_has_no_length_is_not_drawn() {
        let credit = BilledDayShares {
            elsewhere: Usd::from_micros(-500_000),
            ..day("2026-03-02", 1_000_000)
        };
        let shown = days(&[day("2026-03-01", 1_000_000), credit]);
        assert_eq!(shown[1].parts, [("steps", 0, 500), ("other", 500, 250)]);
        assert!(days(&[day("2026-03-01", 1_000_000)]).is_empty());
        assert!(days(&[day("2026-03-01", 0), day("2026-03-02", 0)]).is_empty());
        let many: Vec<_> = (0..40).map(|_| day("not a day", 7)).collect();
        assert_eq!(days(&many).len(), MAX_DAYS);
    }
}
