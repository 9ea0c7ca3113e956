//! The bill of some days, from the sums of its periods: which days are whole, amounts in millionths
//! of a dollar, and what was not read.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ebb_model::bill::{BilledDay, ResourceCost};
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::money::Usd;
use ebb_telemetry::safe_text::counted;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::ReadPeriod;
use super::amount::{Amount, round_together};
use super::place::PeriodFiles;
use super::sums::{DayRange, DaySums, PeriodSums, date, start_of_next};

/// Time after the end of a day until its cost counts as complete.
///
/// Source: AWS Data Exports, "Understanding export delivery": an export is refreshed at least once a
/// day.
const CLOSES_AFTER: Duration = Duration::from_secs(86_400);

/// The most gaps about invalid rows; the others are counted.
const MAX_ROW_GAPS: usize = 40;

/// The bill of some days.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExportBill {
    pub(super) days: DayRange,
    pub(super) by_resource: BTreeMap<NodeId, ResourceCost>,
    pub(super) by_day: Vec<BilledDay>,
    pub(super) gaps: Vec<Gap>,
    place: String,
    tags: Vec<String>,
    sums: BTreeMap<Date, DayParts>,
    usage_days: BTreeSet<Date>,
    /// Machines with an invalid row, by day.
    refused: BTreeSet<(Date, NodeId)>,
    /// Machines with a row in another currency, by day.
    foreign: BTreeSet<(Date, NodeId)>,
    /// The last end of usage in any period.
    newest: Option<Timestamp>,
    /// Whether its files may be copies, which can have the time of the copy.
    pub(super) may_be_copied: bool,
}

/// The sums of a day, and how complete they are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct DayParts {
    sums: DaySums,
    /// When the export with this day was delivered; the earliest of several.
    delivered_at: Option<Timestamp>,
    /// Whether usage begins late or ends early on this day, so that some of it may be missing.
    may_be_part: bool,
}

/// How complete the cost of a day is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DayCompleteness {
    Whole,
    /// It was delivered less than a day after its end.
    Estimated,
    /// It was delivered before its end, as usual for the last day.
    NotYet,
    /// The export does not have all of it, and is not new.
    Part,
}

impl ExportBill {
    pub(super) fn new(place: &str, days: DayRange, tags: &[String]) -> Self {
        Self {
            days,
            by_resource: BTreeMap::new(),
            by_day: Vec::new(),
            gaps: Vec::new(),
            place: place.to_owned(),
            tags: tags.to_owned(),
            sums: BTreeMap::new(),
            usage_days: BTreeSet::new(),
            refused: BTreeSet::new(),
            foreign: BTreeSet::new(),
            newest: None,
            may_be_copied: false,
        }
    }

    /// The scope of a gap of the whole place.
    pub(super) fn scope(&self) -> String {
        format!("cost export {}", self.place)
    }

    fn gap(&mut self, scope: String, reason: impl Into<String>) {
        self.gaps.push(Gap::new(scope, reason));
    }

    /// Adds a period, or the reason why it is left out.
    pub(super) fn add(&mut self, period: &PeriodFiles, read: Result<ReadPeriod, Gap>) {
        let scope = match &period.month {
            Some(month) => format!("{} {month}", self.scope()),
            None => self.scope(),
        };
        let read = match read {
            Ok(read) => read,
            Err(gap) => {
                self.gaps.push(gap);
                self.gap(scope, "left out, because a part of it was not read");
                return;
            }
        };
        self.add_row_gaps(&read);
        self.add_currency_gap(&scope, &read.sums);
        self.add_repeated_gap(&scope, &read.repeated);
        if read.sums.long_machine_rows > 0 {
            let rows = read.sums.long_machine_rows;
            let why = format!(
                "{rows} rows of machines have a period of more than a day, which is divided evenly; \
                 export hours or days instead of months"
            );
            self.gap(scope.clone(), why);
        }
        self.add_tag_gaps(&scope, &read.sums);
        self.usage_days.extend(&read.sums.usage_days);
        self.refused.extend(read.sums.refused.iter().cloned());
        self.foreign.extend(read.sums.foreign.iter().cloned());
        self.newest = self.newest.max(read.sums.newest);
        let oldest = read.sums.oldest;
        let delivered_at = period.delivered_at();
        let days = match read.sums.into_days(self.days) {
            Ok(days) => days,
            Err(problem) => return self.gap(scope, problem.to_string()),
        };
        for (day, sums) in days {
            let known = self.sums.entry(day).or_default();
            known.sums.add(sums);
            known.delivered_at = match known.delivered_at {
                Some(known) => delivered_at.map(|at| at.min(known)),
                None => delivered_at,
            };
            known.may_be_part |= period.month.is_none() && begins_late(day, oldest);
        }
    }

    fn add_tag_gaps(&mut self, scope: &str, sums: &PeriodSums) {
        if let Some(column) = sums.missing_tags {
            let why = format!(
                "column {column} is missing, so costs have no tags; add it to the query of the export"
            );
            self.gap(scope.to_owned(), why);
        }
        let unread = &sums.unread_tags;
        if unread.rows > 0 {
            let why = format!(
                "the tags of {} of {} rows cannot be read, so their costs have no tags; the first \
                 is {}; export the column unchanged",
                unread.rows, sums.rows, unread.first
            );
            self.gap(scope.to_owned(), why);
        }
    }

    fn add_currency_gap(&mut self, scope: &str, sums: &PeriodSums) {
        let rows: u64 = sums.other_currencies.values().sum();
        if rows == 0 {
            return;
        }
        let codes = sums.other_currencies.iter();
        let codes: Vec<String> = codes.map(|(code, rows)| format!("{code} {rows}")).collect();
        let why = format!(
            "{rows} of {} rows are not in US dollars and not part of the bill (rows by currency: {}); \
             their machines have no cost of their own; export the bill in US dollars",
            sums.rows,
            codes.join(", ")
        );
        self.gap(scope.to_owned(), why);
    }

    fn add_repeated_gap(&mut self, scope: &str, repeated: &[String]) {
        let Some(first) = repeated.first() else {
            return;
        };
        let files = counted(repeated.len(), "file has", "files have");
        let why = format!(
            "{files} rows more than once, and all of them count: {first}; if they are copies, deliver \
             the file again without them"
        );
        self.gap(scope.to_owned(), why);
    }

    fn add_row_gaps(&mut self, read: &ReadPeriod) {
        let before = self.gaps.len();
        let mut all = Vec::new();
        for (file, bad) in &read.bad {
            all.extend(bad.gaps_of(file));
        }
        let more = all.len().saturating_sub(MAX_ROW_GAPS);
        self.gaps.extend(all.into_iter().take(MAX_ROW_GAPS));
        if more > 0 {
            let why = format!("{more} more gaps about invalid rows");
            self.gap(self.scope(), why);
        }
        let rows: u64 = read.bad.iter().map(|(_, bad)| bad.count()).sum();
        if let Some(first) = self.gaps.get(before) {
            let why = format!(
                "{rows} of {} rows are not part of the bill; the first is {}: {}",
                read.sums.rows, first.scope, first.reason
            );
            self.gap(self.scope(), why);
        }
    }

    /// Rounds the days that are complete, and reports the others.
    pub(super) fn close(&mut self, to: Timestamp) {
        let mut sums = std::mem::take(&mut self.sums);
        for (day, node) in self.refused.iter().chain(&self.foreign) {
            if let Some(parts) = sums.get_mut(day) {
                parts.sums.by_node.remove(node);
            }
        }
        if sums.is_empty() && self.gaps.is_empty() {
            self.gap(self.scope(), "no row of the last 14 days");
        }
        let has_days = !sums.is_empty();
        let missing = missing_days(&self.usage_days);
        if !missing.is_empty() {
            let why = format!(
                "no usage on {}; if there was any, deliver these days again",
                missing.join(", ")
            );
            self.gap(self.scope(), why);
        }
        for (day, mut parts) in sums {
            parts.may_be_part |= self.may_be_copied && ends_early(day, self.newest);
            match parts.completeness(day, to) {
                DayCompleteness::Whole => self.add_day(day, &parts.sums, false),
                DayCompleteness::Estimated => self.add_day(day, &parts.sums, true),
                DayCompleteness::NotYet => {}
                DayCompleteness::Part => self.gap(
                    format!("{} {day}", self.scope()),
                    "the export may contain only a part of this day; deliver it again",
                ),
            }
        }
        if !self.refused.is_empty() {
            let days = counted(self.refused.len(), "machine day has", "machine days have");
            let why =
                format!("{days} no cost of the machine, because a row of the machine is invalid");
            self.gap(self.scope(), why);
        }
        let has_machines = !self.refused.is_empty() || !self.foreign.is_empty();
        if has_days && self.by_resource.is_empty() && !has_machines {
            self.gap(
                self.scope(),
                "no row names a machine, so that machines have list prices; include resource ids \
                 in the export",
            );
        }
    }

    /// The machines and the services of a day add up to its bill, to the millionth of a dollar.
    fn add_day(&mut self, day: Date, sums: &DaySums, estimated: bool) {
        let name = day.to_string();
        let by_node = round_together(&sums.by_node);
        for (node, usd) in &by_node {
            let cost = self.by_resource.entry(node.clone()).or_default();
            cost.by_day.insert(name.clone(), *usd);
        }
        let tags = self.tags.iter().zip(&sums.by_tag);
        let by_tag = tags.map(|(tag, values)| (tag.clone(), round_together(values)));
        self.by_day.push(BilledDay {
            day: name,
            total: sums.by_service.values().copied().sum::<Amount>().to_usd(),
            of_machines: Some(by_node.values().copied().sum::<Usd>()),
            estimated,
            by_service: round_together(&sums.by_service),
            by_tag: by_tag.collect(),
        });
    }
}

/// Days without usage between days with usage.
fn missing_days(usage_days: &BTreeSet<Date>) -> Vec<String> {
    let pairs = usage_days.iter().zip(usage_days.iter().skip(1));
    let between = pairs.flat_map(|(day, next)| {
        let days = std::iter::successors(day.tomorrow().ok(), |day| day.tomorrow().ok());
        days.take_while(move |day| day < next)
    });
    between.map(|day| day.to_string()).collect()
}

/// Whether the first usage begins after the start of a day.
fn begins_late(day: Date, oldest: Option<Timestamp>) -> bool {
    let start = day.to_zoned(TimeZone::UTC).map(|start| start.timestamp());
    oldest.is_some_and(|at| date(at) == day && start.is_ok_and(|start| at > start))
}

/// Whether the last usage ends before the end of a day.
fn ends_early(day: Date, newest: Option<Timestamp>) -> bool {
    let newest = newest.zip(start_of_next(day));
    newest.is_some_and(|(newest, end)| newest < end)
}

impl DayParts {
    fn completeness(&self, day: Date, to: Timestamp) -> DayCompleteness {
        let end = start_of_next(day);
        let closes = end.and_then(|end| end.checked_add(CLOSES_AFTER).ok());
        let (Some(end), Some(closes), Some(delivered)) = (end, closes, self.delivered_at) else {
            return DayCompleteness::Part;
        };
        if delivered >= end && !self.may_be_part {
            return match delivered >= closes {
                true => DayCompleteness::Whole,
                false => DayCompleteness::Estimated,
            };
        }
        // The export of yesterday usually comes in the course of today.
        let is_late = closes
            .checked_add(CLOSES_AFTER)
            .is_ok_and(|late| to >= late);
        match is_late {
            true => DayCompleteness::Part,
            false => DayCompleteness::NotYet,
        }
    }
}

impl DaySums {
    /// Adds the charges of another period for the same day.
    fn add(&mut self, other: Self) {
        fn merge<K: Ord>(into: &mut BTreeMap<K, Amount>, from: BTreeMap<K, Amount>) {
            for (key, amount) in from {
                *into.entry(key).or_default() += amount;
            }
        }
        merge(&mut self.by_service, other.by_service);
        merge(&mut self.by_node, other.by_node);
        for (at, values) in other.by_tag.into_iter().enumerate() {
            match self.by_tag.get_mut(at) {
                Some(known) => merge(known, values),
                None => self.by_tag.push(values),
            }
        }
    }
}
