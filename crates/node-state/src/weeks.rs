//! The weeks in which a node sent data. They separate one life of the node from an earlier one: a
//! life ends with a whole week without data.

use ebb_telemetry::arrival::MAX_AGE;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

const WEEK_SECONDS: i64 = 7 * 24 * 3600;

/// The first and the last of consecutive weeks, counted since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Weeks {
    first: i32,
    last: i32,
}

impl Weeks {
    /// The week of a time.
    pub(crate) fn from_time(at: Timestamp) -> Self {
        let week = week_of(at);
        let (first, last) = (week, week);
        Self { first, last }
    }

    /// True if `later`, which begins no earlier, follows without a gap.
    pub(crate) fn go_on_in(self, later: Self) -> bool {
        self.first <= later.first && later.first <= self.last.saturating_add(1)
    }

    /// The range of weeks from the first to the last of both.
    pub(crate) fn join(self, other: Self) -> Self {
        Self {
            first: self.first.min(other.first),
            last: self.last.max(other.last),
        }
    }

    /// The first week, by which lives are sorted.
    pub(crate) fn first(self) -> i32 {
        self.first
    }

    /// True if the following week is closed, and so stays empty.
    pub(crate) fn ended(self, closed: i32) -> bool {
        self.last < closed
    }
}

/// The newest week for which no data is accepted any more, given the newest known time.
pub(crate) fn closed(newest: Timestamp) -> Option<i32> {
    let oldest = newest.checked_sub(MAX_AGE).ok()?;
    week_of(oldest).checked_sub(1)
}

pub(crate) fn week_of(at: Timestamp) -> i32 {
    let week = at.as_second().div_euclid(WEEK_SECONDS);
    i32::try_from(week).unwrap_or(i32::MAX)
}
