//! Recognizes files of a folder that contain the same days of a bill, such as two deliveries of one
//! month. Their costs would count twice. A later delivery may have other amounts and tags, but the
//! hours of its machines stay.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::civil::Date;

use super::amount::Amount;
use super::charge::Charge;
use super::sums::DayRange;

/// The most prints of all files that are compared. Parts of one delivery share few days.
const MAX_PRINTS: usize = 40_000;

/// The fewest rows of machines by which a day is known without its amounts and tags.
const MIN_MACHINE_ROWS: u64 = 20;

/// Rows in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct RowsPrint {
    rows: u64,
    /// The sum of the hashes of the rows.
    hash: u64,
}

impl RowsPrint {
    fn add(&mut self, row: impl Hash) {
        let mut hasher = DefaultHasher::new();
        row.hash(&mut hasher);
        self.rows += 1;
        self.hash = self.hash.wrapping_add(hasher.finish());
    }
}

/// The rows of one day in one file.
#[derive(Debug, Clone, Copy, Default)]
struct DayPrint {
    all: RowsPrint,
    /// The rows of machines, without amounts and tags.
    machines: RowsPrint,
    has_cost: bool,
}

impl DayPrint {
    /// The prints by which another file may have this day.
    fn compared(&self) -> impl Iterator<Item = RowsPrint> {
        let machines = (self.machines.rows >= MIN_MACHINE_ROWS).then_some(self.machines);
        std::iter::once(self.all).chain(machines)
    }
}

/// The days of one file.
#[derive(Debug, Clone, Default)]
pub(super) struct FilePrint(BTreeMap<Date, DayPrint>);

impl FilePrint {
    /// Adds a row to the first of these days that its period has; other rows do not count.
    pub(super) fn add(&mut self, charge: &Charge<'_>, days: DayRange) {
        let end = charge.end.filter(|_| charge.is_spread);
        let Some(day) = days.covered_by(charge.start, end).next() else {
            return;
        };
        let print = self.0.entry(day).or_default();
        let row = (charge.start, charge.end, &charge.service, &charge.node);
        let row = (row, charge.account, charge.usage);
        print.all.add((row, charge.amount, &charge.tags));
        if charge.node.is_some() {
            // A discount has the hours and the usage of its charge.
            let is_discount = charge.amount < Amount::ZERO;
            print.machines.add((row, is_discount));
        }
        print.has_cost |= charge.amount != Amount::ZERO;
    }
}

/// The days of all files so far, with the first file that has them.
#[derive(Debug, Default)]
pub(super) struct FilePrints(BTreeMap<(Date, RowsPrint), String>);

/// Days of a file that another file contains too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CopiedDays {
    /// The key of the other file.
    pub(super) of: String,
    pub(super) first: Date,
    pub(super) count: usize,
}

impl FilePrints {
    /// Adds the days of a file; returns those that an earlier file has with the same rows.
    pub(super) fn add(&mut self, file: &str, print: FilePrint) -> Option<CopiedDays> {
        let mut copied: Option<CopiedDays> = None;
        for (day, print) in print.0.into_iter().filter(|(_, print)| print.has_cost) {
            let mut prints = print.compared();
            let other = prints.find_map(|rows| self.0.get(&(day, rows)));
            if let Some(other) = other {
                let known = copied.get_or_insert_with(|| CopiedDays {
                    of: other.clone(),
                    first: day,
                    count: 0,
                });
                known.count += 1;
            } else if self.0.len() < MAX_PRINTS {
                let rows = print.compared().map(|rows| ((day, rows), file.to_owned()));
                self.0.extend(rows);
            }
        }
        copied
    }
}
