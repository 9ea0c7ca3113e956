//! From facts to a report: runs every rule over every resource.

mod ages;
mod billed;
#[cfg(test)]
mod cases;
mod committed;
mod exempt;
mod explain;
mod facts;
mod fargate;
pub mod memory;
mod nodes;
mod price;
mod series;
mod shared;
mod whose;

pub use billed::{Billed, BilledResource, MAX_BILLED};
pub use explain::{Check, Explanation, Speaks, explain};
pub(crate) use facts::labelled;
pub use facts::{BilledDay, Facts, ResourceCost, SIMULATED_TAG};
pub use fargate::MAX_FARGATE_JOBS;
pub use memory::{Jobless, Memory, next_memory};
pub use nodes::{MAX_NODES, NodeSummary};
pub(crate) use price::Price;
pub use series::{Credits, MetricPoint, MetricSample, MetricSeries};

use std::cell::OnceCell;
use std::collections::BTreeSet;

use crate::finding::Finding;
use crate::fleet::InstanceState;
use crate::heartbeat::Origin;
use crate::ledger;
use crate::life::History;
use crate::profile::advice::{self, StepAdvice};
use crate::profile::gather::{self, Profiles};
use crate::report::{NotJudged, Report, SecondOpinion, Totals};
use crate::rules::{self, Verdict};
use crate::savings;
use crate::step::PlacedStep;
use crate::targets::Targets;
use crate::timeline;
use shared::Costs;

/// Rules that need the facts alone.
const RULES: [fn(&Facts<'_>) -> Vec<Verdict>; 14] = [
    rules::idle::judge,
    rules::batch::judge,
    rules::long_queued::judge,
    rules::low_duty::judge,
    rules::no_probe::judge,
    rules::off_hours::judge,
    rules::gpu::judge,
    rules::old_generation::judge,
    rules::old_snapshot::judge,
    rules::commitment::judge,
    rules::unattached_volume::judge,
    rules::stopped_volume::judge,
    rules::gp2_volume::judge,
    rules::idle_address::judge,
];

/// Judges all there is. The same facts give the same report.
pub fn judge(facts: &Facts<'_>) -> Report {
    let kept = OnceCell::new();
    let (by_facts, profiles) = both(
        || -> Vec<Verdict> { RULES.iter().flat_map(|rule| rule(facts)).collect() },
        || gather::profiles(facts, kept.get_or_init(|| facts.state.steps())),
    );
    let by_steps = || -> Vec<Verdict> {
        by_facts
            .into_iter()
            .chain(rules::overprovisioned::judge(facts, &profiles))
            .chain(rules::steps::judge(facts, &profiles))
            .chain(rules::spot::judge(facts, &profiles))
            .collect()
    };
    let (targets, verdicts) = both(|| crate::targets::advise_targets(facts, &profiles), by_steps);
    let Judged {
        mut findings,
        not_judged,
        costs,
    } = found(
        facts,
        verdicts,
        &profiles,
        &targets,
        kept.get_or_init(|| facts.state.steps()),
    );
    let ((nodes, nodes_left_out), (mut steps, steps_left_out)) = both(
        || nodes::nodes(facts, &findings),
        || advice::steps(facts, &profiles, &findings),
    );
    without_bounds(&mut steps, &findings);
    let (timeline, ledger) = both(
        || timeline::of(facts, &findings),
        || ledger::divide(facts, &profiles, &findings),
    );
    rules::spot::take_scores(&mut findings, &targets.environments);
    let second_opinions = beside(facts, &findings);
    Report {
        schema: Report::SCHEMA.to_owned(),
        at: facts.now,
        origin: origin(facts, &findings),
        totals: totals(facts, &findings, &not_judged, &costs),
        selected: None,
        shared_costs: costs.shared,
        findings,
        not_judged,
        gaps: facts
            .inventory
            .gaps
            .iter()
            .cloned()
            .chain(exempt::ended(facts))
            .chain(price::unpriced(facts))
            .collect(),
        steps,
        steps_left_out,
        targets,
        nodes,
        nodes_left_out,
        timeline,
        history: History::default(),
        ledger,
        billed: billed::of(facts),
        second_opinions,
        price_ages: ages::of_prices(facts),
        runs: crate::runs::find_workflow_runs(facts, &profiles),
        fargate: fargate::jobs(facts),
    }
}

/// What all verdicts come to.
struct Judged {
    findings: Vec<Finding>,
    not_judged: Vec<NotJudged>,
    costs: Costs,
}

/// Settles the verdicts and those that rest on their findings, and counts their money once.
fn found(
    facts: &Facts<'_>,
    verdicts: Vec<Verdict>,
    profiles: &Profiles<'_>,
    targets: &Targets,
    kept: &[PlacedStep],
) -> Judged {
    let (mut findings, mut not_judged) = (Vec::new(), Vec::new());
    settle(facts, verdicts, &mut findings, &mut not_judged);
    rules::idle::last_steps::link(&mut findings, profiles);
    rules::low_duty::take_offers(facts, &mut findings, &targets.nodes);
    let too_small = rules::underprovisioned_node::judge(facts, kept, &findings);
    settle(facts, too_small, &mut findings, &mut not_judged);
    let of_nodes = rules::overprovisioned_node::judge(facts, &targets.nodes, &findings);
    settle(facts, of_nodes, &mut findings, &mut not_judged);
    let by_metrics = rules::metric_sizing::judge(facts, &profiles.speeds, &findings);
    settle(facts, by_metrics, &mut findings, &mut not_judged);
    dearest_first(&mut findings);
    committed::hold_back(facts, &mut findings);
    dearest_first(&mut findings);
    let costs = shared::costs(facts, profiles, &findings);
    savings::count_once(&mut findings, &costs.shared);
    not_judged.sort();
    not_judged.dedup();
    Judged {
        findings,
        not_judged,
        costs,
    }
}

/// Says of each verdict whose it is, and puts it where it belongs.
fn settle(
    facts: &Facts<'_>,
    verdicts: Vec<Verdict>,
    findings: &mut Vec<Finding>,
    not_judged: &mut Vec<NotJudged>,
) {
    for mut verdict in verdicts {
        if let Verdict::Waste(finding) = &mut verdict {
            let resource = &mut finding.resource;
            if resource.account.is_none() {
                resource.account = whose::account(facts, resource);
            }
            let job = finding.steps.first().and_then(|step| step.job.as_deref());
            finding.resource.tags = whose::tags(facts, &finding.resource, job);
        }
        match exempt::verdict(facts, verdict) {
            Verdict::Waste(finding) => findings.push(*finding),
            Verdict::NotJudged(reason) => not_judged.push(reason),
        }
    }
}

/// What two parts that ask nothing of each other come to, found at the same time: of a
/// large fleet each takes seconds.
fn both<A: Send, B>(one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B) -> (A, B) {
    std::thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        match one.join() {
            Ok(one) => (one, other),
            Err(panicked) => std::panic::resume_unwind(panicked),
        }
    })
}

fn dearest_first(findings: &mut [Finding]) {
    findings.sort_by(|a, b| {
        (b.saving_or_zero(), a.id.as_str()).cmp(&(a.saving_or_zero(), b.id.as_str()))
    });
}

/// A saving of which only a bound is known is none of a step's.
fn without_bounds(steps: &mut [StepAdvice], findings: &[Finding]) {
    let bounds = findings.iter().filter(|one| one.known_saving().is_none());
    let bounds: BTreeSet<&str> = bounds.map(|one| one.id.as_str()).collect();
    let of_bounds = steps.iter_mut().filter(|step| {
        let finding = step.finding.as_deref();
        finding.is_some_and(|id| bounds.contains(id))
    });
    for step in of_bounds {
        step.saving_a_month = None;
    }
}

/// Each second opinion with our finding about the same resource, the greatest saving
/// first.
fn beside(facts: &Facts<'_>, findings: &[Finding]) -> Vec<SecondOpinion> {
    let ours: std::collections::BTreeMap<&str, &str> = findings
        .iter()
        .map(|finding| (finding.resource.id.as_str(), finding.id.as_str()))
        .collect();
    let mut opinions = facts.inventory.opinions.clone();
    for opinion in &mut opinions {
        let same = ours.get(opinion.resource.as_str());
        opinion.ours = same.map(|id| (*id).to_owned());
    }
    opinions.sort_by(|a, b| {
        b.saving_a_month
            .cmp(&a.saving_a_month)
            .then_with(|| a.cmp(b))
    });
    opinions
}

fn origin(facts: &Facts<'_>, findings: &[Finding]) -> Origin {
    let nodes = facts
        .state
        .nodes
        .values()
        .filter_map(|node| node.latest.as_ref());
    let instances = facts.inventory.instances.values();
    nodes
        .map(|latest| latest.origin)
        .chain(instances.map(|instance| labelled(&instance.tags)))
        .chain(findings.iter().map(|finding| finding.resource.origin))
        .max()
        .unwrap_or(Origin::Measured)
}

fn totals(
    facts: &Facts<'_>,
    findings: &[Finding],
    not_judged: &[NotJudged],
    costs: &Costs,
) -> Totals {
    let running: Vec<_> = facts
        .inventory
        .instances
        .values()
        .filter(|instance| instance.state == InstanceState::Running)
        .collect();
    let probed = |id| {
        facts
            .state
            .nodes
            .get(id)
            .is_some_and(|node| node.latest.is_some())
    };
    let with_probe = running.iter().filter(|i| probed(&i.id)).count();
    let refused: BTreeSet<&str> = not_judged.iter().map(|n| n.resource.as_str()).collect();
    let on_metrics = running
        .iter()
        .filter(|i| !probed(&i.id) && facts.metrics.contains_key(&i.id))
        .filter(|i| !refused.contains(i.id.as_str()))
        .count();
    let mut totals = Totals {
        running_instances: running.len(),
        with_probe,
        on_metrics,
        jobs: facts.inventory.batch.jobs.len(),
        cost_a_month: Some(costs.a_month),
        cost_at_most_a_month: Some(costs.at_most_a_month),
        ..Totals::default()
    };
    totals.sum_up(findings);
    totals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::testing::World;
    use crate::units::Usd;

    #[test]
    fn no_facts_give_no_findings_and_no_money() {
        let report = World::default().judge();
        assert_eq!((report.findings.len(), report.not_judged.len()), (0, 0));
        assert_eq!(report.totals.saving_a_month, Usd::ZERO);
        assert_eq!(report.origin, Origin::Measured);
    }
}
