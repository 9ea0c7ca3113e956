//! Advice on single steps as a table, as text for copying and over HTTP. The source is a report or
//! files of a workflow system. Only the API reads a report file; all other functions perform no
//! I/O.

use std::borrow::Cow;

use ebb_model::advice::bottleneck::Boundness;
use ebb_model::advice::step::{NameForm, StepAdvice};
use ebb_model::finding::Finding;
use ebb_model::report::Report;
use ebb_model::step_profile::tasks::PresentRequest;
use ebb_telemetry::step::StepKind;
use serde::Serialize;

use crate::reason_codes::Reasons;

/// A step with the reasons to change its request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Step"))]
pub struct Reasoned<'a> {
    /// The step.
    #[serde(flatten)]
    pub step: &'a StepAdvice,
    /// The reasons.
    #[serde(flatten)]
    pub reasons: Reasons,
}

impl<'a> From<&'a StepAdvice> for Reasoned<'a> {
    fn from(step: &'a StepAdvice) -> Self {
        let reasons = Reasons::from_step(step);
        Self { step, reasons }
    }
}

/// Advice on the steps of a report. A report of an earlier release contains steps only in its
/// findings.
pub fn steps(report: &Report) -> Cow<'_, [StepAdvice]> {
    match report.steps.is_empty() {
        false => Cow::Borrowed(&report.steps),
        true => report.findings.iter().filter_map(of_finding).collect(),
    }
}

fn of_finding(finding: &Finding) -> Option<StepAdvice> {
    let recommendation = finding.recommendation.as_ref()?;
    let resource = &finding.resource;
    Some(StepAdvice {
        step: resource.id.clone(),
        name_form: NameForm::Exact,
        region: Some(resource.region.clone()),
        account: resource.account.clone(),
        kind: StepKind::EcsTask,
        owner: resource.owner.clone(),
        origin: resource.origin,
        last_seen: finding.window.to,
        runs: recommendation.samples,
        samples: recommendation.samples,
        failed: 0,
        oom_kills: 0,
        mean_wall: None,
        machines: resource.instance_type.iter().cloned().collect(),
        mean_cores: None,
        peak_memory: None,
        peak_is_upper_bound: false,
        fullest: None,
        exhausted_memory: None,
        parallel_tasks: 0,
        attempts: 1,
        asks: recommendation.current,
        present: PresentRequest::default(),
        should_ask: recommendation.recommended,
        risk: recommendation.risk.clone(),
        slowdown_ppm: None,
        time_limit: None,
        self_sizing: None,
        failures: Vec::new(),
        usage: None,
        by_input: Vec::new(),
        on_fargate: None,
        bound: Boundness::default(),
        offers: recommendation.offers.clone(),
        saving_a_month: finding.known_saving(),
        saving_at_most_a_month: finding.saving_bound(),
        finding: Some(finding.id.clone()),
    })
}
