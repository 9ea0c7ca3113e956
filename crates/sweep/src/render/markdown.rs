//! The report as Markdown, for a ticket or a wiki: a table of all findings, then
//! each with its evidence and what to do.

use ebb_domain::report::Report;

use super::view::{Card, Page};

/// Findings told in detail; a ticket is read by a person.
const DETAILED: usize = 25;

/// Findings named in the table: with the details less than a ticket takes.
///
/// Source: GitHub takes 65,536 characters, Jira half of it.
const IN_TABLE: usize = 100;

/// The report as Markdown of GitHub's flavour.
pub fn markdown(report: &Report) -> String {
    let page = Page::of(report);
    let mut out = format!("# Ebb: {}\n\n", escaped(&page.headline));
    if let Some(simulated) = page.simulated_means {
        out.push_str(&format!("**{}**\n\n", escaped(simulated)));
    }
    if page.saving.is_some() {
        let (spent, now) = (escaped(&page.spent), escaped(&page.per_hour));
        out.push_str(&format!("{spent} wasted so far, {now} now.\n"));
    }
    let (at, looked_at) = (escaped(&page.at), escaped(&page.looked_at));
    out.push_str(&format!("{at}, {looked_at}.\n"));
    if let Some(weaker) = page.weaker {
        out.push_str(&format!("\n{}\n", escaped(weaker)));
    }
    table(&page, &mut out);
    for card in page.cards.iter().take(DETAILED) {
        detail(card, &mut out);
    }
    if page.cards.len() > DETAILED {
        let more = page.cards.len() - DETAILED;
        let named = page.cards.len().min(IN_TABLE);
        out.push_str(&format!(
            "\n… and {more} more; the table names the first {named}.\n"
        ));
    }
    if !page.not_judged.is_empty() {
        out.push_str("\n## Not judged\n\n");
        for group in &page.not_judged {
            let (rule, reason) = (escaped(&group.rule), escaped(&group.reason));
            out.push_str(&format!("- {} × {rule}: {reason}\n", group.count));
        }
    }
    for section in &page.beside {
        out.push_str(&format!("\n## {}\n\n", section.title));
        for line in &section.lines {
            out.push_str(&format!("- {}\n", escaped(line)));
        }
    }
    if !page.gaps.is_empty() {
        out.push_str("\n## Not seen\n\n");
        for gap in &page.gaps {
            let (scope, reason) = (escaped(&gap.scope), escaped(&gap.reason));
            out.push_str(&format!("- {scope}: {reason}\n"));
        }
    }
    out
}

fn table(page: &Page, out: &mut String) {
    if page.cards.is_empty() {
        return;
    }
    out.push_str("\n| Finding | What | Owner | Region | Saving a month |\n|---|---|---|---|--:|\n");
    for card in page.cards.iter().take(IN_TABLE) {
        let saving = card.cost.as_ref().map_or("not known", |cost| &cost.saving);
        out.push_str(&format!(
            "| {} | {} | {} | {} | {} |\n",
            escaped(&card.kind),
            escaped(&card.title),
            escaped(card.owner.as_deref().unwrap_or("no owner")),
            escaped(&card.region),
            escaped(saving)
        ));
    }
}

fn detail(card: &Card, out: &mut String) {
    let id = card.id.as_deref().map(|id| format!(" ({})", escaped(id)));
    let coverage = card.coverage.as_deref();
    let coverage = coverage.map(|share| format!(", {} of it seen", escaped(share)));
    out.push_str(&format!(
        "\n## {}: {}{}\n\n- Evidence: {}\n- Observed: {}{}\n- Confidence: {}, {}\n- {}: {}\n",
        escaped(&card.kind),
        escaped(&card.title),
        id.unwrap_or_default(),
        escaped(&card.evidence),
        escaped(&card.window),
        coverage.unwrap_or_default(),
        escaped(&card.confidence),
        escaped(&card.because),
        escaped(&card.action),
        escaped(&card.advice)
    ));
    if let Some(cost) = &card.cost {
        let [saving, spent, price] = [&cost.saving, &cost.spent, &cost.price].map(|it| escaped(it));
        out.push_str(&format!(
            "- Cost: {saving} a month, {spent} so far; {price}\n"
        ));
    }
    let facts = [
        ("First found", &card.first_seen),
        ("Account", &card.account),
        ("Node", &card.node),
        ("Controlled by", &card.controller),
    ];
    for (what, fact) in facts {
        if let Some(fact) = fact {
            out.push_str(&format!("- {what}: {}\n", escaped(fact)));
        }
    }
    for step in &card.steps {
        out.push_str(&format!("- Step: {}\n", escaped(step)));
    }
    if let Some(link) = card.command.as_ref().filter(|_| card.is_link) {
        out.push_str(&format!("- Console: <{link}>\n"));
    } else if let Some(command) = &card.command {
        // Backticks would end the block, and no command needs them.
        out.push_str(&format!("\n```sh\n{}\n```\n", command.replace('`', "'")));
    }
}

/// As plain text: nothing that Markdown or the HTML in it would take for its own.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // A word that mentions or links would reach people who did not ask.
            '@' => out.push_str("&#64;"),
            ':' => out.push_str("&#58;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '|' | '~' | '!' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

    #[test]
    fn a_ticket_says_money_evidence_and_what_to_do() {
        let text = markdown(&sample::small());
        for expect in [
            "$1,165.08",
            "no workload for 3 h 05 min",
            "aws ec2 stop-instances",
            "- Observed: 2026-03-04 08&#58;55 to 2026-03-04 12&#58;00 UTC (3 h 05 min), 99 % of it seen",
            "- Cost: $884.76 a month, $3.74 so far; $1.2120/h, effective cost from the bill; list price $1.2120/h",
            "- Step: align (1f0e) on i-0bbb, Batch job job-17",
        ] {
            assert!(text.contains(expect), "no {expect} in\n{text}");
        }
    }

    #[test]
    fn what_comes_from_outside_is_text_and_never_markup() {
        let text = markdown(&sample::hostile());
        let outside_code = text.split("```").step_by(2).collect::<String>();
        for markup in ["<script", "<img", "](http", "@channel", "https://"] {
            assert!(
                !outside_code.contains(markup),
                "{markup} in\n{outside_code}"
            );
        }
        let check = |text: &str, expect: &str| assert_eq!(escaped(text), expect);
        check("a|b`c*_[x](y)", "a\\|b\\`c\\*\\_\\[x\\](y)");
        check("<b>&@all", "&lt;b&gt;&amp;&#64;all");
    }

    #[test]
    fn many_findings_make_a_table_and_details_that_a_ticket_takes() {
        let text = markdown(&sample::many(10_000));
        assert!(text.chars().count() < 65_536, "{}", text.chars().count());
        assert!(text.contains("… and 9975 more; the table names the first 100."));
        assert_eq!(text.matches("\n| ").count(), IN_TABLE + 1);
        assert_eq!(
            text.matches("\n## ").count() - text.matches("\n## Not").count(),
            DETAILED
        );
        assert!(markdown(&sample::empty()).starts_with("# Ebb: 0 findings"));
    }
}
