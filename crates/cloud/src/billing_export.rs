//! The bill from a file of the user: rows of Google's billing export. Reading it is free, and
//! nothing is stored between sweeps.

pub mod read;
mod row;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use ebb_model::bill::{BilledDay, ResourceCost};
use ebb_model::inventory::commitments::Commitment;
use ebb_model::text_file::bad_lines::{BadLines, file_name};
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::money::Usd;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use thiserror::Error;

use crate::ports::{BillSource, CloudResult};
use read::{BillingFile, Day, NoBillingExport};

/// Number of days, the same as for a bill of AWS.
const DAYS: i32 = 14;

/// Time after the end of a day until its cost counts as complete.
///
/// Source: Cloud Billing, "View your billing reports and cost trends": costs are usually available
/// within a day, and may take longer. The next export contains late rows.
const CLOSES_AFTER: Duration = Duration::from_secs(86_400);

/// Why a file cannot be used as a bill.
#[derive(Debug, Error)]
pub enum BillingExportError {
    /// It cannot be opened.
    #[error("failed to read {}", .path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It is not a billing export.
    #[error("{}", .path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: NoBillingExport,
    },
}

/// A file of the billing export.
#[derive(Debug)]
pub struct BillingExport {
    path: PathBuf,
    bill: BillingFile,
}

/// How complete the cost of a day is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Completeness {
    /// The file contains rows of the day before and of a later day than the next.
    Whole,
    /// The day ended less than 24 hours ago.
    Open,
    /// The file begins on this day, or ends too soon after it.
    Part,
}

impl BillingExport {
    /// Reads a file; days are also summed by the values of the labels `tags`.
    ///
    /// # Errors
    /// If it cannot be read, or is not a billing export. Invalid lines are left out.
    pub fn read(path: &Path, tags: &BTreeSet<String>) -> Result<Self, BillingExportError> {
        let path = path.to_owned();
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(source) => return Err(BillingExportError::Open { path, source }),
        };
        match read::read(BufReader::new(file), tags) {
            Ok(bill) => Ok(Self { path, bill }),
            Err(source) => Err(BillingExportError::Content { path, source }),
        }
    }

    /// The invalid lines.
    pub fn bad_lines(&self) -> &BadLines {
        &self.bill.bad_lines
    }

    /// The two weeks before the day of `to`, whose cost is not yet complete.
    fn days(&self, to: Timestamp) -> impl Iterator<Item = (&Date, &Day, Completeness)> {
        let today = to.to_zoned(TimeZone::UTC).date();
        let first = today.saturating_sub(DAYS.days());
        let newest = self.bill.newest.unwrap_or(Timestamp::MIN).min(to);
        let oldest = self.bill.days.keys().next();
        let days = self.bill.days.range(first..today);
        days.filter_map(move |(date, day)| {
            let end = date.tomorrow().ok()?.to_zoned(TimeZone::UTC).ok()?;
            let closes = end.timestamp().checked_add(CLOSES_AFTER).ok()?;
            let is_first = oldest == Some(date);
            let completeness = match closes <= newest {
                true if !is_first => Completeness::Whole,
                false if !is_first && closes > to => Completeness::Open,
                _ => Completeness::Part,
            };
            Some((date, day, completeness))
        })
    }
}

#[async_trait]
impl BillSource for BillingExport {
    async fn by_resource(&self, to: Timestamp) -> CloudResult<BTreeMap<NodeId, ResourceCost>> {
        let mut costs: BTreeMap<NodeId, ResourceCost> = BTreeMap::new();
        let days = self
            .days(to)
            .filter(|(.., completeness)| *completeness != Completeness::Part);
        for (date, day, _) in days {
            for (node, nanos) in &day.by_node {
                let by_day = &mut costs.entry(node.clone()).or_default().by_day;
                by_day.insert(date.to_string(), usd(*nanos));
            }
        }
        Ok(costs)
    }

    async fn by_day(&self, to: Timestamp, _tags: &[String]) -> CloudResult<Vec<BilledDay>> {
        let days = self
            .days(to)
            .filter(|(.., completeness)| *completeness != Completeness::Part);
        let days = days.map(|(date, day, completeness)| {
            let by_service = in_dollars(&day.by_service);
            let by_tag = day.by_tag.iter();
            BilledDay {
                day: date.to_string(),
                total: by_service.values().copied().sum(),
                of_machines: Some(day.by_node.values().map(|nanos| usd(*nanos)).sum()),
                estimated: completeness == Completeness::Open,
                by_service,
                by_tag: by_tag
                    .map(|(tag, by_value)| (tag.clone(), in_dollars(by_value)))
                    .collect(),
            }
        });
        Ok(days.collect())
    }

    fn is_charged_for(&self) -> bool {
        false
    }

    fn gaps(&self, to: Timestamp) -> Vec<Gap> {
        let file = format!("billing export {}", file_name(&self.path));
        let mut gaps = self.bill.bad_lines.gaps_of(&file);
        let mut gap = |scope: String, reason: &str| {
            gaps.push(Gap::new(scope, reason.to_owned()));
        };
        if self.bill.is_without_credits {
            gap(
                file.clone(),
                "column credits_amount is missing, so costs are before credits; add it to the query",
            );
        }
        for (date, ..) in self
            .days(to)
            .filter(|(.., completeness)| *completeness == Completeness::Part)
        {
            gap(
                format!("{file}: {date}"),
                "the export contains only a part of this day; export more days",
            );
        }
        let mut days = self.days(to).peekable();
        if days.peek().is_none() {
            gap(file.clone(), "the file has no row of the last 14 days");
        } else if days.all(|(_, day, _)| day.by_node.is_empty()) {
            gap(
                file,
                "no row names an instance (resource.global_name), so no instance has a price; use \
                 the detailed export instead of the standard export",
            );
        }
        gaps
    }

    async fn plans(&self, _to: Timestamp) -> CloudResult<Vec<Commitment>> {
        Ok(Vec::new())
    }

    fn least_plan_requests(&self) -> u64 {
        0
    }

    fn take_gaps(&self) -> Vec<Gap> {
        Vec::new()
    }

    fn requests(&self) -> u64 {
        0
    }
}

fn in_dollars(sums: &BTreeMap<String, i128>) -> BTreeMap<String, Usd> {
    let sums = sums.iter().map(|(key, nanos)| (key.clone(), usd(*nanos)));
    sums.filter(|(_, usd)| *usd != Usd::ZERO).collect()
}

/// Rounded to the nearest millionth of a dollar.
fn usd(nanos: i128) -> Usd {
    let micros = (nanos + nanos.signum() * 500) / 1_000;
    Usd::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_of_the_bill_and_name_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("bill.csv");
        let text = "service.description,usage_start_time,cost,currency\na,2026-09-01,much,USD\n";
        std::fs::write(&path, text).expect("written");
        let export = BillingExport::read(&path, &BTreeSet::new()).expect("an export");
        let gaps = export.gaps("2026-09-05T00:00:00Z".parse().expect("a time"));
        let scopes: Vec<&str> = gaps.iter().map(|gap| gap.scope.as_str()).collect();
        let file = "billing export bill.csv";
        assert_eq!(scopes, [&*format!("{file}:2: cost"), file, file]);
        assert!(
            gaps[1]
                .reason
                .starts_with("column credits_amount is missing")
        );
        assert!(gaps.iter().all(Gap::is_of_bill));
    }

    #[test]
    fn money_is_rounded_to_the_nearest_millionth() {
        let check = |nanos, micros| assert_eq!(usd(nanos).micros(), micros, "{nanos}");
        check(1_499, 1);
        check(1_500, 2);
        check(-1_500, -2);
        check(-1_499, -1);
    }
}
