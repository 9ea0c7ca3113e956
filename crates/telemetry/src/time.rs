//! The node's boot-time clock, and windows of observation.

pub mod nanos;

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::money::UsdPerHour;

/// A reading of a node's boot-time clock: it counts suspended time, never steps
/// back, and starts at zero with each boot.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct BootClock {
    since_boot_ns: u64,
}

impl BootClock {
    /// From nanoseconds since boot.
    pub const fn from_nanos(since_boot_ns: u64) -> Self {
        Self { since_boot_ns }
    }

    /// In nanoseconds since boot.
    pub const fn as_nanos(self) -> u64 {
        self.since_boot_ns
    }

    /// The time from `earlier` to this; `None` when `earlier` is later.
    pub fn since(self, earlier: Self) -> Option<Duration> {
        self.since_boot_ns
            .checked_sub(earlier.since_boot_ns)
            .map(Duration::from_nanos)
    }
}

/// The time that was really observed; never longer than the resource lived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Window {
    /// Its begin.
    pub from: Timestamp,
    /// Its end.
    pub to: Timestamp,
}

impl Window {
    /// Its length; zero when it ends before it begins.
    pub fn length(&self) -> Duration {
        self.to
            .duration_since(self.from)
            .try_into()
            .unwrap_or(Duration::ZERO)
    }

    /// Its length, of which less than a day counts as a day: what was seen for an hour is
    /// not known to come again every hour, and is not told as if it would.
    pub fn at_least_a_day(&self) -> Duration {
        const DAY: Duration = Duration::from_secs(86_400);
        self.length().max(DAY)
    }

    /// How often it goes into a month, taken for [a day at least](Self::at_least_a_day).
    pub fn times_a_month(&self) -> f64 {
        const MONTH: Duration = Duration::from_secs(UsdPerHour::HOURS_A_MONTH * 3600);
        MONTH.as_secs_f64() / self.at_least_a_day().as_secs_f64()
    }
}
