//! Parts of the report, with its unchanged values.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use ebb_catalog::catalog::Catalogue;
use ebb_model::advice::step::StepAdvice;
use ebb_model::confidence::Confidence;
use ebb_model::cost::Cost;
use ebb_model::finding::{Finding, Recommendation, Resource};
use ebb_model::finding_kind::FindingKind;
use ebb_model::report::node_summary::NodeSummary;
use ebb_model::report::workflow_runs::{HandedStep, RunSeen};
use ebb_model::report::{Report, Totals};
use ebb_report::optimization_hub::Hub;
use ebb_report::reason_codes::Reasons;
use ebb_report::step_advice;
use ebb_report::step_advice::Reasoned;
use ebb_telemetry::identity::Region;
use ebb_workflows::export::{Form, TextOptions};
use jiff::Timestamp;
use serde::Serialize;

use crate::answer::{OfReport, cut, head, is_there, is_wanted, json, slug};
use crate::list::List;
use crate::problem::Problem;
use crate::query::{Only, Page};

/// The ids of findings that a decision sets aside.
pub(crate) type SetAside = BTreeSet<String>;

/// A finding as a recommendation with its reasons.
#[derive(Serialize)]
struct Advice<'a> {
    #[serde(flatten)]
    hub: Hub,
    /// The id of the finding.
    finding: &'a str,
    kind: FindingKind,
    resource: &'a Resource,
    /// The evidence in one line.
    evidence: String,
    confidence: &'a Confidence,
    cost: Option<&'a Cost>,
    advice: &'a str,
    /// The recommended request and machine; `None` if the remedy is another.
    recommendation: Option<&'a Recommendation>,
    /// The reasons, if it is about a step.
    reasons: Option<Reasons>,
}

/// A page of a list from a report. Findings that a decision sets aside are left out, also if the
/// decision is newer than the report.
pub(crate) fn list(
    list: List,
    page: &Page,
    report: &Report,
    set_aside: &SetAside,
) -> Result<String, Problem> {
    let head = head(list.schema(), report);
    let only = &page.only;
    match list {
        List::Findings => {
            let wanted = wanted(report, only, set_aside);
            let head = head.with_totals(totals(report, &wanted, only, set_aside));
            let paged = cut(page, wanted, |f| f.id.clone())?;
            json(&OfReport { head, part: paged })
        }
        List::Recommendations => {
            let wanted = wanted(report, only, set_aside);
            let head = head.with_totals(totals(report, &wanted, only, set_aside));
            let paged = cut(page, wanted, |f| f.id.clone())?;
            let steps = step_advice::steps(report);
            let by_finding = by_finding(&steps);
            let of = |finding: &Finding| by_finding.get(finding.id.as_str()).copied();
            let told = |finding| advice(finding, report.at, of(finding));
            let part = paged.map(told);
            json(&OfReport { head, part })
        }
        List::Nodes => {
            let wanted = report
                .nodes
                .iter()
                .filter(|node| is_wanted_node(node, only));
            let paged = cut(page, wanted.collect(), |node| node.id.clone())?;
            let head = head.with_totals(owner_totals(report, only));
            json(&OfReport { head, part: paged })
        }
        List::Steps => {
            let steps = step_advice::steps(report);
            let wanted = steps.iter().filter(|step| {
                is_wanted_step(step, only) && only.lets("kind", slug(&step.kind).as_deref())
            });
            let part = cut(page, wanted.collect(), id_of)?.map(Reasoned::from);
            let head = head.with_totals(owner_totals(report, only));
            json(&OfReport { head, part })
        }
        List::Pipelines | List::Environments => crate::targets::groups(list, page, report),
        List::Runs => {
            let wanted = report.runs.runs.iter().filter(|run| {
                only.lets("pipeline", run.pipeline.as_deref())
                    && only.lets("by", slug(&run.by).as_deref())
            });
            let paged = cut(page, wanted.collect(), |run| run.run.clone())?;
            let told = |run| OneRun::of(run, &report.runs.handed);
            let part = paged.map(told);
            json(&OfReport { head, part })
        }
        // They come from the catalogue or from their own file.
        List::Prices | List::Decisions => crate::prices::list(page, Catalogue::built_in()),
    }
}

/// One run with those of its steps that have tasks of a scheduler.
#[derive(Serialize)]
struct OneRun<'a> {
    #[serde(flatten)]
    run: &'a RunSeen,
    handed: Vec<&'a HandedStep>,
}

impl<'a> OneRun<'a> {
    fn of(run: &'a RunSeen, handed: &'a [HandedStep]) -> Self {
        let its = handed.iter().filter(|step| step.run == run.run);
        Self {
            handed: its.collect(),
            run,
        }
    }
}

/// One step: its finding as a recommendation, if there is one, and its need.
#[derive(Serialize)]
struct OneStep<'a> {
    #[serde(flatten)]
    advice: Option<Advice<'a>>,
    step: Reasoned<'a>,
}

/// The recommendation for one step, also if nothing is to change.
pub(crate) fn recommendation(step: &str, only: &Only, report: &Report) -> Result<String, Problem> {
    let steps = step_advice::steps(report);
    let there = |advice: &&StepAdvice| is_there(advice, only);
    let findings: HashMap<&str, &Finding> = (report.findings.iter())
        .map(|finding| (finding.id.as_str(), finding))
        .collect();
    let finding = |advice: &StepAdvice| findings.get(advice.finding.as_deref()?).copied();
    let mut wanted: Vec<&StepAdvice> = steps
        .iter()
        .filter(there)
        .filter(|advice| advice.step == step)
        .collect();
    // The id of a job definition takes precedence over a name that several jobs share.
    if wanted.is_empty() {
        let is_named = |advice: &&StepAdvice| {
            let named = finding(advice).and_then(|finding| finding.resource.name.as_deref());
            named == Some(step)
        };
        wanted = steps.iter().filter(there).filter(is_named).collect();
    }
    let advice = match wanted[..] {
        [] => return Err(Problem::Step(step.to_owned())),
        [advice] => advice,
        ref many => {
            return Err(Problem::Ambiguous {
                what: step.to_owned(),
                ids: many.iter().map(id_of).collect(),
            });
        }
    };
    let part = one_step(advice, finding(advice), report.at)?;
    let head = head("ebb.recommendation/2", report);
    json(&OfReport { head, part })
}

fn one_step<'a>(
    step: &'a StepAdvice,
    finding: Option<&'a Finding>,
    at: Timestamp,
) -> Result<OneStep<'a>, Problem> {
    let unknown = step.should_ask.cores.is_none() && step.should_ask.memory.is_none();
    if finding.is_none() && (step.samples == 0 || unknown) {
        return Err(Problem::Samples {
            step: step.step.clone(),
            needed: step.risk.samples_needed.max(1),
        });
    }
    let reasons = Some(step).filter(|_| finding.is_some());
    Ok(OneStep {
        advice: finding.map(|finding| advice(finding, at, reasons)),
        step: Reasoned::from(step),
    })
}

/// The changes of steps as text.
pub(crate) fn text(
    form: Form,
    only: &Only,
    options: TextOptions,
    report: &Report,
) -> Result<String, Problem> {
    let steps = step_advice::steps(report);
    let wanted = steps
        .iter()
        .filter(|step| is_wanted_step(step, only) && only.lets("step", Some(&step.step)));
    let wanted: Vec<StepAdvice> = wanted.cloned().collect();
    match only.value("step") {
        Some(step) if wanted.is_empty() => Err(Problem::Step(step.to_owned())),
        _ => Ok(form.write(&wanted, options)),
    }
}

/// The findings that pass the filters and are not set aside.
fn wanted<'a>(report: &'a Report, only: &Only, set_aside: &SetAside) -> Vec<&'a Finding> {
    let findings = report.findings.iter();
    let open = findings.filter(|finding| !set_aside.contains(&finding.id));
    open.filter(|finding| is_wanted(finding, only)).collect()
}

/// The totals of a list of findings; those of the report if the list is complete.
fn totals<'a>(
    report: &'a Report,
    wanted: &[&Finding],
    only: &Only,
    set_aside: &SetAside,
) -> Cow<'a, Totals> {
    let mut findings = report.findings.iter();
    let is_whole = !findings.any(|finding| set_aside.contains(&finding.id));
    match only.is_empty() && is_whole {
        true => Cow::Borrowed(&report.totals),
        false => Cow::Owned(report.totals.of_part(wanted.iter().copied())),
    }
}

/// The totals of an owner's findings, if a list is filtered by owner.
pub(crate) fn owner_totals<'a>(report: &'a Report, only: &Only) -> Cow<'a, Totals> {
    let Some(owner) = only.value("owner") else {
        return Cow::Borrowed(&report.totals);
    };
    let findings = report.findings.iter();
    let theirs = findings.filter(|finding| finding.resource.owner.as_deref() == Some(owner));
    Cow::Owned(report.totals.of_part(theirs))
}

fn is_wanted_node(node: &NodeSummary, only: &Only) -> bool {
    only.lets("region", node.region.as_ref().map(Region::as_str))
        && only.lets("owner", node.owner.as_deref())
        && only.lets("state", slug(&node.state).as_deref())
        && only.lets(
            "instance_type",
            node.instance_type.as_ref().map(|t| t.as_str()),
        )
}

fn is_wanted_step(step: &StepAdvice, only: &Only) -> bool {
    is_there(step, only) && only.lets("owner", step.owner.as_deref())
}

/// The cursor of a step in its list.
fn id_of(step: &&StepAdvice) -> String {
    let region = step.region.as_ref().map_or("-", Region::as_str);
    match &step.account {
        Some(account) => format!("{account}/{region}/{}", step.step),
        None => format!("{region}/{}", step.step),
    }
}

/// Steps by the id of their finding.
type ByFinding<'a> = HashMap<&'a str, &'a StepAdvice>;

fn by_finding(steps: &[StepAdvice]) -> ByFinding<'_> {
    let found = steps
        .iter()
        .filter_map(|step| Some((step.finding.as_deref()?, step)));
    found.collect()
}

fn advice<'a>(finding: &'a Finding, at: Timestamp, step: Option<&StepAdvice>) -> Advice<'a> {
    Advice {
        hub: Hub::of(finding, at),
        finding: &finding.id,
        kind: finding.kind,
        resource: &finding.resource,
        evidence: finding.evidence.to_string(),
        confidence: &finding.confidence,
        cost: finding.cost.as_ref(),
        advice: &finding.remedy.advice,
        recommendation: finding.recommendation.as_ref(),
        reasons: step.map(Reasons::of),
    }
}
