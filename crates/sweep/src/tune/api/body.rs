//! What is answered: the very values of the report, or a part of them.

use ebb_domain::finding::{Confidence, Cost, Finding, FindingKind, Recommendation, Resource};
use ebb_domain::heartbeat::Origin;
use ebb_domain::identity::Region;
use ebb_domain::profile::advice::StepAdvice;
use ebb_domain::report::{Report, Totals};
use jiff::Timestamp;
use serde::Serialize;

use super::problem::Problem;
use super::route::{Page, Route};
use crate::tune;

/// What every answer says of the report that it is from.
#[derive(Serialize)]
struct Head<'a> {
    schema: &'static str,
    /// When the sweep judged.
    at: Timestamp,
    /// Simulated as soon as any of its input is.
    origin: Origin,
    totals: &'a Totals,
    /// Resources that a rule did not judge; the report says which and why.
    not_judged: usize,
    /// Parts of the account that could not be seen; the report says which and why.
    gaps: usize,
}

#[derive(Serialize)]
struct List<'a, T> {
    #[serde(flatten)]
    head: Head<'a>,
    /// Entries on all pages.
    total: usize,
    items: Vec<T>,
    /// What to ask for with `?after=` to go on; `None` on the last page.
    next: Option<String>,
}

/// What to ask for and run on instead, and why.
#[derive(Serialize)]
struct Advice<'a> {
    /// The id of the finding.
    finding: &'a str,
    kind: FindingKind,
    resource: &'a Resource,
    /// What shows it, in one line.
    evidence: String,
    confidence: &'a Confidence,
    cost: Option<&'a Cost>,
    advice: &'a str,
    recommendation: &'a Recommendation,
}

#[derive(Serialize)]
struct One<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    #[serde(flatten)]
    advice: Advice<'a>,
}

/// The answer to a route as JSON.
pub(super) fn of(route: &Route, report: &Report) -> Result<String, Problem> {
    let recommended = || {
        report
            .findings
            .iter()
            .filter(|f| f.recommendation.is_some())
    };
    match route {
        Route::OpenApi => Ok(super::openapi::document().to_string()),
        Route::Findings(page) => {
            let wanted = report.findings.iter().filter(|f| is_wanted(f, page));
            let all: Vec<_> = wanted.map(|f| (f.id.clone(), f)).collect();
            list(head("ebb.findings/1.0", report), all, page)
        }
        Route::Recommendations(page) => {
            let wanted = recommended().filter(|f| is_wanted(f, page));
            let all = wanted.filter_map(|f| Some((f.id.clone(), advice(f)?)));
            list(head("ebb.recommendations/1.0", report), all.collect(), page)
        }
        Route::Steps(page) => {
            let wanted = tune::steps(report, None).into_iter().filter(|step| {
                is_or_any(&page.region, step.region.as_ref().map(Region::as_str))
                    && is_or_any(&page.owner, step.owner.as_deref())
                    && page.kind.is_none_or(|kind| step.kind == kind)
            });
            let all = wanted.map(|step| (id_of(&step), step));
            list(head("ebb.step_list/1.0", report), all.collect(), page)
        }
        Route::Recommendation { step, region } => {
            let wanted = recommended()
                .filter(|f| is_named(f, step))
                .filter(|f| is_or_any(region, Some(f.resource.region.as_str())));
            let finding = the_only(wanted.collect(), step)?;
            let advice = advice(finding).ok_or_else(|| Problem::Step(step.clone()))?;
            let head = head("ebb.recommendation/1.0", report);
            json(&One { head, advice })
        }
    }
}

fn is_wanted(finding: &Finding, page: &Page<FindingKind>) -> bool {
    let resource = &finding.resource;
    is_or_any(&page.region, Some(resource.region.as_str()))
        && is_or_any(&page.owner, resource.owner.as_deref())
        && page.kind.is_none_or(|kind| finding.kind == kind)
}

fn is_or_any(wanted: &Option<String>, value: Option<&str>) -> bool {
    wanted.is_none() || wanted.as_deref() == value
}

/// A step's place in the list.
fn id_of(step: &StepAdvice) -> String {
    let region = step.region.as_ref().map_or("-", Region::as_str);
    format!("{region}/{}", step.step)
}

fn list<T: Serialize, K>(
    head: Head<'_>,
    all: Vec<(String, T)>,
    page: &Page<K>,
) -> Result<String, Problem> {
    let start = match &page.after {
        None => 0,
        Some(after) => {
            let before = all.iter().position(|(id, _)| id == after);
            before.ok_or_else(|| Problem::Cursor(after.clone()))? + 1
        }
    };
    let end = all.len().min(start + page.limit);
    let next = match end < all.len() {
        true => all[start..end].last().map(|(id, _)| id.clone()),
        false => None,
    };
    let shown = all.iter().take(end).skip(start);
    json(&List {
        head,
        total: all.len(),
        items: shown.map(|(_, item)| item).collect(),
        next,
    })
}

fn head<'a>(schema: &'static str, report: &'a Report) -> Head<'a> {
    Head {
        schema,
        at: report.at,
        origin: report.origin,
        totals: &report.totals,
        not_judged: report.not_judged.len(),
        gaps: report.gaps.len(),
    }
}

fn advice(finding: &Finding) -> Option<Advice<'_>> {
    Some(Advice {
        finding: &finding.id,
        kind: finding.kind,
        resource: &finding.resource,
        evidence: finding.evidence.to_string(),
        confidence: &finding.confidence,
        cost: finding.cost.as_ref(),
        advice: &finding.remedy.advice,
        recommendation: finding.recommendation.as_ref()?,
    })
}

/// A step is asked for by its job definition, or by the name of its jobs.
fn is_named(finding: &Finding, step: &str) -> bool {
    let resource = &finding.resource;
    finding.kind == FindingKind::OverprovisionedStep
        && (resource.id == step || resource.name.as_deref() == Some(step))
}

/// A definition's own id goes before a name that jobs of others share.
fn the_only<'a>(mut wanted: Vec<&'a Finding>, step: &str) -> Result<&'a Finding, Problem> {
    if wanted.iter().any(|finding| finding.resource.id == step) {
        wanted.retain(|finding| finding.resource.id == step);
    }
    match wanted[..] {
        [] => Err(Problem::Step(step.to_owned())),
        [finding] => Ok(finding),
        _ => Err(Problem::Ambiguous {
            step: step.to_owned(),
            ids: wanted.iter().map(|finding| finding.id.clone()).collect(),
        }),
    }
}

fn json(value: &impl Serialize) -> Result<String, Problem> {
    serde_json::to_string(value).map_err(|error| Problem::Report(error.to_string()))
}
