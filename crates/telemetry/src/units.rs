//! Quantities with their units, independent of what is measured.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An amount of data in bytes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// Whole mebibytes.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// Whole gibibytes.
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }

    /// The sum; the maximum value on overflow.
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// In gibibytes, for output and ratios.
    pub fn as_gib(self) -> f64 {
        self.0 as f64 / f64::from(1 << 30)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
        if self.0 < 1024 {
            return f.pad(&format!("{} B", self.0));
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        f.pad(&format!("{value:.1} {}", UNITS[unit]))
    }
}

/// CPU time used, in nanoseconds of one core.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct CpuTime(pub u64);

impl CpuTime {
    /// From milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }

    /// The sum; the maximum value on overflow.
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// In seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The average number of busy cores over `wall`; `None` if `wall` is zero.
    pub fn cores_over(self, wall: Duration) -> Option<MilliCores> {
        let wall_ns = wall.as_nanos();
        if wall_ns == 0 {
            return None;
        }
        let milli = u128::from(self.0) * 1000 / wall_ns;
        Some(MilliCores(u64::try_from(milli).unwrap_or(u64::MAX)))
    }

    /// The share of its runnable time that a task waited for a core: of its waiting time and its CPU
    /// time together. `None` if both are zero.
    pub fn share_waited(self, waited: Duration) -> Option<Share> {
        Share::of_time(waited, waited.saturating_add(Duration::from_nanos(self.0)))
    }
}

impl fmt::Display for CpuTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Duration::from_nanos(self.0) {
            long if long.as_secs() >= 120 => HumanDuration(long).fmt(f),
            _ => f.pad(&format!("{:.2} s", self.as_secs_f64())),
        }
    }
}

/// Processor cores in thousandths, as container platforms count them.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct MilliCores(pub u64);

impl MilliCores {
    /// Whole cores.
    pub const fn cores(n: u64) -> Self {
        Self(n * 1000)
    }

    /// The CPU time of so many cores that are busy for `wall`.
    pub fn over(self, wall: Duration) -> CpuTime {
        let nanos = u128::from(self.0).saturating_mul(wall.as_nanos()) / 1000;
        CpuTime(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// In cores.
    pub fn as_cores(self) -> f64 {
        self.0 as f64 / 1000.0
    }
}

impl fmt::Display for MilliCores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(1000) {
            return f.pad(&format!("{}", self.0 / 1000));
        }
        f.pad(&format!("{:.1}", self.as_cores()))
    }
}

/// A share of a whole in parts per million, from 0 to 1,000,000. The stored value is one greater,
/// so that `Option<Share>` has the size of `Share`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "u32", into = "u32")]
pub struct Share(NonZeroU32);

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Share {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Share".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "integer",
            "minimum": 0,
            "maximum": 1_000_000,
            "description": "A share in parts per million.",
        })
    }
}

impl From<u32> for Share {
    fn from(ppm: u32) -> Self {
        Self::from_ppm(ppm)
    }
}

impl From<Share> for u32 {
    fn from(share: Share) -> Self {
        share.ppm()
    }
}

impl Share {
    /// Nothing of it.
    pub const NONE: Self = Self::from_ppm(0);
    /// All of it.
    pub const ALL: Self = Self::from_ppm(1_000_000);

    /// From parts per million; a greater value becomes 1,000,000.
    pub const fn from_ppm(ppm: u32) -> Self {
        let ppm = if ppm > 1_000_000 { 1_000_000 } else { ppm };
        Self(NonZeroU32::MIN.saturating_add(ppm))
    }

    /// The share of `part` in `whole`; `None` if `whole` is zero.
    pub fn from_parts(part: u64, whole: u64) -> Option<Self> {
        Self::of_wide(part.into(), whole.into())
    }

    /// The share of `part` in `whole`; `None` if `whole` is zero.
    pub fn of_time(part: Duration, whole: Duration) -> Option<Self> {
        Self::of_wide(part.as_nanos(), whole.as_nanos())
    }

    fn of_wide(part: u128, whole: u128) -> Option<Self> {
        let ppm = part.saturating_mul(1_000_000).checked_div(whole)?;
        Some(Self::from_ppm(u32::try_from(ppm).unwrap_or(u32::MAX)))
    }

    /// Parts per million.
    pub const fn ppm(self) -> u32 {
        self.0.get() - 1
    }

    /// In percent, with as many decimals as are needed to differ from `bound`: 94.6 % is not shown
    /// as 95 % next to a bound of 95 %.
    pub fn compared_with(self, bound: Self) -> String {
        let shown =
            |share: Self, decimals: usize| format!("{:.decimals$} %", share.as_f64() * 100.0);
        let differs =
            |decimals: &usize| self == bound || shown(self, *decimals) != shown(bound, *decimals);
        // One part per million is the fourth decimal of a percentage.
        let decimals = (0..4).find(differs).unwrap_or(4);
        shown(self, decimals)
    }

    /// A number from 0.0 to 1.0.
    pub fn as_f64(self) -> f64 {
        f64::from(self.ppm()) / 1e6
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.0} %", self.as_f64() * 100.0))
    }
}

/// A duration for people: `42 min`, `3 h 05 min`, `2 d 4 h`.
pub struct HumanDuration(pub Duration);

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = self.0.as_secs();
        let text = match s {
            0..120 => format!("{s} s"),
            120..7200 => format!("{} min", s / 60),
            7200..172_800 => format!("{} h {:02} min", s / 3600, s % 3600 / 60),
            _ => format!("{} d {} h", s / 86400, s % 86400 / 3600),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_read_as_a_person_would_write_them() {
        let check = |shown: String, expect: &str| assert_eq!(shown, expect);
        check(Bytes(512).to_string(), "512 B");
        check(Bytes::gib(2).to_string(), "2.0 GiB");
        check(MilliCores::cores(16).to_string(), "16");
        check(MilliCores(2_345).to_string(), "2.3");
        check(Share::from_ppm(955_000).to_string(), "96 %");
        check(CpuTime::from_millis(1_250).to_string(), "1.25 s");
        check(CpuTime::from_millis(512_000).to_string(), "8 min");
        check(HumanDuration(Duration::from_secs(31)).to_string(), "31 s");
        check(
            HumanDuration(Duration::from_secs(2_520)).to_string(),
            "42 min",
        );
        check(
            HumanDuration(Duration::from_secs(11_100)).to_string(),
            "3 h 05 min",
        );
        check(
            HumanDuration(Duration::from_secs(187_200)).to_string(),
            "2 d 4 h",
        );
    }

    #[test]
    fn a_share_below_a_bound_does_not_read_as_the_bound() {
        let check = |ppm: u32, bound: u32, expect: &str| {
            let shown = Share::from_ppm(ppm).compared_with(Share::from_ppm(bound));
            assert_eq!(shown, expect, "{ppm} against {bound}");
        };
        check(946_000, 950_000, "94.6 %");
        check(949_999, 950_000, "94.9999 %");
        check(950_000, 950_000, "95 %");
        check(953_000, 950_000, "95.3 %");
        check(930_000, 950_000, "93 %");
        check(1_000_000, 950_000, "100 %");
        check(0, 0, "0 %");
    }

    #[test]
    fn cores_over_no_time_are_unknown() {
        assert_eq!(CpuTime(5).cores_over(Duration::ZERO), None);
        assert_eq!(
            CpuTime::from_millis(3_000).cores_over(Duration::from_secs(2)),
            Some(MilliCores(1_500))
        );
    }
}
