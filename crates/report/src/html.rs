//! The report as one self-contained page without scripts, fonts or images from elsewhere. The text
//! comes from `page`; the template escapes all of it.

use ebb_model::report::Report;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, HtmlEscape};
use serde::Serialize;

use crate::page::Page;
use crate::page::card::Card;
use crate::zone::Zone;

/// Number of findings with details; a page with details of all findings is too large for a phone.
const DETAILED: usize = 200;

/// Number of further findings with one line each; the other report files contain the rest.
const IN_A_LINE: usize = 1_000;

/// Text of a report in the order of the page.
#[derive(Serialize)]
struct Arranged<'a> {
    #[serde(flatten)]
    page: &'a Page,
    sections: Vec<Section<'a>>,
    rows: &'a [Card],
    left_out: usize,
}

/// The findings of one owner.
#[derive(Serialize)]
struct Section<'a> {
    owner: &'a str,
    cards: Vec<&'a Card>,
}

/// The report as a self-contained page, with times in a time zone.
pub fn html(report: &Report, zone: &Zone) -> String {
    let page = Page::from_report(report, zone);
    let (detailed, others) = page.cards.split_at(page.cards.len().min(DETAILED));
    let rows = others.get(..IN_A_LINE).unwrap_or(others);
    let arranged = Arranged {
        sections: sections(detailed),
        rows,
        left_out: others.len() - rows.len(),
        page: &page,
    };
    fill("report.html", &arranged)
}

/// Groups findings by owner; the owner of the most expensive finding is first.
fn sections(cards: &[Card]) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    for card in cards {
        let owner = card.owner.as_deref().unwrap_or("no owner");
        match sections.iter_mut().find(|section| section.owner == owner) {
            Some(section) => section.cards.push(card),
            None => sections.push(Section {
                owner,
                cards: vec![card],
            }),
        }
    }
    sections
}

/// The HTML part of an email. It has no style sheet, because mail programs remove it, and a limited
/// number of findings.
pub fn for_mail(page: &Page) -> String {
    fill("email.html", page)
}

fn fill(template: &str, page: &impl Serialize) -> String {
    let mut templates = Environment::new();
    templates.add_filter("code", code);
    let sources = [
        ("report.html", include_str!("html/report.html")),
        ("style.css", include_str!("html/style.css")),
        ("email.html", include_str!("html/email.html")),
    ];
    for (name, source) in sources {
        templates
            .add_template(name, source)
            .expect("the templates are compiled in and tested");
    }
    templates
        .get_template(template)
        .and_then(|found| found.render(Serde(page)))
        .expect("a page has every field that its template names")
}

/// Escapes a text. A part between two backticks, such as a command, becomes a `code` element.
pub fn code(text: &str) -> Value {
    let mut parts = text.split('`');
    let mut html = HtmlEscape(parts.next().unwrap_or_default()).to_string();
    while let Some(part) = parts.next() {
        match parts.next() {
            Some(after) => {
                let (part, after) = (HtmlEscape(part), HtmlEscape(after));
                html.push_str(&format!("<code>{part}</code>{after}"));
            }
            // A backtick without its pair is text.
            None => html.push_str(&format!("`{}", HtmlEscape(part))),
        }
    }
    Value::from_safe_string(html)
}

#[cfg(test)]
mod tests {
    use ebb_model::report::bill_day::BilledDayShares;
    use ebb_telemetry::money::Usd;

    use super::*;
    use crate::testing;

    #[test]
    fn a_page_says_dollars_evidence_owner_and_what_to_do() {
        let text = html(&testing::small(), &Zone::utc());
        for expect in [
            "$884.76 <small>a month",
            "and at most $280.32 more",
            "no activity for 3 h 05 min",
            "ana",
            "aws ec2 stop-instances",
            "3 vCPU and 4.8 GiB",
            "c6i.xlarge in eu-central-1 at $0.1940&#x2f;h",
            "coverage 41 %",
            "batch:DescribeJobs",
            "SIMULATED",
        ] {
            assert!(text.contains(expect), "no {expect} in\n{text}");
        }
    }

    #[test]
    fn text_between_backticks_is_code_and_stays_escaped() {
        let check = |text: &str, expect: &str| assert_eq!(code(text).to_string(), expect);
        check(
            "see `ebb scan --help`.",
            "see <code>ebb scan --help</code>.",
        );
        check(
            "`<b>` & `a`b`",
            "<code>&lt;b&gt;</code> &amp; <code>a</code>b`",
        );
        check("", "");
        let mut report = testing::small();
        report.findings[0].remedy.advice = "Run `ebb doctor` there.".to_owned();
        let page = html(&report, &Zone::utc());
        let mail = for_mail(&Page::from_report(&report, &Zone::utc()));
        for text in [page, mail] {
            assert!(
                text.contains("Run <code>ebb doctor</code> there."),
                "{text}"
            );
            assert!(!text.contains('`'));
        }
    }

    #[test]
    fn a_page_needs_nothing_from_elsewhere() {
        let text = html(&testing::small(), &Zone::utc());
        for foreign in ["http:", "https:", "src=", "@import", "url(", "<script"] {
            assert!(!text.contains(foreign), "{foreign}");
        }
        assert!(text.contains("default-src 'none'"));
    }

    #[test]
    fn what_comes_from_outside_is_text_and_never_markup() {
        let page = html(&testing::hostile(), &Zone::utc());
        let mail = for_mail(&Page::from_report(&testing::hostile(), &Zone::utc()));
        for text in [page, mail] {
            assert!(!text.contains("<script"), "{text}");
            assert!(text.contains("&lt;script&gt;"));
        }
    }

    #[test]
    fn any_number_of_findings_makes_a_page_of_bounded_size() {
        assert!(html(&testing::empty(), &Zone::utc()).contains("No waste found"));
        let text = html(&testing::many(1_000), &Zone::utc());
        assert_eq!(text.matches("<article").count(), 200);
        assert_eq!(text.matches("<tr><td").count(), 800);
        let text = html(&testing::many(10_000), &Zone::utc());
        assert!(text.contains("… and 8800 more, in report.csv"));
        assert!(text.len() < 1_000_000, "{} bytes", text.len());
        let text = html(&testing::many_hostile(2_000), &Zone::utc());
        assert!(text.len() < 8_000_000, "{} bytes", text.len());
        assert!(!text.contains("<script") && !text.contains('\u{202e}'));
    }

    #[test]
    fn a_page_draws_the_days_of_the_bill_and_says_what_their_parts_are() {
        let day = |micros: i64| BilledDayShares {
            billed: Usd::from_micros(micros),
            steps: Usd::from_micros(micros),
            ..BilledDayShares::default()
        };
        let mut report = testing::several_days();
        report.ledger = vec![day(4_000_000), day(1_000_000)];
        let text = html(&report, &Zone::utc());
        for expect in [
            "<i class=\"steps\"></i> tasks</span>",
            "<i class=\"rest\"></i> without a probe, other services and machines</span>",
            "<rect class=\"steps\" x=\"0\" width=\"250\" height=\"10\"/>",
        ] {
            assert!(text.contains(expect), "no {expect} in\n{text}");
        }
    }

    #[test]
    fn a_page_tells_the_hours_of_nodes_the_trend_and_what_became_of_findings() {
        let text = html(&testing::several_days(), &Zone::utc());
        for expect in [
            "<polyline points=\"0,0 500,50 1000,20\"",
            "A day ago: $50.00 a month in 2 findings",
            "active in 1 of 3 observed hours; 1 not observed",
            "<title>Wed 4 Mar: active 02–03; idle 01–02, 03–04; not observed 00–01</title>\
             <path class=\"u\" d=\"M0 .5h1\"/><path class=\"a0\" d=\"M1 .5h1M3 .5h1\"/>",
            "saves $884.76 a month (effective cost from the bill)",
            "Resolved findings have saved $12.00 so far.",
            "snoozed by ana until 2026-04-01 00:00 UTC: a course",
            "<span class=\"tag fresh\">new</span>",
            "First found",
            "with a probe",
        ] {
            assert!(text.contains(expect), "no {expect} in\n{text}");
        }
    }
}
