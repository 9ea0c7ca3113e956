//! The report as a table for a terminal: amounts first, then one line of evidence and one of advice
//! for each finding.

pub mod columns;

use ebb_model::report::Report;
use ebb_telemetry::money::grouped;
use ebb_telemetry::safe_text::{counted, wrap};

use crate::page::Page;
use crate::page::alike::Alike;
use crate::page::card::Card;
use crate::page::money::{CostWords, NO_FORECAST};
use crate::table::columns::{Columns, INDENT};
use crate::terminal_style::{Colour, TerminalStyle};
use crate::zone::Zone;

const BOLD: &str = "\x1b[1m";

const DIM: &str = "\x1b[2m";

const GREEN: &str = "\x1b[32m";

const YELLOW: &str = "\x1b[33m";

const ALL_SIMULATED: &str =
    "SIMULATED: all findings come from generated input; nothing was measured.";

/// Minimum width in columns.
const NARROWEST: usize = 40;

/// Maximum width of a table without a terminal; otherwise its longest names define the width.
const WIDEST: usize = 120;

/// Limit on named resources of similar findings on a line.
const NAMED: usize = 5;

/// Explanation of the sign in a column.
const AT_MOST: &str =
    "≤: at most, because spot costs less than the on-demand price used; not in the totals";

/// Explanation of the other sign in a column.
const AT_LEAST: &str = "≥: at least, because earlier data of the node is no longer stored";

/// The report as a table, with times in a time zone.
pub fn table(report: &Report, style: &TerminalStyle, zone: &Zone) -> String {
    of_page(&Page::from_report(report, zone), style, usize::MAX)
}

/// A prepared report as a table with at most `most` rows of findings.
pub fn of_page(page: &Page, style: &TerminalStyle, most: usize) -> String {
    let mut sheet = Sheet::new(style);
    sheet.head(page);
    if !page.cards.is_empty() {
        sheet.findings(&page.cards, most);
    }
    sheet.totals(page);
    sheet.not_evaluated(page);
    sheet.supplements(page);
    sheet.gaps(page);
    sheet.out
}

struct Sheet {
    out: String,
    terminal: Option<usize>,
    width: usize,
    colour: Colour,
}

/// Whether all findings or only some are simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origins {
    AllSimulated,
    Mixed,
}

impl Origins {
    fn from_cards(cards: &[Card]) -> Self {
        match cards.iter().all(|card| card.simulated.is_some()) {
            true => Self::AllSimulated,
            false => Self::Mixed,
        }
    }
}

impl Sheet {
    fn new(style: &TerminalStyle) -> Self {
        let terminal = style.columns.map(|columns| columns.max(NARROWEST));
        Self {
            out: String::new(),
            terminal,
            width: terminal.unwrap_or(WIDEST),
            colour: style.colour,
        }
    }

    fn head(&mut self, page: &Page) {
        if let Some(simulated) = page.simulated_means {
            let all =
                !page.cards.is_empty() && Origins::from_cards(&page.cards) == Origins::AllSimulated;
            self.paragraph(YELLOW, if all { ALL_SIMULATED } else { simulated }, 0);
        }
        self.paragraph("", &format!("{} · {}", page.at, page.scope), 0);
        if let Some(weaker) = page.weaker {
            self.paragraph(YELLOW, weaker, 0);
        }
        if let Some(problems) = &page.probe_problems {
            self.paragraph(YELLOW, problems, 0);
        }
        if let Some(selected) = &page.selected {
            self.paragraph(YELLOW, &format!("{selected}."), 0);
        }
        match (page.cards.is_empty(), &page.selected) {
            (true, None) => self.line(GREEN, "No waste found in the evaluated resources."),
            (true, Some(_)) => self.line("", "No finding matches the filter."),
            (false, _) => {}
        }
        if !page.set_aside.is_empty() {
            let findings = counted(page.set_aside.len(), "finding is", "findings are");
            let line = format!("{findings} dismissed or snoozed; `ebb findings list` shows them.");
            self.paragraph("", &line, 0);
        }
        self.out.push('\n');
    }

    fn findings(&mut self, cards: &[Card], most: usize) {
        let mut rows = Alike::from_cards(cards);
        rows.truncate(most);
        let columns = Columns::from_rows(&rows, self.terminal);
        self.line(DIM, &columns.head());
        let origins = Origins::from_cards(cards);
        for row in &rows {
            let (line, id) = columns.row(row);
            self.line(BOLD, &line);
            let id = id.map_or(String::new(), |id| format!("{id} · "));
            self.paragraph("", &format!("{id}{}", evidence(row, origins)), INDENT);
            self.paragraph(DIM, &advice(row.first()), INDENT);
            if let Some(cost) = &row.first().cost {
                self.paragraph(DIM, &price(row, cost), INDENT);
            }
        }
        if rows.iter().any(Alike::is_bound) {
            self.paragraph(DIM, AT_MOST, 0);
        }
        if rows.iter().any(Alike::is_longer) {
            self.paragraph(DIM, AT_LEAST, 0);
        }
        if rows.iter().any(Alike::is_short) {
            self.paragraph(DIM, &format!("{NO_FORECAST}."), 0);
        }
        let left = cards.len() - rows.iter().map(Alike::count).sum::<usize>();
        if left > 0 {
            let text = format!("… and {} more, in the report.", grouped(left as u64));
            self.paragraph("", &text, 0);
        }
        self.out.push('\n');
    }

    fn totals(&mut self, page: &Page) {
        if !page.cards.is_empty() {
            let text = match page.saving {
                Some(_) => format!(
                    "Possible saving: {}. Wasted so far: {}; at present {}.",
                    page.headline, page.spent, page.per_hour
                ),
                None => page.headline.clone(),
            };
            self.paragraph(BOLD, &text, 0);
        }
        if let Some(evaluated) = &page.evaluated {
            self.paragraph(DIM, &format!("{evaluated}."), 0);
        }
        if let Some(basis) = &page.basis {
            self.paragraph(DIM, &format!("Prices: {basis}."), 0);
        }
        if let Some(without) = page
            .without_price
            .as_ref()
            .filter(|_| page.saving.is_some())
        {
            self.paragraph(DIM, &format!("{without}."), 0);
        }
    }

    fn not_evaluated(&mut self, page: &Page) {
        if page.not_evaluated.is_empty() {
            return;
        }
        self.out.push('\n');
        self.line(BOLD, "Not evaluated");
        for group in &page.not_evaluated {
            let more = group.more.map(|more| format!(" and {more} more"));
            let text = format!(
                "{} · {} ({}): {}{}",
                group.count,
                group.reason,
                group.rule,
                group.named.join(", "),
                more.unwrap_or_default()
            );
            self.paragraph("", &text, 2);
        }
    }

    fn supplements(&mut self, page: &Page) {
        for section in &page.supplements {
            self.out.push('\n');
            self.line(BOLD, section.title);
            for line in &section.lines {
                self.paragraph("", line, 2);
            }
        }
    }

    fn gaps(&mut self, page: &Page) {
        if page.gaps.is_empty() {
            return;
        }
        self.out.push('\n');
        self.line(BOLD, "Missing data");
        for gap in &page.gaps {
            self.paragraph(YELLOW, &format!("{}: {}", gap.scope, gap.reason), 2);
        }
    }

    /// Text wrapped to the width of the sheet, after `indent` spaces.
    fn paragraph(&mut self, style: &str, text: &str, indent: usize) {
        for line in wrap(text, self.width.saturating_sub(indent)) {
            self.out.push_str(&" ".repeat(indent));
            self.line(style, &line);
        }
    }

    fn line(&mut self, style: &str, text: &str) {
        let text = text.trim_end();
        if self.colour == Colour::Plain || style.is_empty() {
            self.out.push_str(text);
        } else {
            self.out.push_str(&format!("{style}{text}\x1b[0m"));
        }
        self.out.push('\n');
    }
}

/// Kind, machine and evidence. If every finding is simulated, the heading shows it once. High
/// confidence is not shown.
fn evidence(row: &Alike<'_>, origins: Origins) -> String {
    let card = row.first();
    let tag = card.simulated.filter(|_| origins == Origins::Mixed);
    let tag = tag.map_or(String::new(), |s| format!("[{s}] "));
    let machine = card.machine.as_deref().map(|m| format!(" on {m}"));
    let machine = machine.unwrap_or_default();
    let doubt = match card.confidence.as_str() {
        "high" => String::new(),
        level => format!(" [{level} confidence: {}]", card.because),
    };
    let names = match row.count() {
        1 => String::new(),
        _ => format!("{}; the first: ", row.names(NAMED)),
    };
    format!(
        "{tag}{}{machine}: {names}{}{doubt}",
        card.kind, card.evidence
    )
}

/// Waste in an hour with its price, and the part that another finding counts.
fn price(row: &Alike<'_>, cost: &CostWords) -> String {
    let waste = if row.count() > 1 {
        "Waste of the first"
    } else {
        "Waste"
    };
    let counted = cost.counted.as_deref();
    let counted = counted.map_or(String::new(), |counted| {
        format!("; of the saving, {counted}")
    });
    format!("{waste}: {}{counted}.", cost.price)
}

fn advice(card: &Card) -> String {
    match &card.instead {
        Some(advice) => format!("{}: {}", card.action, advice.line()),
        None => format!("{}: {}", card.action, card.advice),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use ebb_model::finding::evidence::Evidence;
    use ebb_model::finding::evidence::batch::Stuck;
    use ebb_model::finding_kind::FindingKind;
    use ebb_model::report::probe_problem::ProbeProblem;

    #[test]
    fn urgent_problems_of_probes_are_one_line() {
        let mut report = testing::empty();
        let problems = [
            (ProbeProblem::Silent, 2),
            (ProbeProblem::WrongClock, 1),
            (ProbeProblem::NoEbpf, 9),
        ];
        report.probe_problems = problems.into();
        let text = table(&report, &TerminalStyle::PLAIN, &Zone::utc());
        let line = "Probes: 2 silent, though the machine should run; 1 with a clock wrong by \
                    more than a minute. `ebb probes` lists the";
        assert!(text.contains(line), "{text}");
        report.probe_problems = [(ProbeProblem::NoEbpf, 9)].into();
        let text = table(&report, &TerminalStyle::PLAIN, &Zone::utc());
        assert!(!text.contains("Probes"), "{text}");
    }

    #[test]
    fn a_report_reads_as_dollars_evidence_and_advice() {
        insta::assert_snapshot!(table(&testing::small(), &TerminalStyle::PLAIN, &Zone::utc()), @r"
        SIMULATED: at least a part of this input was generated, not measured.
        2026-03-04 12:00 UTC · 12 running instances (8 with a probe, 3 with metrics only), 6 jobs

        SAVING/MONTH   WASTED  RESOURCE                  OWNER  REGION
             $884.76    $3.74  gpu-notebook (i-0aaa)     ana    eu-central-1
                      [SIMULATED] Idle node on g5.2xlarge, on demand: no activity for 3 h 05 min; background processes use 0.02
                      cores; task session of ana exists without activity
                      Stop: Stop it; its volumes stay.
                      Waste: $1.2120/h from the bill of 2026-02-27.
           ≤ $280.32  ≤ $1.18  variant-call              ana    eu-central-1
                      [SIMULATED] Overprovisioned step: requested 16 vCPU and 64.0 GiB, used at most 2.1 cores and 3.9 GiB (1
                      task, total run time 60 min)
                      Rightsize: request 3 vCPU and 4.8 GiB; the cheapest suitable type is c6i.xlarge in eu-central-1 at
                      $0.1940/h, list price of 2026-02-01
                      Waste: at most $1.18 so far, on average $0.3840/h over all hours with and without tasks, at the on-demand
                      price of 2026-02-27; spot costs less.
             unknown  unknown  align-sample-17 (job-17)  -      eu-central-1
                      Stuck Batch job: RUNNING without CPU usage, I/O or a new process for 42 min; since its start, 3 processes
                      used 1.25 s of CPU
                      Investigate: Look at what it waits for.
        ≤: at most, because spot costs less than the on-demand price used; not in the totals

        Possible saving: $884.76 a month, and at most $280.32 more, in 2 findings with a price, 1 without. Wasted so far: $3.74;
        at present $1.2120/h.
        Prices: effective cost from the bill for $884.76 in 1 finding; on-demand price of spot machines of 2026-02-27 for at
        most $280.32 in 1 finding.
        1 finding has no known price; the totals do not contain them.

        Not evaluated
          2 · coverage 41 %, at least 95 % is needed (idle_node): db-1, i-0ddd
          1 · tagged ebb:standby=true (idle_node): spare

        Missing data
          us-east-1: batch:DescribeJobs: AccessDenied: not authorized
        ");
    }

    #[test]
    fn a_report_without_findings_says_so() {
        insta::assert_snapshot!(table(&testing::empty(), &TerminalStyle::PLAIN, &Zone::utc()), @r"
        SIMULATED: at least a part of this input was generated, not measured.
        2026-03-04 12:00 UTC · 12 running instances (8 with a probe, 3 with metrics only), 6 jobs
        No waste found in the evaluated resources.
        ");
    }

    #[test]
    fn money_that_is_not_known_is_not_zero() {
        let mut report = testing::small();
        for finding in &mut report.findings {
            finding.cost = None;
        }
        let text = table(&report, &TerminalStyle::PLAIN, &Zone::utc());
        assert!(
            text.contains("\n3 findings without a known price\n"),
            "{text}"
        );
        assert!(!text.contains("$0.00"), "{text}");
    }

    #[test]
    fn a_kind_without_a_saving_has_no_amounts_and_is_not_in_the_headline() {
        let mut report = testing::small();
        report.findings[2].kind = FindingKind::BudgetExceeded;
        let text = table(&report, &TerminalStyle::PLAIN, &Zone::utc());
        assert!(text.contains(" more, in 2 findings. "), "{text}");
        assert!(
            text.contains("         -        -  align-sample-17"),
            "{text}"
        );
        report.findings.drain(..2);
        let text = table(&report, &TerminalStyle::PLAIN, &Zone::utc());
        assert!(text.contains("\n1 finding without a saving\n"), "{text}");
    }

    #[test]
    fn a_saving_of_less_than_a_week_of_metrics_is_not_of_a_month() {
        let mut report = testing::small();
        report.findings.truncate(1);
        let cost = report.findings[0].cost.as_mut().expect("a price");
        cost.saving_a_month = cost.spent;
        report.totals.saving_a_month = cost.spent;
        let text = table(&report, &TerminalStyle::PLAIN, &Zone::utc());
        for expect in [
            " SAVING   WASTED ",
            "$3.74 for 3 h 05 min    $3.74  gpu-notebook",
            "Possible saving: $3.74 for 3 h 05 min, and at most",
            "gives no monthly forecast",
        ] {
            assert!(text.contains(expect), "no {expect} in\n{text}");
        }
        assert!(
            !table(&testing::small(), &TerminalStyle::PLAIN, &Zone::utc()).contains("forecast")
        );
    }

    #[test]
    fn a_stuck_worker_is_not_called_a_job() {
        let mut report = testing::small();
        let Evidence::StuckJob(stuck) = &mut report.findings[2].evidence else {
            panic!("a stuck job");
        };
        stuck.stuck = Stuck::AgentDisconnected;
        let text = table(&report, &TerminalStyle::PLAIN, &Zone::utc());
        assert!(text.contains("Stuck Batch worker: "), "{text}");
    }

    #[test]
    fn waste_longer_than_the_stored_data_is_a_lower_bound() {
        let mut report = testing::small();
        let Evidence::IdleNode(idle) = &mut report.findings[0].evidence else {
            panic!("an idle node");
        };
        idle.is_longer = true;
        let text = table(&report, &TerminalStyle::PLAIN, &Zone::utc());
        for expect in [
            "$884.76  ≥ $3.74  gpu-notebook",
            "no activity for at least 3 h 05 min;",
            "≥: at least, because earlier data",
            "Wasted so far: at\nleast $3.74;",
        ] {
            assert!(text.contains(expect), "no {expect} in\n{text}");
        }
    }

    #[test]
    fn lines_keep_to_the_terminal_that_is_given() {
        for columns in [60, 80, 100, 140] {
            let style = TerminalStyle {
                columns: Some(columns),
                colour: Colour::Plain,
            };
            for report in [testing::small(), testing::many(1_000)] {
                let text = table(&report, &style, &Zone::utc());
                let widest = text.lines().map(|line| line.chars().count()).max();
                assert!(widest <= Some(columns.max(72)), "{columns}:\n{text}");
            }
        }
    }

    #[test]
    fn names_from_outside_bring_no_escape_and_no_line_of_their_own() {
        let text = table(&testing::hostile(), &TerminalStyle::PLAIN, &Zone::utc());
        assert!(!text.contains('\x1b'));
        assert!(!text.lines().any(|line| line.starts_with("second line")));
    }

    #[test]
    fn colour_appears_only_when_told_so() {
        let colour = |colour| TerminalStyle {
            colour,
            ..TerminalStyle::PLAIN
        };
        let small = testing::small();
        assert!(table(&small, &colour(Colour::Ansi), &Zone::utc()).contains(BOLD));
        assert!(!table(&small, &colour(Colour::Plain), &Zone::utc()).contains('\x1b'));
    }
}
