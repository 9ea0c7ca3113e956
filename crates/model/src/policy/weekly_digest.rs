//! The weekly digest for the people who pay the bill.

use std::fmt;
use std::str::FromStr;

use jiff::civil::{Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::policy::error::PolicyError;
use crate::policy::weekly_schedule::{Day, time_zone};

/// Maximum number of recipients; each is a separate message.
const MAX_RECIPIENTS: usize = 50;

/// The weekly digest: savings, trend and spend, once a week.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct DigestPolicy {
    /// Day, time and IANA time zone of the digest, such as "mon 08:00 Europe/Berlin"; no digest
    /// without it. The first sweep after that time sends it, but not in quiet hours.
    pub weekly: Option<WeeklyTime>,
    /// Name of a channel in the Slack secret.
    pub slack: Option<String>,
    /// Email recipients. Email also needs a sender, as for other notifications.
    pub email: Vec<String>,
}

impl DigestPolicy {
    pub(crate) fn check(&self) -> Result<(), PolicyError> {
        let refused = |key, problem: &str| {
            let problem = problem.to_owned();
            Err(PolicyError::Quiet { key, problem })
        };
        let has_recipient = self.slack.is_some() || !self.email.is_empty();
        if self.weekly.is_some() && !has_recipient {
            return refused("digest.weekly", "the digest has neither slack nor email");
        }
        let is_empty = |name: &String| name.trim().is_empty();
        if self.slack.as_ref().is_some_and(is_empty) {
            return refused("digest.slack", "the channel is empty");
        }
        if self.email.len() > MAX_RECIPIENTS {
            return refused("digest.email", "at most 50 recipients are allowed");
        }
        match self.email.iter().all(|text| super::route::is_address(text)) {
            true => Ok(()),
            false => refused(
                "digest.email",
                "email must contain addresses only, such as team@example.org",
            ),
        }
    }
}

/// The text is not a time of the week.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "expected a day, a time and a time zone, such as \"mon 08:00 Europe/Berlin\"; the days are \
     mon, tue, wed, thu, fri, sat and sun"
)]
pub struct InvalidWeeklyTime;

/// A time of each week in a time zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
pub struct WeeklyTime {
    day: Day,
    time: Time,
    zone: String,
}

impl WeeklyTime {
    /// The latest of these times that is not after `now`.
    pub fn latest(&self, now: Timestamp) -> Option<Timestamp> {
        let zone: TimeZone = time_zone(&self.zone)?;
        let today = zone.to_datetime(now).date();
        (0..=7_i64).find_map(|days| {
            let date = today.checked_sub(days.days()).ok()?;
            let weekday: Weekday = date.weekday();
            let is_it = Day::from(weekday) == self.day;
            // A time that a change of the clock skips is the time after the gap.
            let at = date.to_datetime(self.time).to_zoned(zone.clone()).ok()?;
            (is_it && at.timestamp() <= now).then(|| at.timestamp())
        })
    }
}

impl FromStr for WeeklyTime {
    type Err = InvalidWeeklyTime;

    fn from_str(text: &str) -> Result<Self, InvalidWeeklyTime> {
        use Day::{Fri, Mon, Sat, Sun, Thu, Tue, Wed};
        let mut words = text.split_whitespace();
        let (day, time, zone) = (words.next(), words.next(), words.next());
        let days = [Mon, Tue, Wed, Thu, Fri, Sat, Sun];
        let day = days.into_iter().find(|one| day == Some(&one.to_string()));
        let time = time.and_then(|time| time.parse::<Time>().ok());
        let zone = zone.filter(|zone| time_zone(zone).is_some());
        match (day, time, zone, words.next()) {
            (Some(day), Some(time), Some(zone), None) => Ok(Self {
                day,
                time,
                zone: zone.to_owned(),
            }),
            _ => Err(InvalidWeeklyTime),
        }
    }
}

impl fmt::Display for WeeklyTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.time.strftime("%H:%M");
        write!(f, "{} {time} {}", self.day, self.zone)
    }
}

impl TryFrom<String> for WeeklyTime {
    type Error = InvalidWeeklyTime;

    fn try_from(text: String) -> Result<Self, InvalidWeeklyTime> {
        text.parse()
    }
}

impl From<WeeklyTime> for String {
    fn from(time: WeeklyTime) -> Self {
        time.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    #[test]
    fn the_latest_time_follows_the_clock_of_its_zone() {
        let check = |text: &str, now: &str, expect: &str| {
            let time: WeeklyTime = text.parse().expect("valid");
            assert_eq!(time.to_string(), text);
            let latest = time.latest(now.parse().expect("a time"));
            assert_eq!(latest, expect.parse().ok(), "{text} at {now}");
        };
        let berlin = "mon 08:00 Europe/Berlin";
        check(berlin, "2026-03-09T07:00:00Z", "2026-03-09T07:00:00Z");
        check(berlin, "2026-03-09T06:59:59Z", "2026-03-02T07:00:00Z");
        check(berlin, "2026-03-15T23:00:00Z", "2026-03-09T07:00:00Z");
        check(berlin, "2026-07-06T06:00:00Z", "2026-07-06T06:00:00Z");
        // 02:30 does not exist on that Sunday.
        check(
            "sun 02:30 Europe/Berlin",
            "2026-03-29T12:00:00Z",
            "2026-03-29T01:30:00Z",
        );
    }

    #[test]
    fn a_digest_needs_a_time_and_a_recipient() {
        let check = |file: &str, expect: Result<(), &str>| {
            let got = Policy::parse(&format!("[digest]\n{file}")).map(drop);
            match (got.map_err(|error| error.to_string()), expect) {
                (Err(error), Err(expect)) => assert!(error.contains(expect), "{error}"),
                (got, expect) => assert_eq!(got, expect.map_err(str::to_owned), "{file}"),
            }
        };
        let weekly = "weekly = \"mon 08:00 UTC\"\n";
        check("", Ok(()));
        check(&format!("{weekly}slack = \"finance\""), Ok(()));
        check(&format!("{weekly}email = [\"a@example.org\"]"), Ok(()));
        check(weekly, Err("neither slack nor email"));
        check(&format!("{weekly}email = [\"a\"]"), Err("addresses only"));
        check(
            &format!("{weekly}slack = \"\""),
            Err("the channel is empty"),
        );
        for text in [
            "",
            "mon",
            "monday 08:00 UTC",
            "mon 25:00 UTC",
            "mon 08:00 Berlin",
        ] {
            let file = format!("weekly = \"{text}\"\nslack = \"finance\"");
            check(&file, Err("expected a day, a time and a time zone"));
        }
    }
}
