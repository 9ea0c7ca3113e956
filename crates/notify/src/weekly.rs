//! The weekly digest: when it is due, and what it contains. The module performs no I/O.

use std::collections::BTreeMap;

use ebb_model::finding_history::trend::Past;
use ebb_model::pages_url::{PageOf, PagesUrl};
use ebb_model::policy::weekly_digest::{DigestPolicy, WeeklyTime};
use ebb_model::report::Report;
use ebb_report::page::Page;
use ebb_report::zone::Zone;
use ebb_telemetry::money::Usd;
use ebb_telemetry::safe_text::{clip, counted};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::email_digest::EmailParts;
use crate::slack_digest::{linked, outside, section};

/// Number of owners in a digest.
const OWNERS: usize = 5;

/// Maximum length of the name of an owner in characters.
const OWNER_CHARS: usize = 60;

/// Hours of a week.
const WEEK_HOURS: i64 = 7 * 24;

/// Which weekly digests were sent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WeeklyState {
    /// The time of the last digest of each channel, as the policy sets it.
    pub sent: BTreeMap<String, Timestamp>,
    /// The same for digests without a confirmed delivery.
    pub begun: BTreeMap<String, Timestamp>,
}

/// Whether a digest is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WeeklyDue {
    /// It must be sent; with its time.
    Now(Timestamp),
    /// The channel is new, and the time that has passed does not count.
    FromNext(Timestamp),
    /// It was sent, or the hours are quiet.
    Later,
}

/// Whether the digest of a channel is due, if its last one was at `sent`.
pub fn due(
    time: &WeeklyTime,
    sent: Option<Timestamp>,
    (now, is_quiet): (Timestamp, bool),
) -> WeeklyDue {
    match (time.latest(now), sent) {
        (Some(latest), None) => WeeklyDue::FromNext(latest),
        (Some(latest), Some(sent)) if latest > sent && !is_quiet => WeeklyDue::Now(latest),
        _ => WeeklyDue::Later,
    }
}

/// A recipient of the digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WeeklyPlace {
    Slack(String),
    Email(String),
}

impl WeeklyPlace {
    /// All recipients of the policy.
    pub(crate) fn all(policy: &DigestPolicy) -> Vec<Self> {
        let slack = policy.slack.iter().cloned().map(Self::Slack);
        let email = policy.email.iter().cloned().map(Self::Email);
        slack.chain(email).collect()
    }

    /// The name in the delivery state.
    pub(crate) fn channel(&self) -> String {
        match self {
            Self::Slack(name) => format!("weekly/slack/{name}"),
            Self::Email(address) => format!("weekly/email/{address}"),
        }
    }
}

/// Identifier of the digest of a channel.
pub(crate) fn message_id(channel: &str, slot: Timestamp) -> String {
    let named = Sha256::digest(format!("{channel}\n{slot}"));
    named.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The content of a digest, in lines of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeeklyDigest {
    title: String,
    lines: Vec<String>,
    /// Names from outside with their saving.
    owners: Vec<(String, String)>,
    link: Option<String>,
}

impl WeeklyDigest {
    /// Collects the content from a whole report.
    pub fn from_report(report: &Report, links: Option<&PagesUrl>) -> Self {
        let page = Page::from_report(report, &Zone::utc());
        let tag = page.simulated.map(|simulated| format!("[{simulated}] "));
        let found = match page.cards.is_empty() {
            true => "no waste found".to_owned(),
            false => page.headline.clone(),
        };
        let owners = page.owners.iter().take(OWNERS).map(|one| {
            let saving = format!("{} ({})", one.saving, one.findings);
            (clip(&one.owner, OWNER_CHARS).into_owned(), saving)
        });
        Self {
            title: format!("{}Ebb, the week: {found}", tag.unwrap_or_default()),
            lines: vec![
                format!("Saving found: {found}."),
                saved(report),
                trend(report),
                spend(report),
            ],
            owners: owners.collect(),
            link: links.map(|links| links.link(PageOf::Overview)),
        }
    }

    /// The digest as the body of a post.
    pub fn slack(&self) -> Value {
        let title = clip(&self.title, 150);
        let mut text = self.lines.join("\n");
        if !self.owners.is_empty() {
            text.push_str("\n*By owner*");
        }
        for (owner, saving) in &self.owners {
            text.push_str(&format!("\n• {}: {saving}", outside(owner, OWNER_CHARS)));
        }
        if let Some(link) = &self.link {
            text.push_str(&format!("\n{}", linked(link, "All findings")));
        }
        let header = json!({"type": "plain_text", "text": title});
        json!({"text": title, "blocks": [{"type": "header", "text": header}, section(&text)]})
    }

    /// The digest as an email.
    pub fn email(&self) -> EmailParts {
        let escaped = |text: &str| minijinja::HtmlEscape(text).to_string();
        let mut text = self.lines.join("\n");
        let mut html: String = format!("<p><strong>{}</strong></p>", escaped(&self.title));
        for line in &self.lines {
            html.push_str(&format!(
                "<p style=\"margin:0 0 4px\">{}</p>",
                escaped(line)
            ));
        }
        if !self.owners.is_empty() {
            text.push_str("\n\nBy owner:");
            html.push_str("<p style=\"margin:16px 0 4px\"><strong>By owner</strong></p>");
        }
        for (owner, saving) in &self.owners {
            text.push_str(&format!("\n- {owner}: {saving}"));
            html.push_str(&format!("{}: {}<br>", escaped(owner), escaped(saving)));
        }
        if let Some(link) = &self.link {
            text.push_str(&format!("\n\nAll findings: {link}"));
            html.push_str(&format!(
                "<p><a href=\"{}\">All findings</a></p>",
                escaped(link)
            ));
        }
        text.push('\n');
        EmailParts {
            subject: self.title.clone(),
            text,
            html: format!(
                "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"></head>\
                 <body style=\"margin:0;padding:16px;font-family:Arial,Helvetica,sans-serif;\
                 font-size:15px;line-height:1.45;overflow-wrap:anywhere\">{html}</body></html>"
            ),
        }
    }
}

fn saved(report: &Report) -> String {
    let history = &report.history;
    let known = history.resolved.iter().filter(|one| one.saved.is_some());
    match (known.count(), history.resolved_left_out) {
        (0, 0) => {
            "Saved so far: no resolved finding of the last 30 days has a known saving.".into()
        }
        (known, 0) => format!(
            "Saved so far: {} by {} of the last 30 days.",
            history.saved_so_far,
            counted(known, "resolved finding", "resolved findings"),
        ),
        _ => format!(
            "Saved so far: {} by resolved findings of the last 30 days.",
            history.saved_so_far
        ),
    }
}

/// The change of the saving since a week ago, without upper bounds.
fn trend(report: &Report) -> String {
    let week = SignedDuration::from_hours(WEEK_HOURS);
    let Some(past) = Past::before(&report.history.trend, report.at, week) else {
        return "Trend: there is no report of a week ago.".to_owned();
    };
    let now = report.totals.saving_a_month;
    let change = match now.cmp(&past.saving_a_month) {
        std::cmp::Ordering::Greater => format!("{} more", now - past.saving_a_month),
        std::cmp::Ordering::Less => format!("{} less", past.saving_a_month - now),
        std::cmp::Ordering::Equal => "the same".to_owned(),
    };
    format!(
        "Trend: {now} a month now, {} a week ago ({change}); {} now, {} then.",
        past.saving_a_month,
        counted(report.waste_findings(), "finding", "findings"),
        past.findings,
    )
}

/// The billed days of this month. The report contains only the latest days of the bill.
fn spend(report: &Report) -> String {
    let today = report.at.to_zoned(TimeZone::UTC).date();
    let days = report.ledger.iter().filter_map(|day| {
        let date: Date = day.day.parse().ok()?;
        let is_in_month = date.year() == today.year() && date.month() == today.month();
        is_in_month.then_some((date, day))
    });
    let days: BTreeMap<Date, _> = days.collect();
    let (Some((first, _)), Some((last, _))) = (days.first_key_value(), days.last_key_value())
    else {
        return "Spend of this month: no bill known.".to_owned();
    };
    let sum: Usd = days.values().map(|day| day.billed).sum();
    let estimated = match days.values().any(|day| day.estimated) {
        true => ", in part estimated",
        false => "",
    };
    match first.day() {
        1 => format!("Spend of this month to {last}: {sum}{estimated}."),
        _ => format!(
            "Spend from {first} to {last}: {sum}{estimated}; earlier days of the month are not in \
             the report."
        ),
    }
}

#[cfg(test)]
mod tests {
    use ebb_model::report::bill_day::BilledDayShares;
    use ebb_report::testing;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    #[test]
    fn it_is_due_once_a_week_and_never_in_quiet_hours() {
        let time: WeeklyTime = "mon 08:00 UTC".parse().expect("valid");
        let slot = at("2026-03-09T08:00:00Z");
        let before = at("2026-03-02T08:00:00Z");
        let check = |sent, now: &str, is_quiet, expect| {
            assert_eq!(due(&time, sent, (at(now), is_quiet)), expect, "{now}");
        };
        let monday = "2026-03-09T08:05:00Z";
        check(Some(before), monday, false, WeeklyDue::Now(slot));
        check(Some(before), monday, true, WeeklyDue::Later);
        check(
            Some(before),
            "2026-03-10T09:00:00Z",
            false,
            WeeklyDue::Now(slot),
        );
        check(
            Some(before),
            "2026-03-09T07:59:59Z",
            false,
            WeeklyDue::Later,
        );
        check(Some(slot), monday, false, WeeklyDue::Later);
        check(Some(slot), "2026-03-15T23:00:00Z", false, WeeklyDue::Later);
        check(None, monday, false, WeeklyDue::FromNext(slot));
        // A clock that goes back repeats nothing.
        check(Some(slot), "2026-03-03T00:00:00Z", false, WeeklyDue::Later);
    }

    fn billed(days: &[&str]) -> Vec<BilledDayShares> {
        let day = |day: &&str| BilledDayShares {
            day: (*day).to_owned(),
            billed: Usd::from_micros(10_500_000),
            ..BilledDayShares::default()
        };
        days.iter().map(day).collect()
    }

    #[test]
    fn a_digest_is_stable() {
        let mut report = testing::several_days();
        report.ledger = billed(&["2026-02-28", "2026-03-01", "2026-03-02"]);
        report.ledger[2].estimated = true;
        report.history.trend.insert(
            0,
            Past {
                at: at("2026-02-25T11:00:00Z"),
                findings: 4,
                without_price: 0,
                saving_a_month: Usd::from_micros(900_000_000),
                waste_per_hour: ebb_telemetry::money::UsdPerHour::from_micros(0),
                running_instances: 12,
                with_probe: 8,
            },
        );
        let links = "https://ebb.example.org".parse().expect("valid");
        let digest = WeeklyDigest::from_report(&report, Some(&links));
        let email = digest.email();
        insta::assert_snapshot!(email.subject, @"[SIMULATED] Ebb, the week: $884.76 a month, and at most $280.32 more, in 2 findings with a price, 1 without");
        insta::assert_snapshot!(email.text, @r"
        Saving found: $884.76 a month, and at most $280.32 more, in 2 findings with a price, 1 without.
        Saved so far: $12.00 by 1 resolved finding of the last 30 days.
        Trend: $884.76 a month now, $900.00 a week ago ($15.24 less); 3 findings now, 4 then.
        Spend of this month to 2026-03-02: $21.00, in part estimated.

        By owner:
        - ana: $884.76 and at most $280.32 more (2 findings)
        - no owner: price not known (1 finding)

        All findings: https://ebb.example.org/
        ");
        let slack = digest.slack();
        let text = slack["blocks"][1]["text"]["text"].as_str();
        insta::assert_snapshot!(text.expect("text"), @r"
        Saving found: $884.76 a month, and at most $280.32 more, in 2 findings with a price, 1 without.
        Saved so far: $12.00 by 1 resolved finding of the last 30 days.
        Trend: $884.76 a month now, $900.00 a week ago ($15.24 less); 3 findings now, 4 then.
        Spend of this month to 2026-03-02: $21.00, in part estimated.
        *By owner*
        • ana: $884.76 and at most $280.32 more (2 findings)
        • no owner: price not known (1 finding)
        <https://ebb.example.org/|All findings>
        ");
    }

    #[test]
    fn what_is_not_known_is_said() {
        let mut report = testing::small();
        report.ledger = billed(&["2026-03-03"]);
        let text = WeeklyDigest::from_report(&report, None).email().text;
        for expect in [
            "no resolved finding of the last 30 days has a known saving",
            "Trend: there is no report of a week ago.",
            "Spend from 2026-03-03 to 2026-03-03: $10.50; earlier days",
        ] {
            assert!(text.contains(expect), "{text}");
        }
        assert!(!text.contains("http"), "{text}");
        report.ledger.clear();
        let text = WeeklyDigest::from_report(&report, None).email().text;
        assert!(
            text.contains("Spend of this month: no bill known."),
            "{text}"
        );
        let empty = WeeklyDigest::from_report(&testing::empty(), None).email();
        assert!(empty.subject.ends_with("Ebb, the week: no waste found"));
    }

    #[test]
    fn names_from_outside_are_text() {
        let mut report = testing::small();
        for finding in &mut report.findings {
            finding.resource.owner = Some(format!("<!channel> *b* <b>{}", "x".repeat(5_000)));
        }
        let digest = WeeklyDigest::from_report(&report, None);
        let slack = digest.slack().to_string();
        assert!(
            !slack.contains("<!channel") && slack.len() < 3_000,
            "{slack}"
        );
        let email = digest.email();
        assert!(
            !email.html.contains("<b>") && email.html.len() < 5_000,
            "{}",
            email.html
        );
    }
}
