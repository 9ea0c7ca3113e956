//! Tests of the allocation of a day of the bill.

use std::time::Duration;

use ebb_model::bill::ResourceCost;
use ebb_model::inventory::batch::job::JobStatus;
use ebb_telemetry::testing::{at, clock, node, placed, placed_step};
use ebb_telemetry::units::CpuTime;

use crate::step_history;
use crate::testing::{World, asked, instance};

use super::*;

/// The zero of the test clock is in the afternoon of 2026-09-21, so this day is complete.
const DAY: &str = "2026-09-18";

fn usd(micros: i64) -> Usd {
    Usd::from_micros(micros)
}

fn billed(world: &mut World, n: u8, micros: i64) {
    let cost = ResourceCost {
        by_day: BTreeMap::from([(DAY.to_owned(), usd(micros))]),
    };
    world.bill.insert(node(n), cost);
}

fn told(total: i64, of_machines: i64) -> BilledDay {
    BilledDay {
        day: DAY.to_owned(),
        total: usd(total),
        of_machines: Some(usd(of_machines)),
        ..BilledDay::default()
    }
}

fn parts(day: &LedgerDay) -> [i64; 7] {
    let all = [
        day.steps,
        day.findings,
        day.other_work,
        day.idle,
        day.unwatched,
        day.elsewhere,
        day.rounding,
    ];
    all.map(Usd::micros)
}

/// Adds a probe that observes the first hours of the day without work.
fn seen(world: World, hours: u64) -> World {
    told_of(world, hours, 0)
}

/// Adds a probe that observes the first hours of the day, with `cpu_seconds` of CPU time.
fn told_of(mut world: World, hours: u64, cpu_seconds: u64) -> World {
    let from = of_day(DAY).expect("a day").from;
    let mut placed = placed(1, 1);
    let seconds = hours * 3600;
    placed.end = from + Duration::from_secs(seconds);
    (placed.heartbeat.start, placed.heartbeat.end) = (clock(0), clock(seconds));
    placed.heartbeat.workload.cpu = Some(CpuTime::from_millis(cpu_seconds * 1_000));
    placed.heartbeat.steps.clear();
    world.take(&placed);
    world
}

/// A task of a job that requests half of an m5.xlarge, for `hours` hours of the day.
fn with_run(world: World, hours: i64) -> World {
    let mut world = world.with_job(JobStatus::Running, asked(2, 8));
    let from = of_day(DAY).expect("a day").from;
    let mut run = placed_step(1, 10);
    run.usage.id.key = format!("{:032x}", 1);
    run.started_at = from;
    run.observed_at = from + jiff::SignedDuration::from_hours(hours);
    world.finished.push(run);
    world
}

#[test]
fn the_parts_of_a_day_are_its_bill() {
    let check = |change: &dyn Fn(World) -> World, told: Option<BilledDay>, expect: [i64; 7]| {
        let mut world = change(World::with([instance(1)]));
        world.billed = told.into_iter().collect();
        let facts = world.facts();
        let days = divide(
            &facts,
            &step_history::profiles(&facts, &facts.state.steps()),
            &[],
        );
        assert_eq!(days.len(), 1);
        assert_eq!(parts(&days[0]), expect);
        let sum: i64 = parts(&days[0]).iter().sum();
        assert_eq!(sum, days[0].billed.micros());
    };
    let bill = |micros| {
        move |mut world: World| {
            billed(&mut world, 1, micros);
            world
        }
    };
    // No probe watches the machine.
    check(&bill(4_800_000), None, [0, 0, 0, 0, 4_800_000, 0, 0]);
    let watched = |world: World| bill(4_800_000)(seen(world, 24));
    check(&watched, None, [0, 0, 0, 4_800_000, 0, 0, 0]);
    // Unobserved time is not idle: the probe started later or observed only a part.
    let later = |mut world: World| {
        world.watch(1, 0, 1, |_, _| {});
        bill(4_800_000)(world)
    };
    check(&later, None, [0, 0, 0, 0, 4_800_000, 0, 0]);
    let partly = |world: World| bill(4_800_000)(seen(world, 6));
    check(&partly, None, [0, 0, 0, 1_200_000, 3_600_000, 0, 0]);
    // Half of the machine for half of the day.
    let ran = |world: World| with_run(watched(world), 12);
    check(&ran, None, [1_200_000, 0, 0, 3_600_000, 0, 0, 0]);
    // A service works for eight hours; a task runs at the same time for six of them.
    let served = |world: World| bill(4_800_000)(told_of(world, 8, 8 * 3_600));
    check(&served, None, [0, 0, 1_600_000, 0, 3_200_000, 0, 0]);
    let both = |world: World| with_run(served(world), 6);
    check(&both, None, [600_000, 0, 400_000, 600_000, 3_200_000, 0, 0]);
    // Other services, and a rounding error of a millionth.
    let day = told(10_000_001, 4_800_001);
    check(
        &ran,
        Some(day),
        [1_200_000, 0, 0, 3_600_000, 0, 5_200_000, 1],
    );
    // A machine that no longer exists.
    let gone = |mut world: World| {
        world.inventory.instances.clear();
        bill(7)(world)
    };
    check(&gone, None, [0, 0, 0, 0, 0, 7, 0]);
}

#[test]
fn a_finding_takes_what_no_step_had_and_never_more() {
    let check = |hours: i64, found_hours: i64, expect: [i64; 7]| {
        let mut world = World::with([instance(1)]);
        world.watch(1, 0, 120, |_, _| {});
        let mut finding = world.verdict().expect("it is idle");
        assert!(takes_the_machine(&finding));
        let mut world = with_run(seen(world, 24), hours);
        billed(&mut world, 1, 2_400_000);
        let to = of_day(DAY).expect("a day").to;
        finding.window = Window {
            from: to - jiff::SignedDuration::from_hours(found_hours),
            to: at(0),
        };
        let facts = world.facts();
        let days = divide(
            &facts,
            &step_history::profiles(&facts, &facts.state.steps()),
            std::slice::from_ref(&finding),
        );
        let day = days.iter().find(|day| day.day == DAY).expect("that day");
        assert_eq!(parts(day), expect);
    };
    check(12, 6, [600_000, 600_000, 0, 1_200_000, 0, 0, 0]);
    check(24, 24, [1_200_000, 1_200_000, 0, 0, 0, 0, 0]);
}

#[test]
fn an_open_day_is_estimated_until_the_cloud_closes_it() {
    let check = |day: &str, told: Option<bool>, expect: bool| {
        let mut world = World::with([instance(1)]);
        let cost = ResourceCost {
            by_day: BTreeMap::from([(day.to_owned(), usd(5))]),
        };
        world.bill.insert(node(1), cost);
        world.billed = told
            .map(|estimated| BilledDay {
                day: day.to_owned(),
                total: usd(5),
                estimated,
                ..BilledDay::default()
            })
            .into_iter()
            .collect();
        let facts = world.facts();
        let days = divide(
            &facts,
            &step_history::profiles(&facts, &facts.state.steps()),
            &[],
        );
        assert_eq!(days[0].estimated, expect, "{day} {told:?}");
    };
    check("2026-09-18", None, false);
    check("2026-09-21", None, true);
    check("2026-09-18", Some(true), true);
    check("2026-09-19", Some(false), false);
}
