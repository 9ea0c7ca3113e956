//! Steps, the recommendation for one step, and changes of steps as text.

use std::collections::HashMap;

use ebb_model::advice::step::StepAdvice;
use ebb_model::finding::Finding;
use ebb_report::step_advice;
use ebb_report::step_advice::Reasoned;
use ebb_telemetry::identity::{AccountId, Region};
use ebb_telemetry::step::StepKind;
use ebb_workflows::export::request::RetryPolicy;
use ebb_workflows::export::{Form, TextOptions};
use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::answer::{Answer, Head, JSON, OfReport, PageOfReport, Paged, owner_totals};
use crate::extract::{Name, Newest, Page, Query, ResourceScope, is_owned_by, passes};
use crate::findings::Advice;
use crate::openapi::{Operation, Output, Schemas};
use crate::problem::Problem;

/// Filters of steps.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StepQuery {
    #[serde(flatten)]
    page: Page,
    /// Only in this region
    region: Option<String>,
    /// Only in this account
    account: Option<String>,
    /// Only of this kind
    kind: Option<StepKind>,
    /// Only of this owner; `-` means without an owner
    owner: Option<String>,
}

/// Lists steps with their present and recommended requests.
pub(crate) async fn steps(
    Query(query): Query<StepQuery>,
    newest: Newest,
) -> Result<Answer<PageOfReport<'static, Reasoned<'static>>>, Problem> {
    let report = &newest.report;
    let steps = step_advice::steps(report);
    let wanted = steps.iter().filter(|step| {
        is_in(step, query.region.as_ref(), query.account.as_ref())
            && is_owned_by(query.owner.as_ref(), step.owner.as_deref())
            && query.kind.is_none_or(|kind| step.kind == kind)
    });
    let part = Paged::cut(&query.page, wanted.collect(), id_of)?.map(Reasoned::from);
    let totals = owner_totals(report, query.owner.as_ref());
    let head = Head::new("ebb.step_list/2", report).with_totals(totals);
    Answer::json(&OfReport { head, part }, &newest.version)
}

/// Job definition, job or step name
#[derive(Deserialize, JsonSchema)]
pub(crate) struct StepName(#[schemars(length(min = 1))] String);

/// One step: its finding as a recommendation, if there is one, and its need.
#[derive(Serialize, JsonSchema)]
pub(crate) struct OneStep<'a> {
    #[serde(flatten)]
    advice: Option<Advice<'a>>,
    step: Reasoned<'a>,
}

/// The recommendation for one step, also if nothing is to change.
pub(crate) async fn recommendation(
    Name(StepName(step)): Name<StepName>,
    Query(place): Query<ResourceScope>,
    newest: Newest,
) -> Result<Answer<OfReport<'static, OneStep<'static>>>, Problem> {
    let report = &newest.report;
    let steps = step_advice::steps(report);
    let there = |advice: &&StepAdvice| is_in(advice, place.region.as_ref(), place.account.as_ref());
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
            named == Some(step.as_str())
        };
        wanted = steps.iter().filter(there).filter(is_named).collect();
    }
    let advice = match wanted[..] {
        [] => return Err(Problem::Step(step)),
        [advice] => advice,
        ref many => {
            return Err(Problem::Ambiguous {
                what: step,
                ids: many.iter().map(id_of).collect(),
            });
        }
    };
    let part = one_step(advice, finding(advice), report.at)?;
    let head = Head::new("ebb.recommendation/2", report);
    Answer::json(&OfReport { head, part }, &newest.version)
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
        advice: finding.map(|finding| Advice::new(finding, at, reasons)),
        step: Reasoned::from(step),
    })
}

/// The form of a text, by the name in its path.
#[derive(Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct FormName(Form);

impl TryFrom<String> for FormName {
    type Error = &'static str;

    fn try_from(slug: String) -> Result<Self, &'static str> {
        Form::from_slug(&slug)
            .map(Self)
            .ok_or("there is no such form")
    }
}

impl JsonSchema for FormName {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Form".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let forms = Form::ALL.map(Form::slug);
        json_schema!({"type": "string", "enum": forms, "description": "The workflow engine or tool"})
    }
}

/// Which steps a text is about, and its options.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TextQuery {
    /// Only with this name
    step: Option<String>,
    /// Only in this region
    region: Option<String>,
    /// Only in this account
    account: Option<String>,
    /// Only of this owner; `-` means without an owner
    owner: Option<String>,
    /// For Nextflow: also replace `errorStrategy` and `maxRetries` of the pipeline
    #[serde(default)]
    with_retry: bool,
}

/// A text to paste, in the form that its path names.
pub(crate) struct Text;

impl Output for Answer<Text> {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        operation.set_content(json!({
            "text/plain": {"schema": {"type": "string"}},
            JSON: {"schema": {"type": ["object", "array"]}},
        }));
    }
}

/// The changes of steps as text.
pub(crate) async fn text(
    Name(FormName(form)): Name<FormName>,
    Query(query): Query<TextQuery>,
    newest: Newest,
) -> Result<Answer<Text>, Problem> {
    let steps = step_advice::steps(&newest.report);
    let wanted = steps.iter().filter(|step| {
        is_in(step, query.region.as_ref(), query.account.as_ref())
            && is_owned_by(query.owner.as_ref(), step.owner.as_deref())
            && passes(query.step.as_ref(), Some(&step.step))
    });
    let wanted: Vec<StepAdvice> = wanted.cloned().collect();
    if let Some(step) = query.step.filter(|_| wanted.is_empty()) {
        return Err(Problem::Step(step));
    }
    let retry = match query.with_retry {
        true => RetryPolicy::Replaced,
        false => RetryPolicy::Unchanged,
    };
    let text = form.write(
        &wanted,
        TextOptions {
            retry,
            ..TextOptions::default()
        },
    );
    Answer::text(form.content_type(), text, &newest.version)
}

pub(crate) fn is_in(step: &StepAdvice, region: Option<&String>, account: Option<&String>) -> bool {
    passes(region, step.region.as_ref().map(Region::as_str))
        && passes(account, step.account.as_ref().map(AccountId::as_str))
}

/// The cursor of a step in its list.
pub(crate) fn id_of(step: &&StepAdvice) -> String {
    let region = step.region.as_ref().map_or("-", Region::as_str);
    match &step.account {
        Some(account) => format!("{account}/{region}/{}", step.step),
        None => format!("{region}/{}", step.step),
    }
}
