//! Rows of the table `costs` of the lake: each day of the bill, divided among tasks and everything
//! else. The rows of a day with the same time of evaluation add up to its bill.

use std::collections::BTreeMap;

use ebb_telemetry::identity::AccountId;
use ebb_telemetry::money::Usd;
use ebb_telemetry::origin::Origin;
use jiff::Timestamp;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};

/// A part of the cost of a day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostRecord {
    /// The UTC day.
    pub day: Date,
    /// The sweep that divided the day. All rows of a later sweep replace those of an earlier one.
    pub evaluated_at: Timestamp,
    /// Whether the bill of the day was complete. A closed day is divided again only if its bill
    /// changes.
    pub is_closed: bool,
    /// Whether the account contains simulated nodes.
    pub origin: Origin,
    /// The bill of the whole day.
    pub billed: Usd,
    /// The account of the machine; `None` when unknown, and for costs without a machine.
    pub account: Option<AccountId>,
    /// The machine; `None` for costs without one.
    pub resource: Option<String>,
    /// The pipeline of the tasks; `None` if no source names it.
    pub pipeline: Option<String>,
    /// The run of the tasks.
    pub run: Option<String>,
    /// The step of the tasks.
    pub step: Option<String>,
    /// The user of the tasks.
    pub user: Option<String>,
    /// The cost centre of the tasks, otherwise of the machine.
    pub cost_centre: Option<String>,
    /// The use.
    pub part: CostUse,
    /// Number of rows that this row replaces. More than one only for the smallest amounts of a day
    /// with very many rows; such a row has no names.
    pub combined_rows: u64,
    /// The amount.
    pub cost: Usd,
}

/// The use that an amount paid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CostUse {
    /// The part of a machine that tasks occupied, of tasks that did not fail.
    Task,
    /// The same of tasks that failed.
    FailedTask,
    /// The tasks' part of what no task occupied while they ran.
    Unused,
    /// Waste on machines that findings report.
    Findings,
    /// Services and login sessions.
    OtherWork,
    /// All other time that a probe observed.
    Idle,
    /// Time without a probe.
    Unwatched,
    /// Other services, and machines that are not known.
    Elsewhere,
    /// The difference between the bill of the machines and its sum by machine.
    Rounding,
}

/// The days that sweeps wrote to the table.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WrittenCosts {
    /// The newest batch; `None` before the first. If the table has another one, a sweep was
    /// interrupted after its commit.
    pub batch: Option<u64>,
    /// The newest evaluation of each day.
    pub days: BTreeMap<Date, WrittenDay>,
}

/// A day that a sweep wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenDay {
    /// The bill of the day.
    pub billed: Usd,
    /// Whether the bill was complete.
    pub is_closed: bool,
}

impl WrittenCosts {
    /// Maximum number of days; the bill goes back 14 days.
    const MAX_DAYS: usize = 45;

    /// Whether a day must be written.
    pub fn is_due(&self, day: Date, now: WrittenDay) -> bool {
        self.days.get(&day) != Some(&now)
    }

    /// Adds the days of some rows. A later evaluation replaces an earlier one.
    pub fn add(&mut self, rows: &[CostRecord]) {
        let mut newest: BTreeMap<Date, &CostRecord> = BTreeMap::new();
        for row in rows {
            let known = newest.entry(row.day).or_insert(row);
            if known.evaluated_at < row.evaluated_at {
                *known = row;
            }
        }
        for (day, row) in newest {
            let written = WrittenDay {
                billed: row.billed,
                is_closed: row.is_closed,
            };
            self.days.insert(day, written);
        }
        while self.days.len() > Self::MAX_DAYS {
            self.days.pop_first();
        }
    }
}
