//! Text that all forms for people share: each value of a report as text, prepared once. External
//! text becomes one line here; each form escapes it for its own syntax.

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
use crate::page::supplement::Supplement;
use crate::page::wording::{LINE_CHARS, SIMULATED};
use crate::zone::Zone;

/// A report as text.
#[derive(Debug, Serialize)]
pub struct Page {
    /// Time of the evaluation.
    pub at: String,
    /// Label of simulated input; `None` for measured input.
    pub simulated: Option<&'static str>,
    /// The same as a sentence.
    pub simulated_means: Option<&'static str>,
    /// Saving in a month if all findings are fixed, and the number of findings of kinds that have a
    /// saving.
    pub headline: String,
    /// The same saving alone, without upper bounds; `None` if no finding has a known price.
    pub saving: Option<String>,
    /// Time of the saving, such as "a month".
    pub period: String,
    /// Further saving of findings whose price is only an upper bound.
    pub at_most: Option<String>,
    /// Total cost of which the saving is a part.
    pub evaluated: Option<String>,
    /// Waste in an hour.
    pub per_hour: String,
    /// Waste so far.
    pub spent: String,
    /// Number of findings of kinds that have a saving, and how many of them have no price.
    pub findings: String,
    /// Evaluated resources.
    #[serde(rename = "looked_at")]
    pub scope: String,
    /// Description of the shown findings; `None` if all are shown.
    pub selected: Option<String>,
    /// Warning that no probe sent data; `None` if a probe did.
    pub weaker: Option<&'static str>,
    /// Probes that need attention; `None` if there are none.
    pub probe_problems: Option<String>,
    /// Findings without a price; `None` if all have one.
    pub without_price: Option<String>,
    /// Sources of the prices, with the number of findings for each.
    pub basis: Option<String>,
    /// Findings, the greatest saving first.
    pub cards: Vec<Card>,
    /// Saving by owner, the greatest first.
    pub owners: Vec<Bar>,
    /// Resources that were not evaluated, by reason.
    pub not_evaluated: Vec<Group>,
    /// Further sections: the bill and the advice of other services.
    pub supplements: Vec<Supplement>,
    /// Data that could not be read.
    pub gaps: Vec<Gap>,
    /// The page with all findings; `None` if no address of the pages is known.
    pub link: Option<String>,
    /// Changes since the last notification of the reader.
    pub news: Vec<String>,
    /// Resolved findings and their saving.
    pub resolved: Vec<String>,
    /// Saving of all resolved findings so far; `None` if no saving is known.
    pub saved: Option<String>,
    /// Findings that decisions set aside.
    pub set_aside: Vec<String>,
    /// Totals of earlier reports.
    pub trend: Option<TrendWords>,
    /// Hourly activity of nodes.
    pub hours: Vec<HoursRow>,
    /// Number of nodes left out.
    pub hours_left_out: usize,
    /// Running instances by their source of data.
    pub coverage: Vec<CoverageShare>,
}

/// Number of running instances with one source of data.
#[derive(Debug, Serialize)]
pub struct CoverageShare {
    /// Source of data.
    pub way: &'static str,
    /// Number of instances.
    pub count: usize,
    /// Their share in thousandths.
    pub bar: usize,
}

/// Data that could not be read.
#[derive(Debug, Serialize)]
pub struct Gap {
    /// The request that failed.
    pub scope: String,
    /// Reason of the failure.
    pub reason: String,
}

/// The label as a sentence, for forms with enough space.
pub const SIMULATED_MEANS: &str =
    "SIMULATED: at least a part of this input was generated, not measured.";

/// Warning for a report from metrics alone.
const WEAKER: &str = "No node has a probe: idle nodes are detected from metrics, which is weaker evidence, and jobs \
     and steps are not observed.";

impl Page {
    pub fn from_report(report: &Report, zone: &Zone) -> Self {
        let totals = &report.totals;
        let simulated = report.origin == Origin::Simulated;
        let greatest = report.findings.iter().map(|f| f.saving_or_zero()).max();
        let cards = report
            .findings
            .iter()
            .map(|finding| Card::from_finding(finding, report, greatest.unwrap_or_default(), zone));
        let priced = report.findings.iter().any(|finding| finding.cost.is_some());
        let saving = priced.then(|| totals.saving_a_month.to_string());
        Self {
            at: zone.minute(report.at),
            simulated: simulated.then_some(SIMULATED),
            simulated_means: simulated.then_some(SIMULATED_MEANS),
            headline: money::headline(totals, &report.findings),
            saving,
            period: money::period(&report.findings),
            at_most: (totals.at_most.saving_a_month > Usd::ZERO)
                .then(|| totals.at_most.saving_a_month.to_string()),
            evaluated: money::evaluated(totals).filter(|_| priced),
            per_hour: totals.waste_per_hour.to_string(),
            spent: money::wasted_by(totals, &report.findings),
            findings: money::with_price(&report.findings),
            scope: scope(report),
            selected: report.selected.as_ref().map(selected),
            weaker: (totals.running_instances > 0 && totals.with_probe == 0).then_some(WEAKER),
            probe_problems: probe_problems(report),
            without_price: (totals.without_price > 0).then(|| {
                let findings = counted(totals.without_price, "finding has", "findings have");
                format!("{findings} no known price; the totals do not contain them")
            }),
            basis: groups::basis(report),
            cards: cards.collect(),
            owners: groups::owners(&report.findings),
            not_evaluated: groups::not_evaluated(&report.not_evaluated),
            supplements: supplement::supplements(report, zone),
            gaps: report
                .gaps
                .iter()
                .map(|gap| Gap {
                    scope: one_line(&clip(&gap.scope, LINE_CHARS)),
                    reason: one_line(&clip(&gap.reason, LINE_CHARS)),
                })
                .collect(),
            link: None,
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

/// The urgent problems of probes with their counts. One probe may have several.
fn probe_problems(report: &Report) -> Option<String> {
    let urgent = report.probe_problems.iter();
    let urgent: Vec<String> = urgent
        .filter(|(problem, _)| problem.is_urgent())
        .map(|(problem, count)| format!("{count} {}", problem.words()))
        .collect();
    (!urgent.is_empty()).then(|| {
        let urgent = urgent.join("; ");
        format!("Probes: {urgent}. `ebb probes` lists the nodes and what to do.")
    })
}

fn coverage(report: &Report) -> Vec<CoverageShare> {
    let totals = &report.totals;
    let running = totals.running_instances;
    let blind = running.saturating_sub(totals.with_probe + totals.on_metrics);
    let share = |way, count: usize| CoverageShare {
        way,
        count,
        bar: (count * 1000).checked_div(running).unwrap_or(0).min(1000),
    };
    match running {
        0 => Vec::new(),
        _ => vec![
            share("with a probe", totals.with_probe),
            share("with metrics only", totals.on_metrics),
            share("not evaluated", blind),
        ],
    }
}

fn selected(selected: &Selected) -> String {
    let left_out = counted(selected.left_out, "finding is", "findings are");
    let by = one_line(&clip(&selected.by, LINE_CHARS));
    format!("Filter: {by}; {left_out} not shown")
}

fn scope(report: &Report) -> String {
    let totals = &report.totals;
    let mut text = counted(
        totals.running_instances,
        "running instance",
        "running instances",
    );
    // A report from metrics alone has its own line about probes.
    let others = match totals.with_probe > 0 && report.unwatched.count() > 0 {
        true => "; `ebb probes` lists those without a probe",
        false => "",
    };
    text.push_str(&format!(
        " ({} with a probe, {} with metrics only{others})",
        totals.with_probe, totals.on_metrics
    ));
    if totals.jobs > 0 {
        text.push_str(&format!(", {}", counted(totals.jobs, "job", "jobs")));
    }
    text
}
