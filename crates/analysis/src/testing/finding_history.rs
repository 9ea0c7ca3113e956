//! Tests that follow findings through several sweeps.

use ebb_catalog::catalog::Catalogue;
use ebb_model::decision::{Decision, Decisions, Verb};
use ebb_model::finding_history::ending::Ending;
use ebb_model::finding_history::trend::{Past, Trend};
use ebb_model::finding_history::{Lives, Stage};
use ebb_model::inventory::InventoryScope;
use ebb_model::inventory::batch::ComputeEnvironment;
use ebb_model::inventory::instance::{Controller, InstanceState};
use ebb_model::report::Report;
use ebb_model::visibility_gap::{ALL_REGIONS, Gap};
use ebb_telemetry::identity::{AccountId, InstanceType, Region};
use ebb_telemetry::money::Usd;
use ebb_telemetry::testing::{at, node};
use ebb_telemetry::units::CpuTime;
use jiff::SignedDuration;

use crate::testing::{World, instance, old_snapshot, region, volume};

use super::*;

/// Node 1, idle for an hour, after one sweep.
struct Followed {
    world: World,
    lives: Lives,
    decisions: Decisions,
}

impl Followed {
    fn new() -> Self {
        let mut machine = instance(1);
        machine.account = AccountId::new("000000000001").ok();
        let mut world = World::with([machine]);
        world.watch(1, 0, 60, |_, _| {});
        let mut it = Self {
            world,
            lives: Lives::default(),
            decisions: Decisions::default(),
        };
        assert_eq!(it.stage(), Some(Stage::New));
        it
    }

    fn id() -> String {
        format!("idle_node/{}/{}", region(), node(1))
    }

    fn swept(&mut self) -> Report {
        self.swept_after(|_| {})
    }

    fn swept_after(&mut self, change: impl FnOnce(&mut Report)) -> Report {
        let mut report = self.world.evaluate();
        change(&mut report);
        let inventory = &self.world.inventory;
        let catalogue = Catalogue::built_in();
        let lives = &mut self.lives;
        lives.advance(&mut report, (inventory, catalogue), &self.decisions);
        report
    }

    /// Stage of the finding after one more sweep.
    fn stage(&mut self) -> Option<Stage> {
        stage(&self.swept())
    }

    fn decide(&mut self, verb: Verb, until: Option<u64>) {
        let decision = Decision {
            verb,
            reason: "a course".into(),
            by: "ana".into(),
            at: self.world.now,
            until: until.map(at),
        };
        self.decisions.decide(&Self::id(), decision).expect("whole");
    }

    fn stand(&mut self, state: InstanceState) {
        let instances = &mut self.world.inventory.instances;
        instances.get_mut(&node(1)).expect("it is there").state = state;
    }
}

#[test]
fn a_life_begun_before_its_account_was_told_goes_on() {
    let mut world = World::default();
    let account = AccountId::new("000000000001").ok();
    let env = ComputeEnvironment {
        status: Some("INVALID".into()),
        ..ComputeEnvironment::new("env", region())
    };
    world.inventory.batch.environments.push(env);
    let mut lives = Lives::default();
    let mut swept = |world: &World| {
        let mut report = world.evaluate();
        let known = (&world.inventory, Catalogue::built_in());
        lives.advance(&mut report, known, &Decisions::default());
        report
    };
    swept(&world);
    world.inventory.batch.environments[0].account = account;
    let mut other = world.inventory.batch.environments[0].clone();
    other.account = AccountId::new("000000000002").ok();
    world.inventory.batch.environments.push(other);
    let report = swept(&world);
    let stages: Vec<_> = report.history.life.iter().collect();
    let stage_by_id: Vec<_> = stages
        .iter()
        .map(|(id, it)| (id.as_str(), it.stage))
        .collect();
    let id = |n| format!("stuck_batch_job/00000000000{n}/us-east-1/environment/env");
    let (first, second) = (id(1), id(2));
    assert_eq!(
        stage_by_id,
        [(first.as_str(), Stage::Ongoing), (&second, Stage::New)]
    );
    assert!(report.history.resolved.is_empty());
    assert_eq!(swept(&world).history.at_stage(Stage::Ongoing), 2);
}

fn stage(report: &Report) -> Option<Stage> {
    let standing = report.history.life.get(&Followed::id());
    standing.map(|standing| standing.stage)
}

fn dearer(report: &mut Report, percent: i64) {
    let cost = report.findings[0].cost.as_mut().expect("a price");
    let micros = cost.saving_a_month.micros() / 100 * percent;
    cost.saving_a_month = Usd::from_micros(micros);
}

#[test]
fn a_finding_is_new_then_ongoing_and_grows_past_what_was_told() {
    let mut it = Followed::new();
    let mut stages = Vec::new();
    for percent in [100, 106, 112, 112, 100] {
        let report = it.swept_after(|report| dearer(report, percent));
        stages.push(stage(&report).expect("it is found"));
    }
    use ebb_model::finding_history::Stage::{Grown, Ongoing};
    assert_eq!(stages, [Ongoing, Ongoing, Grown, Ongoing, Ongoing]);
}

#[test]
fn what_is_set_aside_leaves_the_sums_and_comes_back_as_due() {
    let mut it = Followed::new();
    let whole = it.swept().totals.saving_a_month;
    assert!(whole > Usd::ZERO);
    it.decide(Verb::Snooze, Some(7200));
    let report = it.swept();
    assert_eq!(stage(&report), Some(Stage::Snoozed));
    assert_eq!(
        (report.findings.len(), report.history.set_aside.len()),
        (0, 1)
    );
    assert_eq!(report.totals.saving_a_month, Usd::ZERO);
    it.world.watch(1, 60, 120, |_, _| {});
    let report = it.swept();
    assert_eq!(stage(&report), Some(Stage::Due), "the snooze has ended");
    assert_eq!(report.totals.saving_a_month, whole);
    assert_eq!(it.stage(), Some(Stage::Ongoing));
    it.decide(Verb::Dismiss, None);
    assert_eq!(it.stage(), Some(Stage::Dismissed));
}

#[test]
fn a_resolved_finding_says_how_it_ended_and_what_that_saved() {
    let check = |name: &str, change: &dyn Fn(&mut Followed), ending: Ending, saves: bool| {
        let mut it = Followed::new();
        let saving = it.swept().totals.saving_a_month;
        change(&mut it);
        let report = it.swept();
        let [resolved] = report.history.resolved.as_slice() else {
            panic!("{name}: {:?}", report.history);
        };
        assert_eq!(resolved.ending, ending, "{name}");
        assert_eq!(
            resolved.saved.map(|s| s.a_month),
            saves.then_some(saving),
            "{name}"
        );
        assert_eq!(report.history.resolved_at(report.at), 1, "{name}");
        it.world.now += SignedDuration::from_hours(73);
        let report = it.swept();
        let tenth = Usd::from_micros(saving.micros() / 10);
        let expect = if saves { tenth } else { Usd::ZERO };
        assert_eq!(report.history.saved_so_far, expect, "{name}");
        assert_eq!(report.history.resolved_at(report.at), 0, "{name}");
    };
    let gone = |it: &mut Followed| it.world.inventory.instances.clear();
    let busy = |it: &mut Followed| {
        it.world.watch(1, 60, 120, |_, heartbeat| {
            heartbeat.workload.cpu = Some(CpuTime::from_millis(30_000));
        });
    };
    let replaced = |it: &mut Followed| {
        let group = Controller::AutoScalingGroup("web".into());
        let instances = &mut it.world.inventory.instances;
        instances.get_mut(&node(1)).expect("there").controller = Some(group);
        it.swept();
        it.world.inventory.instances.clear();
    };
    check(
        "stopped",
        &|it| it.stand(InstanceState::Stopped),
        Ending::Stopped,
        true,
    );
    check(
        "terminated",
        &|it| it.stand(InstanceState::Terminated),
        Ending::Gone,
        true,
    );
    check("gone", &gone, Ending::Gone, true);
    check("at work again", &busy, Ending::StillThere, false);
    check(
        "perhaps replaced by its group",
        &replaced,
        Ending::Gone,
        false,
    );
}

#[test]
fn what_nothing_dates_is_observed_since_sweeps_see_it_and_anew_when_it_comes_back() {
    let lost = volume(30, "gp3", 100);
    let mut it = Followed::new();
    let put = |it: &mut Followed| {
        let volumes = &mut it.world.inventory.storage.volumes;
        volumes.insert(lost.id.clone(), lost.clone());
    };
    let observed = |it: &mut Followed| {
        let report = it.swept();
        let of_it = |finding: &&Finding| finding.resource.id == lost.id;
        let finding = report.findings.iter().find(of_it).expect("it is found");
        let spent = finding.cost.as_ref().map(|cost| cost.spent.micros());
        (finding.window.length().as_secs() / 3600, spent)
    };
    put(&mut it);
    assert_eq!(observed(&mut it), (0, Some(0)));
    it.world.now += SignedDuration::from_hours(73);
    assert_eq!(observed(&mut it), (73, Some(800_007)));
    it.world.inventory.storage.volumes.clear();
    it.swept();
    it.world.now += SignedDuration::from_hours(10);
    put(&mut it);
    assert_eq!(observed(&mut it), (0, Some(0)));
}

#[test]
fn a_snapshot_that_is_deleted_has_saved_what_it_cost() {
    let mut it = Followed::new();
    let old = old_snapshot(100);
    let snapshots = &mut it.world.inventory.storage.snapshots;
    snapshots.insert(old.id.clone(), old);
    it.swept();
    it.world.inventory.storage.snapshots.clear();
    let report = it.swept();
    let resolved = report.history.resolved.first().expect("it is resolved");
    let saved = resolved.saved.map(|saved| saved.a_month.micros());
    assert_eq!((resolved.ending, saved), (Ending::Gone, Some(5_000_000)));
}

#[test]
fn a_machine_of_another_type_saves_what_lies_between_both_prices() {
    let kind = |name: &str| InstanceType::new(name).expect("a type");
    let check = |to: &str, is_stopped_for_it: bool, expect: Option<i64>| {
        let mut machine = instance(1);
        machine.instance_type = kind("m4.xlarge");
        let mut world = World::with([machine]);
        world.watch(1, 0, 60, |_, heartbeat| {
            heartbeat.workload.cpu = Some(CpuTime::from_millis(60_000));
        });
        let mut it = Followed {
            world,
            lives: Lives::default(),
            decisions: Decisions::default(),
        };
        assert_eq!(it.swept().history.at_stage(Stage::New), 1);
        if is_stopped_for_it {
            it.stand(InstanceState::Stopped);
            it.swept();
        }
        it.stand(InstanceState::Running);
        let instances = &mut it.world.inventory.instances;
        let machine = instances.get_mut(&node(1)).expect("it is there");
        machine.instance_type = kind(to);
        let report = it.swept();
        let resolved = report.history.resolved.first().expect("it is resolved");
        let saved = resolved.saved.map(|saved| saved.a_month.micros());
        assert_eq!((resolved.ending, saved), (Ending::Changed, expect), "{to}");
    };
    // us-east-1: 0.20, 0.192 and 0.096 USD an hour.
    check("m5.xlarge", false, Some(5_840_000));
    check("m5.xlarge", true, Some(5_840_000));
    check("m5.large", false, Some(75_920_000));
    check("m5.4xlarge", false, None);
    check("x99.large", false, None);
}

#[test]
fn what_is_started_again_saves_no_more_and_what_comes_back_is_reopened() {
    let mut it = Followed::new();
    it.stand(InstanceState::Stopped);
    it.swept();
    it.world.now += SignedDuration::from_hours(10);
    it.stand(InstanceState::Pending);
    let saved = it.swept().history.saved_so_far;
    assert!(saved > Usd::ZERO);
    it.world.now += SignedDuration::from_hours(10);
    assert_eq!(
        it.swept().history.saved_so_far,
        saved,
        "it is paid for again"
    );
    it.world.watch(1, 1200, 1260, |minute, heartbeat| {
        if minute < 1210 {
            heartbeat.workload.cpu = Some(CpuTime::from_millis(30_000));
        }
    });
    it.stand(InstanceState::Running);
    let report = it.swept();
    assert_eq!(stage(&report), Some(Stage::Reopened));
    assert!(report.history.resolved.is_empty());
    let first_seen = report.history.life[&Followed::id()].first_seen;
    assert_eq!(first_seen, at(3605), "it is the same finding");
}

#[test]
fn what_was_not_looked_at_is_not_resolved_and_old_ones_are_forgotten() {
    let check = |scope: &str, resolved: usize| {
        let mut it = Followed::new();
        it.world.inventory.instances.clear();
        it.world
            .inventory
            .gaps
            .push(Gap::new(scope.to_owned(), "denied"));
        let report = it.swept();
        assert_eq!(report.history.resolved.len(), resolved, "{scope}");
    };
    check("us-east-1: inventory", 0);
    check(ALL_REGIONS, 0);
    check("us-east-11: inventory", 1);
    // The account of the machine, an account that is never named, and another account.
    check("account 000000000001 us-east-1: inventory", 0);
    check("account 000000000001: sts:AssumeRole", 0);
    check("accounts of the organization", 0);
    check("account 000000000002: sts:AssumeRole", 1);
    // A machine that is gone is hidden by the call that lists machines, and by no other.
    check("us-east-1: ec2:DescribeInstances", 0);
    check("us-east-1: batch:DescribeJobs", 1);
    check("us-east-1: list prices", 1);
    check("us-east-1: metrics", 1);
    let mut it = Followed::new();
    it.world.inventory.instances.clear();
    it.swept();
    it.world.now += SignedDuration::from_hours(24 * 31);
    assert!(it.swept().history.resolved.is_empty());
    assert!(it.lives.known.is_empty());
}

#[test]
fn a_machine_at_work_is_resolved_unless_a_list_of_its_jobs_or_machines_failed() {
    let check = |scope: &str, resolved: usize| {
        let mut it = Followed::new();
        it.world.watch(1, 60, 120, |_, heartbeat| {
            heartbeat.workload.cpu = Some(CpuTime::from_millis(30_000));
        });
        let gaps = &mut it.world.inventory.gaps;
        gaps.push(Gap::new(scope.to_owned(), "denied"));
        let report = it.swept();
        assert_eq!(report.history.resolved.len(), resolved, "{scope}");
    };
    check("us-east-1: list prices", 1);
    check("us-east-1: ec2:DescribeSnapshots", 1);
    check("us-east-1: batch:DescribeJobs", 0);
    check("us-east-1: ec2:DescribeInstances", 0);
    check("us-east-1: inventory", 0);
}

#[test]
fn a_resource_outside_the_regions_and_accounts_that_are_read_is_not_resolved() {
    let of = |region: &str, account: &str| InventoryScope {
        regions: Region::new(region).into_iter().collect(),
        accounts: AccountId::new(account).into_iter().collect(),
    };
    let check = |scope: InventoryScope, resolved: usize| {
        let mut it = Followed::new();
        it.world.inventory.instances.clear();
        it.world.inventory.scope = scope;
        let history = it.swept().history;
        assert_eq!(history.resolved.len(), resolved);
        it.world.now += SignedDuration::from_hours(24 * 31);
        it.swept();
        assert!(it.lives.known.is_empty(), "{:?}", it.lives);
    };
    check(InventoryScope::default(), 1);
    check(of("us-east-1", "000000000001"), 1);
    check(of("eu-west-1", "000000000001"), 0);
    check(of("us-east-1", "000000000002"), 0);
}

#[test]
fn the_end_of_a_machine_is_no_saving_of_a_step_that_ran_on_it() {
    let mut it = Followed::new();
    let of_step = |report: &mut Report| {
        let mut finding = report.findings[0].clone();
        finding.kind = FindingKind::StalledStep;
        finding.id = "stalled_step/us-east-1/align".into();
        finding.resource.id = "align".into();
        finding.resource.node = Some(node(1).to_string());
        report.findings.push(finding);
    };
    it.swept_after(of_step);
    it.world.inventory.instances.clear();
    let report = it.swept();
    let ended = |kind: FindingKind| {
        let mut resolved = report.history.resolved.iter();
        let one = resolved.find(|one| one.kind == kind).expect("resolved");
        (one.ending, one.saved.is_some())
    };
    assert_eq!(ended(FindingKind::StalledStep), (Ending::Unknown, false));
    assert_eq!(ended(FindingKind::IdleNode), (Ending::Gone, true));
}

#[test]
fn an_idle_time_longer_than_the_stored_hours_counts_while_sweeps_follow_it() {
    let check = |sweeps: &[u64], expect: &str, days: u64| {
        let mut it = Followed::new();
        let mut minute = 60;
        for day in sweeps.iter().copied().chain([20]) {
            it.world.watch(1, minute, day * 1_440, |_, _| {});
            minute = day * 1_440;
            if day < 20 {
                it.swept();
            }
        }
        let finding = it.swept().findings.remove(0);
        let text = finding.evidence.to_string();
        assert!(text.starts_with(expect), "{sweeps:?}: {text}");
        let length = finding.window.length();
        assert_eq!(length.as_secs() / 86_400, days, "{sweeps:?}");
        // 0.192 USD an hour.
        let spent = finding.cost.map(|cost| cost.spent.micros());
        let expect = 192 * i64::try_from(length.as_millis()).expect("short") / 3_600;
        assert_eq!(spent, Some(expect), "{sweeps:?}");
    };
    // The window of the first sweep does not overlap the stored hours.
    check(&[], "no activity for at least 13 d 23 h", 13);
    check(&[3], "no activity for at least 13 d 23 h", 13);
    check(&[7, 14], "no activity for at least 20 d 0 h", 20);
}

#[test]
fn a_report_of_a_week_ago_is_at_most_a_day_from_it() {
    let mut trend = Trend::default();
    let mut report = World::default().evaluate();
    let now = report.at;
    let hours = SignedDuration::from_hours;
    for ago in [9 * 24, 6 * 24 + 2, 40, 11] {
        report.at = now - hours(ago);
        trend.take(&report);
    }
    let check = |ago: i64, expect: Option<i64>| {
        let past = Past::before(&trend.0, now, hours(ago));
        assert_eq!(
            past.map(|one| now.duration_since(one.at).as_hours()),
            expect,
            "{ago}"
        );
    };
    check(7 * 24, Some(6 * 24 + 2));
    check(8 * 24, Some(9 * 24));
    // No report is within half a day of a day ago.
    check(24, None);
    check(36, Some(40));
    check(4 * 24, None);
}

#[test]
fn the_trend_keeps_the_newest_report_of_an_hour_for_two_weeks() {
    let mut trend = Trend::default();
    let mut report = World::default().evaluate();
    let begin = report.at;
    for minute in (0..20 * 24 * 60).step_by(10) {
        report.at = begin + SignedDuration::from_mins(minute);
        trend.take(&report);
    }
    assert!((336..=338).contains(&trend.0.len()), "{}", trend.0.len());
    assert_eq!(trend.0.last().map(|past| past.at), Some(report.at));
}
