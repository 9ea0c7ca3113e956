//! The charges of one billing period, summed by day. Rows are not stored, so that memory does not
//! grow with the export.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use ebb_telemetry::identity::NodeId;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use super::amount::Amount;
use super::charge::{Charge, RefusedCharge, RowProblem};

/// The most sums, at about 100 bytes each.
const MAX_SUMS: usize = 2_000_000;

const DAY_NANOS: i128 = 86_400 * 1_000_000_000;

/// The days that a report uses; the end is exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DayRange {
    pub(super) first: Date,
    pub(super) end: Date,
}

impl DayRange {
    pub(super) fn contains(self, day: Date) -> bool {
        self.first <= day && day < self.end
    }

    /// Those of these days that have a part of a period; without an end, that of its start.
    pub(super) fn covered_by(
        self,
        start: Timestamp,
        end: Option<Timestamp>,
    ) -> impl Iterator<Item = Date> {
        let last = end.and_then(|end| end.checked_sub(1.nanosecond()).ok());
        let (first, last) = (date(start), date(last.unwrap_or(start)));
        let days = std::iter::successors(Some(self.first.max(first)), |day| day.tomorrow().ok());
        days.take_while(move |day| self.contains(*day) && *day <= last)
    }
}

/// The sums of one day.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct DaySums {
    pub(super) by_service: BTreeMap<String, Amount>,
    pub(super) by_node: BTreeMap<NodeId, Amount>,
    /// By the value of each requested tag; `""` if a row has no value.
    pub(super) by_tag: Vec<BTreeMap<String, Amount>>,
}

/// Too many services, machines and tag values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more than {MAX_SUMS} services, machines and tag values by day; request fewer cost_tags")]
pub(super) struct TooManySums;

/// A charge whose period is longer than a day.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct LongCharge {
    start: Timestamp,
    end: Timestamp,
    service: String,
    node: Option<NodeId>,
    tags: Vec<String>,
}

/// Rows whose tags cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct UnreadTags {
    pub(super) rows: u64,
    /// The place of the first row and the reason.
    pub(super) first: String,
}

impl UnreadTags {
    /// Counts a row; the text is used for the first one.
    pub(super) fn add(&mut self, first: impl FnOnce() -> String) {
        if self.rows == 0 {
            self.first = first();
        }
        self.rows += 1;
    }
}

/// The sums of a billing period.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PeriodSums {
    days: BTreeMap<Date, DaySums>,
    long: BTreeMap<LongCharge, Amount>,
    sums: usize,
    /// Machines with an invalid row, by day. The other rows are not the whole cost of a machine.
    pub(super) refused: BTreeSet<(Date, NodeId)>,
    /// Machines with a row in another currency, by day.
    pub(super) foreign: BTreeSet<(Date, NodeId)>,
    /// The name of the column of tags, if tags are requested and a file does not have it.
    pub(super) missing_tags: Option<&'static str>,
    /// Rows whose tags cannot be read.
    pub(super) unread_tags: UnreadTags,
    /// Rows in each other currency, by its code.
    pub(super) other_currencies: BTreeMap<String, u64>,
    /// Rows so far.
    pub(super) rows: u64,
    /// Rows about machines with a period of more than a day.
    pub(super) long_machine_rows: u64,
    /// The days on which usage of at most a day begins.
    pub(super) usage_days: BTreeSet<Date>,
    /// The first start of usage of at most a day. Taxes and fees begin with their month.
    pub(super) oldest: Option<Timestamp>,
    /// The last end of usage of at most a day; its start if it has no end.
    pub(super) newest: Option<Timestamp>,
}

/// The most currencies that are counted by their code.
const MAX_CURRENCIES: usize = 20;

impl PeriodSums {
    /// Counts a row in another currency, which is not part of the bill.
    pub(super) fn count_currency(&mut self, code: &str) {
        let is_known = self.other_currencies.contains_key(code);
        let code = match is_known || self.other_currencies.len() < MAX_CURRENCIES {
            true => code,
            false => "others",
        };
        *self.other_currencies.entry(code.to_owned()).or_default() += 1;
    }

    /// Adds a charge.
    pub(super) fn add(&mut self, charge: Charge<'_>, days: DayRange) -> Result<(), TooManySums> {
        let end = charge.end.unwrap_or(charge.start);
        let length = end.duration_since(charge.start).as_nanos();
        if length > DAY_NANOS && charge.is_spread {
            self.long_machine_rows += u64::from(charge.node.is_some());
            let long = LongCharge {
                start: charge.start,
                end,
                service: charge.service.into_owned(),
                node: charge.node,
                tags: charge.tags.into_iter().map(Cow::into_owned).collect(),
            };
            return self.add_long(long, charge.amount);
        }
        if length <= DAY_NANOS && charge.is_spread {
            self.oldest = Some(self.oldest.map_or(charge.start, |at| at.min(charge.start)));
            self.newest = self.newest.max(Some(end));
        }
        let day = date(charge.start);
        if !days.contains(day) {
            return Ok(());
        }
        if charge.is_spread {
            self.usage_days.insert(day);
        }
        let node = charge.node;
        let names = (charge.service.as_ref(), node.as_ref());
        let tags = charge.tags.iter().map(Cow::as_ref);
        self.add_to_day(day, names, tags, charge.amount)
    }

    /// Remembers a machine whose row is not part of the bill.
    pub(super) fn refuse(
        &mut self,
        charge: RefusedCharge,
        problem: &RowProblem,
        days: DayRange,
    ) -> Result<(), TooManySums> {
        let machines = match problem {
            RowProblem::Currency(_) => &mut self.foreign,
            RowProblem::Column(_) => &mut self.refused,
        };
        let before = machines.len();
        for day in days.covered_by(charge.start, charge.end) {
            machines.insert((day, charge.node.clone()));
        }
        let more = machines.len() - before;
        self.count(more)
    }

    fn add_long(&mut self, long: LongCharge, amount: Amount) -> Result<(), TooManySums> {
        let before = self.long.len();
        *self.long.entry(long).or_default() += amount;
        self.count(self.long.len() - before)
    }

    fn count(&mut self, more: usize) -> Result<(), TooManySums> {
        self.sums += more;
        match self.sums <= MAX_SUMS {
            true => Ok(()),
            false => Err(TooManySums),
        }
    }

    fn add_to_day<'a>(
        &mut self,
        day: Date,
        (service, node): (&str, Option<&NodeId>),
        tags: impl Iterator<Item = &'a str>,
        amount: Amount,
    ) -> Result<(), TooManySums> {
        let sums = self.days.entry(day).or_default();
        let mut more = add(&mut sums.by_service, service, amount);
        if let Some(node) = node {
            more += match sums.by_node.get_mut(node) {
                Some(sum) => {
                    *sum += amount;
                    0
                }
                None => {
                    sums.by_node.insert(node.clone(), amount);
                    1
                }
            };
        }
        for (at, value) in tags.enumerate() {
            if sums.by_tag.len() <= at {
                sums.by_tag.push(BTreeMap::new());
            }
            more += add(&mut sums.by_tag[at], value, amount);
        }
        self.count(more)
    }

    /// The sums by day. A charge of more than a day is divided evenly among its days, as far as the
    /// export has reached: fees of the present month are those until now.
    pub(super) fn into_days(
        mut self,
        days: DayRange,
    ) -> Result<BTreeMap<Date, DaySums>, TooManySums> {
        for (long, amount) in std::mem::take(&mut self.long) {
            let reached = self.newest.filter(|newest| *newest > long.start);
            let end = reached.map_or(long.end, |reached| reached.min(long.end));
            for (day, part) in spread(amount, long.start, end) {
                if days.contains(day) {
                    let names = (long.service.as_str(), long.node.as_ref());
                    let tags = long.tags.iter().map(String::as_str);
                    self.add_to_day(day, names, tags, part)?;
                }
            }
        }
        Ok(self.days)
    }
}

/// Adds to a sum; returns the number of new sums, 0 or 1.
fn add(sums: &mut BTreeMap<String, Amount>, key: &str, amount: Amount) -> usize {
    if let Some(sum) = sums.get_mut(key) {
        *sum += amount;
        return 0;
    }
    sums.insert(key.to_owned(), amount);
    1
}

/// The parts of an amount by day, in proportion to the length of the period on each day. They add up
/// to the amount. A period of more than two years is that of its first day.
fn spread(amount: Amount, start: Timestamp, end: Timestamp) -> Vec<(Date, Amount)> {
    const MAX_DAYS: i128 = 731;
    let length = end.duration_since(start).as_nanos();
    if length <= 0 || length > MAX_DAYS * DAY_NANOS {
        return vec![(date(start), amount)];
    }
    let mut parts = Vec::new();
    let (mut from, mut given) = (start, Amount::ZERO);
    while from < end {
        let day = date(from);
        let next = start_of_next(day).unwrap_or(end).min(end);
        let until = next.duration_since(start).as_nanos();
        let part = amount.part(until, length) - given;
        given += part;
        parts.push((day, part));
        from = next;
    }
    parts
}

/// The day that contains a time, in UTC.
pub(super) fn date(at: Timestamp) -> Date {
    at.to_zoned(TimeZone::UTC).date()
}

/// The end of a day; `None` for the last day of the calendar.
pub(super) fn start_of_next(day: Date) -> Option<Timestamp> {
    let next = day.checked_add(1.day()).ok()?;
    Some(next.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    fn charge(start: &str, end: &str, dollars: &str) -> Charge<'static> {
        Charge {
            start: at(start),
            end: Some(at(end)),
            service: Cow::Borrowed("EC2"),
            account: "",
            usage: "",
            line_item: None,
            is_usage_of_resource: true,
            node: NodeId::new("i-0123456789abcdef0").ok(),
            amount: Amount::parse(dollars).expect("an amount"),
            is_spread: true,
            bad_tags: None,
            tags: vec![Cow::Borrowed("tides")],
        }
    }

    fn days(first: &str, end: &str) -> DayRange {
        DayRange {
            first: first.parse().expect("a day"),
            end: end.parse().expect("a day"),
        }
    }

    fn totals(sums: PeriodSums, range: DayRange) -> Vec<String> {
        let days = sums.into_days(range).expect("few sums");
        let total = |sums: &DaySums| sums.by_service.values().copied().sum::<Amount>().to_usd();
        let days = days
            .iter()
            .map(|(day, sums)| format!("{day} {}", total(sums)));
        days.collect()
    }

    #[test]
    fn hours_are_summed_by_day_and_other_days_are_left_out() {
        let range = days("2026-10-02", "2026-10-04");
        let mut sums = PeriodSums::default();
        for (start, end) in [
            ("2026-10-01T23:00:00Z", "2026-10-02T00:00:00Z"),
            ("2026-10-02T00:00:00Z", "2026-10-02T01:00:00Z"),
            ("2026-10-02T23:00:00Z", "2026-10-03T00:00:00Z"),
            ("2026-10-04T00:00:00Z", "2026-10-04T01:00:00Z"),
        ] {
            sums.add(charge(start, end, "0.25"), range)
                .expect("few sums");
        }
        assert_eq!(sums.newest, Some(at("2026-10-04T01:00:00Z")));
        let day = sums.clone().into_days(range).expect("few")[&range.first].clone();
        assert_eq!(day.by_node.len(), 1);
        assert_eq!(
            day.by_tag[0]["tides"],
            Amount::parse("0.5").expect("an amount")
        );
        assert_eq!(totals(sums, range), ["2026-10-02 $0.50"]);
    }

    #[test]
    fn a_fee_of_a_month_is_divided_among_the_days_that_the_export_has_reached() {
        let range = days("2026-10-01", "2026-11-01");
        let month = ("2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z");
        let mut sums = PeriodSums::default();
        sums.add(charge(month.0, month.1, "3"), range)
            .expect("few sums");
        let hour = charge("2026-10-02T23:00:00Z", "2026-10-03T00:00:00Z", "1");
        sums.add(hour, range).expect("few sums");
        assert_eq!(sums.long_machine_rows, 1);
        assert_eq!(
            totals(sums, range),
            ["2026-10-01 $1.50", "2026-10-02 $2.50"]
        );
        let mut sums = PeriodSums::default();
        let tax = Charge {
            is_spread: false,
            ..charge(month.0, month.1, "3")
        };
        sums.add(tax, range).expect("few sums");
        assert_eq!(totals(sums, range), ["2026-10-01 $3.00"]);
    }

    proptest! {
        #[test]
        fn the_parts_of_a_long_charge_add_up(
            micros in -1_000_000_000_i64..1_000_000_000,
            start in 0_i64..4_000_000_000,
            seconds in 0_i64..100_000_000,
        ) {
            let amount = Amount::from_scaled(micros.into(), 6).expect("an amount");
            let start = Timestamp::from_second(start).expect("a time");
            let end = Timestamp::from_second(start.as_second() + seconds).expect("a time");
            let parts = spread(amount, start, end);
            prop_assert_eq!(parts.iter().map(|(_, part)| *part).sum::<Amount>(), amount);
            prop_assert!(parts.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
    }
}
