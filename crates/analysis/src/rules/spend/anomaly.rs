//! Cost anomaly: a pipeline or cost centre cost far more on a closed day than usual.
//!
//! The day is compared with the days on which there were costs among the 28 days before it. The
//! increase above their median must be large: as an amount, as a share and by the modified z-score.
//! The day must also cost more than the same weekday of the weeks before.
//!
//! Source of the score and of its limit: B. Iglewicz and D. C. Hoaglin, "How to Detect and Handle
//! Outliers", ASQC Basic References in Quality Control 16 (1993).

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::evidence::Evidence;
use ebb_model::finding::evidence::spend::UnusualCost;
use ebb_model::finding_kind::FindingKind;
use ebb_model::policy::costs::RestOfMachine;
use ebb_model::report::run_cost::CostCause;
use ebb_model::spend_history::SpendSubject;
use ebb_telemetry::money::Usd;
use jiff::ToSpan;
use jiff::civil::Date;

use crate::cost_allocation::spend_sums::DayFactors;
use crate::rules::spend::{Days, SpendFacts, SpendFinding, make_finding};
use crate::rules::trace::RuleTrace;
use crate::rules::verdict::Verdict;
use crate::run_costs::{RunFactors, find_causes};

const KIND: FindingKind = FindingKind::CostAnomaly;

/// Days before a day that it is compared with: four of each weekday.
const WINDOW_DAYS: i64 = 28;

/// Newest closed days that are evaluated. An unusual day is one finding for a week, so that a cost that
/// goes up and down is not reported again and again.
const OPEN_DAYS: usize = 7;

/// The factor of the modified z-score, in millionths: the median absolute deviation of normally
/// distributed values is 0.6745 times their standard deviation.
const SCORE_FACTOR: i128 = 674_500;

pub(crate) fn evaluate_subject(
    known: SpendFacts<'_>,
    subject: &SpendSubject,
    q: &mut RuleTrace,
) -> Option<Verdict> {
    let days = known.spend.history.since_first_cost(subject);
    let newest = *days.last_key_value()?.0;
    let mut candidates = days.keys().rev().take(OPEN_DAYS).copied();
    let unusual = candidates.find(|day| {
        let mut unwritten = RuleTrace::unwritten(KIND);
        matches!(
            evaluate_day(known, &days, *day, &mut unwritten),
            DayResult::Unusual(_)
        )
    });
    match evaluate_day(known, &days, unusual.unwrap_or(newest), q) {
        DayResult::Usual => None,
        DayResult::Unknown(reason) => {
            let name = Some(subject.name.as_str());
            Some(Verdict::undetermined(KIND, &subject.id(), name, reason))
        }
        DayResult::Unusual(mut evidence) => {
            evidence.cause = largest_cause(known, subject, &days, &evidence);
            Some(unusual_cost(known, subject, evidence))
        }
    }
}

/// The result for one day.
enum DayResult {
    Usual,
    Unknown(String),
    Unusual(UnusualCost),
}

fn evaluate_day(known: SpendFacts<'_>, days: &Days, day: Date, q: &mut RuleTrace) -> DayResult {
    let policy = &known.facts.policy.anomaly;
    let least = policy.min_increase();
    let cost = days.get(&day).copied().flatten();
    let shown = cost.map_or("unknown".to_owned(), |usd| usd.to_string());
    if !q.holds(
        "What did the day cost?",
        (
            format_args!("{shown} on {day}"),
            format_args!("at least {least}"),
        ),
        cost.map(|cost| cost >= least),
    ) {
        return match cost {
            Some(_) => DayResult::Usual,
            None => DayResult::Unknown(format!("the cost of {day} is not known")),
        };
    }
    let cost = cost.unwrap_or_default();
    let age = days
        .keys()
        .next()
        .map_or(0, |first| days_between(*first, day));
    let needed = i64::from(policy.min_history_days);
    if !q.holds(
        "How many days earlier is the first known cost?",
        (age, format_args!("at least {needed}")),
        (age >= needed).then_some(true),
    ) {
        return DayResult::Unknown(format!("its costs are known for fewer than {needed} days"));
    }
    let earlier = Earlier::before(day, days);
    let needed = usize::try_from(policy.min_cost_days).unwrap_or(usize::MAX);
    let count = earlier.costs.len();
    if !q.holds(
        "On how many of the 28 days before did it have costs?",
        (count, format_args!("at least {needed}")),
        (count >= needed).then_some(true),
    ) {
        return DayResult::Unknown(format!(
            "it had costs on fewer than {needed} of the {WINDOW_DAYS} days before"
        ));
    }
    earlier.compare((day, cost), known, q)
}

/// The days before a day, within the window.
struct Earlier {
    /// The costs of days with costs, in order.
    costs: Vec<Usd>,
    /// The highest cost of the same weekday; `None` if none is known.
    same_weekday: Option<Usd>,
}

impl Earlier {
    fn before(day: Date, days: &Days) -> Self {
        let first = day.checked_sub(WINDOW_DAYS.days()).unwrap_or(Date::MIN);
        let known = days.range(first..day);
        let known: Vec<(Date, Usd)> = known
            .filter_map(|(date, cost)| Some((*date, (*cost)?)))
            .collect();
        let mut costs: Vec<Usd> = known.iter().map(|(_, cost)| *cost).collect();
        costs.retain(|cost| *cost > Usd::ZERO);
        costs.sort_unstable();
        let same = known
            .iter()
            .filter(|(date, _)| date.weekday() == day.weekday());
        Self {
            costs,
            same_weekday: same.map(|(_, cost)| *cost).max(),
        }
    }

    fn compare(
        self,
        (day, cost): (Date, Usd),
        known: SpendFacts<'_>,
        q: &mut RuleTrace,
    ) -> DayResult {
        let policy = &known.facts.policy.anomaly;
        let usual = median(&self.costs);
        let (increase, least) = (cost - usual, policy.min_increase_above(usual));
        if !q.holds(
            "How much more than their median is that?",
            (increase, format_args!("at least {least}")),
            increase >= least,
        ) {
            return DayResult::Usual;
        }
        let mut deviations: Vec<Usd> = self.costs.iter().map(|one| distance(*one, usual)).collect();
        deviations.sort_unstable();
        let deviation = median(&deviations);
        let is_far = i128::from(increase.micros()) * SCORE_FACTOR
            >= i128::from(deviation.micros()) * i128::from(policy.score_ppm);
        let limit = f64::from(policy.score_ppm) / 1e6;
        if !q.holds(
            "What is its modified z-score?",
            (score(increase, deviation), format_args!("at least {limit}")),
            is_far,
        ) {
            return DayResult::Usual;
        }
        let Some(same) = self.same_weekday else {
            q.holds(
                "What did the same weekday cost at most in the weeks before?",
                ("unknown", ""),
                None,
            );
            return DayResult::Unknown(format!("no earlier cost of the weekday of {day} is known"));
        };
        let most = cost - policy.min_increase();
        match q.holds(
            "What did the same weekday cost at most in the weeks before?",
            (same, format_args!("at most {most}")),
            same <= most,
        ) {
            false => DayResult::Usual,
            true => DayResult::Unusual(UnusualCost {
                day,
                cost,
                usual,
                deviation,
                earlier_days: u32::try_from(self.costs.len()).unwrap_or(u32::MAX),
                cause: None,
            }),
        }
    }
}

fn days_between(from: Date, to: Date) -> i64 {
    from.until(to).map_or(0, |span| i64::from(span.get_days()))
}

fn distance(a: Usd, b: Usd) -> Usd {
    if a > b { a - b } else { b - a }
}

/// The median of sorted amounts; zero without any.
fn median(sorted: &[Usd]) -> Usd {
    let middle = sorted.len() / 2;
    match (sorted.len() % 2, sorted.get(middle)) {
        (_, None) => Usd::ZERO,
        (0, Some(upper)) => (sorted[middle - 1] + *upper).part(1, 2),
        (_, Some(one)) => *one,
    }
}

fn score(increase: Usd, deviation: Usd) -> String {
    if deviation == Usd::ZERO {
        return "unlimited, because these days cost the same".to_owned();
    }
    let factor = SCORE_FACTOR as f64 / 1e6;
    let score = factor * increase.micros() as f64 / deviation.micros() as f64;
    format!("{score:.1}")
}

/// The largest cause of the difference to the day of the bill whose cost is closest to the usual one.
fn largest_cause(
    known: SpendFacts<'_>,
    subject: &SpendSubject,
    days: &Days,
    unusual: &UnusualCost,
) -> Option<CostCause> {
    let tasks = known.spend.sums.days(subject)?;
    let new = tasks.get(&unusual.day.to_string())?;
    let earlier = tasks.iter().filter_map(|(text, tasks)| {
        let date: Date = text.parse().ok()?;
        let is_known = date < unusual.day && days.get(&date).is_some_and(Option::is_some);
        is_known.then_some((date, tasks))
    });
    let rest = known.facts.policy.costs.rest;
    let has_cost = |tasks: &DayFactors| tasks.cost(rest) > Usd::ZERO;
    let usual = earlier
        .filter(|(_, tasks)| has_cost(tasks))
        .min_by_key(|(date, tasks)| {
            (
                distance(tasks.cost(rest), unusual.usual),
                std::cmp::Reverse(*date),
            )
        });
    let (_, usual) = usual?;
    let causes = find_causes(&paid(new, rest), &paid(usual, rest));
    causes.into_iter().find(|cause| cause.amount > Usd::ZERO)
}

/// The factors of what the tasks pay.
fn paid(tasks: &DayFactors, rest: RestOfMachine) -> RunFactors {
    match rest {
        RestOfMachine::Spread => tasks.factors,
        RestOfMachine::Apart => RunFactors {
            unused: Usd::ZERO,
            ..tasks.factors
        },
    }
}

fn unusual_cost(known: SpendFacts<'_>, subject: &SpendSubject, evidence: UnusualCost) -> Verdict {
    let day = evidence.day;
    let what = SpendFinding {
        kind: KIND,
        from: day,
        to: day,
        confidence: Confidence {
            level: Level::Medium,
            reason: format!(
                "compared with {} days with costs in the {WINDOW_DAYS} days before",
                evidence.earlier_days
            ),
        },
        evidence: Evidence::UnusualCost(evidence),
        advice: format!(
            "Compare the runs of {subject} on {day} with those of the days before, and stop what is \
             not meant to run."
        ),
    };
    make_finding(known, subject, what)
}

#[cfg(test)]
mod tests;
