//! Tests of the rows of the table `costs`.

use std::collections::BTreeSet;
use std::time::Duration;

use ebb_model::bill::{BilledDay, ResourceCost};
use ebb_model::cost_record::WrittenCosts;
use ebb_model::inventory::batch::job::JobStatus;
use ebb_model::report::cost_shares::RestKind;
use ebb_model::visibility_gap::{BY_SERVICE, Gap};
use ebb_telemetry::testing::{at, node, placed_step};

use crate::coverage;
use crate::testing::{World, instance, requested};

use super::*;

/// The zero of the test clock is in the afternoon of 2026-09-21.
const DAY: &str = "2026-09-18";

fn usd(micros: i64) -> Usd {
    Usd::from_micros(micros)
}

/// A task on half of a machine for half of a day.
fn world() -> World {
    let mut world = World::with([instance(1)]).with_job(JobStatus::Running, requested(2, 8));
    let from = coverage::of_day(DAY).expect("a day").from;
    let mut run = placed_step(1, 10);
    run.usage.id.key = format!("{:032x}", 1);
    run.started_at = from;
    run.observed_at = from + Duration::from_secs(12 * 3600);
    world.finished.push(run);
    set_bill(&mut world, 10_000_001);
    world
}

fn set_bill(world: &mut World, total: i64) {
    let cost = ResourceCost {
        by_day: BTreeMap::from([(DAY.to_owned(), usd(4_800_000))]),
    };
    world.bill.insert(node(1), cost);
    world.billed = vec![BilledDay {
        day: DAY.to_owned(),
        total: usd(total),
        of_machines: Some(usd(4_800_001)),
        ..BilledDay::default()
    }];
}

fn rows(world: &World) -> Vec<CostRecord> {
    let (_, details) = crate::evaluate::evaluate_in_detail(&world.facts());
    details.cost_rows
}

#[test]
fn the_rows_of_a_closed_day_add_up_to_its_bill_and_have_names() {
    let rows = rows(&world());
    let sum: Usd = rows.iter().map(|row| row.cost).sum();
    assert_eq!(sum, usd(10_000_001));
    let by_part = |part: CostUse| {
        let of_part = rows.iter().filter(|row| row.part == part);
        of_part.map(|row| row.cost.micros()).sum::<i64>()
    };
    // Half of the machine for half of the day is used; the other half of that time is its unused part.
    assert_eq!(
        (by_part(CostUse::Task), by_part(CostUse::Unused)),
        (1_200_000, 1_200_000)
    );
    assert_eq!(
        (by_part(CostUse::Elsewhere), by_part(CostUse::Rounding)),
        (5_200_000, 1)
    );
    let task = rows
        .iter()
        .find(|row| row.part == CostUse::Task)
        .expect("a task");
    assert_eq!(task.resource, Some(node(1).to_string()));
    assert!(task.step.is_some() && task.is_closed);
    assert_eq!(
        (task.day.to_string().as_str(), task.billed),
        (DAY, usd(10_000_001))
    );
}

#[test]
fn rows_without_a_task_have_the_cost_centre_of_their_machine() {
    let mut world = world();
    world.policy.costs.cost_centre_tag = Some("team".to_owned());
    let machine = world.inventory.instances.get_mut(&node(1)).expect("known");
    machine
        .tags
        .insert("team".to_owned(), "genomics".to_owned());
    let rows = rows(&world);
    let mut of_machine = rows.iter().filter(|row| row.resource.is_some());
    assert!(of_machine.all(|row| row.cost_centre.as_deref() == Some("genomics")));
    let mut others = rows.iter().filter(|row| row.resource.is_none());
    assert!(others.all(|row| row.cost_centre.is_none()));
    let report = crate::evaluate::evaluate(&world.facts());
    let day = &report.costs.days[0];
    assert!(day.rest_by_centre[0].rest[&RestKind::Unwatched] > Usd::ZERO);
    let centres = day.rest_by_kind_and_centre();
    let sum: Usd = centres.map(|(_, _, usd)| usd).sum();
    assert_eq!(sum, day.rest.values().copied().sum());
}

#[test]
fn a_day_is_written_again_only_if_its_bill_changes_or_closes() {
    let mut world = world();
    let first = rows(&world);
    assert!(!first.is_empty());
    world.memory.costs.add(&first);
    world.finished.clear();
    world.now = at(3_600);
    assert!(rows(&world).is_empty(), "the bill is the same");
    set_bill(&mut world, 10_000_002);
    let again = rows(&world);
    assert!(
        again
            .iter()
            .all(|row| row.evaluated_at > first[0].evaluated_at)
    );
    let sum: Usd = again.iter().map(|row| row.cost).sum();
    assert_eq!(sum, usd(10_000_002));
    // An open day is written again when it closes.
    let mut open = again;
    open.iter_mut().for_each(|row| row.is_closed = false);
    world.memory.costs = WrittenCosts::default();
    world.memory.costs.add(&open);
    assert!(!rows(&world).is_empty());
}

#[test]
fn a_bill_without_a_part_replaces_a_closed_day_only_if_it_is_larger() {
    let mut world = world();
    let first = rows(&world);
    world.memory.costs.add(&first);
    set_bill(&mut world, 4_800_000);
    world.inventory.gaps = vec![Gap::new(BY_SERVICE, "throttled")];
    assert!(rows(&world).is_empty());
    world.inventory.gaps.clear();
    assert!(!rows(&world).is_empty());
    // The costs by resource of an account may lack in every sweep.
    world.inventory.gaps = vec![Gap::new("account 000000000001 bill by resource", "off")];
    assert!(rows(&world).is_empty());
    set_bill(&mut world, 10_000_002);
    assert!(!rows(&world).is_empty());
}

#[test]
fn a_day_whose_hours_are_partly_forgotten_is_not_written_again() {
    let mut world = world();
    let first = rows(&world);
    world.memory.costs.add(&first);
    let midnight = coverage::of_day("2026-10-02").expect("a day").from;
    // A correction of the bill arrives on the last day that knows all hours, and later.
    set_bill(&mut world, 10_000_002);
    world.now = midnight + Duration::from_secs(24 * 3600 - 1);
    assert!(!rows(&world).is_empty());
    world.now = midnight + Duration::from_secs(24 * 3600);
    assert!(rows(&world).is_empty());
}

#[test]
fn the_smallest_amounts_of_a_day_are_combined_and_still_add_up() {
    let world = World::default();
    let facts = world.facts();
    let key = |n: usize| (Some(node(1)), Some(n), CostUse::Task);
    let count = MAX_DAY_ROWS + 5;
    let sums: BTreeMap<RowKey, Usd> = (0..count).map(|n| (key(n), usd(n as i64 + 1))).collect();
    let written = WrittenDay {
        billed: usd(1),
        is_closed: true,
    };
    let day: Date = DAY.parse().expect("a day");
    let records = of_day(
        &facts,
        (day, written),
        &sums,
        (&BTreeMap::new(), &BTreeMap::new()),
    );
    assert_eq!(records.len(), MAX_DAY_ROWS + 1);
    let last = records.last().expect("a row");
    assert_eq!((last.combined_rows, last.cost), (5, usd(15)));
    let sum: Usd = records.iter().map(|row| row.cost).sum();
    assert_eq!(sum, sums.values().copied().sum());
}

#[test]
fn a_sweep_writes_a_few_days_and_the_next_one_the_others() {
    let mut world = World::with([instance(1)]);
    let days = (10..=18).map(|day| (format!("2026-09-{day}"), usd(day)));
    let by_day = days.collect();
    world.bill.insert(node(1), ResourceCost { by_day });
    let mut seen = BTreeSet::new();
    for sweep in 0..3_u64 {
        world.now = at(sweep * 600);
        let rows = rows(&world);
        let days: BTreeSet<Date> = rows.iter().map(|row| row.day).collect();
        assert!(days.len() <= MAX_DAYS && days.is_disjoint(&seen));
        seen.extend(days);
        world.memory.costs.add(&rows);
    }
    assert_eq!(seen.len(), 9);
}
