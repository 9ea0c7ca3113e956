//! JSON answers with pages of results.

use std::borrow::Cow;

use ebb_model::advice::step::StepAdvice;
use ebb_model::finding::Finding;
use ebb_model::report::{Report, Totals};
use ebb_telemetry::identity::{AccountId, Region};
use ebb_telemetry::origin::Origin;
use jiff::Timestamp;
use serde::Serialize;

use crate::problem::Problem;
use crate::query::{Only, Page};

/// The part of the report that every answer contains.
#[derive(Serialize)]
pub(crate) struct Head<'a> {
    schema: &'static str,
    /// The time of the evaluation.
    at: Timestamp,
    /// Simulated if any input is simulated.
    origin: Origin,
    /// The totals of the findings that match the filters.
    totals: Cow<'a, Totals>,
    /// The number of resources that a rule did not evaluate; the report lists them with the reason.
    not_judged: usize,
    /// The number of gaps; the report lists them with the reason.
    gaps: usize,
    /// The number of steps, nodes, pipelines, environments and runs that did not fit into the
    /// report.
    left_out: usize,
    /// The share of tasks that are assigned to a run, in parts per million; `None` without tasks.
    joined_ppm: Option<u32>,
}

/// A page of a list.
#[derive(Serialize)]
pub(crate) struct Paged<T> {
    /// Entries on all pages.
    total: usize,
    items: Vec<T>,
    /// The value of `?after=` for the next page; `None` on the last page.
    next: Option<String>,
}

impl<'a> Head<'a> {
    /// The same with other totals.
    pub(crate) fn with_totals(self, totals: Cow<'a, Totals>) -> Self {
        Self { totals, ..self }
    }
}

#[derive(Serialize)]
pub(crate) struct OfReport<'a, T> {
    #[serde(flatten)]
    pub(crate) head: Head<'a>,
    #[serde(flatten)]
    pub(crate) part: T,
}

pub(crate) fn is_wanted(finding: &Finding, only: &Only) -> bool {
    let resource = &finding.resource;
    only.lets("region", Some(resource.region.as_str()))
        && only.lets("account", resource.account.as_ref().map(AccountId::as_str))
        && only.lets("owner", resource.owner.as_deref())
        && only.lets("kind", Some(finding.kind.slug()))
}

pub(crate) fn is_there(step: &StepAdvice, only: &Only) -> bool {
    only.lets("region", step.region.as_ref().map(Region::as_str))
        && only.lets("account", step.account.as_ref().map(AccountId::as_str))
}

/// The name of a value in JSON.
pub(crate) fn slug(value: &impl Serialize) -> Option<String> {
    let value = serde_json::to_value(value).ok()?;
    value.as_str().map(str::to_owned)
}

/// One page of a list.
pub(crate) fn cut<T>(
    page: &Page,
    all: Vec<T>,
    id: impl Fn(&T) -> String,
) -> Result<Paged<T>, Problem> {
    let start = match &page.after {
        None => 0,
        Some(after) => {
            let before = all.iter().position(|entry| id(entry) == *after);
            before.ok_or_else(|| Problem::Cursor(after.clone()))? + 1
        }
    };
    let total = all.len();
    let items: Vec<T> = all.into_iter().skip(start).take(page.limit).collect();
    let is_last = start + items.len() >= total;
    let next = items.last().filter(|_| !is_last).map(id);
    Ok(Paged { total, items, next })
}

impl<T> Paged<T> {
    /// The same page with each entry converted.
    pub(crate) fn map<U>(self, told: impl Fn(T) -> U) -> Paged<U> {
        Paged {
            total: self.total,
            items: self.items.into_iter().map(told).collect(),
            next: self.next,
        }
    }
}

pub(crate) fn head<'a>(schema: &'static str, report: &'a Report) -> Head<'a> {
    Head {
        schema,
        at: report.at,
        origin: report.origin,
        totals: Cow::Borrowed(&report.totals),
        not_judged: report.not_judged.len(),
        gaps: report.gaps.len(),
        left_out: report.steps_left_out
            + report.nodes_left_out
            + report.targets.left_out
            + report.runs.left_out,
        joined_ppm: report.runs.joined_ppm(),
    }
}

pub(crate) fn json(value: &impl Serialize) -> Result<String, Problem> {
    serde_json::to_string(value).map_err(|error| Problem::Report(error.to_string()))
}
