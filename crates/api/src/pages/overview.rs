//! The first page: money at stake, what changed, and whether the data is complete.

use std::collections::BTreeMap;

use axum::response::Response;
use ebb_model::finding::Finding;
use ebb_model::finding_history::Stage;
use ebb_model::finding_kind::FindingKind;
use ebb_model::report::Report;
use ebb_model::report::own_cost::OwnCost;
use ebb_model::report::run_costs::RunCosts;
use ebb_model::report::workflow_runs::UNASSIGNED;
use ebb_report::page::card::thousandths;
use ebb_report::page::groups::{Bar, owners};
use ebb_report::page::history::{TrendWords, resolved_line, trend};
use ebb_report::page::money;
use ebb_report::zone::Zone;
use ebb_telemetry::money::Usd;
use ebb_telemetry::safe_text::{counted, one_line};
use jiff::SignedDuration;
use serde::Serialize;

use crate::extract::Query;
use crate::openapi::NoParameters;
use crate::pages::findings::FindingRow;
use crate::pages::probes::ProbeCounts;
use crate::pages::runs::RunRow;
use crate::pages::value_text::When;
use crate::pages::view::{Sheet, View};
use crate::problem::Problem;

/// Number of rows of each short list.
const SHORT: usize = 8;

#[derive(Serialize)]
struct Overview {
    saving: Option<String>,
    at_most: Option<String>,
    per_hour: String,
    spent: String,
    saved: Option<String>,
    evaluated: Option<String>,
    findings: usize,
    without_price: usize,
    owners: Vec<Bar>,
    kinds: Vec<KindBar>,
    greatest: Vec<FindingRow>,
    changed: Vec<FindingRow>,
    /// Whether it is known which findings are new. A scan does not know earlier findings.
    has_history: bool,
    resolved: Vec<ResolvedRow>,
    set_aside: usize,
    trend: Option<TrendWords>,
    health: Health,
    own_cost: OwnCostWords,
    runs: Vec<RunRow>,
}

/// The cost of Ebb itself in a month.
#[derive(Serialize)]
struct OwnCostWords {
    /// `None` if a part is unknown.
    a_month: Option<String>,
    resources: Option<String>,
    requests: Option<String>,
    from: Option<String>,
    to: Option<String>,
}

impl From<&OwnCost> for OwnCostWords {
    fn from(cost: &OwnCost) -> Self {
        let words = |usd: Option<Usd>| usd.map(|usd| usd.to_string());
        Self {
            a_month: words(cost.a_month),
            resources: words(cost.resources_a_month),
            requests: words(cost.requests_a_month),
            from: cost.from.as_deref().map(one_line),
            to: cost.to.as_deref().map(one_line),
        }
    }
}

/// The saving of the findings of one kind.
#[derive(Serialize)]
struct KindBar {
    slug: &'static str,
    kind: String,
    findings: String,
    saving: String,
    bar: i64,
}

/// A finding that no longer exists.
#[derive(Serialize)]
struct ResolvedRow {
    at: When,
    text: String,
}

/// Whether the data behind the page is complete.
#[derive(Serialize)]
struct Health {
    running: usize,
    with_probe: usize,
    on_metrics: usize,
    /// `None` if the report lists no probe.
    probes: Option<ProbeCounts>,
    /// `None` if no probe was heard.
    heard_at: Option<When>,
    not_evaluated: usize,
    left_out: usize,
    gaps: Vec<[String; 2]>,
    more_gaps: usize,
}

/// The first page.
pub(crate) async fn overview(
    Query(NoParameters {}): Query<NoParameters>,
    view: View,
) -> Result<Response, Problem> {
    let content = Overview::from_view(&view);
    Ok(view.render(Sheet {
        template: "overview.html",
        title: "Overview".to_owned(),
        section: "overview",
        json: Some("/v1/findings".to_owned()),
        csv: Some("/findings?format=csv".to_owned()),
        content,
    }))
}

impl Overview {
    fn from_view(view: &View) -> Self {
        let report = &view.report;
        let totals = view.totals();
        let findings: Vec<Finding> = view.findings().cloned().collect();
        let is_priced = findings.iter().any(|finding| finding.cost.is_some());
        let bound = totals.at_most.saving_a_month;
        let runs = report.runs.runs.iter();
        let costs = RunCosts::new(&report.costs);
        Self {
            saving: is_priced.then(|| totals.saving_a_month.to_string()),
            at_most: (bound > Usd::ZERO).then(|| bound.to_string()),
            per_hour: totals.waste_per_hour.to_string(),
            spent: money::wasted_by(&totals, &findings),
            saved: (report.history.saved_so_far > Usd::ZERO)
                .then(|| report.history.saved_so_far.to_string()),
            evaluated: money::evaluated(&totals),
            findings: findings.len(),
            without_price: totals.without_price,
            owners: owners(&findings),
            kinds: kinds(&findings),
            greatest: rows(findings.iter().take(SHORT), report),
            changed: rows(changed(&findings, report), report),
            has_history: findings.is_empty() || !report.history.life.is_empty(),
            resolved: resolved(report),
            set_aside: report.findings.len() - findings.len() + report.history.set_aside.len(),
            trend: trend(report, &Zone::utc()),
            health: Health::from_report(report),
            own_cost: OwnCostWords::from(&report.own_cost),
            runs: runs
                .filter(|run| run.run != UNASSIGNED)
                .take(SHORT)
                .map(|run| RunRow::from_run(run, &costs))
                .collect(),
        }
    }
}

fn rows<'a>(findings: impl Iterator<Item = &'a Finding>, report: &Report) -> Vec<FindingRow> {
    findings
        .map(|finding| FindingRow::from_finding(finding, report))
        .collect()
}

/// The greatest findings that are new since a day ago, or that the last sweep found changed.
fn changed<'a>(findings: &'a [Finding], report: &'a Report) -> impl Iterator<Item = &'a Finding> {
    let life = &report.history.life;
    let day = SignedDuration::from_hours(24);
    let is_changed = move |finding: &&Finding| {
        let standing = life.get(&finding.id);
        standing.is_some_and(|standing| {
            standing.stage != Stage::Ongoing || report.at.duration_since(standing.first_seen) <= day
        })
    };
    findings.iter().filter(is_changed).take(SHORT)
}

fn resolved(report: &Report) -> Vec<ResolvedRow> {
    let resolved = report.history.resolved.iter().take(SHORT);
    resolved
        .map(|one| ResolvedRow {
            at: When::from(one.resolved_at),
            text: resolved_line(one),
        })
        .collect()
}

/// The saving by kind, the greatest first. Amounts that are only upper bounds are separate.
fn kinds(findings: &[Finding]) -> Vec<KindBar> {
    let mut sums: BTreeMap<FindingKind, (usize, usize, Usd, Usd)> = BTreeMap::new();
    for finding in findings {
        let (all, priced, known, at_most) = sums.entry(finding.kind).or_default();
        *all += 1;
        let Some(cost) = &finding.cost else { continue };
        *priced += 1;
        let sum = if cost.basis.is_bound() {
            at_most
        } else {
            known
        };
        *sum = *sum + cost.in_totals().saving_a_month;
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(kind, (_, _, known, at_most))| {
        (std::cmp::Reverse(*known + *at_most), *kind)
    });
    let greatest = sums
        .first()
        .map(|(_, (_, _, known, at_most))| *known + *at_most);
    let bar =
        |(kind, (all, priced, known, at_most)): (FindingKind, (usize, usize, Usd, Usd))| KindBar {
            slug: kind.slug(),
            kind: kind.to_string(),
            findings: counted(all, "finding", "findings"),
            saving: match priced {
                0 => kind.without_saving().to_owned(),
                _ => money::sum(known, at_most),
            },
            bar: thousandths(known + at_most, greatest.unwrap_or_default()),
        };
    sums.into_iter().map(bar).collect()
}

impl Health {
    fn from_report(report: &Report) -> Self {
        let totals = &report.totals;
        let heard = report.nodes.iter().filter_map(|node| node.heard_at).max();
        let gaps = report.gaps.iter().take(SHORT);
        Self {
            running: totals.running_instances,
            with_probe: totals.with_probe,
            on_metrics: totals.on_metrics,
            probes: (!report.probes.is_empty()).then(|| ProbeCounts::from_probes(&report.probes)),
            heard_at: heard.map(When::from),
            not_evaluated: report.not_evaluated.len(),
            left_out: report.steps_left_out
                + report.nodes_left_out
                + report.targets.left_out
                + report.runs.left_out,
            gaps: gaps
                .map(|gap| [one_line(&gap.scope), one_line(&gap.reason)])
                .collect(),
            more_gaps: report.gaps.len().saturating_sub(SHORT),
        }
    }
}

#[cfg(test)]
mod tests {
    use ebb_report::testing;

    use super::*;
    use crate::pages::tests::page;

    #[tokio::test]
    async fn what_ebb_costs_is_a_figure_or_not_known_with_what_to_do() {
        let usd = |micros| Some(Usd::from_micros(micros));
        let check = async |resources: Option<Usd>, requests: Option<Usd>, expect: &[&str]| {
            let cost = OwnCost {
                from: resources.and(Some("2026-03-01".to_owned())),
                to: resources.and(Some("2026-03-07".to_owned())),
                resources_a_month: resources,
                requests_a_month: requests,
                a_month: resources.zip(requests).map(|(a, b)| a + b),
            };
            let report = Report {
                own_cost: cost,
                ..testing::empty()
            };
            let text = page(&report, "/").await;
            for one in expect {
                assert!(text.contains(one), "no {one}: {text}");
            }
        };
        let unknown = "activate the cost allocation tag <code>application</code>";
        check(None, None, &["not known", unknown]).await;
        let requests = "$1.20 charged requests. For resources";
        check(None, usd(1_200_000), &["not known", requests, unknown]).await;
        let parts = "$2.70 resources, $1.20 charged requests";
        let known = ["$3.90", parts, "2026-03-01 to 2026-03-07 (UTC)"];
        check(usd(2_700_000), usd(1_200_000), &known).await;
        let alone = "$2.70 resources; no sweep makes charged requests";
        check(usd(2_700_000), None, &["not known", alone]).await;
    }
}
