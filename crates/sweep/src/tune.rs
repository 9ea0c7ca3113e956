//! Advice on single steps as a table, as text that can be pasted and over HTTP, from a
//! report or from files of a workflow system. Pure, but for the API's reading of the
//! report.

pub mod api;
pub mod import;
mod table;
pub mod text;

pub use table::table;

use ebb_domain::finding::Finding;
use ebb_domain::profile::advice::StepAdvice;
use ebb_domain::profile::bound::Boundness;
use ebb_domain::report::Report;
use ebb_domain::step::StepKind;

/// What a report tells of steps, those called `name` only where there is one. A
/// report of an earlier release tells of steps only in its findings.
pub fn steps(report: &Report, name: Option<&str>) -> Vec<StepAdvice> {
    let mut steps = report.steps.clone();
    if steps.is_empty() {
        steps = report.findings.iter().filter_map(of_finding).collect();
    }
    steps.retain(|step| name.is_none_or(|name| step.step == name));
    steps
}

fn of_finding(finding: &Finding) -> Option<StepAdvice> {
    let told = finding.recommendation.as_ref()?;
    let resource = &finding.resource;
    Some(StepAdvice {
        step: resource.id.clone(),
        region: Some(resource.region.clone()),
        kind: StepKind::EcsTask,
        owner: resource.owner.clone(),
        origin: resource.origin,
        last_seen: finding.window.to,
        runs: told.samples,
        samples: told.samples,
        failed: 0,
        oom_kills: 0,
        mean_wall: None,
        machines: resource.instance_type.iter().cloned().collect(),
        asks: told.current,
        should_ask: told.recommended,
        risk: told.risk.clone(),
        bound: Boundness::default(),
        offers: told.offers.clone(),
        saving_a_month: finding.cost.as_ref().map(|cost| cost.saving_a_month),
        finding: Some(finding.id.clone()),
    })
}

#[cfg(test)]
mod tests;
