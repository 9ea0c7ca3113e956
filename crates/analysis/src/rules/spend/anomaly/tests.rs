//! Tests of unusual costs.

use std::collections::BTreeMap;

use ebb_model::spend_history::SpendHistory;
use jiff::civil::date;

use super::*;
use crate::closed_days::Spend;
use crate::cost_allocation::named_claim::TaskNames;
use crate::cost_allocation::spend_sums::SpendSums;
use crate::rules::spend;
use crate::rules::spend::testing::{history, subject};
use crate::rules::trace::Speaks;
use crate::testing::World;
use ebb_model::finding::Finding;

/// The finding, or why there is none: `well` or the reason that it is not evaluated. The first day is
/// Monday, 2026-10-05.
fn anomaly_finding(dollars: &[Option<i64>], sums: SpendSums) -> Result<Finding, String> {
    let world = World::default();
    let spend = Spend {
        history: history(date(2026, 10, 5), dollars.iter().copied()),
        sums,
    };
    let facts = world.facts();
    let known = SpendFacts {
        facts: &facts,
        spend: &spend,
    };
    let verdicts = spend::evaluate(known);
    assert!(verdicts.len() < 2, "one result for each subject");
    let explained = spend::explain(known, &subject().id());
    let speaks = explained.last().map(|check| check.speaks);
    match verdicts.into_iter().next() {
        Some(Verdict::Waste(finding)) => {
            assert_eq!(speaks, Some(Speaks::ForWaste));
            Ok(*finding)
        }
        Some(Verdict::NotEvaluated(why)) => {
            assert_eq!(speaks, Some(Speaks::Unknown));
            Err(why.reason)
        }
        None => {
            assert_ne!(speaks, Some(Speaks::ForWaste));
            Err("well".to_owned())
        }
    }
}

fn check(name: &str, dollars: &[Option<i64>], expect: Result<&str, &str>) {
    let got = anomaly_finding(dollars, SpendSums::default());
    let got = got.map(|finding| finding.evidence.to_string());
    let got = got.as_ref().map(String::as_str).map_err(String::as_str);
    assert_eq!(got, expect, "{name}");
}

/// The cost of each day by its number, and a last day.
fn then(days: i64, cost: impl Fn(i64) -> i64, last: i64) -> Vec<Option<i64>> {
    let before = (0..days).map(|day| Some(cost(day)));
    before.chain([Some(last)]).collect()
}

#[test]
fn a_day_is_unusual_if_it_costs_far_more_than_the_days_before() {
    let tripled = "$60.00 on 2026-11-02, usually $20.00 (the median of 28 days with costs)";
    check("three times as much", &then(28, |_| 20, 60), Ok(tripled));
    check("as much", &then(28, |_| 20, 20), Err("well"));
    check("far less", &then(28, |_| 100, 15), Err("well"));
    check("nine dollars more", &then(28, |_| 20, 29), Err("well"));
    check("30 % more", &then(28, |_| 100, 130), Err("well"));
    let noise = |day| if day % 2 == 0 { 20 } else { 60 };
    check("noise", &then(28, noise, 100), Err("well"));
    let beyond = "$150.00 on 2026-11-02, usually $40.00 (the median of 28 days with costs)";
    check("more than noise", &then(28, noise, 150), Ok(beyond));
}

#[test]
fn weekends_first_weeks_and_rare_runs_are_no_false_alarms() {
    let week = |weekday: i64, weekend: i64| {
        move |day: i64| match day % 7 {
            5 | 6 => weekend,
            _ => weekday,
        }
    };
    check("a Monday", &then(28, week(100, 0), 100), Err("well"));
    check(
        "after a cheap weekend",
        &then(28, week(100, 10), 100),
        Err("well"),
    );
    // The 27th day is a Saturday.
    check(
        "a weekend of work",
        &then(26, week(10, 100), 100),
        Err("well"),
    );
    let first = "its costs are known for fewer than 14 days";
    check("the second week", &then(13, |_| 20, 90), Err(first));
    check("the first day", &then(0, |_| 0, 900), Err(first));
    let mondays = |day| if day % 7 == 0 { 100 } else { 0 };
    let rare = "it had costs on fewer than 7 of the 28 days before";
    check("a weekly run", &then(28, mondays, 300), Err(rare));
    check(
        "a run that costs little",
        &then(28, mondays, 9),
        Err("well"),
    );
}

#[test]
fn a_day_of_unknown_cost_is_neither_zero_nor_unusual() {
    let mut dollars = then(28, |_| 20, 60);
    for monday in [0, 7, 14, 21] {
        dollars[monday] = None;
    }
    let none = "no earlier cost of the weekday of 2026-11-02 is known";
    check("no Monday is known", &dollars, Err(none));
    dollars[21] = Some(20);
    let known = "$60.00 on 2026-11-02, usually $20.00 (the median of 25 days with costs)";
    check("a known Monday", &dollars, Ok(known));
    dollars[28] = None;
    check(
        "the day itself",
        &dollars,
        Err("the cost of 2026-11-02 is not known"),
    );
}

#[test]
fn an_unusual_day_is_one_finding_for_a_week() {
    let mut dollars = then(28, |_| 20, 60);
    for day in 1..=6 {
        dollars.push(Some(20));
        let found = anomaly_finding(&dollars, SpendSums::default()).expect("it is open");
        assert!(
            found
                .evidence
                .to_string()
                .starts_with("$60.00 on 2026-11-02"),
            "{day}"
        );
        assert_eq!(found.id, "cost_anomaly/global/pipeline/rnaseq");
    }
    dollars.push(Some(20));
    check("a week later", &dollars, Err("well"));
}

#[test]
fn the_largest_cause_is_named_and_the_owner_is_the_user_of_most_of_the_cost() {
    let names = |user: &str| TaskNames {
        run: None,
        pipeline: Some(subject().name),
        step: "align".to_owned(),
        user: Some(user.to_owned()),
        cost_centre: None,
    };
    let named = BTreeMap::from([(names("ana"), 0), (names("ben"), 1)]);
    let mut sums = SpendSums::new(&named);
    let tasks = |tasks: u64, used: i64| RunFactors {
        tasks,
        task_nanos: u128::from(tasks) * 3_600_000_000_000,
        used: Usd::from_micros(used * 1_000_000),
        ..RunFactors::default()
    };
    sums.add(0, "2026-11-01", tasks(10, 20));
    sums.add(0, "2026-11-02", tasks(25, 50));
    sums.add(1, "2026-11-02", tasks(5, 10));
    let found = anomaly_finding(&then(28, |_| 20, 60), sums).expect("it is unusual");
    let text = found.evidence.to_string();
    assert!(
        text.ends_with("; largest cause: more tasks (+$40.00)"),
        "{text}"
    );
    assert_eq!(found.resource.owner.as_deref(), Some("ana"));
    assert_eq!(found.cost, None, "an unusual cost is no saving");
    let empty = SpendHistory::default();
    assert!(empty.subjects().is_empty());
}
