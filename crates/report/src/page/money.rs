//! Amounts as text: the saving, the price and the date of the price.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use ebb_model::cost::{Cost, PriceBasis};
use ebb_model::finding::Finding;
use ebb_model::finding::evidence::Evidence;
use ebb_model::report::Totals;
use ebb_model::report::price_age::PricedBy;
use ebb_model::savings::Sums;
use ebb_telemetry::money::Usd;
use ebb_telemetry::safe_text::counted;
use ebb_telemetry::units::HumanDuration;
use jiff::Timestamp;
use serde::Serialize;

use crate::zone::Zone;

/// Cost of a finding as text.
#[derive(Debug, Serialize)]
pub struct CostWords {
    /// Saving in a month; starts with "at most" if the price is only an upper bound.
    pub saving: String,
    /// Time of the saving: "a month", or "for" the time of the metrics.
    pub period: String,
    /// Waste so far, in the form of the saving.
    pub spent: String,
    /// Waste in an hour, and its price with the age of the price.
    pub price: String,
    /// Waste in an hour at the list price; `None` if the price is the list price.
    pub list: Option<String>,
    /// Part of the cost that the totals contain, and the finding that contains the other part.
    /// `None` if the totals contain all of it.
    pub counted: Option<String>,
    /// Amounts for sums.
    #[serde(skip)]
    pub whole: Sums,
    /// Source of the price.
    #[serde(skip)]
    pub basis: PriceBasis,
}

impl CostWords {
    /// The cost of a finding; `None` without a price.
    pub fn of_finding(finding: &Finding, now: Timestamp, zone: &Zone) -> Option<Self> {
        let cost = finding.cost.as_ref()?;
        let words = Self::from_cost(cost, now, zone);
        let spent = wasted(cost.spent, (cost.basis.is_bound(), finding.is_longer()));
        // The tasks do not run all the time, so their waste in an hour is an average.
        let is_average = matches!(
            finding.evidence,
            Evidence::Overprovisioned(_) | Evidence::Step(_)
        );
        Some(Self {
            period: period([finding]),
            price: match is_average {
                true => format!(
                    "{spent} so far, on average {} over all hours with and without tasks, {}",
                    cost.per_hour,
                    source(cost, now, zone)
                ),
                false => words.price,
            },
            spent,
            ..words
        })
    }

    pub fn from_cost(cost: &Cost, now: Timestamp, zone: &Zone) -> Self {
        let is_bound = cost.basis.is_bound();
        let amount = |usd: Usd| bounded(usd, is_bound);
        let price = source(cost, now, zone);
        let at_most = if is_bound { "at most " } else { "" };
        let list = cost.list_per_hour.filter(|_| !cost.basis.is_of_the_list());
        Self {
            saving: amount(cost.saving_a_month),
            period: MONTH.to_owned(),
            spent: amount(cost.spent),
            price: match cost.per_hour.0 == Usd::ZERO {
                true => format!("nothing at present, {price}"),
                false => format!("{at_most}{} {price}", cost.per_hour),
            },
            list: list.map(|list| format!("{list} {}", age(cost.list_as_of, now))),
            counted: not_counted(cost),
            whole: cost.whole(),
            basis: cost.basis,
        }
    }
}

/// The source of a price, with its age.
fn source(cost: &Cost, now: Timestamp, zone: &Zone) -> String {
    let paid = age(cost.price_as_of, now);
    match cost.basis {
        PriceBasis::Bill => format!("from the bill{}", of_day(cost.price_as_of)),
        PriceBasis::Stated => "at the price stated in the policy".to_owned(),
        PriceBasis::CommandLine => "at the price of --price-per-hour".to_owned(),
        PriceBasis::ListPrice => format!("at the list price {paid}"),
        PriceBasis::SpotPrice => format!(
            "at the spot price{} in the cheapest zone",
            of_minute(cost.price_as_of, zone)
        ),
        PriceBasis::ListPriceAsUpperBound => {
            format!("at the on-demand price {paid}; spot costs less")
        }
    }
}

/// An amount, with "at most" for an upper bound.
pub fn bounded(amount: impl fmt::Display, is_bound: bool) -> String {
    match is_bound {
        true => format!("at most {amount}"),
        false => amount.to_string(),
    }
}

fn not_counted(cost: &Cost) -> Option<String> {
    let counted = cost.counted.as_ref()?;
    let in_totals = counted.sums.saving_a_month;
    if in_totals >= cost.saving_a_month {
        return None;
    }
    Some(match &counted.rest_counted_by {
        Some(other) => {
            format!("the totals contain {in_totals} of it; the finding {other} contains the rest")
        }
        None => {
            format!("the totals contain {in_totals} of it, which is the full cost of the resource")
        }
    })
}

/// Waste so far. It is a lower bound if the waste is longer than the stored data.
pub fn wasted(usd: Usd, (is_bound, is_longer): (bool, bool)) -> String {
    match (is_bound, is_longer) {
        (_, false) => bounded(usd, is_bound),
        (false, true) => format!("at least {usd}"),
        (true, true) => format!("at most {usd} in the observed time"),
    }
}

/// The sum of the waste so far, without upper bounds.
pub fn wasted_by<'a>(totals: &Totals, findings: impl IntoIterator<Item = &'a Finding>) -> String {
    let is_known = |finding: &&Finding| finding.known_saving().is_some();
    let mut known = findings.into_iter().filter(is_known);
    wasted(totals.spent, (false, known.any(Finding::is_longer)))
}

/// A sum of known amounts and upper bounds.
pub fn sum(known: Usd, at_most: Usd) -> String {
    match (known, at_most) {
        (known, Usd::ZERO) => known.to_string(),
        (Usd::ZERO, at_most) => format!("at most {at_most}"),
        (known, at_most) => format!("{known} and at most {at_most} more"),
    }
}

/// The usual time of a saving.
const MONTH: &str = "a month";

/// Explanation of a saving that is not of a month.
pub const NO_FORECAST: &str = "Less than a week of metrics gives no monthly forecast: such a saving covers only the time of its \
     metrics";

/// The time of the savings: a month if one of them is of a month.
pub fn period<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> String {
    let is_priced = |finding: &&Finding| finding.saving_or_zero() > Usd::ZERO;
    let priced = findings.into_iter().filter(is_priced);
    let covers: BTreeSet<_> = priced.map(Finding::saving_covers).collect();
    match (covers.contains(&None), covers.last().copied().flatten()) {
        (false, Some(longest)) if covers.len() == 1 => format!("for {}", HumanDuration(longest)),
        (false, Some(longest)) => format!("for up to {}", HumanDuration(longest)),
        _ => MONTH.to_owned(),
    }
}

/// First line of every form. It counts only the kinds of findings that have a saving.
pub fn headline<'a>(
    totals: &Totals,
    findings: impl IntoIterator<Item = &'a Finding, IntoIter: Clone>,
) -> String {
    let findings = findings.into_iter();
    let is_priced = findings.clone().any(|finding| finding.cost.is_some());
    let period = period(findings.clone());
    let all = findings.clone().count();
    let named = |number| counted(number, "finding", "findings");
    let with_price = with_price(findings.clone());
    let waste = findings.filter(|finding| finding.kind.is_waste()).count();
    match (is_priced, waste) {
        (true, _) => saving_of(totals, &period, &with_price),
        (false, 0) if all == 0 => "No findings".to_owned(),
        (false, 0) => format!("{} without a saving", named(all)),
        (false, _) => format!("{} without a known price", named(waste)),
    }
}

/// Number of findings of waste, and how many of them have no price if others have one.
pub fn with_price<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> String {
    let is_waste = |finding: &&Finding| finding.kind.is_waste();
    let waste = findings.into_iter().filter(is_waste);
    let (priced, without): (Vec<_>, Vec<_>) = waste.partition(|finding| finding.cost.is_some());
    let named = |number| counted(number, "finding", "findings");
    match (priced.len(), without.len()) {
        (0, all) | (all, 0) => named(all),
        (priced, without) => format!("{} with a price, {without} without", named(priced)),
    }
}

fn saving_of(totals: &Totals, period: &str, findings: &str) -> String {
    let (known, at_most) = (totals.saving_a_month, totals.at_most.saving_a_month);
    match (known, at_most) {
        (known, Usd::ZERO) => format!("{known} {period} in {findings}"),
        (Usd::ZERO, at_most) => format!("at most {at_most} {period} in {findings}"),
        (known, at_most) => format!("{known} {period}, and at most {at_most} more, in {findings}"),
    }
}

/// Total cost of which the saving is a part; `None` for a part of a report.
pub fn evaluated(totals: &Totals) -> Option<String> {
    let known = totals.cost_a_month?;
    let at_most = totals.cost_at_most_a_month.unwrap_or_default();
    let all = "All running machines and volumes, and other resources with a finding, cost";
    let cost = match (known, at_most) {
        (Usd::ZERO, Usd::ZERO) => return None,
        (known, Usd::ZERO) => format!("{all} {known} a month"),
        (Usd::ZERO, at_most) => format!("{all} at most {at_most} a month"),
        (known, at_most) => {
            format!(
                "{all} {known} a month. Spot machines without a known price add at most {at_most}"
            )
        }
    };
    let unknown = match totals.machines_without_price {
        0 => String::new(),
        n => format!(
            ". The price of {} is unknown",
            counted(n, "machine", "machines")
        ),
    };
    Some(cost + &unknown)
}

/// Date of a price, and its age if the price is stale.
pub fn age(at: Option<Timestamp>, now: Timestamp) -> String {
    let Some(at) = at else {
        return "of unknown date".to_owned();
    };
    let days = now.duration_since(at).as_hours() / 24;
    let stale = PricedBy::BuiltIn.stale_after().as_secs() / 86_400;
    // A price list has a date in UTC, regardless of the time zone of the reader.
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
