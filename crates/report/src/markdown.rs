//! The report as Markdown for a ticket or a wiki: a table of all findings, then evidence and advice
//! for each. The text is also readable without rendering.

use ebb_model::report::Report;

use crate::page::Page;
use crate::page::alike::Alike;
use crate::page::card::Card;
use crate::zone::Zone;

/// Number of findings with details; a ticket must stay readable.
const DETAILED: usize = 25;

/// Rows of the table. Together with the details they stay below the limit of a ticket.
///
/// Source: GitHub accepts 65,536 characters, Jira half of it.
const IN_TABLE: usize = 100;

/// Limit on named resources of similar findings.
const NAMED: usize = 20;

/// Maximum width of a padded cell; padding aligns the columns of the raw text.
const WIDEST: usize = 48;

/// The report as GitHub Flavored Markdown, with times in a time zone.
pub fn markdown(report: &Report, zone: &Zone) -> String {
    let page = Page::from_report(report, zone);
    let rows = Alike::from_cards(&page.cards);
    let mut out = format!("# Ebb: {}\n\n", escaped(&page.headline));
    if let Some(simulated) = page.simulated_means {
        out.push_str(&format!("**{}**\n\n", escaped(simulated)));
    }
    out.push_str(&format!("{}\n", escaped(&summary(&page))));
    table(&rows, &mut out);
    for row in rows.iter().take(DETAILED) {
        detail(row, &mut out);
    }
    if rows.len() > DETAILED {
        let of = |rows: &[Alike<'_>]| rows.iter().map(Alike::count).sum::<usize>();
        let more = page.cards.len() - of(&rows[..DETAILED]);
        let named = of(&rows[..rows.len().min(IN_TABLE)]);
        out.push_str(&format!(
            "\n… and {more} more; the table lists the first {named}.\n"
        ));
    }
    if !page.not_evaluated.is_empty() {
        out.push_str("\n## Not evaluated\n\n");
        for group in &page.not_evaluated {
            let (rule, reason) = (escaped(&group.rule), escaped(&group.reason));
            let named = group.named.iter().map(|name| escaped(name));
            let named: Vec<String> = named.collect();
            let more = group.more.map(|more| format!(" and {more} more"));
            let named = match named.is_empty() {
                true => String::new(),
                false => format!(": {}{}", named.join(", "), more.unwrap_or_default()),
            };
            out.push_str(&format!("- {} × {rule}: {reason}{named}\n", group.count));
        }
    }
    for section in &page.supplements {
        out.push_str(&format!("\n## {}\n\n", section.title));
        for line in &section.lines {
            out.push_str(&format!("- {}\n", escaped(line)));
        }
    }
    if !page.gaps.is_empty() {
        out.push_str("\n## Missing data\n\n");
        for gap in &page.gaps {
            let (scope, reason) = (escaped(&gap.scope), escaped(&gap.reason));
            out.push_str(&format!("- {scope}: {reason}\n"));
        }
    }
    out
}

/// Evaluated resources, waste and the prices used.
fn summary(page: &Page) -> String {
    let mut lines = vec![format!("{}: {}.", page.at, page.scope)];
    lines.extend(page.selected.as_ref().map(|text| format!("{text}.")));
    if page.saving.is_some() {
        let (spent, now) = (&page.spent, &page.per_hour);
        lines.push(format!("Wasted so far: {spent}; at present {now}."));
    }
    lines.extend(page.evaluated.as_ref().map(|text| format!("{text}.")));
    lines.extend(page.basis.as_ref().map(|text| format!("Prices: {text}.")));
    lines.extend(page.without_price.as_ref().map(|text| format!("{text}.")));
    lines.extend(page.weaker.map(str::to_owned));
    lines.join("\n")
}

/// The cell of a finding without a saving.
fn unknown(card: &Card) -> &'static str {
    match card.is_waste {
        true => "not known",
        false => "-",
    }
}

fn table(rows: &[Alike<'_>], out: &mut String) {
    if rows.is_empty() {
        return;
    }
    out.push('\n');
    let head = ["Finding", "Resource", "Owner", "Region", "Saving a month"].map(str::to_owned);
    let cells = rows.iter().take(IN_TABLE).map(|row| {
        let card = row.first();
        let title = row.title().unwrap_or_else(|| card.title.clone());
        [
            escaped(&card.kind),
            escaped(&title),
            escaped(card.owner.as_deref().unwrap_or("no owner")),
            escaped(&card.region),
            escaped(&match row.saving() {
                Some(saving) if row.is_short() => format!("{saving} {}", row.period()),
                Some(saving) => saving,
                None => unknown(card).to_owned(),
            }),
        ]
    });
    let cells: Vec<[String; 5]> = [head].into_iter().chain(cells).collect();
    let chars = |text: &str| text.chars().count();
    let width = |n: usize| {
        let widest = cells.iter().map(|row| chars(&row[n])).max();
        widest.unwrap_or(0).min(WIDEST)
    };
    let widths: [usize; 5] = std::array::from_fn(width);
    let mut line = |row: &[String; 5]| {
        let [a, b, c, d, e] = widths;
        let [finding, what, owner, region, saving] = row;
        out.push_str(&format!(
            "| {finding:<a$} | {what:<b$} | {owner:<c$} | {region:<d$} | {saving:>e$} |\n"
        ));
    };
    for (n, row) in cells.iter().enumerate() {
        if n == 1 {
            let dashes = widths.map(|width| "-".repeat(width));
            let right = widths[4].saturating_sub(1);
            line(&[
                dashes[0].clone(),
                dashes[1].clone(),
                dashes[2].clone(),
                dashes[3].clone(),
                format!("{}:", "-".repeat(right)),
            ]);
        }
        line(row);
    }
}

fn detail(row: &Alike<'_>, out: &mut String) {
    let card = row.first();
    let heading = match row.title() {
        Some(title) => escaped(&title),
        None => {
            let id = card.id.as_deref().map(|id| format!(" ({})", escaped(id)));
            let (kind, title) = (escaped(&card.kind), escaped(&card.title));
            format!("{kind}: {title}{}", id.unwrap_or_default())
        }
    };
    out.push_str(&format!("\n## {heading}\n\n"));
    let mut line = |what: &str, text: &str| {
        out.push_str(&format!("- {what}: {}\n", escaped(text)));
    };
    if row.count() > 1 {
        line("Resources", &row.names(NAMED));
        line("First of them", &card.resource());
    }
    line("Evidence", &card.evidence);
    let coverage = card.coverage.as_deref();
    let coverage = coverage.map_or(String::new(), |share| format!(", coverage {share}"));
    line("Observed", &format!("{}{coverage}", card.window));
    line(
        "Confidence",
        &format!("{}, {}", card.confidence, card.because),
    );
    line(&card.action, &instead_or_advice(card));
    if let (Some(saving), Some(spent)) = (row.saving(), row.spent()) {
        line(
            "Cost",
            &format!("saving {saving} {}, wasted so far {spent}", row.period()),
        );
    }
    for (what, fact) in facts(card) {
        if let Some(fact) = fact {
            line(what, fact);
        }
    }
    for step in &card.steps {
        line("Task", step);
    }
    if let Some(link) = card.command.as_ref().filter(|_| card.is_link) {
        out.push_str(&format!("- Console: <{link}>\n"));
    } else if let Some(command) = &card.command {
        let fence = fence(command);
        out.push_str(&format!("\n{fence}sh\n{command}\n{fence}\n"));
    }
}

/// The fence of a code block, which is longer than each run of backticks in the block. The
/// backticks stay, because an apostrophe would end a quoted word of the command.
fn fence(block: &str) -> String {
    let runs = block.split(|c| c != '`').map(str::len);
    "`".repeat(runs.max().unwrap_or(0).max(2) + 1)
}

fn instead_or_advice(card: &Card) -> String {
    let instead = card.instead.as_ref();
    instead.map_or_else(|| card.advice.clone(), |instead| instead.line())
}

fn facts(card: &Card) -> [(&'static str, Option<&String>); 7] {
    let cost = card.cost.as_ref();
    [
        ("Waste", cost.map(|cost| &cost.price)),
        (
            "Waste at list price",
            cost.and_then(|cost| cost.list.as_ref()),
        ),
        (
            "Saving in the totals",
            cost.and_then(|cost| cost.counted.as_ref()),
        ),
        ("First found", card.first_seen.as_ref()),
        ("Account", card.account.as_ref()),
        ("Node", card.node.as_ref()),
        ("Managed by", card.controller.as_ref()),
    ]
}

/// Escapes external text, so that neither Markdown nor HTML interprets any of it. Characters
/// without a special meaning in their position stay unchanged for readability.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map_or(' ', |(_, next)| *next);
        let rest = &text[at..];
        match c {
            '<' => out.push_str("&lt;"),
            '&' if next == '#' || next.is_ascii_alphabetic() => out.push_str("&amp;"),
            // A mention would notify people.
            '@' if !before.is_alphanumeric() => out.push_str("&#64;"),
            // External text never becomes a link.
            ':' if rest.starts_with("://") => out.push_str("&#58;"),
            '\\' | '`' | '*' | '[' | '|' | '~' => {
                out.push('\\');
                out.push(c);
            }
            // An underscore within a word does not start emphasis.
            '_' if !(before.is_alphanumeric() && next.is_alphanumeric()) => out.push_str("\\_"),
            '#' | '>' if before == ' ' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
        before = c;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_ticket_says_money_evidence_and_what_to_do() {
        let text = markdown(&testing::small(), &Zone::utc());
        for expect in [
            "$884.76 a month, and at most $280.32 more, in 2 findings with a price, 1 without",
            "no activity for 3 h 05 min",
            "aws ec2 stop-instances",
            "- Observed: 2026-03-04 08:55 to 2026-03-04 12:00 UTC (3 h 05 min), coverage 99 %",
            "- Cost: saving $884.76 a month, wasted so far $3.74\n- Waste: $1.2120/h from the bill of 2026-02-27\n",
            "- Waste at list price: $1.2120/h of 2025-03-02 (367 days old)",
            "- Cost: saving at most $280.32 a month, wasted so far at most $1.18",
            "- Task: align (1f0e) on i-0bbb, Batch job job-17",
        ] {
            assert!(text.contains(expect), "no {expect} in\n{text}");
        }
    }

    #[test]
    fn what_comes_from_outside_is_text_and_never_markup() {
        let text = markdown(&testing::hostile(), &Zone::utc());
        let outside_code = text.split("```").step_by(2).collect::<String>();
        for markup in ["<script", "<img", "](http", "@channel", "https://"] {
            assert!(
                !outside_code.contains(markup),
                "{markup} in\n{outside_code}"
            );
        }
        let check = |text: &str, expect: &str| assert_eq!(escaped(text), expect);
        check("a|b`c*_[x](y)", "a\\|b\\`c\\*\\_\\[x](y)");
        check("<b>&@all", "&lt;b>&&#64;all");
        check("&lt;b", "&amp;lt;b");
        check("https://a.example", "https&#58;//a.example");
        check("# a > b #1", "\\# a \\> b \\#1");
    }

    #[test]
    fn what_means_nothing_to_markdown_is_read_as_it_is() {
        let check = |text: &str| assert_eq!(escaped(text), text);
        check("2026-03-04 12:00 UTC");
        check("eu-west-1: batch:DescribeJobQueues: AccessDenied!");
        check("idle_node/eu-central-1/i-0aaa (100 %)");
        check("ana@example.org, a & b, tag ebb:standby=true");
    }

    #[test]
    fn many_findings_make_a_table_and_details_that_a_ticket_takes() {
        let mut many = testing::many(10_000);
        for (n, finding) in many.findings.iter_mut().enumerate() {
            finding.resource.owner = Some(format!("owner-{n}"));
        }
        let text = markdown(&many, &Zone::utc());
        assert!(text.chars().count() < 65_536, "{}", text.chars().count());
        assert!(text.contains("… and 9975 more; the table lists the first 100."));
        assert_eq!(text.matches("\n| ").count(), IN_TABLE + 2);
        assert_eq!(
            text.matches("\n## ").count() - text.matches("\n## Not").count(),
            DETAILED
        );
        assert!(markdown(&testing::empty(), &Zone::utc()).starts_with("# Ebb: No findings"));
    }
}
