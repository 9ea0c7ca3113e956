//! Quantities in the formats of engines and schedulers.

use std::time::Duration;

use ebb_telemetry::units::{Bytes, CpuTime, MilliCores};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// A finite number that is not negative.
pub(super) fn number(text: &str) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number)
}

/// A whole number, positive or not.
pub(super) fn whole(text: &str) -> Option<i64> {
    text.parse().ok()
}

/// A number with the decimal separator of any locale. Three digits after a comma may be thousands,
/// so such a number is refused.
fn number_of_locale(text: &str) -> Option<f64> {
    match text.split_once(',') {
        Some((_, decimals)) if decimals.len() == 3 => None,
        Some((whole, decimals)) => number(&format!("{whole}.{decimals}")),
        None => number(text),
    }
}

/// A percentage such as `98.5%` or `98.5`. Nextflow writes it with the decimal separator of the
/// locale, as in `98,5%`.
///
/// Source: `fmtPercent` in Nextflow's `TraceRecord`.
pub fn percent(text: &str) -> Option<f64> {
    number(&text.trim_end_matches('%').trim().replace(',', "."))
}

/// A number of cores such as `2` or `2.0`.
pub fn cores(text: &str) -> Option<MilliCores> {
    let cores = number(text)?;
    (cores > 0.0 && cores < 1e6).then(|| MilliCores((cores * 1000.0).round() as u64))
}

/// Bytes such as `1.2 GB`, `1,2 GB`, `512M` or `1048576`, by factors of 1024.
pub fn bytes(text: &str) -> Option<Bytes> {
    let digits = text.find(|c: char| !(c.is_ascii_digit() || ".,".contains(c)));
    let (value, unit) = text.split_at(digits.unwrap_or(text.len()));
    let unit = unit
        .trim()
        .trim_end_matches(['B', 'b'])
        .trim_end_matches('i');
    let power = match unit {
        "" => 0,
        "K" | "k" => 1,
        "M" | "m" => 2,
        "G" | "g" => 3,
        "T" | "t" => 4,
        "P" | "p" => 5,
        _ => return None,
    };
    scaled(number_of_locale(value)?, 1024_f64.powi(power))
}

/// Mebibytes as a number.
pub(super) fn mebibytes(text: &str) -> Option<Bytes> {
    scaled(number(text)?, 1024.0 * 1024.0)
}

fn scaled(value: f64, by: f64) -> Option<Bytes> {
    let bytes = value * by;
    // No machine has an exabyte of memory.
    (bytes < 1e18).then(|| Bytes(bytes.round() as u64))
}

/// A duration such as `1h 3m 2s` or `450ms`, or milliseconds as a number.
pub fn spoken(text: &str) -> Option<Duration> {
    if let Some(ms) = number(text) {
        return seconds(ms / 1000.0);
    }
    let mut all = 0.0;
    for part in text.split_whitespace() {
        let at = part.find(|c: char| c.is_ascii_alphabetic())?;
        let (value, unit) = part.split_at(at);
        let of_unit = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        all += number_of_locale(value)? * of_unit;
    }
    seconds(all)
}

/// A duration in Slurm's format, `[days-][[hours:]minutes:]seconds`.
pub(super) fn clock(text: &str) -> Option<Duration> {
    let (days, rest) = text.split_once('-').unwrap_or(("0", text));
    let mut all = number(days)? * 24.0;
    let parts: Vec<&str> = rest.split(':').collect();
    let parts = match parts.as_slice() {
        [h, m, s] => [*h, *m, *s],
        [m, s] => ["0", *m, *s],
        _ => return None,
    };
    all += number(parts[0])?;
    all = (all * 60.0 + number(parts[1])?) * 60.0 + number(parts[2])?;
    seconds(all)
}

/// Seconds as a number.
pub(super) fn plain_seconds(text: &str) -> Option<Duration> {
    seconds(number(text)?)
}

/// Minutes as a number.
pub(super) fn minutes(text: &str) -> Option<Duration> {
    seconds(number(text)? * 60.0)
}

fn seconds(seconds: f64) -> Option<Duration> {
    // A limit of about a thousand years.
    (seconds < 3e10).then(|| Duration::from_secs_f64(seconds))
}

/// CPU time for a percentage of a core and a duration.
pub(super) fn busy(wall: Duration, percent: f64) -> CpuTime {
    CpuTime((wall.as_secs_f64() * percent / 100.0 * 1e9).round() as u64)
}

/// A point in time: milliseconds since the epoch, or a date and time. UTC is assumed, because the
/// files contain no time zone.
pub fn time(text: &str) -> Option<Timestamp> {
    if let Ok(ms) = text.parse::<i64>() {
        return Timestamp::from_millisecond(ms).ok();
    }
    let civil: DateTime = text.parse().ok()?;
    civil.to_zoned(TimeZone::UTC).ok().map(|at| at.timestamp())
}

/// Whether a point in time has no time zone, unlike a number of seconds or milliseconds.
pub(super) fn is_local(text: &str) -> bool {
    text.parse::<i64>().is_err()
}

/// A point in time as sacct writes it; with `SLURM_TIME_FORMAT=%s` in seconds since the epoch.
pub(super) fn slurm_time(text: &str) -> Option<Timestamp> {
    match text.parse::<i64>() {
        Ok(seconds) => Timestamp::from_second(seconds).ok(),
        Err(_) => time(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_as_the_files_write_them() {
        let check =
            |text, expect: Option<u64>| assert_eq!(bytes(text).map(|b| b.0), expect, "{text}");
        check("1048576", Some(1 << 20));
        check("1 MB", Some(1 << 20));
        check("1.5 GB", Some(3 << 29));
        check("1,5 GB", Some(3 << 29));
        check("1,536 MB", None);
        check("1.5,5 GB", None);
        check("512K", Some(512 << 10));
        check("16GiB", Some(16 << 30));
        check("0", Some(0));
        check("-1", None);
        check("much", None);
        check("1 QB", None);
        check("NaN", None);
    }

    #[test]
    fn a_percentage_has_the_decimal_separator_of_any_locale() {
        let check = |text, expect: Option<f64>| assert_eq!(percent(text), expect, "{text}");
        check("98.5%", Some(98.5));
        check("1234,5%", Some(1234.5));
        check("250", Some(250.0));
        check("1,234.5%", None);
        check("-", None);
    }

    #[test]
    fn times_are_read_as_the_files_write_them() {
        let check = |read: fn(&str) -> Option<Duration>, text, ms: Option<u64>| {
            assert_eq!(read(text), ms.map(Duration::from_millis), "{text}");
        };
        check(spoken, "1h 2m 3s", Some(3_723_000));
        check(spoken, "450ms", Some(450));
        check(spoken, "2.5s", Some(2_500));
        check(spoken, "1h 2,5s", Some(3_602_500));
        check(spoken, "61000", Some(61_000));
        check(spoken, "soon", None);
        check(clock, "01:02:03", Some(3_723_000));
        check(clock, "1-00:00:00", Some(86_400_000));
        check(clock, "02:03.500", Some(123_500));
        check(clock, "99", None);
        check(plain_seconds, "1.25", Some(1_250));
        assert!(time("2024-03-01T12:00:00").is_some());
        assert!(time("2024-03-01 12:00:00.123").is_some());
        assert_eq!(time("0"), Some(Timestamp::UNIX_EPOCH));
        assert_eq!(time("yesterday"), None);
    }
}
