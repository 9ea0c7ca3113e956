//! Values as text. External text becomes one line here; the templates escape it.

use std::time::Duration;

use ebb_report::page::history::NAME_CHARS;
use ebb_report::zone::Zone;
use ebb_telemetry::safe_text::{clip, one_line};
use ebb_telemetry::units::{Bytes, HumanDuration};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

/// A time for the element `time`. The script adds how long ago it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct When {
    /// RFC 3339.
    iso: String,
    /// To the minute, in UTC.
    text: String,
}

impl From<Timestamp> for When {
    fn from(at: Timestamp) -> Self {
        Self {
            iso: at.to_string(),
            text: Zone::utc().minute(at),
        }
    }
}

/// A name from outside.
pub(crate) fn name(text: &str) -> String {
    clip(&one_line(text), NAME_CHARS).into_owned()
}

/// A number of seconds.
pub(crate) fn seconds(seconds: f64) -> String {
    match Duration::try_from_secs_f64(seconds) {
        Ok(short) if short.as_secs() < 1 => format!("{} ms", short.as_millis()),
        Ok(duration) => HumanDuration(duration).to_string(),
        Err(_) => "unknown".to_owned(),
    }
}

/// The time between two times; 0 if they are in the wrong order.
pub(crate) fn seconds_between(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64().max(0.0)
}

/// A number of bytes.
pub(crate) fn bytes(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

/// A number of cores.
pub(crate) fn cores(cores: f64) -> String {
    match cores {
        whole if whole.fract() == 0.0 => format!("{whole:.0}"),
        small if small < 1.0 => format!("{small:.2}"),
        other => format!("{other:.1}"),
    }
}

/// The time of a day in UTC, with the day if it is not the day of `from`.
pub(crate) fn clock(at: Timestamp, from: Timestamp) -> String {
    let (at, from) = (at.to_zoned(TimeZone::UTC), from.to_zoned(TimeZone::UTC));
    let format = match at.date() == from.date() {
        true => "%H:%M:%S",
        false => "%-d %b %H:%M:%S",
    };
    at.strftime(format).to_string()
}

/// `part` of `whole` in thousandths, from 0 to 1,000; `None` if the whole is unknown or zero.
pub(crate) fn thousandths(part: Option<f64>, whole: Option<f64>) -> Option<u32> {
    let (part, whole) = part.zip(whole)?;
    let share = part / whole * 1000.0;
    // `as` saturates, and NaN is excluded by the comparison.
    (whole > 0.0 && share >= 0.0).then(|| share.min(1000.0).round() as u32)
}
