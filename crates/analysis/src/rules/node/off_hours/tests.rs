//! Tests of weekly activity and the schedule that fits it.

use ebb_node_state::hourly_activity::FleetHours;
use ebb_telemetry::activity::ActivityPolicy;
use ebb_telemetry::testing::{at, node, placed};
use ebb_telemetry::units::CpuTime;

use crate::testing::{World, instance};

use super::*;

/// Hours from the zero of the test clock to the first Monday; the minutes within the hour are kept.
fn to_monday() -> u64 {
    let into_week = ebb_node_state::hourly_activity::hour_of_week(at(0));
    u64::try_from(WEEK_HOURS - into_week).expect("a small number")
}

/// A node that is observed for `weeks` weeks and works if `works` is true for the week and its
/// hour. The clock is at the end.
fn fortnight(weeks: u64, works: impl Fn(u64, usize) -> bool) -> World {
    let mut machine = instance(1);
    machine.launched_at = Some(at(0));
    let mut world = World::with([machine]);
    let policy = ActivityPolicy::default();
    let first = to_monday() * 60;
    let mut hours = FleetHours::default();
    for minute in (0..weeks * 7 * 24 * 60).step_by(60) {
        let mut placed = placed(1, 0);
        // Whole minutes of the clock, which starts 14 minutes after a full hour.
        placed.end = at((first + minute) * 60 - 14 * 60 + 120);
        let hour = usize::try_from(minute / 60).expect("a small number");
        let is_at_work = works(minute / 60 / 168, hour % WEEK_HOURS);
        let cpu = if is_at_work { 30_000 } else { 0 };
        placed.heartbeat.workload.cpu = Some(CpuTime::from_millis(cpu));
        placed.heartbeat.sequence = minute;
        hours.fold_heartbeat(&placed, &policy);
        world.state.fold_heartbeat(&placed, &policy);
        world.now = placed.end;
    }
    world.hours = hours;
    world
}

fn is_office(hour: usize) -> bool {
    hour / 24 < 5 && (8..18).contains(&(hour % 24))
}

fn find_evidence(world: &World) -> Option<String> {
    let found = world
        .evaluate()
        .findings
        .into_iter()
        .find(|f| f.kind == KIND)?;
    Some(format!("{} | {}", found.evidence, found.remedy.advice))
}

#[test]
fn use_that_recurs_becomes_a_schedule_and_anything_else_does_not() {
    let check = |name: &str, weeks: u64, works: fn(u64, usize) -> bool, expect: Option<&str>| {
        let evidence = find_evidence(&fortnight(weeks, works));
        let used = evidence
            .as_deref()
            .map(|text| text.split(" UTC").next().unwrap_or_default());
        assert_eq!(used, expect, "{name}");
    };
    check(
        "office hours",
        2,
        |_, h| is_office(h),
        Some("used on Mon-Fri 7-18"),
    );
    check(
        "each night",
        2,
        |_, h| (1..3).contains(&(h % 24)),
        Some("used on Mon-Sun 0-3"),
    );
    check("always", 2, |_, _| true, None);
    check("never", 2, |_, _| false, None);
    check("one week only", 1, |_, h| is_office(h), None);
    check(
        "other hours each week",
        2,
        |w, h| is_office((h + 84 * usize::from(w == 1)) % 168),
        None,
    );
    // Work in every third hour: no off time is long enough.
    check("cron", 2, |_, h| h % 3 == 0, None);
}

#[test]
fn a_schedule_saves_the_hours_that_are_off() {
    let world = fortnight(2, |_, hour| is_office(hour));
    let found = world
        .evaluate()
        .findings
        .into_iter()
        .find(|f| f.kind == KIND);
    let found = found.expect("it is off at night");
    let saving = found.saving_or_zero().micros();
    // 113 of 168 hours at 0.192 USD.
    let whole = UsdPerHour::from_micros(192_000).a_month().micros();
    assert!(
        (saving - whole * 113 / 168).abs() < 1_000,
        "{saving} of {whole}"
    );
    assert!(found.window.length() <= std::time::Duration::from_secs(14 * 86_400 + 3_600));
}

#[test]
fn a_node_in_its_off_hours_is_not_idle_and_one_that_rests_on_is() {
    // It is Sunday night; the last work was on Friday.
    let mut world = fortnight(2, |_, hour| is_office(hour));
    let kinds = |world: &World| -> Vec<FindingKind> {
        world.evaluate().findings.iter().map(|f| f.kind).collect()
    };
    assert_eq!(kinds(&world), [KIND]);
    // Nobody used the node until Monday evening.
    let sunday = world.now;
    for minute in 0..20 * 60 {
        let mut quiet = placed(1, 0);
        quiet.heartbeat.workload.cpu = Some(CpuTime(0));
        quiet.heartbeat.sequence = 100_000 + minute;
        let later = std::time::Duration::from_secs((minute + 1) * 60);
        quiet.end = sunday.checked_add(later).expect("a time");
        world.state.fold_heartbeat(&quiet, &world.policy.activity);
        world.now = quiet.end;
    }
    // The data contains one minute of each hour of the weekend.
    world.policy.idle.min_coverage_ppm = 1;
    assert_eq!(kinds(&world), [FindingKind::IdleNode]);
}

#[test]
fn what_ran_before_its_launch_is_not_its_own_and_batch_has_its_own_schedule() {
    let mut world = fortnight(2, |_, hour| is_office(hour));
    for machine in world.inventory.instances.values_mut() {
        machine.launched_at = Some(at(7 * 86_400));
    }
    assert_eq!(find_evidence(&world), None);

    let mut world = fortnight(2, |_, hour| is_office(hour));
    let batch = World::with([instance(1)]).with_job(
        ebb_model::inventory::batch::job::JobStatus::Succeeded,
        crate::testing::requested(1, 1),
    );
    world.inventory.batch = batch.inventory.batch;
    assert_eq!(find_evidence(&world), None);

    let mut world = fortnight(2, |_, hour| is_office(hour));
    let group = Controller::AutoScalingGroup("web".into());
    let machine = world
        .inventory
        .instances
        .get_mut(&node(1))
        .expect("it is there");
    machine.controller = Some(group);
    assert!(
        find_evidence(&world)
            .expect("a schedule")
            .contains("scheduled actions")
    );
}
