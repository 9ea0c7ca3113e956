//! The words that the forms for people share: each value of a report as text,
//! prepared once. Text from outside is made one line here; escaping for a form's
//! own syntax is the form's.

pub mod alike;
pub mod bill;
pub mod card;
pub mod fargate_jobs;
pub mod groups;
pub mod history;
pub mod hours;
pub mod money;
pub mod price_ages;
pub mod supplement;
pub mod wording;

use ebb_model::report::Report;
use ebb_model::report::selection::Selected;
use ebb_telemetry::money::Usd;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::safe_text::{clip, counted, one_line};
use serde::Serialize;

use crate::page::card::Card;
use crate::page::groups::{Bar, Group};
use crate::page::history::TrendWords;
use crate::page::hours::HoursRow;
use crate::page::supplement::Beside;
use crate::page::wording::{LINE_CHARS, SIMULATED};
use crate::zone::Zone;

/// A report as words.
#[derive(Debug, Serialize)]
pub struct Page {
    /// When it was judged.
    pub at: String,
    /// Says what the input was, when it was not measured.
    pub simulated: Option<&'static str>,
    /// The same as a sentence.
    pub simulated_means: Option<&'static str>,
    /// What mending everything saves a month, and in how many findings.
    pub headline: String,
    /// The same sum alone, without upper bounds; `None` where no finding has a known price.
    pub saving: Option<String>,
    /// What is saved at most beyond that, where only an upper bound of a price is known.
    pub at_most: Option<String>,
    /// What the savings are a part of.
    pub evaluated: Option<String>,
    /// What is wasted an hour.
    pub per_hour: String,
    /// What was wasted so far.
    pub spent: String,
    /// How many findings there are.
    pub findings: String,
    /// What was looked at.
    pub looked_at: String,
    /// Which findings are shown, where not all are.
    pub selected: Option<String>,
    /// Says that no probe told anything; `None` when one did.
    pub weaker: Option<&'static str>,
    /// Findings without a price; `None` when all have one.
    pub without_price: Option<String>,
    /// Where the prices come from, and for how many findings.
    pub basis: Option<String>,
    /// Findings, the greatest saving first.
    pub cards: Vec<Card>,
    /// Saving by owner, the greatest first.
    pub owners: Vec<Bar>,
    /// What was not judged, by reason.
    pub not_judged: Vec<Group>,
    /// What stands beside the findings: the bill and who else gives advice.
    pub beside: Vec<Beside>,
    /// What could not be seen at all.
    pub gaps: Vec<Gap>,
    /// What changed since the reader was last told.
    pub news: Vec<String>,
    /// What was resolved, and what that saved.
    pub resolved: Vec<String>,
    /// What all that was resolved saved so far; `None` where nothing is known to be.
    pub saved: Option<String>,
    /// What decisions set aside.
    pub set_aside: Vec<String>,
    /// The sums of earlier reports.
    pub trend: Option<TrendWords>,
    /// The hours of nodes.
    pub hours: Vec<HoursRow>,
    /// Nodes beyond those.
    pub hours_left_out: usize,
    /// How the running instances were seen.
    pub coverage: Vec<Seen>,
}

/// How many of the running instances were seen in some way.
#[derive(Debug, Serialize)]
pub struct Seen {
    /// In which.
    pub way: &'static str,
    /// How many.
    pub count: usize,
    /// Their share, in thousandths.
    pub bar: usize,
}

/// What could not be seen.
#[derive(Debug, Serialize)]
pub struct Gap {
    /// What was asked.
    pub scope: String,
    /// Why there is no answer.
    pub reason: String,
}

/// And what that means, where there is room for a sentence.
pub const SIMULATED_MEANS: &str =
    "SIMULATED: at least a part of this input was made by a generator, not measured.";

/// How much a report is worth that rests on metrics alone.
const WEAKER: &str = "No node has a probe: idle nodes are judged on metrics, which is weaker \
     evidence, and what jobs and steps do is not seen.";

impl Page {
    pub fn of(report: &Report, zone: &Zone) -> Self {
        let totals = &report.totals;
        let simulated = report.origin == Origin::Simulated;
        let greatest = report.findings.iter().map(|f| f.saving_or_zero()).max();
        let cards = report
            .findings
            .iter()
            .map(|finding| Card::of(finding, report, greatest.unwrap_or_default(), zone));
        let findings = counted(report.findings.len(), "finding", "findings");
        let priced = report.findings.iter().any(|finding| finding.cost.is_some());
        let saving = priced.then(|| totals.saving_a_month.to_string());
        Self {
            at: zone.minute(report.at),
            simulated: simulated.then_some(SIMULATED),
            simulated_means: simulated.then_some(SIMULATED_MEANS),
            headline: match priced {
                true => money::headline(totals, &findings),
                false => format!("{findings} without a known price"),
            },
            saving,
            at_most: (totals.at_most.saving_a_month > Usd::ZERO)
                .then(|| totals.at_most.saving_a_month.to_string()),
            evaluated: money::evaluated(totals).filter(|_| priced),
            per_hour: totals.waste_per_hour.to_string(),
            spent: totals.spent.to_string(),
            findings,
            looked_at: looked_at(report),
            selected: report.selected.as_ref().map(selected),
            weaker: (totals.running_instances > 0 && totals.with_probe == 0).then_some(WEAKER),
            without_price: (totals.without_price > 0).then(|| {
                let findings = counted(totals.without_price, "finding has", "findings have");
                format!("{findings} no known price and so no part in the sums")
            }),
            basis: groups::basis(report),
            cards: cards.collect(),
            owners: groups::owners(&report.findings),
            not_judged: groups::not_judged(&report.not_judged),
            beside: supplement::of(report, zone),
            gaps: report
                .gaps
                .iter()
                .map(|gap| Gap {
                    scope: one_line(&clip(&gap.scope, LINE_CHARS)),
                    reason: one_line(&clip(&gap.reason, LINE_CHARS)),
                })
                .collect(),
            news: Vec::new(),
            resolved: history::resolved(report, zone),
            saved: (report.history.saved_so_far > Usd::ZERO)
                .then(|| report.history.saved_so_far.to_string()),
            set_aside: history::set_aside(report, zone),
            trend: history::trend(report, zone),
            hours: hours::rows(report),
            hours_left_out: report.timeline.left_out,
            coverage: coverage(report),
        }
    }
}

fn coverage(report: &Report) -> Vec<Seen> {
    let totals = &report.totals;
    let running = totals.running_instances;
    let blind = running.saturating_sub(totals.with_probe + totals.on_metrics);
    let seen = |way, count: usize| Seen {
        way,
        count,
        bar: (count * 1000).checked_div(running).unwrap_or(0).min(1000),
    };
    match running {
        0 => Vec::new(),
        _ => vec![
            seen("with a probe", totals.with_probe),
            seen("by metrics alone", totals.on_metrics),
            seen("not judged", blind),
        ],
    }
}

fn selected(selected: &Selected) -> String {
    let left_out = counted(selected.left_out, "finding is", "findings are");
    let by = one_line(&clip(&selected.by, LINE_CHARS));
    format!("Selected by {by}; {left_out} left out")
}

fn looked_at(report: &Report) -> String {
    let totals = &report.totals;
    let mut text = counted(
        totals.running_instances,
        "running instance",
        "running instances",
    );
    text.push_str(&format!(
        " ({} with a probe, {} judged on metrics)",
        totals.with_probe, totals.on_metrics
    ));
    if totals.jobs > 0 {
        text.push_str(&format!(", {}", counted(totals.jobs, "job", "jobs")));
    }
    text
}
