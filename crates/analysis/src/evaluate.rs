//! From facts to a report: runs every rule over every resource.

pub mod account_of_resource;
pub mod billed_resources;
pub mod committed_savings;
pub mod exemptions;
pub mod fargate_jobs;
pub mod faulty_nodes;
pub mod node_summaries;
pub mod price_ages;
pub mod probe_summaries;
pub mod shared_costs;
pub mod unwatched_machines;

use std::cell::OnceCell;
use std::collections::BTreeSet;

use ebb_model::advice::Targets;
use ebb_model::cost_record::CostRecord;
use ebb_model::finding::Finding;
use ebb_model::finding_history::History;
use ebb_model::inventory::instance::{Instance, InstanceState};
use ebb_model::inventory::second_opinion::SecondOpinion;
use ebb_model::node_hour::{HourBatch, NodeHourRecord};
use ebb_model::report::own_cost::OwnCost;
use ebb_model::report::task_groups::TaskGroups;
use ebb_model::report::{NotEvaluated, Report, Totals};
use ebb_model::savings;
use ebb_model::spend_history::SpendHistory;
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::PlacedStep;

use crate::closed_days::Spend;
use crate::evaluate::probe_summaries::ProbeList;
use crate::evaluate::shared_costs::Costs;
use crate::explain::{ExplainInput, Explanations};
use crate::facts::Facts;
use crate::rules::node::idle::last_steps;
use crate::rules::node::{undersized, underutilized};
use crate::rules::other_findings::{OtherFindings, keep_best_type_change};
use crate::rules::purchasing::spot;
use crate::rules::spend::SpendFacts;
use crate::rules::step::oversized;
use crate::rules::verdict::Verdict;
use crate::rules::{RULES, spend, step};
use crate::step_history::by_step::Profiles;
use crate::task_details::group_tasks;
use crate::{cost_allocation, hourly_price, metric_sizing, node_hours, run_costs};
use crate::{step_history, timeline};

/// The details that pages show besides the report.
#[derive(Debug, Clone, PartialEq)]
pub struct Details {
    /// The single tasks.
    pub tasks: TaskGroups,
    /// Explanations of resources with a finding and of resources that were not evaluated.
    pub explanations: Explanations,
    /// The costs of closed days, for the next sweep.
    pub spend: SpendHistory,
    /// Rows of the table `costs` of the lake.
    pub cost_rows: Vec<CostRecord>,
    /// The next rows of the table `node_hours`; `None` if none are due.
    pub node_hours: Option<(HourBatch, Vec<NodeHourRecord>)>,
}

/// Evaluates all rules. The same facts give the same report.
pub fn evaluate(facts: &Facts<'_>) -> Report {
    evaluate_with(facts, |_, _| ()).0
}

/// The same, with the details for pages.
pub fn evaluate_in_detail(facts: &Facts<'_>) -> (Report, Details) {
    evaluate_with(facts, |known, cost_rows| Details {
        tasks: group_tasks(facts, known.profiles, &known.report.findings),
        explanations: known.explain_all(),
        spend: known.spend.history.clone(),
        cost_rows,
        node_hours: node_hours::next_batch(facts, known.profiles),
    })
}

/// Evaluates all rules, and calls `extract` on the report and its intermediate results.
pub(crate) fn evaluate_with<T>(
    facts: &Facts<'_>,
    extract: impl FnOnce(&ExplainInput<'_, '_>, Vec<CostRecord>) -> T,
) -> (Report, T) {
    let kept = OnceCell::new();
    let (by_facts, profiles) = both(
        || -> Vec<Verdict> { RULES.iter().flat_map(|rule| rule(facts)).collect() },
        || step_history::profiles(facts, kept.get_or_init(|| facts.state.steps())),
    );
    let kept = kept.get_or_init(|| facts.state.steps());
    let (report, spend, cost_rows) = report(facts, by_facts, &profiles, kept);
    let known = ExplainInput::new(facts, (&report, &spend), kept, &profiles);
    let details = extract(&known, cost_rows);
    (report, details)
}

/// The report, from the results of the rules about nodes and Batch; the costs of closed days, and rows
/// for the lake.
fn report(
    facts: &Facts<'_>,
    by_facts: Vec<Verdict>,
    profiles: &Profiles<'_>,
    kept: &[PlacedStep],
) -> (Report, Spend, Vec<CostRecord>) {
    let by_steps = || -> Vec<Verdict> {
        by_facts
            .into_iter()
            .chain(oversized::evaluate(facts, profiles))
            .chain(step::evaluate(facts, profiles))
            .chain(spot::evaluate(facts, profiles))
            .collect()
    };
    let (targets, verdicts) = both(|| crate::advice::advise_targets(facts, profiles), by_steps);
    let mut results = settle_verdicts(facts, verdicts, profiles, &targets, kept);
    let ((nodes, nodes_left_out), (steps, steps_left_out)) = both(
        || node_summaries::nodes(facts, &results.findings),
        || crate::advice::step::steps(facts, profiles, &results.findings),
    );
    let (timeline, allocation) = both(
        || timeline::build_timeline(facts, &results.findings),
        || cost_allocation::allocate(facts, (profiles, kept), &results.findings),
    );
    let mut runs = crate::workflow_runs::find_workflow_runs(facts, profiles);
    run_costs::add_costs(&mut runs, &allocation.runs);
    let spend = Spend::new(facts, &allocation.costs.days, allocation.spend);
    results.settle_spend(facts, &spend);
    let ProbeList {
        probes,
        left_out: probes_left_out,
        problems: probe_problems,
    } = probe_summaries::probes(facts);
    spot::take_scores(&mut results.findings, &targets.environments);
    let report = Report {
        schema: Report::SCHEMA.to_owned(),
        at: facts.now,
        origin: origin(facts, &results.findings),
        totals: totals(facts, &results),
        selected: None,
        shared_costs: results.costs.shared,
        second_opinions: assign_second_opinions(facts, &results.findings),
        findings: results.findings,
        exempt: results.exempt,
        not_evaluated: results.not_evaluated,
        gaps: gaps(facts, profiles),
        steps,
        steps_left_out,
        targets,
        nodes,
        nodes_left_out,
        timeline,
        history: History::default(),
        ledger: allocation.ledger,
        billed: billed_resources::billed_resources(facts),
        costs: allocation.costs,
        // The sweep adds it, because it comes from no rule.
        own_cost: OwnCost::default(),
        price_ages: price_ages::of_prices(facts),
        runs,
        probes,
        probes_left_out,
        probe_problems,
        unwatched: unwatched_machines::find(facts),
        fargate: fargate_jobs::jobs(facts),
    };
    (report, spend, allocation.rows)
}

/// Combined results of all rules.
#[derive(Default)]
struct EvaluationResults {
    findings: Vec<Finding>,
    /// Findings that the policy exempts.
    exempt: Vec<Finding>,
    not_evaluated: Vec<NotEvaluated>,
    costs: Costs,
}

/// Settles the results of all rules and of the rules that depend on their findings. Overlapping
/// costs count once.
fn settle_verdicts(
    facts: &Facts<'_>,
    verdicts: Vec<Verdict>,
    profiles: &Profiles<'_>,
    targets: &Targets,
    kept: &[PlacedStep],
) -> EvaluationResults {
    let mut results = EvaluationResults::default();
    results.settle(facts, verdicts);
    last_steps::link(&mut results.findings, profiles);
    underutilized::take_offers(facts, &mut results.findings, &targets.nodes);
    let too_small = undersized::evaluate(facts, kept, &results.others());
    results.settle(facts, too_small);
    let of_nodes =
        crate::rules::node::oversized::evaluate(facts, &targets.nodes, &results.others());
    results.settle(facts, of_nodes);
    let by_metrics = metric_sizing::evaluate(facts, &profiles.speeds, &results.others());
    results.settle(facts, by_metrics);
    keep_best_type_change(&mut results.findings);
    dearest_first(&mut results.findings);
    committed_savings::hold_back(facts, &mut results.findings);
    dearest_first(&mut results.findings);
    results.costs = shared_costs::costs(facts, profiles, &results.findings);
    savings::count_once(&mut results.findings, &results.costs.shared);
    results
        .not_evaluated
        .extend(faulty_nodes::left_out_reasons(facts));
    results.not_evaluated.sort();
    results.not_evaluated.dedup();
    results
}

impl EvaluationResults {
    fn others(&self) -> OtherFindings<'_> {
        OtherFindings::new(&self.findings, &self.exempt)
    }

    /// Adds the findings about costs. They claim no cost of their own, so the sums stay.
    fn settle_spend(&mut self, facts: &Facts<'_>, spend: &Spend) {
        self.settle(facts, spend::evaluate(SpendFacts { facts, spend }));
        dearest_first(&mut self.findings);
        self.not_evaluated.sort();
        self.not_evaluated.dedup();
    }

    /// Adds the account of each result and sorts the results into findings, exempt findings and not
    /// evaluated.
    fn settle(&mut self, facts: &Facts<'_>, verdicts: Vec<Verdict>) {
        for mut verdict in verdicts {
            if faulty_nodes::is_about_left_out(facts, &verdict) {
                continue;
            }
            if let Verdict::Waste(finding) = &mut verdict {
                let resource = &mut finding.resource;
                if resource.account.is_none() {
                    resource.account = account_of_resource::account(facts, resource);
                }
                let job = finding.steps.first().and_then(|step| step.job.as_deref());
                let tags = account_of_resource::tags(facts, &finding.resource, job);
                finding.resource.tags.extend(tags);
            }
            match verdict {
                Verdict::NotEvaluated(reason) => self.not_evaluated.push(reason),
                Verdict::Waste(finding) => match exemptions::exempt(facts, &finding) {
                    None => self.findings.push(*finding),
                    Some(reason) => {
                        self.not_evaluated.push(reason);
                        self.exempt.push(*finding);
                    }
                },
            }
        }
    }
}

/// Runs two independent functions at the same time; each takes seconds for a large fleet.
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

/// Assigns our finding about the same resource to each second opinion, the greatest saving first.
fn assign_second_opinions(facts: &Facts<'_>, findings: &[Finding]) -> Vec<SecondOpinion> {
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
    let findings = findings.iter().map(|finding| finding.resource.origin);
    findings.fold(facts.origin(), Origin::max)
}

/// Gaps of the inventory, the prices and the names of tasks, and exemptions of the policy without effect.
fn gaps(facts: &Facts<'_>, profiles: &Profiles<'_>) -> Vec<Gap> {
    let gaps = facts.inventory.gaps.iter().cloned();
    gaps.chain(exemptions::ended(facts))
        .chain(exemptions::by_name(facts))
        .chain(hourly_price::unpriced(facts))
        .chain(faulty_nodes::gap(facts))
        .chain(crate::workflow_runs::disagreements(profiles))
        .chain(profiles.gap())
        .collect()
}

fn totals(facts: &Facts<'_>, results: &EvaluationResults) -> Totals {
    let running: Vec<_> = facts
        .inventory
        .instances
        .values()
        .filter(|instance| instance.state == InstanceState::Running)
        .collect();
    let is_probed = |instance: &Instance| unwatched_machines::has_probe(facts, instance);
    let with_probe = running.iter().filter(|i| is_probed(i)).count();
    let refused: BTreeSet<&str> = results
        .not_evaluated
        .iter()
        .map(|n| n.resource.as_str())
        .collect();
    let on_metrics = running
        .iter()
        .filter(|i| !is_probed(i) && facts.metrics.contains_key(&i.id))
        .filter(|i| !refused.contains(i.id.as_str()))
        .count();
    let is_unpriced = |i: &&&Instance| facts.price_of(i).is_none();
    let mut totals = Totals {
        machines_without_price: running.iter().filter(is_unpriced).count(),
        running_instances: running.len(),
        with_probe,
        on_metrics,
        jobs: facts.inventory.batch.jobs.len(),
        cost_a_month: Some(results.costs.a_month),
        cost_at_most_a_month: Some(results.costs.at_most_a_month),
        ..Totals::default()
    };
    totals.sum_up(&results.findings);
    totals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::World;
    use ebb_telemetry::money::Usd;

    #[test]
    fn no_facts_give_no_findings_and_no_money() {
        let report = World::default().evaluate();
        assert_eq!((report.findings.len(), report.not_evaluated.len()), (0, 0));
        assert_eq!(report.totals.saving_a_month, Usd::ZERO);
        assert_eq!(report.origin, Origin::Measured);
    }
}
