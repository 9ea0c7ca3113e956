//! Money as words: what is saved, at which price, and of when that price is.

use ebb_model::cost::{Cost, PriceBasis};
use ebb_model::report::Totals;
use ebb_model::report::price_age::PricedBy;
use ebb_model::savings::Sums;
use ebb_telemetry::money::Usd;
use jiff::Timestamp;
use serde::Serialize;

use crate::render::text::counted;
use crate::render::zone::Zone;

/// The money of a finding as words.
#[derive(Debug, Serialize)]
pub(in crate::render) struct CostWords {
    /// A month of it; begins with "at most" where only an upper bound is known.
    pub(in crate::render) saving: String,
    /// So far, likewise.
    pub(in crate::render) spent: String,
    /// What is wasted an hour, and the one price that this rests on, with its age.
    pub(in crate::render) price: String,
    /// The list price next to that; `None` where the price is the list price.
    pub(in crate::render) list: Option<String>,
    /// What of it the totals contain, and which finding counts the rest; `None` where they
    /// contain all of it.
    pub(in crate::render) counted: Option<String>,
    /// The amounts, for sums.
    #[serde(skip)]
    pub(in crate::render) whole: Sums,
    /// Where the price comes from.
    #[serde(skip)]
    pub(in crate::render) basis: PriceBasis,
}

impl CostWords {
    pub(super) fn of(cost: &Cost, now: Timestamp, zone: &Zone) -> Self {
        let is_bound = cost.basis.is_bound();
        let amount = |usd: Usd| bounded(usd, is_bound);
        let as_of = |at: Option<Timestamp>| age(at, now);
        let paid = as_of(cost.price_as_of);
        let price = match cost.basis {
            PriceBasis::Bill => format!("by the bill{}", of_day(cost.price_as_of)),
            PriceBasis::Stated => "at the price that you state".to_owned(),
            PriceBasis::ListPrice => format!("at the list price {paid}"),
            PriceBasis::SpotPrice => format!(
                "at the spot price{} in the cheapest zone",
                of_minute(cost.price_as_of, zone)
            ),
            PriceBasis::ListPriceAsUpperBound => {
                format!("at the on-demand price {paid}; spot costs less")
            }
        };
        let at_most = if is_bound { "at most " } else { "" };
        let list = cost.list_per_hour.filter(|_| !cost.basis.is_of_the_list());
        Self {
            saving: amount(cost.saving_a_month),
            spent: amount(cost.spent),
            price: match cost.per_hour.0 == Usd::ZERO {
                true => format!("wastes nothing now, {price}"),
                false => format!("wastes {at_most}{} {price}", cost.per_hour),
            },
            list: list.map(|list| format!("{list} {}", as_of(cost.list_as_of))),
            counted: not_counted(cost),
            whole: cost.whole(),
            basis: cost.basis,
        }
    }
}

/// An amount, or that it is at most that.
pub(in crate::render) fn bounded(usd: Usd, is_bound: bool) -> String {
    match is_bound {
        true => format!("at most {usd}"),
        false => usd.to_string(),
    }
}

fn not_counted(cost: &Cost) -> Option<String> {
    let counted = cost.counted.as_ref()?;
    let in_totals = counted.sums.saving_a_month;
    if in_totals >= cost.saving_a_month {
        return None;
    }
    Some(match &counted.rest_counted_by {
        Some(other) => format!("the totals contain {in_totals} of it; {other} counts the rest"),
        None => format!("the totals contain {in_totals} of it: the resource costs no more"),
    })
}

/// A sum that may have a part of which only an upper bound is known.
pub(in crate::render) fn sum(known: Usd, at_most: Usd) -> String {
    match (known, at_most) {
        (known, Usd::ZERO) => known.to_string(),
        (Usd::ZERO, at_most) => format!("at most {at_most}"),
        (known, at_most) => format!("{known} and at most {at_most} more"),
    }
}

/// The first line of every form.
pub(super) fn headline(totals: &Totals, findings: &str) -> String {
    let (known, at_most) = (totals.saving_a_month, totals.at_most.saving_a_month);
    match (known, at_most) {
        (known, Usd::ZERO) => format!("{known} a month in {findings}"),
        (Usd::ZERO, at_most) => format!("at most {at_most} a month in {findings}"),
        (known, at_most) => format!("{known} a month, and at most {at_most} more, in {findings}"),
    }
}

/// What the savings are a part of; `None` for a part of a report.
pub(super) fn evaluated(totals: &Totals) -> Option<String> {
    let known = totals.cost_a_month?;
    let at_most = totals.cost_at_most_a_month.unwrap_or_default();
    (known > Usd::ZERO || at_most > Usd::ZERO).then(|| {
        let cost = sum(known, at_most);
        format!("Running machines, volumes and what findings are about cost {cost} a month")
    })
}

/// Of when a price is, and how old where that is too old to be believed without a word.
pub(crate) fn age(at: Option<Timestamp>, now: Timestamp) -> String {
    let Some(at) = at else {
        return "of unknown date".to_owned();
    };
    let days = now.duration_since(at).as_hours() / 24;
    let stale = PricedBy::BuiltIn.stale_after().as_secs() / 86_400;
    // A list is of a day, whatever the reader's zone.
    let day = Zone::utc().day(at);
    match usize::try_from(days) {
        Ok(days) if days as u64 >= stale => {
            format!("of {day} ({} old)", counted(days, "day", "days"))
        }
        _ => format!("of {day}"),
    }
}

fn of_day(at: Option<Timestamp>) -> String {
    at.map_or_else(String::new, |at| format!(" of {}", Zone::utc().day(at)))
}

fn of_minute(at: Option<Timestamp>, zone: &Zone) -> String {
    at.map_or_else(String::new, |at| format!(" of {}", zone.minute(at)))
}

#[cfg(test)]
mod tests {
    use ebb_model::finding::Finding;
    use ebb_model::report::Report;
    use ebb_model::savings::Counted;
    use ebb_telemetry::money::UsdPerHour;

    use super::*;
    use crate::render::{Look, Zone, csv, email, html, json, markdown, sample, slack, table};

    fn now() -> Timestamp {
        "2026-03-04T12:00:00Z".parse().expect("a time")
    }

    #[test]
    fn a_price_has_its_basis_and_age_and_the_list_price_stands_next_to_it() {
        let check = |basis: PriceBasis, days: Option<i64>, price: &str, list: Option<&str>| {
            let ago = |days: i64| now() - jiff::SignedDuration::from_hours(24 * days);
            let cost = Cost {
                per_hour: UsdPerHour::from_micros(500_000),
                basis,
                list_per_hour: Some(UsdPerHour::from_micros(800_000)),
                spent: Usd::from_micros(1_000_000),
                saving_a_month: Usd::from_micros(365_000_000),
                counted: None,
                price_as_of: days.map(ago),
                list_as_of: Some(ago(100)),
            };
            let words = CostWords::of(&cost, now(), &Zone::utc());
            assert_eq!((words.price.as_str(), words.list.as_deref()), (price, list));
            let at_most = words.saving.starts_with("at most $365.00");
            assert_eq!(at_most, basis.is_bound());
        };
        let list = Some("$0.8000/h of 2025-11-24 (100 days old)");
        check(
            PriceBasis::Bill,
            Some(2),
            "wastes $0.5000/h by the bill of 2026-03-02",
            list,
        );
        check(
            PriceBasis::Stated,
            None,
            "wastes $0.5000/h at the price that you state",
            list,
        );
        check(
            PriceBasis::ListPrice,
            Some(89),
            "wastes $0.5000/h at the list price of 2025-12-05",
            None,
        );
        check(
            PriceBasis::ListPrice,
            None,
            "wastes $0.5000/h at the list price of unknown date",
            None,
        );
        check(
            PriceBasis::SpotPrice,
            Some(0),
            "wastes $0.5000/h at the spot price of 2026-03-04 12:00 UTC in the cheapest zone",
            list,
        );
        check(
            PriceBasis::ListPriceAsUpperBound,
            Some(90),
            "wastes at most $0.5000/h at the on-demand price of 2025-12-04 (90 days old); spot \
             costs less",
            None,
        );
    }

    /// Twelve findings of three owners; of some a part or nothing is counted.
    fn overlapping() -> Report {
        let mut report = sample::many(12);
        let bases = [
            PriceBasis::Bill,
            PriceBasis::ListPrice,
            PriceBasis::ListPriceAsUpperBound,
        ];
        for (n, finding) in report.findings.iter_mut().enumerate() {
            finding.resource.owner = Some(format!("owner-{}", n % 3));
            let Some(cost) = &mut finding.cost else {
                continue;
            };
            let cents = i64::try_from(n).expect("few") * 333_333 + 5_000;
            cost.saving_a_month = Usd::from_micros(cents * 7);
            cost.basis = bases[n / 2 % 3];
            cost.counted = (n % 2 == 1).then(|| Counted {
                sums: Sums {
                    saving_a_month: Usd::from_micros(cents * i64::from(n % 4 == 1)),
                    ..Sums::default()
                },
                rest_counted_by: Some("idle_node/eu-central-1/i-0aaa".into()),
            });
        }
        let findings = report.findings.clone();
        report.totals.sum_up(&findings);
        report
    }

    #[test]
    fn every_form_says_the_same_total_and_its_parts_add_up_to_it() {
        let report = overlapping();
        let (known, at_most) = (
            report.totals.saving_a_month,
            report.totals.at_most.saving_a_month,
        );
        let line = format!("{known} a month, and at most {at_most} more, in 12 findings");
        let news = sample::all_new(&report);
        let mail = email(&report, &news);
        let forms = [
            table(&report, &Look::PLAIN, &Zone::utc()),
            markdown(&report, &Zone::utc()),
            slack(&report, &news).to_string(),
            mail.subject,
            mail.text,
        ];
        for form in forms {
            assert!(form.contains(&line), "no {line} in\n{form}");
        }
        for page in [html(&report, &Zone::utc()), mail.html] {
            assert!(
                page.contains(&format!("{known}"))
                    && page.contains(&format!("at most {at_most} more"))
            );
        }
        let value: serde_json::Value = serde_json::from_str(&json(&report)).expect("JSON");
        let of_json = |value: &serde_json::Value| value.as_str().and_then(Usd::parse);
        let totals = &value["totals"];
        assert_eq!(of_json(&totals["saving_a_month_usd"]), Some(known));
        assert_eq!(
            of_json(&totals["at_most"]["saving_a_month_usd"]),
            Some(at_most)
        );
        let text = csv(&report);
        let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let head = lines.next().expect("a head");
        let place = head
            .iter()
            .rev()
            .position(|name| *name == "counted_saving_a_month_usd");
        let place = place.expect("a column");
        let counted = lines.filter_map(|cells| Usd::parse(cells[cells.len() - 1 - place]));
        assert_eq!(counted.sum::<Usd>(), known + at_most);
        let of_owner = |owner: &str| report.part(|one| one == Some(owner)).totals;
        let parts = ["owner-0", "owner-1", "owner-2"].map(of_owner);
        let sums = |of: fn(&Totals) -> Usd| parts.iter().map(of).sum::<Usd>();
        assert_eq!(sums(|totals| totals.saving_a_month), known);
        assert_eq!(sums(|totals| totals.at_most.saving_a_month), at_most);
    }

    #[test]
    fn what_another_finding_counts_is_said() {
        let report = overlapping();
        let said = |finding: &Finding| {
            let cost = finding.cost.as_ref().expect("a price");
            CostWords::of(cost, report.at, &Zone::utc()).counted
        };
        assert_eq!(said(&report.findings[0]), None);
        assert_eq!(
            said(&report.findings[3]).as_deref(),
            Some("the totals contain $0.00 of it; idle_node/eu-central-1/i-0aaa counts the rest")
        );
    }
}
