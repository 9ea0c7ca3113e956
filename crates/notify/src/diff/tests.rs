//! Tests of the changes between consecutive reports.

use ebb_catalog::catalog::Catalogue;
use ebb_model::decision::{Decision, Decisions, Verb};
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::Inventory;
use ebb_model::policy::Policy;
use ebb_model::report::NotEvaluated;
use ebb_model::visibility_gap::Gap;
use ebb_report::testing;
use ebb_telemetry::money::{Usd, UsdPerHour};

use super::*;

/// A channel with the history of sweeps.
#[derive(Default)]
struct Channel {
    prices: BTreeMap<String, Price>,
    lives: Lives,
    decisions: Decisions,
}

impl Channel {
    /// The changes in a report for the channel.
    fn hears(&mut self, mut report: Report) -> String {
        let inventory = Inventory::default();
        let known = (&inventory, Catalogue::built_in());
        self.lives.advance(&mut report, known, &self.decisions);
        let (changes, new_prices) = since(&self.prices, &report, &self.lives);
        self.prices = new_prices;
        assert_eq!(changes.is_empty(), changes.counts().is_empty());
        changes.counts()
    }
}

/// A channel does not announce a finding again because its kind has a new name.
#[test]
fn what_was_announced_under_an_earlier_name_is_not_new() {
    let stored = serde_json::json!({
        "findings": {"low_duty_node/r/i-1": Price::default()},
    });
    let history: ChannelHistory = serde_json::from_value(stored).expect("it is read");
    let ids: Vec<&String> = history.findings.keys().collect();
    assert_eq!(ids, ["underutilized_node/r/i-1"]);
}

/// The changes in a report that differs from the notified one by `change`.
fn check(name: &str, change: impl FnOnce(&mut Report), expect: &str) {
    let mut channel = Channel::default();
    let mut report = testing::small();
    assert_eq!(channel.hears(report.clone()), "3 new");
    change(&mut report);
    assert_eq!(channel.hears(report.clone()), expect, "{name}");
    assert_eq!(channel.hears(report), "", "{name}: nothing is told twice");
}

#[test]
fn what_is_held_back_is_told_later_as_if_it_came_then() {
    let (mut report, mut lives) = (testing::small(), Lives::default());
    let none = (Inventory::default(), Decisions::default());
    lives.advance(&mut report, (&none.0, Catalogue::built_in()), &none.1);
    let old_prices = BTreeMap::new();
    let urgent = report.findings[0].kind;
    let (changes, new_prices) = since(&old_prices, &report, &lives);
    let (changes, new_prices) =
        changes.but_urgent((&old_prices, new_prices), |kind| kind == urgent);
    let of_kind = |kind| {
        report
            .findings
            .iter()
            .filter(move |f| f.kind == kind)
            .count()
    };
    assert_eq!(
        (changes.new.len(), new_prices.len()),
        (of_kind(urgent), of_kind(urgent))
    );
    let (later, _) = since(&new_prices, &report, &lives);
    assert_eq!(later.new.len(), 3 - of_kind(urgent));
    // Notified, and now resolved: the channel keeps the finding until it is notified of this.
    let (_, new_prices) = since(&old_prices, &report, &lives);
    report.findings.clear();
    lives.advance(&mut report, (&none.0, Catalogue::built_in()), &none.1);
    let (changes, left) = since(&new_prices, &report, &lives);
    assert_eq!((changes.resolved.len(), left.len()), (3, 0));
    let (changes, left) = changes.but_urgent((&new_prices, left), |_| false);
    assert!(changes.is_empty());
    assert_eq!(left, new_prices);
}

fn dearer(report: &mut Report, percent: i64) {
    let cost = report.findings[0].cost.as_mut();
    let cost = cost.expect("the sample has a price");
    let raised = cost.per_hour.0.micros() / 100 * percent;
    cost.per_hour = UsdPerHour(Usd::from_micros(raised));
}

#[test]
fn what_is_new_grew_or_ended_is_told_and_nothing_else() {
    check("the same again", |_| {}, "");
    check("one is gone", |r| drop(r.findings.remove(0)), "1 resolved");
    check("noise of prices", |r| dearer(r, 109), "");
    check("it grew", |r| dearer(r, 112), "1 grew");
    check("it shrank", |r| dearer(r, 50), "");
    check("no price by now", |r| r.findings[0].cost = None, "");
    let another = |r: &mut Report| {
        let mut finding = r.findings[0].clone();
        finding.id.push_str("-b");
        r.findings.push(finding);
    };
    check("one more", another, "1 new");
}

#[test]
fn what_was_not_looked_at_has_not_ended() {
    let not_evaluated = |r: &mut Report| {
        let resource = r.findings.remove(0).resource;
        r.not_evaluated.push(NotEvaluated {
            resource: resource.id,
            name: None,
            rule: "idle_node".to_owned(),
            reason: "its probe fell silent".to_owned(),
        });
    };
    check("not evaluated", not_evaluated, "");
    let hidden = |r: &mut Report| {
        let region = r.findings.remove(0).resource.region;
        r.gaps
            .push(Gap::new(format!("{region}: inventory"), "denied"));
    };
    check("its region denied", hidden, "");
    let exempt = |r: &mut Report| {
        let mut finding = r.findings.remove(0);
        finding.kind = FindingKind::OldGeneration;
        r.not_evaluated.push(NotEvaluated {
            resource: finding.resource.id.clone(),
            name: None,
            rule: finding.kind.slug().to_owned(),
            reason: "exempt until 2030-01-01: r".to_owned(),
        });
        r.exempt.push(finding);
    };
    check("exempt from another kind", exempt, "1 resolved");
}

#[test]
fn slow_growth_is_told_in_the_end() {
    let mut channel = Channel::default();
    let mut report = testing::small();
    channel.hears(report.clone());
    let mut counts = Vec::new();
    for _ in 0..3 {
        dearer(&mut report, 106);
        counts.push(channel.hears(report.clone()));
    }
    assert_eq!(counts, ["", "1 grew", ""]);
}

#[test]
fn what_is_set_aside_is_quiet_and_told_when_it_is_due_and_what_comes_back_is_reopened() {
    let mut channel = Channel::default();
    let report = testing::small();
    channel.hears(report.clone());
    let id = report.findings[0].id.clone();
    let decision = Decision {
        verb: Verb::Snooze,
        reason: "a course".to_owned(),
        by: "ana".to_owned(),
        at: report.at,
        until: report
            .at
            .checked_add(std::time::Duration::from_secs(60))
            .ok(),
    };
    channel
        .decisions
        .decide(&id, decision)
        .expect("it is whole");
    assert_eq!(channel.hears(report.clone()), "", "it is set aside");
    let mut later = report;
    later.at += std::time::Duration::from_secs(60);
    assert_eq!(channel.hears(later.clone()), "1 due again");
    let mut without = later.clone();
    without.findings.remove(0);
    assert_eq!(channel.hears(without), "1 resolved");
    assert_eq!(channel.hears(later), "1 reopened");
}

#[test]
fn a_channel_that_was_down_is_told_later_and_what_is_not_its_own_by_now_never() {
    let mut channel = Channel::default();
    let report = testing::small();
    channel.hears(report.clone());
    let mut moved = report.clone();
    let inventory = Inventory::default();
    channel.lives.advance(
        &mut moved,
        (&inventory, Catalogue::built_in()),
        &channel.decisions,
    );
    let gone = moved.findings.remove(0).id;
    let (changes, new_prices) = since(&channel.prices, &moved, &channel.lives);
    assert!(changes.is_empty(), "another channel has it: {changes:?}");
    assert!(!new_prices.contains_key(&gone));
    let (changes, _) = since(&BTreeMap::new(), &moved, &channel.lives);
    assert_eq!(changes.counts(), "2 new", "although they are ongoing");
}

fn webhook(template: &str) -> Webhook {
    let file = format!("[[webhooks]]\nname = \"ops\"\ntemplate = \"{template}\"\n");
    Policy::parse(&file).expect("a policy").webhooks.remove(0)
}

#[test]
fn an_alert_without_a_recorded_delivery_is_resolved_with_its_finding() {
    let check = |template: &str, expect: usize| {
        let (mut report, mut lives) = (testing::small(), Lives::default());
        let (inventory, decisions) = (Inventory::default(), Decisions::default());
        let known = (&inventory, Catalogue::built_in());
        lives.advance(&mut report, known, &decisions);
        let (mut history, webhook) = (ChannelHistory::default(), webhook(template));
        let (changes, _) = since_for_alerts((&history, &webhook), &report, &lives);
        history.begin(&changes, report.at);
        // The answer to each request was lost.
        report.findings.remove(0);
        lives.advance(&mut report, known, &decisions);
        let (changes, _) = since_for_alerts((&history, &webhook), &report, &lives);
        let found = (changes.new.len(), changes.resolved.len());
        assert_eq!(found, (2, expect), "{template}");
        history.begin(&changes, report.at);
        let (again, _) = since_for_alerts((&history, &webhook), &report, &lives);
        assert_eq!(again, changes, "until it is delivered");
    };
    check("pagerduty", 1);
    check("generic", 0);
}

#[test]
fn the_alert_of_a_finding_that_is_exempt_at_all_hours_ends() {
    let check = |template: &str, reason: &str, expect: usize| {
        let (mut report, mut lives) = (testing::small(), Lives::default());
        let (inventory, decisions) = (Inventory::default(), Decisions::default());
        let known = (&inventory, Catalogue::built_in());
        lives.advance(&mut report, known, &decisions);
        let (_, findings) = since(&BTreeMap::new(), &report, &lives);
        let history = ChannelHistory {
            findings,
            ..ChannelHistory::default()
        };
        let finding = report.findings.remove(0);
        report.not_evaluated.push(NotEvaluated {
            resource: finding.resource.id.clone(),
            name: None,
            rule: finding.kind.slug().to_owned(),
            reason: reason.to_owned(),
        });
        report.exempt.push(finding);
        lives.advance(&mut report, known, &decisions);
        let (changes, new_prices) =
            since_for_alerts((&history, &webhook(template)), &report, &lives);
        let found = (changes.each().count(), changes.set_aside.len());
        assert_eq!(found, (expect, expect), "{template}: {reason}");
        assert_eq!(new_prices.len(), 3 - expect, "{template}: {reason}");
    };
    check("pagerduty", "exempt until 2030-01-01: a course", 1);
    let by_day = "exempt until 2030-01-01, mon 08:00: a course";
    check("pagerduty", by_day, 0);
    check("generic", "exempt until 2030-01-01: a course", 0);
}
