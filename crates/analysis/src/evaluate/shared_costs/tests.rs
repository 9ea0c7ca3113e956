//! Tests of the total cost of several findings about one machine.

use ebb_catalog::spot_terms::SpotTerms;
use ebb_model::inventory::batch::job::JobStatus;
use ebb_model::inventory::storage::Volume;
use ebb_model::report::Report;
use ebb_telemetry::identity::InstanceType;
use ebb_telemetry::step::{MemorySource, PeakMemory};
use ebb_telemetry::testing::{at, node, placed_step};
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores};
use proptest::prelude::*;

use crate::testing::{World, days_ago, instance, region, requested, volume};

use super::*;

fn usd(micros: i64) -> Usd {
    Usd::from_micros(micros)
}

/// A task of a step that requests 4 cores and needs one, on node `n`.
fn oversized(world: &mut World, n: u8, run: u64, name: &str) {
    let mut step = placed_step(n, 60 + run * 10);
    step.usage.name = name.into();
    step.usage.id.key = format!("{name}-{n}-{run}");
    step.usage.requested = requested(4, 15);
    step.usage.peak_cores = Some(MilliCores(500));
    step.usage.peak_memory = Some(PeakMemory {
        bytes: Bytes::mib(500),
        source: MemorySource::CgroupSampled,
    });
    world.finished.push(step);
}

fn kinds(report: &Report) -> Vec<(&str, Usd, Usd)> {
    let each = report.findings.iter().filter_map(|finding| {
        let cost = finding.cost.as_ref()?;
        let counted = cost.in_totals().saving_a_month;
        Some((finding.kind.slug(), cost.saving_a_month, counted))
    });
    each.collect()
}

#[test]
fn an_idle_node_and_the_steps_that_ran_on_it_cost_it_once() {
    let mut world = World::with([instance(1)]);
    world.watch(1, 0, 90, |_, _| {});
    for run in 0..3 {
        oversized(&mut world, 1, run, "align");
    }
    let report = world.evaluate();
    let price = UsdPerHour::from_micros(192_000).a_month();
    let [(_, _, idle), (step, own, counted)] = kinds(&report)[..] else {
        panic!("two findings: {:?}", kinds(&report));
    };
    assert_eq!(
        (idle, step, counted),
        (price, "overprovisioned_step", Usd::ZERO)
    );
    assert!(own > Usd::ZERO);
    assert_eq!(report.totals.saving_a_month, price);
    let step = report
        .findings
        .iter()
        .find(|f| f.kind == FindingKind::OverprovisionedStep);
    let counted = step
        .and_then(|f| f.cost.as_ref())
        .and_then(|cost| cost.counted.as_ref());
    let by = counted.and_then(|counted| counted.rest_counted_by.as_deref());
    assert_eq!(
        by,
        Some(format!("idle_node/us-east-1/{}", node(1)).as_str())
    );
}

#[test]
fn a_step_saves_where_its_machines_run_for_something_else() {
    let mut world = World::with([instance(1)]);
    world.watch(1, 0, 90, |_, h| {
        h.workload.cpu = Some(CpuTime::from_millis(30_000))
    });
    for run in 0..3 {
        oversized(&mut world, 1, run, "align");
    }
    let report = world.evaluate();
    let [(_, own, counted)] = kinds(&report)[..] else {
        panic!("one finding: {:?}", kinds(&report));
    };
    assert_eq!((own, report.totals.saving_a_month), (counted, own));
}

#[test]
fn the_cost_of_a_machine_is_what_the_bill_has_when_it_does_not_run_all_day() {
    let check = |name: &str, bill: &[i64], expect: i64| {
        let mut world = World::with([instance(1)]);
        world.watch(1, 0, 90, |_, _| {});
        world.now = world.now.max(at(5_405));
        let days = &mut world.bill.entry(node(1)).or_default().by_day;
        for (n, micros) in bill.iter().enumerate().filter(|(_, micros)| **micros > 0) {
            let day = days_ago(u64::try_from(n + 2).expect("a day"));
            days.insert(day.strftime("%Y-%m-%d").to_string(), usd(*micros));
        }
        // Another machine has a cost on each day.
        let all = &mut world.bill.entry(node(9)).or_default().by_day;
        for n in 2..12 {
            all.insert(days_ago(n).strftime("%Y-%m-%d").to_string(), usd(1));
        }
        let totals = world.evaluate().totals;
        let cents = |usd: Usd| (usd.micros() + 5_000) / 10_000;
        assert_eq!(cents(totals.saving_a_month), expect, "{name}");
        assert!(Some(totals.saving_a_month) <= totals.cost_a_month);
    };
    let day = 4_800_000;
    check("it ran every day", &[day; 10], 14_600);
    // Cost on seven of the nine days after the first.
    let weekend = [day, day, day, day, 0, 0, day, day, day, day];
    check("it was off for two days", &weekend, 11_356);
    check("the bill knows it for less than a week", &[day; 5], 14_600);
}

#[test]
fn a_volume_is_saved_once() {
    let mut world = World::with([]);
    world.now = days_ago(0);
    let old = Volume {
        attached_to: vec![node(1)],
        ..volume(60, "gp2", 500)
    };
    let mut stopped = instance(1);
    stopped.state = InstanceState::Stopped;
    stopped.state_since = Some(days_ago(30));
    world.inventory.instances.insert(node(1), stopped);
    world.inventory.storage.volumes.insert(old.id.clone(), old);
    let report = world.evaluate();
    let found = kinds(&report);
    assert_eq!(found.len(), 2, "{found:?}");
    let largest = found.iter().map(|(_, own, _)| *own).max();
    assert_eq!(Some(report.totals.saving_a_month), largest, "{found:?}");
    assert_eq!(report.totals.cost_a_month, largest);
}

#[test]
fn spot_at_the_price_on_demand_is_at_most_and_no_saving() {
    let mut machine = instance(1);
    machine.market = Market::Spot;
    let mut world = World::with([machine]);
    world.watch(1, 0, 90, |_, _| {});
    let totals = world.evaluate().totals;
    assert_eq!(totals.saving_a_month, Usd::ZERO);
    assert_eq!(totals.at_most.saving_a_month, usd(140_160_000));
    assert_eq!(totals.cost_at_most_a_month, Some(usd(140_160_000)));
}

/// A machine of a random fleet: type, market, activity and tasks of steps. `billed_percent` is the
/// bill of a day in percent of its price.
#[derive(Debug, Clone)]
struct Machine {
    kind: &'static str,
    market: Market,
    state: InstanceState,
    is_busy: bool,
    billed_percent: Option<i64>,
    runs: Vec<(&'static str, u64)>,
}

fn machine() -> impl Strategy<Value = Machine> {
    let kind = prop::sample::select(vec!["m5.xlarge", "m4.xlarge", "r5.xlarge"]);
    let market = prop::sample::select(vec![Market::OnDemand, Market::OnDemand, Market::Spot]);
    let state = prop::sample::select(vec![
        InstanceState::Running,
        InstanceState::Running,
        InstanceState::Terminated,
    ]);
    let billed = prop::option::of(prop::sample::select(vec![100i64, 60, 20]));
    let run = (prop::sample::select(vec!["align", "sort"]), 0..200u64);
    let runs = prop::collection::vec(run, 0..30);
    (kind, market, state, any::<bool>(), billed, runs).prop_map(
        |(kind, market, state, is_busy, billed_percent, runs)| Machine {
            kind,
            market,
            state,
            is_busy,
            billed_percent,
            runs,
        },
    )
}

fn world(machines: &[Machine], spot_micros: i64) -> World {
    let instances = machines.iter().enumerate().map(|(n, machine)| {
        let mut instance = instance(u8::try_from(n + 1).expect("few machines"));
        instance.instance_type = InstanceType::new(machine.kind).expect("a type");
        (instance.market, instance.state) = (machine.market, machine.state);
        instance
    });
    let mut world = World::with(instances).with_job(JobStatus::Succeeded, requested(1, 1));
    for (n, machine) in machines.iter().enumerate() {
        let n = u8::try_from(n + 1).expect("few machines");
        world.watch(n, 0, 60, |_, h| {
            let millis = if machine.is_busy { 30_000 } else { 0 };
            h.workload.cpu = Some(CpuTime::from_millis(millis));
        });
        for (name, run) in &machine.runs {
            oversized(&mut world, n, *run, name);
        }
        let Some(percent) = machine.billed_percent else {
            continue;
        };
        for back in 2..12 {
            let day = days_ago(back).strftime("%Y-%m-%d").to_string();
            let a_day = usd(4_800_000 * percent / 100);
            world
                .bill
                .entry(node(n))
                .or_default()
                .by_day
                .insert(day, a_day);
        }
    }
    for kind in ["m5.xlarge", "m4.xlarge", "r5.xlarge"] {
        let terms = SpotTerms {
            per_hour: UsdPerHour::from_micros(spot_micros),
            as_of: None,
            taken_back_ppm: Some(50_000),
            taken_back_above_ppm: None,
            own: None,
        };
        let types = world.inventory.markets.spot.entry(region()).or_default();
        types.insert(InstanceType::new(kind).expect("a type"), terms);
    }
    world.now = at(86_400);
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_total_never_exceeds_what_the_fleet_costs(
        machines in prop::collection::vec(machine(), 1..6),
        spot_micros in 10_000..150_000i64,
    ) {
        let report = world(&machines, spot_micros).evaluate();
        let totals = &report.totals;
        prop_assert!(Some(totals.saving_a_month) <= totals.cost_a_month, "{totals:?}");
        let at_most = totals.at_most.saving_a_month;
        prop_assert!(Some(at_most) <= totals.cost_at_most_a_month, "{totals:?}");
        let sum: Usd = kinds(&report).iter().map(|(_, _, counted)| *counted).sum();
        prop_assert_eq!(sum, totals.saving_a_month + at_most);
        for summary in &report.nodes {
            let about_it = report.findings.iter().filter(|f| f.resource.id == summary.id);
            let costs = about_it.filter_map(|f| f.cost.as_ref());
            let counted: Usd = costs.map(|cost| cost.in_totals().saving_a_month).sum();
            let price = summary.per_hour.unwrap_or_default().a_month();
            prop_assert!(counted <= price, "{}: {counted} of {price}", summary.id);
        }
    }
}
