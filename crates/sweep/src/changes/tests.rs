//! What is told of one report after another.

use ebb_domain::finding::Finding;
use ebb_domain::fleet::Gap;
use ebb_domain::report::{NotJudged, Report};
use ebb_domain::units::UsdPerHour;

use super::*;
use crate::render::sample;

/// What is told of a report that differs from one that was told by `change`: how
/// many findings are new, grew and ended.
fn check(name: &str, change: impl FnOnce(&mut Report), expect: (usize, usize, usize)) {
    let before = sample::small();
    let (first, told) = since(&Findings::new(), &before);
    assert_eq!(first.new.len(), before.findings.len());
    let mut after = before;
    change(&mut after);
    let (changes, knows) = since(&told, &after);
    let got = (changes.new.len(), changes.grown.len(), changes.ended.len());
    assert_eq!(got, expect, "{name}");
    let (again, _) = since(&knows, &after);
    assert!(again.is_empty(), "{name}: nothing is told twice, {again:?}");
}

fn dearer(finding: &mut Finding, percent: i64) {
    let cost = finding.cost.as_mut().expect("the sample has a price");
    let raised = cost.per_hour.0.micros() / 100 * percent;
    cost.per_hour = UsdPerHour(Usd::from_micros(raised));
}

fn gap(scope: &str) -> Gap {
    Gap {
        scope: scope.to_owned(),
        reason: "denied".to_owned(),
    }
}

#[test]
fn what_is_new_grew_or_ended_is_told_and_nothing_else() {
    check("the same again", |_| {}, (0, 0, 0));
    check("one is gone", |r| drop(r.findings.remove(0)), (0, 0, 1));
    check(
        "noise of prices",
        |r| dearer(&mut r.findings[0], 109),
        (0, 0, 0),
    );
    check("it grew", |r| dearer(&mut r.findings[0], 112), (0, 1, 0));
    check("it shrank", |r| dearer(&mut r.findings[0], 50), (0, 0, 0));
    check("no price by now", |r| r.findings[0].cost = None, (0, 0, 0));
    let another = |r: &mut Report| {
        let mut finding = r.findings[0].clone();
        finding.id.push_str("-b");
        r.findings.push(finding);
    };
    check("one more", another, (1, 0, 0));
}

#[test]
fn what_was_not_looked_at_has_not_ended() {
    let without_first = |r: &mut Report| r.findings.remove(0).resource;
    let unjudged = |r: &mut Report| {
        let resource = without_first(r);
        r.not_judged.push(NotJudged {
            resource: resource.id,
            name: None,
            rule: "idle_node".to_owned(),
            reason: "its probe fell silent".to_owned(),
        });
    };
    check("not judged", unjudged, (0, 0, 0));
    let region = sample::small().findings[0].resource.region.to_string();
    let hidden = |scope: String, expect: usize| {
        let change = |r: &mut Report| {
            without_first(r);
            r.gaps.push(gap(&scope));
        };
        check(&scope, change, (0, 0, expect));
    };
    hidden(format!("{region}: inventory"), 0);
    hidden(ALL_REGIONS.to_owned(), 0);
    hidden(format!("{region}1: inventory"), 1);
    hidden("bill by resource".to_owned(), 1);
}

#[test]
fn slow_growth_is_told_in_the_end() {
    let (_, mut told) = since(&Findings::new(), &sample::small());
    let mut report = sample::small();
    let mut grown = 0;
    for _ in 0..3 {
        dearer(&mut report.findings[0], 106);
        let (changes, knows) = since(&told, &report);
        grown += changes.grown.len();
        told = knows;
    }
    assert_eq!(grown, 1);
}
