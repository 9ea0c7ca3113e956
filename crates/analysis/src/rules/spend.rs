//! Rules about what pipelines and cost centres cost. They need the closed days of the bill, so they run
//! after the allocation of costs.

pub mod anomaly;
pub mod budget;

use std::collections::{BTreeMap, BTreeSet};

use ebb_model::confidence::Confidence;
use ebb_model::finding::evidence::Evidence;
use ebb_model::finding::{Action, Finding, Remedy, Resource};
use ebb_model::finding_kind::FindingKind;
use ebb_model::policy::budget::Budget;
use ebb_model::report::cost_shares::CostDimension;
use ebb_model::spend_history::SpendSubject;
use ebb_telemetry::identity::Region;
use ebb_telemetry::money::Usd;
use ebb_telemetry::time::Window;
use jiff::civil::Date;

use crate::closed_days::Spend;
use crate::coverage::of_day;
use crate::facts::Facts;
use crate::rules::trace::{Check, RuleTrace};
use crate::rules::verdict::Verdict;

/// The costs of a subject by closed day; `None` for days on which its cost is not known.
type Days = BTreeMap<Date, Option<Usd>>;

/// The facts of the rules about costs.
#[derive(Clone, Copy)]
pub(crate) struct SpendFacts<'a> {
    pub(crate) facts: &'a Facts<'a>,
    pub(crate) spend: &'a Spend,
}

/// Evaluates all budgets, and the costs of all pipelines and cost centres.
pub(crate) fn evaluate(known: SpendFacts<'_>) -> Vec<Verdict> {
    let budgets = known.facts.policy.budgets.iter();
    let budgets = budgets.filter_map(|budget| {
        let mut unwritten = RuleTrace::unwritten(FindingKind::BudgetExceeded);
        budget::evaluate_budget(known, budget, &mut unwritten)
    });
    let unusual = subjects(known).into_iter().filter_map(|subject| {
        let mut unwritten = RuleTrace::unwritten(FindingKind::CostAnomaly);
        anomaly::evaluate_subject(known, &subject, &mut unwritten)
    });
    budgets.chain(unusual).collect()
}

/// Questions about the pipeline or cost centre with this id; none if the id is another.
pub(crate) fn explain(known: SpendFacts<'_>, id: &str) -> Vec<Check> {
    let Some(subject) = SpendSubject::of_id(id) else {
        return Vec::new();
    };
    let mut checks = Vec::new();
    if let Some(budget) = budget_of(known.facts, &subject) {
        checks.extend(RuleTrace::written(FindingKind::BudgetExceeded, |q| {
            budget::evaluate_budget(known, budget, q)
        }));
    }
    if subjects(known).contains(&subject) {
        checks.extend(RuleTrace::written(FindingKind::CostAnomaly, |q| {
            anomaly::evaluate_subject(known, &subject, q)
        }));
    }
    checks
}

fn subjects(known: SpendFacts<'_>) -> BTreeSet<SpendSubject> {
    known.spend.history.subjects()
}

fn budget_of<'a>(facts: &Facts<'a>, subject: &SpendSubject) -> Option<&'a Budget> {
    let mut budgets = facts.policy.budgets.iter();
    budgets.find(|budget| budget.subject().as_ref() == Some(subject))
}

/// The parts of a finding that differ between the two rules.
struct SpendFinding {
    kind: FindingKind,
    from: Date,
    to: Date,
    evidence: Evidence,
    confidence: Confidence,
    advice: String,
}

fn make_finding(known: SpendFacts<'_>, subject: &SpendSubject, what: SpendFinding) -> Verdict {
    let region = Region::global();
    let window = |day: Date| of_day(&day.to_string());
    let now = known.facts.now;
    let from = window(what.from).map_or(now, |day| day.from);
    let to = window(what.to).map_or(now, |day| day.to);
    let costs = &known.facts.policy.costs;
    let of_budget = budget_of(known.facts, subject).and_then(|budget| budget.owner.as_deref());
    let owner = of_budget.or_else(|| known.spend.sums.main_user(subject));
    let tag = costs.cost_centre_tag.as_ref();
    let tag = tag.filter(|_| subject.dimension == CostDimension::CostCentre);
    let id = subject.id();
    let (slug, month) = (subject.dimension.slug(), what.to.strftime("%Y-%m"));
    // A budget is about the sum of the month so far, an anomaly about the runs of a day.
    let command = match what.kind {
        FindingKind::BudgetExceeded => {
            format!(
                "ebb costs --by {slug} --month {month} --through {}",
                what.to
            )
        }
        _ => format!("ebb costs --by {slug},run --month {month}"),
    };
    Verdict::Waste(Box::new(Finding {
        id: Finding::id_of(what.kind, &region, &id),
        kind: what.kind,
        window: Window { from, to },
        coverage: None,
        evidence: what.evidence,
        confidence: what.confidence,
        cost: None,
        remedy: Remedy {
            action: Action::Investigate,
            advice: what.advice,
            command: Some(command),
        },
        recommendation: None,
        steps: Vec::new(),
        resource: Resource {
            owner: owner.map(str::to_owned),
            origin: known.facts.origin(),
            tags: tag
                .map(|tag| (tag.clone(), subject.name.clone()))
                .into_iter()
                .collect(),
            ..Resource::named(id, &subject.name, &region)
        },
    }))
}

#[cfg(test)]
pub(crate) mod testing {
    //! Costs of a pipeline by closed day.

    use super::*;
    use ebb_model::spend_history::{SpendDay, SpendHistory};

    pub(crate) fn subject() -> SpendSubject {
        SpendSubject {
            dimension: CostDimension::Pipeline,
            name: "rnaseq".to_owned(),
        }
    }

    /// Whole dollars on each day from `first`; `None` for a day of unknown cost.
    pub(crate) fn history(
        first: Date,
        dollars: impl IntoIterator<Item = Option<i64>>,
    ) -> SpendHistory {
        let days = first.series(jiff::Span::new().days(1)).zip(dollars);
        let day = |dollars: Option<i64>| {
            let cost = dollars.map(|dollars| Usd::from_micros(dollars * 1_000_000));
            let names = BTreeMap::from([(subject().name, cost)]);
            SpendDay {
                by: BTreeMap::from([(CostDimension::Pipeline, names)]),
                ..SpendDay::default()
            }
        };
        SpendHistory {
            days: days.map(|(date, dollars)| (date, day(dollars))).collect(),
            ..SpendHistory::default()
        }
    }
}
