//! The boot-time clock of a node, and observation windows.

pub mod nanos;

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::money::UsdPerHour;

/// A reading of a node's boot-time clock. It counts suspended time, never steps back, and starts at
/// zero at each boot.
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

    /// The time from `earlier` to this reading; `None` if `earlier` is later.
    pub fn since(self, earlier: Self) -> Option<Duration> {
        self.since_boot_ns
            .checked_sub(earlier.since_boot_ns)
            .map(Duration::from_nanos)
    }
}

/// The time that was observed; never longer than the lifetime of the resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Window {
    /// The begin.
    pub from: Timestamp,
    /// The end.
    pub to: Timestamp,
}

impl Window {
    /// The length; zero if the end is before the begin.
    pub fn length(&self) -> Duration {
        self.to
            .duration_since(self.from)
            .try_into()
            .unwrap_or(Duration::ZERO)
    }

    /// The length, but at least one day. An observation of one hour may not repeat every hour, so
    /// it must not be extrapolated as if it did.
    pub fn at_least_a_day(&self) -> Duration {
        const DAY: Duration = Duration::from_secs(86_400);
        self.length().max(DAY)
    }

    /// The number of such windows in a month; the window counts as [at least a
    /// day](Self::at_least_a_day).
    pub fn times_a_month(&self) -> f64 {
        const MONTH: Duration = Duration::from_secs(UsdPerHour::HOURS_A_MONTH * 3600);
        MONTH.as_secs_f64() / self.at_least_a_day().as_secs_f64()
    }
}
