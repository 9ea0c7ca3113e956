//! Recognizes files of a folder that contain the same days of a bill, such as two deliveries of one
//! month. Their costs would count twice.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::civil::Date;

use super::amount::Amount;
use super::charge::Charge;
use super::sums::DayRange;

/// The most days of all files that are compared. Parts of one delivery share few days.
const MAX_PRINTS: usize = 20_000;

/// All rows of one day in one file, in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct DayPrint {
    rows: u64,
    /// The sum of the hashes of the rows.
    hash: u64,
    has_cost: bool,
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
        let mut hasher = DefaultHasher::new();
        let row = (charge.start, charge.end, &charge.service, &charge.node);
        (row, charge.account, charge.amount, &charge.tags).hash(&mut hasher);
        let print = self.0.entry(day).or_default();
        print.rows += 1;
        print.hash = print.hash.wrapping_add(hasher.finish());
        print.has_cost |= charge.amount != Amount::ZERO;
    }
}

/// The days of all files so far, with the first file that has them.
#[derive(Debug, Default)]
pub(super) struct FilePrints(BTreeMap<(Date, DayPrint), String>);

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
            if let Some(other) = self.0.get(&(day, print)) {
                let known = copied.get_or_insert_with(|| CopiedDays {
                    of: other.clone(),
                    first: day,
                    count: 0,
                });
                known.count += 1;
            } else if self.0.len() < MAX_PRINTS {
                self.0.insert((day, print), file.to_owned());
            }
        }
        copied
    }
}
