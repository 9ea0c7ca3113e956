//! Budget exceeded: the cost of the month to date is more than its budget, or the forecast is.
//!
//! The month is that of the newest closed day, so its last days are evaluated too. The forecast is the
//! cost to date, and the mean of the last 7 closed days for each day that is left. It needs 7 closed
//! days of the month; a week contains each weekday once.

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::evidence::Evidence;
use ebb_model::finding::evidence::spend::OverBudget;
use ebb_model::finding_kind::FindingKind;
use ebb_model::policy::budget::Budget;
use ebb_model::spend_history::{SpendHistory, SpendSubject};
use ebb_telemetry::money::Usd;
use jiff::civil::Date;

use crate::rules::spend::{Days, SpendFacts, SpendFinding, make_finding};
use crate::rules::trace::RuleTrace;
use crate::rules::verdict::Verdict;

const KIND: FindingKind = FindingKind::BudgetExceeded;

/// Closed days of the month that a forecast needs.
const FORECAST_DAYS: usize = 7;

/// A forecast that exceeded the budget counts until it is less than this share of the budget, in per
/// cent. Otherwise a forecast near the budget would be reported and resolved every other day.
const STAYS_PERCENT: u128 = 95;

pub(crate) fn evaluate_budget(
    known: SpendFacts<'_>,
    budget: &Budget,
    q: &mut RuleTrace,
) -> Option<Verdict> {
    let subject = budget.subject()?;
    let id = subject.id();
    let undetermined = |reason: String| {
        let name = Some(subject.name.as_str());
        Some(Verdict::undetermined(KIND, &id, name, reason))
    };
    let costs = costs_of_month(&known.spend.history, &subject);
    let month = costs
        .as_ref()
        .and_then(|(through, days)| MonthToDate::at(*through, days, budget.amount()));
    let Some(month) = month else {
        let none = "no day of the bill is closed";
        q.holds("What did the month cost to date?", (none, ""), None);
        return undetermined(none.to_owned());
    };
    if is_unknown_name(&known.spend.history, &subject) {
        q.holds(
            "Does a closed day have a cost of it?",
            ("no", "a cost"),
            None,
        );
        let from = "no closed day has a cost of it; check its name in [[budgets]]";
        return undetermined(from.to_owned());
    }
    let amount = budget.amount();
    if month.evidence.is_spent() {
        q.holds(
            "What did the month cost to date?",
            (month.evidence.to_date, format_args!("more than {amount}")),
            true,
        );
        let reason = "the bill of these days is closed";
        return Some(over(known, &subject, month.evidence, (Level::High, reason)));
    }
    let forecast = month.evidence.forecast;
    let shown = forecast.map_or("unknown".to_owned(), |usd| usd.to_string());
    let needs = format!("more than {amount}");
    if q.holds(
        "What is the forecast of the month?",
        (shown, needs),
        forecast.map(|_| month.is_over),
    ) {
        let reason = "the forecast continues the mean of the last 7 closed days";
        return Some(over(
            known,
            &subject,
            month.evidence,
            (Level::Medium, reason),
        ));
    }
    match forecast {
        Some(_) => None,
        None => undetermined(format!(
            "a forecast needs {FORECAST_DAYS} closed days of the month, and there are {}",
            month.known_days
        )),
    }
}

/// The newest closed day, and the costs of the closed days of its month; `None` without such a day.
fn costs_of_month(history: &SpendHistory, subject: &SpendSubject) -> Option<(Date, Days)> {
    let (through, _) = history.days.last_key_value()?;
    let days = history.days.range(through.first_of_month()..);
    let days = days.map(|(date, day)| (*date, day.cost(subject)));
    Some((*through, days.collect()))
}

/// Whether no day has a cost of the subject. Its name may be misspelt, so that the budget would never
/// be exceeded.
fn is_unknown_name(history: &SpendHistory, subject: &SpendSubject) -> bool {
    let mut days = history.days.values();
    days.all(|day| day.cost(subject) == Some(Usd::ZERO))
}

/// A month as of one of its days.
struct MonthToDate {
    evidence: OverBudget,
    known_days: usize,
    is_over: bool,
}

impl MonthToDate {
    /// The month as of the day `through`. The days before decide whether a forecast that is close to
    /// the budget still counts.
    fn at(through: Date, days: &Days, budget: Usd) -> Option<Self> {
        let mut month = None;
        let mut is_over = false;
        for (day, _) in days.range(..=through) {
            let next = Self::as_of(*day, days, (budget, is_over))?;
            is_over = next.is_over;
            month = Some(next);
        }
        month
    }

    fn as_of(through: Date, days: &Days, (budget, was_over): (Usd, bool)) -> Option<Self> {
        let known: Vec<Usd> = days
            .range(..=through)
            .filter_map(|(_, cost)| *cost)
            .collect();
        let to_date: Usd = known.iter().copied().sum();
        let day_of_month = usize::try_from(through.day()).ok()?;
        let left = u128::try_from(through.days_in_month() - through.day()).ok()?;
        let forecast = (known.len() >= FORECAST_DAYS).then(|| {
            let last = known[known.len() - FORECAST_DAYS..].iter().copied();
            to_date + last.sum::<Usd>().part(left, FORECAST_DAYS as u128)
        });
        let limit = match was_over {
            true => budget.part(STAYS_PERCENT, 100),
            false => budget,
        };
        let is_over = to_date > budget || forecast.is_some_and(|forecast| forecast > limit);
        Some(Self {
            evidence: OverBudget {
                month: through.strftime("%Y-%m").to_string().parse().ok()?,
                budget,
                to_date,
                through,
                unknown_days: u32::try_from(day_of_month - known.len()).ok()?,
                forecast,
            },
            known_days: known.len(),
            is_over,
        })
    }
}

fn over(
    known: SpendFacts<'_>,
    subject: &SpendSubject,
    evidence: OverBudget,
    (level, reason): (Level, &str),
) -> Verdict {
    let (from, to) = (evidence.through.first_of_month(), evidence.through);
    let what = SpendFinding {
        kind: KIND,
        from,
        to,
        evidence: Evidence::OverBudget(evidence),
        confidence: Confidence {
            level,
            reason: reason.to_owned(),
        },
        advice: format!(
            "See which runs of {subject} cost most, and reduce or move them, or raise the budget in \
             the policy."
        ),
    };
    make_finding(known, subject, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closed_days::Spend;
    use crate::rules::spend;
    use crate::rules::spend::testing::{history, subject};
    use crate::rules::trace::Speaks;
    use crate::testing::World;
    use ebb_model::finding::Finding;
    use ebb_model::policy::Policy;
    use jiff::civil::date;

    /// The finding, or why there is none: `well` or the reason that it is not evaluated.
    fn budget_finding(usd_a_month: u32, history: SpendHistory) -> Result<Finding, String> {
        let mut world = World::default();
        let budget = format!(
            "[[budgets]]\npipeline = \"rnaseq\"\nowner = \"ana\"\nusd_a_month = {usd_a_month}\n"
        );
        world.policy = Policy::parse(&budget).expect("a policy");
        let spend = Spend {
            history,
            ..Spend::default()
        };
        let facts = world.facts();
        let known = SpendFacts {
            facts: &facts,
            spend: &spend,
        };
        let budget = &world.policy.budgets[0];
        let verdict = evaluate_budget(known, budget, &mut RuleTrace::unwritten(KIND));
        let explained = spend::explain(known, &subject().id());
        let of_rule = explained.iter().rfind(|check| check.rule == KIND);
        let speaks = of_rule.expect("it is explained").speaks;
        match verdict {
            Some(Verdict::Waste(finding)) => {
                assert_eq!(speaks, Speaks::ForWaste);
                Ok(*finding)
            }
            Some(Verdict::NotEvaluated(why)) => {
                assert_eq!(speaks, Speaks::Unknown);
                Err(why.reason)
            }
            None => {
                assert_eq!(speaks, Speaks::Against);
                Err("well".to_owned())
            }
        }
    }

    fn november(dollars: &[Option<i64>]) -> SpendHistory {
        history(date(2026, 11, 1), dollars.iter().copied())
    }

    #[test]
    fn a_month_is_over_its_budget_by_its_closed_days_or_by_the_forecast() {
        let check = |dollars: &[Option<i64>], expect: Result<&str, &str>| {
            let got = budget_finding(500, november(dollars)).map(|one| one.evidence.to_string());
            let got = got.as_ref().map(String::as_str).map_err(String::as_str);
            assert_eq!(got, expect, "{dollars:?}");
        };
        let same = |usd: i64, days: usize| vec![Some(usd); days];
        check(&same(10, 20), Err("well"));
        check(
            &same(20, 20),
            Ok(
                "forecast of $600.00 for 2026-11, more than the budget of $500.00; $400.00 through \
                2026-11-20",
            ),
        );
        check(
            &same(30, 20),
            Ok(
                "$600.00 in 2026-11 through 2026-11-20, more than the budget of $500.00; forecast \
                of the month $900.00",
            ),
        );
        // Six days are no week, whatever they cost.
        let few = "a forecast needs 7 closed days of the month, and there are 6";
        check(&same(80, 6), Err(few));
        check(
            &same(90, 6),
            Ok("$540.00 in 2026-11 through 2026-11-06, more than the budget of $500.00"),
        );
        // A whole month that cost exactly its budget.
        let mut whole = same(16, 29);
        whole.push(Some(36));
        check(&whole, Err("well"));
        // Days of unknown cost are not free, and are not counted either.
        let mut gaps = same(20, 20);
        gaps[3] = None;
        check(
            &gaps,
            Ok(
                "forecast of $580.00 for 2026-11, more than the budget of $500.00; $380.00 through \
                2026-11-20; without 1 day of unknown cost",
            ),
        );
        check(&[], Err("no day of the bill is closed"));
    }

    #[test]
    fn the_command_shows_the_days_of_the_cost_to_date() {
        let finding = budget_finding(500, november(&[Some(30); 20])).expect("over its budget");
        assert_eq!(
            finding.remedy.command.as_deref(),
            Some("ebb costs --by pipeline --month 2026-11 --through 2026-11-20")
        );
    }

    #[test]
    fn a_budget_whose_name_has_no_cost_is_not_called_kept() {
        let unknown = "no closed day has a cost of it; check its name in [[budgets]]";
        let check = |dollars: &[Option<i64>], expect: &str| {
            let got = budget_finding(500, november(dollars)).map(drop);
            assert_eq!(got, Err(expect.to_owned()), "{dollars:?}");
        };
        check(&[Some(0); 20], unknown);
        let mut once = [Some(0); 20];
        once[0] = Some(3);
        check(&once, "well");
        once[0] = None;
        check(&once, "well");
    }

    #[test]
    fn weekends_without_work_are_part_of_the_forecast() {
        // 2026-11-01 is a Sunday. Weekdays cost $20: 21 of them are $420.
        let of_day = |day: i64| match day % 7 {
            0 | 6 => Some(0),
            _ => Some(20),
        };
        let month: Vec<Option<i64>> = (0..30).map(of_day).collect();
        for days in 1..=30 {
            let got = budget_finding(500, november(&month[..days]));
            assert!(got.is_err(), "{days} days: {got:?}");
        }
    }

    #[test]
    fn a_forecast_near_the_budget_is_one_finding_until_it_is_clearly_below() {
        let check = |last: i64, expect: bool| {
            // $17 on 10 days are a forecast of $510.
            let mut dollars = vec![Some(17); 10];
            assert!(budget_finding(500, november(&dollars)).is_ok());
            dollars.push(Some(last));
            assert_eq!(
                budget_finding(500, november(&dollars)).is_ok(),
                expect,
                "{last}"
            );
        };
        check(12, true);
        check(0, false);
        // The same forecast is no finding if it was never above the budget.
        let never = budget_finding(500, november(&[Some(16); 11]));
        assert_eq!(never.map(drop), Err("well".to_owned()));
    }

    #[test]
    fn the_month_is_that_of_the_newest_closed_day() {
        let october = history(date(2026, 10, 1), [Some(20); 31]);
        let over = budget_finding(500, october).expect("October is over");
        assert!(over.evidence.to_string().contains("2026-10-31"));
        assert_eq!(over.id, "budget_exceeded/global/pipeline/rnaseq");
        assert_eq!(over.resource.owner.as_deref(), Some("ana"));
        assert_eq!(over.cost, None);
        // The first day of November does not inherit it.
        let next = history(date(2026, 10, 1), [Some(20); 32]);
        let few = "a forecast needs 7 closed days of the month, and there are 1";
        assert_eq!(budget_finding(500, next).map(drop), Err(few.to_owned()));
    }
}
