//! The report as an email: a subject with the amount, and the same text as plain text and as HTML.

use ebb_model::pages_url::PagesUrl;
use ebb_model::report::Report;
use ebb_report::html::for_mail;
use ebb_report::page::Page;
use ebb_report::table::of_page;
use ebb_report::terminal_style::{Colour, TerminalStyle};
use ebb_telemetry::safe_text::one_line;

use crate::diff::{Changes, headline_without_findings};

/// An email without its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmailParts {
    /// One line.
    pub subject: String,
    /// Plain text part.
    pub text: String,
    /// HTML part.
    pub html: String,
}

/// Maximum number of findings in the text part; the report contains all of them.
const FINDINGS: usize = 20;

/// Number of columns that mail programs show without wrapping.
const COLUMNS: usize = 78;

/// The changes of a report as an email.
pub fn email(report: &Report, changes: &Changes, links: Option<&PagesUrl>) -> EmailParts {
    let page = crate::diff::page_of_changes(report, changes, links);
    let tag = page.simulated.map(|simulated| format!("[{simulated}] "));
    let tag = tag.unwrap_or_default();
    let counts = changes.counts();
    let subject = match page.cards.is_empty() {
        true => format!("{tag}Ebb: {}", headline_without_findings(&page, changes)),
        false => format!("{tag}Ebb: {} ({counts})", page.headline),
    };
    let html = for_mail(&page);
    EmailParts {
        subject,
        text: text(&page),
        html,
    }
}

fn text(page: &Page) -> String {
    let style = TerminalStyle {
        columns: Some(COLUMNS),
        colour: Colour::Plain,
    };
    let mut text = page.news.join("\n");
    text.push_str("\n\n");
    text.push_str(&of_page(page, &style, FINDINGS));
    match &page.link {
        Some(overview) => text.push_str(&format!("\nAll findings: {overview}\n")),
        None => text.push_str("\nTo snooze a finding:\n"),
    }
    let changed = page.cards.iter().filter(|card| card.change.is_some());
    for card in changed.take(FINDINGS) {
        let act = match &card.link {
            Some(link) => link.clone(),
            None => format!("ebb findings snooze {}", one_line(&card.whole_id)),
        };
        text.push_str(&format!("{}: {}\n  {act}\n", card.kind, card.title));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use ebb_model::pages_url::PageOf;

    #[test]
    fn the_subject_says_the_money_and_stays_one_line() {
        let check = |report: &Report, expect: &str| {
            let parts = email(report, &testing::all_new(report), None);
            assert_eq!(parts.subject, expect);
            assert!(parts.text.contains("SIMULATED") && parts.html.contains("SIMULATED"));
        };
        check(
            &ebb_report::testing::empty(),
            "[SIMULATED] Ebb: no open finding",
        );
        check(
            &ebb_report::testing::small(),
            "[SIMULATED] Ebb: $884.76 a month, and at most $280.32 more, in 2 findings with a price, 1 without (3 new)",
        );
        check(
            &ebb_report::testing::hostile(),
            "[SIMULATED] Ebb: 1 finding without a known price (1 new)",
        );
    }

    #[test]
    fn a_long_report_is_cut_and_says_so() {
        let report = ebb_report::testing::many(1_000);
        let parts = email(&report, &testing::all_new(&report), None);
        assert!(parts.text.contains("… and 500 more"));
        assert!(parts.html.contains("… and 980 more"));
        assert!(parts.text.contains("in 1,000 findings"), "{}", parts.text);
        assert!(parts.html.len() < 100_000);
    }

    #[test]
    fn both_parts_link_to_each_finding() {
        let links = "https://ebb.example.org".parse().expect("valid");
        for report in [
            ebb_report::testing::small(),
            ebb_report::testing::many_hostile(3),
        ] {
            let parts = email(&report, &testing::all_new(&report), Some(&links));
            assert!(
                parts
                    .text
                    .contains("All findings: https://ebb.example.org/\n")
            );
            for finding in &report.findings {
                let link = links.link(PageOf::Finding(&finding.id));
                assert!(
                    parts.text.contains(&format!("\n  {link}\n")),
                    "{}",
                    parts.text
                );
                let html = minijinja::HtmlEscape(&link).to_string();
                assert!(parts.html.contains(&format!("<a href=\"{html}\">")));
            }
        }
    }
}
