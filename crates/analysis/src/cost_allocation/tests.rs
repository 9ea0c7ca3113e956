//! Tests of the allocation of a day of the bill.

use std::time::Duration;

use ebb_model::bill::ResourceCost;
use ebb_model::inventory::batch::job::JobStatus;
use ebb_model::inventory::instance::{InstanceState, Market};
use ebb_model::metric_series::MetricPoint;
use ebb_model::report::cost_table::CostRow;
use ebb_telemetry::identity::InstanceType;
use ebb_telemetry::testing::{at, clock, node, placed, placed_step};
use ebb_telemetry::units::{CpuTime, MilliCores};

use ebb_model::policy::costs::AllocationMethod;
use jiff::ToSpan;
use proptest::prelude::*;

use crate::earlier_jobs::jobs_to_remember;
use crate::step_history;
use crate::testing::{World, instance, requested};

use super::*;

/// The zero of the test clock is in the afternoon of 2026-09-21, so this day is complete.
const DAY: &str = "2026-09-18";

fn divide_bill(facts: &Facts<'_>, findings: &[Finding]) -> Vec<BilledDayShares> {
    allocated(facts, findings).ledger
}

/// The allocation, whose costs add up.
fn allocated(facts: &Facts<'_>, findings: &[Finding]) -> Allocation {
    let kept = facts.state.steps();
    let profiles = step_history::profiles(facts, &kept);
    let allocation = allocate(facts, (&profiles, &kept), findings);
    add_up(&allocation);
    allocation
}

fn usd(micros: i64) -> Usd {
    Usd::from_micros(micros)
}

fn billed(world: &mut World, n: u8, micros: i64) {
    let cost = ResourceCost {
        by_day: BTreeMap::from([(DAY.to_owned(), usd(micros))]),
    };
    world.bill.insert(node(n), cost);
}

fn make_day(total: i64, of_machines: i64) -> BilledDay {
    BilledDay {
        day: DAY.to_owned(),
        total: usd(total),
        of_machines: Some(usd(of_machines)),
        ..BilledDay::default()
    }
}

fn parts(day: &BilledDayShares) -> [i64; 7] {
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
fn with_idle_probe(world: World, hours: u64) -> World {
    with_probe(world, hours, 0)
}

/// Adds a probe that observes the first hours of the day, with `cpu_seconds` of CPU time.
fn with_probe(mut world: World, hours: u64, cpu_seconds: u64) -> World {
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
    let mut world = world.with_job(JobStatus::Running, requested(2, 8));
    let from = of_day(DAY).expect("a day").from;
    let mut run = placed_step(1, 10);
    run.usage.id.key = format!("{:032x}", 1);
    run.started_at = from;
    run.observed_at = from + jiff::SignedDuration::from_hours(hours);
    world.finished.push(run);
    world
}

#[test]
fn the_first_of_fourteen_days_is_observed_as_a_whole_and_earlier_days_are_left_out() {
    let mut world = World::with([instance(1)]);
    billed(&mut world, 1, 4_800_000);
    let from = of_day(DAY).expect("a day").from;
    // A heartbeat an hour, through the evening of the fourteenth day after it.
    for hour in 1..=14 * 24 + 23_u64 {
        let mut placed = placed(1, hour);
        placed.end = from + Duration::from_secs(hour * 3600);
        let (start, end) = (clock((hour - 1) * 3600), clock(hour * 3600));
        (placed.heartbeat.start, placed.heartbeat.end) = (start, end);
        placed.heartbeat.steps.clear();
        world.take(&placed);
    }
    world.now = from + Duration::from_secs((14 * 24 + 23) * 3600);
    let days = divide_bill(&world.facts(), &[]);
    assert_eq!(parts(&days[0]), [0, 0, 0, 4_800_000, 0, 0, 0]);
    world.now = from + Duration::from_secs(15 * 24 * 3600);
    assert!(divide_bill(&world.facts(), &[]).is_empty());
}

#[test]
fn the_parts_of_a_day_are_its_bill() {
    let check =
        |change: &dyn Fn(World) -> World, billed_day: Option<BilledDay>, expect: [i64; 7]| {
            let mut world = change(World::with([instance(1)]));
            world.billed = billed_day.into_iter().collect();
            let facts = world.facts();
            let days = divide_bill(&facts, &[]);
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
    let watched = |world: World| bill(4_800_000)(with_idle_probe(world, 24));
    check(&watched, None, [0, 0, 0, 4_800_000, 0, 0, 0]);
    // Unobserved time is not idle: the probe started later or observed only a part.
    let later = |mut world: World| {
        world.watch(1, 0, 1, |_, _| {});
        bill(4_800_000)(world)
    };
    check(&later, None, [0, 0, 0, 0, 4_800_000, 0, 0]);
    let partly = |world: World| bill(4_800_000)(with_idle_probe(world, 6));
    check(&partly, None, [0, 0, 0, 1_200_000, 3_600_000, 0, 0]);
    // Half of the machine for half of the day.
    let ran = |world: World| with_run(watched(world), 12);
    check(&ran, None, [1_200_000, 0, 0, 3_600_000, 0, 0, 0]);
    // A service works for eight hours; a task runs at the same time for six of them.
    let served = |world: World| bill(4_800_000)(with_probe(world, 8, 8 * 3_600));
    check(&served, None, [0, 0, 1_600_000, 0, 3_200_000, 0, 0]);
    let both = |world: World| with_run(served(world), 6);
    check(&both, None, [600_000, 0, 400_000, 600_000, 3_200_000, 0, 0]);
    // Other services, and a rounding error of a millionth.
    let day = make_day(10_000_001, 4_800_001);
    check(
        &ran,
        Some(day),
        [1_200_000, 0, 0, 3_600_000, 0, 5_200_000, 1],
    );
    // A credit of 3 dollars for machines is no rounding.
    let credited = make_day(7_000_000, 1_800_000);
    check(
        &ran,
        Some(credited),
        [1_200_000, 0, 0, 3_600_000, 0, 2_200_000, 0],
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
        let mut world = with_run(with_idle_probe(world, 24), hours);
        billed(&mut world, 1, 2_400_000);
        let to = of_day(DAY).expect("a day").to;
        finding.window = Window {
            from: to - jiff::SignedDuration::from_hours(found_hours),
            to: at(0),
        };
        let facts = world.facts();
        let days = divide_bill(&facts, std::slice::from_ref(&finding));
        let day = days.iter().find(|day| day.day == DAY).expect("that day");
        assert_eq!(parts(day), expect);
    };
    check(12, 6, [600_000, 600_000, 0, 1_200_000, 0, 0, 0]);
    check(24, 24, [1_200_000, 1_200_000, 0, 0, 0, 0, 0]);
}

#[test]
fn an_open_day_is_estimated_until_the_cloud_closes_it() {
    let check = |day: &str, is_estimated: Option<bool>, expect: bool| {
        let mut world = World::with([instance(1)]);
        let cost = ResourceCost {
            by_day: BTreeMap::from([(day.to_owned(), usd(5))]),
        };
        world.bill.insert(node(1), cost);
        world.billed = is_estimated
            .map(|estimated| BilledDay {
                day: day.to_owned(),
                total: usd(5),
                estimated,
                ..BilledDay::default()
            })
            .into_iter()
            .collect();
        let facts = world.facts();
        let days = divide_bill(&facts, &[]);
        assert_eq!(days[0].estimated, expect, "{day} {is_estimated:?}");
    };
    check("2026-09-18", None, false);
    check("2026-09-21", None, true);
    check("2026-09-18", Some(true), true);
    check("2026-09-19", Some(false), false);
}

/// The tasks and the rest of each day add up to its total, by run and by step.
fn add_up(allocation: &Allocation) {
    let costs = &allocation.costs;
    for day in &costs.days {
        let rest: Usd = day.rest.values().copied().sum();
        for table in [&costs.by_run, &costs.by_step] {
            let shares = table.iter().filter_map(|share| share.by_day.get(&day.day));
            let tasks: Usd = shares.map(|share| share.cost(costs.rest)).sum();
            assert_eq!(tasks + rest, day.total, "{day:?}");
        }
        let billed = allocation.ledger.iter().find(|one| one.day == day.day);
        assert_eq!(
            billed.map(|day| day.billed),
            match day.source {
                CostSource::Bill => Some(day.total),
                CostSource::Prices => None,
            }
        );
    }
}

fn rows(allocation: &Allocation, by: &str) -> Vec<(String, usize, i64, i64)> {
    let by = by.parse().expect("dimensions");
    let table = allocation.costs.table(&by, None).expect("a table");
    let row = |row: &CostRow| {
        let names: Vec<String> = row.names.iter().map(|name| format!("{name:?}")).collect();
        (
            names.join(" "),
            row.tasks,
            row.used.unwrap_or_default().micros(),
            row.unused.unwrap_or_default().micros(),
        )
    };
    table.rows.iter().map(row).collect()
}

#[test]
fn a_job_that_left_the_inventory_still_names_the_cost_of_its_task() {
    let mut world = with_run(with_idle_probe(World::with([instance(1)]), 24), 12);
    billed(&mut world, 1, 4_800_000);
    world.billed = vec![make_day(4_800_000, 4_800_000)];
    world.policy.costs.cost_centre_tag = Some("CostCenter".to_owned());
    world.now = of_day(DAY).expect("a day").to;
    let tags = [
        ("ebb:pipeline", "rnaseq"),
        ("CostCenter", "genomics"),
        ("Owner", "eve"),
    ];
    let tags = tags.map(|(tag, value)| (tag.to_owned(), value.to_owned()));
    world.job().tags.extend(tags);
    let names = |world: &World| {
        let all = allocated(&world.facts(), &[]);
        ["step", "pipeline", "cost_centre", "user"].map(|by| {
            let mut rows = rows(&all, by).into_iter();
            rows.find(|(_, tasks, ..)| *tasks == 1).expect("the task").0
        })
    };
    let expect = ["align-def", "rnaseq", "genomics", "eve"].map(|name| format!("Name({name:?})"));
    assert_eq!(names(&world), expect);
    let batch = world.inventory.batch.clone();
    let kept = jobs_to_remember(batch, (&world.finished, &world.state), &world.policy);
    world.inventory.batch.jobs.clear();
    assert_eq!(names(&world)[1], "Unknown");
    world.inventory.batch.add_earlier(kept.jobs);
    assert_eq!(names(&world), expect);
}

#[test]
fn tasks_have_a_run_a_user_and_a_cost_centre_and_share_their_machine() {
    let mut world = World::with([instance(1)]);
    let machine = world.inventory.instances.get_mut(&node(1)).expect("it");
    machine
        .tags
        .insert("Team".to_owned(), "genomics".to_owned());
    let mut world = with_run(with_idle_probe(world, 24), 12);
    billed(&mut world, 1, 4_800_000);
    world.billed = vec![make_day(5_000_000, 4_800_000)];
    world.policy.costs.cost_centre_tag = Some("Team".to_owned());
    world.now = of_day(DAY).expect("a day").to;
    let apart = allocated(&world.facts(), &[]);
    let by_user = rows(&apart, "user");
    assert_eq!(
        by_user,
        [(r#"Name("ada")"#.to_owned(), 1, 1_200_000, 1_200_000)]
    );
    let by_team = rows(&apart, "cost_centre,run");
    assert_eq!(by_team[0].0, r#"Name("genomics") Unknown"#);
    let rest = |allocation: &Allocation| {
        let rest = allocation.costs.days[0].rest.iter();
        let rest = rest.map(|(kind, usd)| (*kind, usd.micros()));
        rest.collect::<Vec<_>>()
    };
    let elsewhere = (RestKind::Elsewhere, 200_000);
    assert_eq!(rest(&apart), [(RestKind::Idle, 3_600_000), elsewhere]);
    world.policy.costs.rest = RestOfMachine::Spread;
    let spread = allocated(&world.facts(), &[]);
    assert_eq!(rest(&spread), [(RestKind::Idle, 2_400_000), elsewhere]);
    assert_eq!(spread.ledger, apart.ledger);
}

#[test]
fn a_machine_that_is_gone_is_divided_by_what_its_probe_saw() {
    let mut world = with_run(with_idle_probe(World::with([instance(1)]), 24), 12);
    billed(&mut world, 1, 4_800_000);
    world.inventory.instances.clear();
    let allocation = allocated(&world.facts(), &[]);
    let day = &allocation.ledger[0];
    assert_eq!(day.elsewhere, Usd::ZERO);
    assert!(day.steps > usd(1_000_000), "{day:?}");
    let rows = rows(&allocation, "step");
    assert_eq!((rows.len(), rows[0].1), (1, 1));
}

/// Adds a probe that observes these hours of the day without work.
fn with_idle_hours(mut world: World, (from, to): (u64, u64)) -> World {
    let mut placed = placed(1, to);
    placed.end = of_day(DAY).expect("a day").from + Duration::from_secs(to * 3_600);
    let (start, end) = (clock(from * 3_600), clock(to * 3_600));
    (placed.heartbeat.start, placed.heartbeat.end) = (start, end);
    placed.heartbeat.steps.clear();
    world.take(&placed);
    world
}

#[test]
fn the_bill_of_a_day_is_for_the_hours_in_which_the_machine_ran() {
    // A task has half of the machine for the first six hours. Hours are counted from the day's begin.
    let check = |hours: &[(u64, u64)], (started, stopped): (i64, Option<i64>), expect: [i64; 7]| {
        let world = World::with([instance(1)]);
        let world = hours.iter().copied().fold(world, with_idle_hours);
        let mut world = with_run(world, 6);
        billed(&mut world, 1, 2_400_000);
        let begin = of_day(DAY).expect("a day").from;
        let machine = world.inventory.instances.get_mut(&node(1)).expect("it");
        machine.launched_at = Some(begin + started.hours());
        if let Some(stopped) = stopped {
            machine.state = InstanceState::Stopped;
            machine.state_since = Some(begin + stopped.hours());
        }
        let days = divide_bill(&world.facts(), &[]);
        assert_eq!(parts(&days[0]), expect, "{hours:?} {started} {stopped:?}");
    };
    let twelve_hours = [600_000, 0, 0, 1_800_000, 0, 0, 0];
    // The machine started again on the next day.
    check(&[(0, 12)], (32, None), twelve_hours);
    check(&[(0, 6), (18, 24)], (32, None), twelve_hours);
    let short_gap = [600_000, 0, 0, 1_600_000, 200_000, 0, 0];
    check(&[(0, 6), (7, 12)], (32, None), short_gap);
    // It started again on this day, and is not observed since.
    let unobserved = [600_000, 0, 0, 600_000, 1_200_000, 0, 0];
    check(&[(0, 6)], (18, None), unobserved);
    // It stopped on this day.
    check(&[(0, 12)], (-24, Some(12)), twelve_hours);
}

#[test]
fn a_day_on_which_nothing_shows_when_a_machine_ran_counts_as_a_whole() {
    let mut world = World::with([instance(1)]);
    let day = of_day(DAY).expect("a day");
    let machine = world.inventory.instances.get_mut(&node(1)).expect("it");
    machine.launched_at = Some(day.to + 8.hours());
    let life = machine::life(&world.facts(), &node(1), &[], DAY);
    assert_eq!(life, Some(vec![day]));
}

#[test]
fn days_after_the_bill_have_the_prices_of_machines() {
    let check = |change: &dyn Fn(&mut World), expect: (usize, usize, i64)| {
        let mut world = with_run(with_idle_probe(World::with([instance(1)]), 24), 12);
        let machine = world.inventory.instances.get_mut(&node(1)).expect("it");
        machine.launched_at = of_day(DAY).map(|day| day.from);
        change(&mut world);
        let allocation = allocated(&world.facts(), &[]);
        let days = &allocation.costs.days;
        let day = days.iter().find(|day| day.day == DAY).expect("that day");
        let tasks = allocation.costs.by_step.iter();
        let unpriced = tasks
            .map(|share| share.by_day[DAY].tasks_without_price)
            .sum();
        let found = (day.machines_without_price, unpriced, day.total.micros());
        assert_eq!(found, expect);
        assert_eq!(day.source, CostSource::Prices);
        assert!(allocation.ledger.is_empty());
        let table = allocation.costs.table(&Default::default(), None);
        assert_eq!(table.expect("a table").billed, Usd::ZERO);
    };
    // An m5.xlarge costs $0.192 an hour.
    check(&|_| (), (0, 0, 4_608_000));
    let of_no_type = |world: &mut World| {
        let machine = world.inventory.instances.get_mut(&node(1)).expect("it");
        machine.instance_type = InstanceType::new("q9.huge").expect("a name");
    };
    check(&of_no_type, (1, 1, 0));
    let and_another_without_tasks = |world: &mut World| {
        let mut other = instance(2);
        other.instance_type = InstanceType::new("q9.huge").expect("a name");
        other.launched_at = of_day(DAY).map(|day| day.from);
        world.inventory.instances.insert(node(2), other);
    };
    check(&and_another_without_tasks, (1, 0, 4_608_000));
}

#[test]
fn a_machine_with_metrics_alone_has_the_price_of_the_time_that_they_cover() {
    let check = |hours: &[i64], expect: (usize, i64), is_priced: bool| {
        let mut machine = instance(1);
        machine.launched_at = None;
        if !is_priced {
            machine.instance_type = InstanceType::new("q9.huge").expect("a name");
        }
        let mut world = World::with([machine]);
        world.state.nodes.clear();
        let day = of_day(DAY).expect("a day").from;
        let point = |hour: &i64| MetricPoint::new(day + (*hour + 1).hours(), 3_600);
        let points = hours.iter().map(point).collect();
        world.metrics.insert(node(1), points);
        let days = allocated(&world.facts(), &[]).costs.days;
        let day = days.iter().find(|day| day.day == DAY);
        let found = day.map(|day| (day.machines_without_price, day.total.micros()));
        assert_eq!(found, Some(expect), "{hours:?}");
    };
    let all: Vec<i64> = (-5..30).collect();
    check(&all, (0, 4_608_000), true);
    check(&all, (1, 0), false);
    check(&all[..15], (0, 1_920_000), true);
    check(&[-1, 23], (0, 0), true);
    check(&[], (0, 0), true);
}

#[test]
fn the_on_demand_price_of_a_spot_machine_is_an_upper_bound() {
    let mut world = with_run(with_idle_probe(World::with([instance(1)]), 24), 12);
    let machine = world.inventory.instances.get_mut(&node(1)).expect("it");
    machine.launched_at = of_day(DAY).map(|day| day.from);
    let bounds = |world: &World| {
        let costs = allocated(&world.facts(), &[]).costs;
        let day = costs.days.iter().find(|day| day.day == DAY);
        let day = day.expect("that day");
        (day.upper_bound.micros(), day.total.micros())
    };
    assert_eq!(bounds(&world), (0, 4_608_000));
    let machine = world.inventory.instances.get_mut(&node(1)).expect("it");
    machine.market = Market::Spot;
    assert_eq!(bounds(&world), (4_608_000, 4_608_000));
}

/// A machine with its bill in millionths of a dollar, and whether it is gone.
type MadeMachine = (i64, bool, Option<u64>);

/// A task: its machine, start and length in minutes, cores, and use in seconds of CPU.
type MadeTask = (u8, i64, i64, u64, u64);

fn fleet(machines: &[MadeMachine], tasks: &[MadeTask]) -> World {
    let day = of_day(DAY).expect("a day").from;
    let mut world = World::default();
    for (n, (micros, is_gone, watched)) in (1_u8..).zip(machines) {
        if let Some(hours) = watched {
            world = watch_for(world, n, *hours);
        }
        if !is_gone {
            world.inventory.instances.insert(node(n), instance(n));
        }
        billed(&mut world, n, *micros);
    }
    for (n, (machine, from, length, cores, cpu)) in (1_u64..).zip(tasks) {
        let mut task = placed_step(*machine, 10);
        task.usage.id.key = format!("{n:032x}");
        task.usage.requested.cores = (*cores > 0).then_some(MilliCores(*cores));
        task.usage.cpu = CpuTime::from_millis(cpu * 1_000);
        task.started_at = day + jiff::SignedDuration::from_mins(*from);
        task.observed_at = task.started_at + jiff::SignedDuration::from_mins(*length);
        world.finished.push(task);
    }
    world.now = day + jiff::SignedDuration::from_hours(30);
    world
}

fn watch_for(mut world: World, n: u8, hours: u64) -> World {
    let mut placed = placed(n, 1);
    placed.end = of_day(DAY).expect("a day").from + Duration::from_secs(hours * 3_600);
    (placed.heartbeat.start, placed.heartbeat.end) = (clock(0), clock(hours * 3_600));
    placed.heartbeat.steps.clear();
    world.take(&placed);
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// `allocated` checks that the costs of each day add up.
    #[test]
    fn the_costs_of_a_fleet_add_up_to_its_bill(
        machines in prop::collection::vec(
            (-5_000_000..90_000_000_i64, any::<bool>(), prop::option::of(1..25_u64)),
            1..6,
        ),
        tasks in prop::collection::vec(
            (1..7_u8, -300..1_500_i64, 0..900_i64, 0..9_000_u64, 0..40_000_u64),
            0..12,
        ),
        other in 0..9_000_000_i64,
        method in 0..3_usize,
        is_spread in any::<bool>(),
    ) {
        let mut world = fleet(&machines, &tasks);
        let sum: i64 = machines.iter().map(|(micros, _, _)| micros).sum();
        world.billed = vec![make_day(sum + other, sum)];
        world.policy.costs.method = [
            AllocationMethod::Greater,
            AllocationMethod::Reserved,
            AllocationMethod::Used,
        ][method];
        world.policy.costs.rest = match is_spread {
            true => RestOfMachine::Spread,
            false => RestOfMachine::Apart,
        };
        let allocation = allocated(&world.facts(), &[]);
        let day = &allocation.ledger[0];
        prop_assert_eq!(day.billed.micros(), sum + other);
        prop_assert_eq!(parts(day).iter().sum::<i64>(), sum + other);
        prop_assert_eq!(day.rounding, Usd::ZERO);
    }
}
