//! The time zone of times in forms for people. Forms for programs use UTC.

use ebb_model::policy::weekly_schedule;
use ebb_telemetry::time::Window;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A time zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Zone {
    /// UTC.
    pub fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// Parses a value of the environment variable `TZ`: `Europe/Berlin`, or a POSIX rule such as
    /// `CET-1CEST,M3.5.0,M10.5.0/3`. `None` for other values.
    pub fn parse(name: &str) -> Option<Self> {
        let name = name.strip_prefix(':').unwrap_or(name);
        if name.eq_ignore_ascii_case("utc") {
            return Some(Self::utc());
        }
        let named = weekly_schedule::time_zone(name);
        named.or_else(|| TimeZone::posix(name).ok()).map(Self)
    }

    /// Parses a file in TZif, such as `/etc/localtime`. `None` for any other file.
    pub fn of_file(name: &str, bytes: &[u8]) -> Option<Self> {
        TimeZone::tzif(name, bytes).ok().map(Self)
    }

    /// To the minute, with the zone: `2026-03-04 13:00 CET`.
    pub fn minute(&self, at: Timestamp) -> String {
        self.format("%Y-%m-%d %H:%M %Z", at)
    }

    /// To the minute without the year, with the zone: `4 Mar 13:00 CET`.
    pub(crate) fn short_minute(&self, at: Timestamp) -> String {
        self.format("%-d %b %H:%M %Z", at)
    }

    /// The date.
    pub(crate) fn day(&self, at: Timestamp) -> String {
        self.format("%Y-%m-%d", at)
    }

    /// Start and end, with the zone once.
    pub(crate) fn span(&self, window: &Window) -> String {
        let from = self.format("%Y-%m-%d %H:%M", window.from);
        format!("{from} to {}", self.minute(window.to))
    }

    /// Start and end of a run in a short form.
    pub(crate) fn short_span(&self, from: Timestamp, to: Timestamp) -> String {
        let short = "%-d %b %H:%M";
        let from = self.format(short, from);
        format!("{from} to {}", self.short_minute(to))
    }

    fn format(&self, format: &str, at: Timestamp) -> String {
        at.to_zoned(self.0.clone()).strftime(format).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_zone_is_named_or_a_rule_and_says_which_it_is() {
        let at: Timestamp = "2026-03-04T12:00:00Z".parse().expect("a time");
        let check = |name: &str, expect: Option<&str>| {
            let shown = Zone::parse(name).map(|zone| zone.minute(at));
            assert_eq!(shown.as_deref(), expect, "{name}");
        };
        check("UTC", Some("2026-03-04 12:00 UTC"));
        check("Europe/Berlin", Some("2026-03-04 13:00 CET"));
        check(":Asia/Kolkata", Some("2026-03-04 17:30 IST"));
        check("EST5EDT", Some("2026-03-04 07:00 EST"));
        check("<+03>-3", Some("2026-03-04 15:00 +03"));
        check("Europe/Nowhere", None);
        check("", None);
        let window = Window {
            from: at,
            to: at + jiff::SignedDuration::from_hours(3),
        };
        let zone = Zone::parse("Europe/Berlin").expect("a zone");
        assert_eq!(
            zone.span(&window),
            "2026-03-04 13:00 to 2026-03-04 16:00 CET"
        );
        assert_eq!(Zone::utc().minute(at), "2026-03-04 12:00 UTC");
    }
}
