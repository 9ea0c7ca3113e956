//! Tests of advice for pipelines, environments and nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_catalog::catalog::Catalogue;
use ebb_catalog::spot_terms::SpotTerms;
use ebb_model::advice::group::Fleet;
use ebb_model::confidence::Level;
use ebb_model::inventory::batch::ComputeEnvironment;
use ebb_model::inventory::batch::container_instances::ContainerInstance;
use ebb_model::inventory::commitments::Commitment;
use ebb_model::inventory::instance::Market;
use ebb_model::inventory::spot_market::SpotScore;
use ebb_sizing::cheapest_type::usable;
use ebb_telemetry::identity::{BootId, InstanceType};
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::step::{MemorySource, PeakMemory, PlacedStep, StepEnd, StepId, StepKind};
use ebb_telemetry::tags::PIPELINE_TAG;
use ebb_telemetry::testing::{at, clock, node, placed_step};
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores};

use crate::testing::{World, instance, region, requested};

use super::*;

const HOUR: u64 = 3_600;

fn kind(name: &str) -> InstanceType {
    InstanceType::new(name).expect("a type")
}

/// A task of 30 minutes that starts at `begin` on node `n` and uses `cores` all the time.
fn run(n: u8, name: &str, begin: u64, (cores, gib): (u64, u64)) -> PlacedStep {
    let mut run = placed_step(n, 0);
    let end = begin + HOUR / 2;
    run.boot = BootId::new(format!("boot-{n}")).expect("a boot id");
    (run.started_at, run.observed_at) = (at(begin), at(end));
    run.last_progress_at = run.observed_at;
    let usage = &mut run.usage;
    usage.id = StepId {
        kind: StepKind::Container,
        key: format!("{name}-{begin}-{n}"),
    };
    usage.name = name.to_owned();
    (usage.started, usage.observed) = (clock(begin), clock(end));
    usage.last_progress = usage.observed;
    usage.cpu = CpuTime::from_millis(cores * HOUR / 2 * 1_000);
    usage.peak_cores = Some(MilliCores::cores(cores));
    usage.peak_memory = Some(PeakMemory {
        bytes: Bytes::gib(gib),
        source: MemorySource::CgroupSampled,
    });
    run
}

/// Four m5.4xlarge, each with 24 consecutive tasks of `align` that request the whole machine. Small
/// `qc` tasks run on the first machine at the same time.
fn world() -> World {
    let machines = (1..=4).map(|n| {
        let mut machine = instance(n);
        machine.instance_type = kind("m5.4xlarge");
        machine
            .tags
            .insert(PIPELINE_TAG.to_owned(), "rna".to_owned());
        machine
    });
    let mut world = World::with(machines);
    for turn in 0..24 {
        for n in 1..=4 {
            let mut align = run(n, "align", turn * HOUR / 2, (2, 4));
            align.usage.requested = requested(15, 48);
            world.finished.push(align);
        }
        let mut qc = run(1, "qc", turn * HOUR / 2, (1, 1));
        qc.usage.requested = requested(1, 2);
        world.finished.push(qc);
    }
    world.now = at(12 * HOUR + 60);
    world
}

fn pipeline(world: &World) -> GroupAdvice {
    let targets = world.evaluate().targets;
    let [only] = &targets.pipelines[..] else {
        panic!("one pipeline: {targets:?}")
    };
    only.clone()
}

fn together(fleet: &Fleet) -> BTreeMap<&str, u32> {
    let all = fleet.together.iter();
    all.map(|one| (one.step.as_str(), one.runs)).collect()
}

#[test]
fn a_pipeline_is_told_with_what_it_costs_would_cost_and_how_it_packs() {
    let advice = pipeline(&world());
    assert_eq!(
        (advice.name.as_str(), advice.runs, advice.refused.clone()),
        ("rna", 120, None)
    );
    let steps: Vec<_> = advice
        .steps
        .iter()
        .map(|s| (s.step.as_str(), s.runs))
        .collect();
    assert_eq!(steps, [("align", 96), ("qc", 24)]);
    let now = advice.now.as_ref().expect("its machines are known");
    // Four machines for twelve hours at 0.768 USD.
    assert_eq!(
        (now.machines, now.machine_time),
        (4, Duration::from_secs(48 * HOUR))
    );
    assert_eq!(now.usd, Usd::from_micros(48 * 768_000));
    assert_eq!(together(now), BTreeMap::from([("align", 1), ("qc", 1)]));
    assert_eq!(advice.seen_by_replayed_ppm, Some(1_000_000));
    // With the recommended requests all tasks fit on one machine at the same time.
    let resized = advice.resized.as_ref().expect("they fit");
    assert_eq!(together(resized), BTreeMap::from([("align", 4), ("qc", 1)]));
    assert_eq!(
        (resized.machines, resized.usd),
        (1, Usd::from_micros(12 * 768_000))
    );
    let best = &advice.offers[0];
    assert!(best.usd < resized.usd, "{best:?}");
    assert_eq!(advice.offers.len(), 3);
    assert!(advice.offers.is_sorted_by_key(|offer| offer.usd));
    // Twelve hours count as a day.
    let a_month = (now.usd - best.usd).micros() as f64 * 730.0 / 24.0;
    let saving = advice.saving_a_month.expect("all is known").micros() as f64;
    assert!((saving - a_month).abs() < 2.0, "{saving} {a_month}");
}

#[test]
fn what_fits_no_machine_at_once_is_not_saved_twice() {
    // Sequential tasks cannot share a machine; only a smaller machine saves money.
    let mut world = world();
    world
        .finished
        .retain(|run| run.node == node(1) && run.usage.name == "align");
    let advice = pipeline(&world);
    let resized = advice.resized.expect("they fit");
    assert_eq!(resized.usd, advice.now.expect("known").usd);
    let best = &advice.offers[0];
    assert_eq!(together(best), BTreeMap::from([("align", 1)]));
    let spec = Catalogue::built_in()
        .spec(&best.instance_type)
        .expect("known");
    assert!(
        spec.vcpus >= 2 && usable(spec.memory) >= Bytes::gib(4),
        "{best:?}"
    );
}

#[test]
fn why_no_more_is_told_is_said() {
    let check = |change: fn(&mut World), expect: &str| {
        let mut world = world();
        change(&mut world);
        let advice = pipeline(&world);
        let refused = advice.refused.as_deref().unwrap_or_default();
        assert!(refused.contains(expect), "{refused}");
        assert_eq!(advice.saving_a_month, None);
    };
    check(
        |world| {
            for run in &mut world.finished {
                run.usage.requested = Default::default();
                run.usage.peak_memory = None;
            }
        },
        "the cores and memory that align requests or needs",
    );
    check(
        |world| {
            for machine in world.inventory.instances.values_mut() {
                machine.market = Market::Spot;
            }
        },
        "fewer than 3 instance types that fit all of its steps have a known spot price",
    );
    check(
        |world| {
            for machine in world.inventory.instances.values_mut() {
                machine.instance_type = kind("q9.large");
            }
        },
        "instance type q9.large is not in the catalogue",
    );
    // Machine time far below the time that the tasks on them need.
    check(
        |world| {
            for run in &mut world.finished {
                run.node = node(1);
                run.boot = BootId::new("boot-1").expect("a boot id");
            }
        },
        "simulated machine hours differ too much",
    );
}

#[test]
fn a_move_that_leaves_a_commitment_unused_saves_a_pipeline_nothing() {
    let saving = |family: &str, others: u8| {
        let mut world = world();
        world.inventory.markets.commitments.push(Commitment {
            id: "plan".to_owned(),
            region: Some(region()),
            family: Some(family.to_owned()),
            per_hour: UsdPerHour::from_micros(768_000),
            until: None,
            used: None,
        });
        for n in 0..others {
            let mut other = instance(100 + n);
            other.instance_type = kind("m5.24xlarge");
            world.inventory.instances.insert(other.id.clone(), other);
        }
        pipeline(&world).saving_a_month.expect("all is known")
    };
    assert!(saving("c5", 0) > Usd::ZERO);
    assert!(saving("m5", 0) <= Usd::ZERO);
    // Other machines use the commitment up, so the freed part is a saving.
    assert!(saving("m5", 3) > Usd::ZERO);
}

/// The machines of the world as spot, with the given types at a percentage of their list price.
fn on_spot(types: &[&str], percent: u64) -> World {
    let mut world = world();
    for machine in world.inventory.instances.values_mut() {
        machine.market = Market::Spot;
    }
    let spot = world.inventory.markets.spot.entry(region()).or_default();
    for name in types {
        let list = Catalogue::built_in().on_demand(&region(), &kind(name));
        let terms = SpotTerms {
            per_hour: list.expect("it is sold").part(percent, 100),
            as_of: None,
            taken_back_ppm: Some(50_000),
            taken_back_above_ppm: None,
            own: None,
        };
        spot.insert(kind(name), terms);
    }
    world
}

#[test]
fn what_runs_on_spot_stays_there() {
    let types = ["m5.4xlarge", "m7i.4xlarge", "r7i.4xlarge", "m7a.4xlarge"];
    let advice = pipeline(&on_spot(&types, 40));
    let now = advice.now.as_ref().expect("its machines are known");
    // Without a bill the price is the spot price, 40 % of 0.768 USD.
    assert_eq!(
        (now.market, now.usd),
        (Market::Spot, Usd::from_micros(48 * 307_200))
    );
    assert!(advice.saving_a_month.is_some() && advice.refused.is_none());
    let markets = |advice: &GroupAdvice| -> Vec<Market> {
        advice.offered().iter().map(|offer| offer.market).collect()
    };
    assert!(markets(&advice).len() >= 3);
    assert!(
        markets(&advice)
            .iter()
            .all(|market| *market == Market::Spot)
    );
    // The group stays on spot even if on-demand costs less.
    let dear = pipeline(&on_spot(&types, 300));
    assert!(dear.offers[0].usd < dear.offered()[0].usd);
    assert!(markets(&dear).iter().all(|market| *market == Market::Spot));
    // Two spot types are too few for advice.
    let few = pipeline(&on_spot(&types[..2], 40));
    assert!(few.offered().is_empty() && few.saving_a_month.is_none());
}

/// The machines of the world as members of a Batch environment.
fn in_batch(world: &mut World) {
    let cluster = "arn:aws:ecs:us-east-1:1:cluster/rna".to_owned();
    let batch = &mut world.inventory.batch;
    batch.environments.push(ComputeEnvironment {
        cluster_arn: Some(cluster.clone()),
        instance_types: vec!["m5".to_owned()],
        allocation: Some("BEST_FIT_PROGRESSIVE".to_owned()),
        kind: Some("EC2".to_owned()),
        ..ComputeEnvironment::new("rna-env", region())
    });
    for id in world.inventory.instances.keys() {
        let joined = ContainerInstance::new(id.clone(), &cluster, region());
        batch
            .container_instances
            .insert(format!("arn:{id}"), joined);
    }
}

#[test]
fn an_environment_is_told_with_what_it_may_start_and_spot_with_three_types_or_none() {
    let advise_on = |types: &[&str], score: Option<SpotScore>| {
        let mut world = world();
        in_batch(&mut world);
        world.inventory.markets.scores.extend(score);
        let spot = world.inventory.markets.spot.entry(region()).or_default();
        for name in types {
            let list = Catalogue::built_in().on_demand(&region(), &kind(name));
            let terms = SpotTerms {
                per_hour: list.expect("it is sold").part(20, 100),
                as_of: None,
                taken_back_ppm: Some(50_000),
                taken_back_above_ppm: None,
                own: None,
            };
            spot.insert(kind(name), terms);
        }
        let targets = world.evaluate().targets;
        let [only] = &targets.environments[..] else {
            panic!("one environment: {targets:?}")
        };
        only.clone()
    };
    let types = ["m7i.4xlarge", "r7i.4xlarge", "m7a.4xlarge", "r7a.4xlarge"];
    let many = advise_on(&types, None);
    assert_eq!((many.name.as_str(), many.runs), ("rna-env", 120));
    assert_eq!(
        (&many.allowed[..], many.allocation.as_deref()),
        (&["m5".to_owned()][..], Some("BEST_FIT_PROGRESSIVE"))
    );
    assert!(many.spot.len() >= 3, "{:?}", many.spot);
    for offer in many.offered() {
        assert_eq!(offer.market, Market::Spot);
        assert!(offer.usd < many.offers[0].usd);
    }
    let few = advise_on(&types[..2], None);
    assert!(few.spot.is_empty() && few.offered() == &few.offers[..]);
    assert_eq!((few.spot_wish(), many.spot_score.as_ref()), (None, None));
    let score = |score| SpotScore {
        wish: many.spot_wish().expect("three types or more"),
        score,
        at: at(0),
    };
    for (given, level) in [(9, many.confidence), (2, Level::Low)] {
        let scored = advise_on(&types, Some(score(given)));
        assert_eq!(scored.spot_score, Some(score(given)));
        assert_eq!(scored.confidence, level);
    }
}

#[test]
fn a_retry_that_no_offered_type_holds_is_an_assumption() {
    let advice = pipeline(&world());
    let types = advice.offered().iter().map(|fleet| &fleet.instance_type);
    let memory = types.map(|name| Catalogue::built_in().spec(name).expect("known").memory);
    let least = usable(memory.min().expect("offers"));
    let mut steps = advice.steps.iter();
    assert!(steps.any(|step| step.asks.memory > Some(least)), "{least}");
    let assumption = "an environment with larger machines exists for retries";
    assert!(
        advice
            .assumed
            .iter()
            .any(|text| text.starts_with(assumption))
    );
}

/// Node 1, observed for `hours` hours with 4 of its 16 cores busy.
fn watched(hours: u64, step: PlacedStep) -> World {
    let mut machine = instance(1);
    machine.instance_type = kind("m5.4xlarge");
    let mut world = World::with([machine]);
    world.watch(1, 0, hours * 60, |_, h| {
        h.hardware.cores = MilliCores::cores(16);
        h.workload.cpu = Some(CpuTime::from_millis(60_000 * 4));
    });
    world.finished.push(step);
    world
}

#[test]
fn a_node_is_held_to_what_ran_on_it() {
    let check = |hours: u64, step: PlacedStep, change: fn(&mut World), expect: Result<(), &str>| {
        let mut world = watched(hours, step);
        change(&mut world);
        let targets = world.evaluate().targets;
        let [advice] = &targets.nodes[..] else {
            panic!("one node: {targets:?}")
        };
        let got = advice.refused.as_deref();
        match expect {
            Ok(()) => assert_eq!(got, None),
            Err(why) => assert!(got.is_some_and(|reason| reason.contains(why)), "{advice:?}"),
        }
        advice.clone()
    };
    let small = run(1, "serve", 0, (5, 10));
    let advice = check(25, small.clone(), |_| (), Ok(()));
    // Its hours show a quarter of 16 cores; the peak of its task is one core more.
    assert_eq!(advice.used.cores, Some(MilliCores::cores(5)));
    assert_eq!(advice.needs.memory, Some(Bytes::gib(12)));
    for offer in &advice.offers {
        let spec = Catalogue::built_in()
            .spec(&offer.instance_type)
            .expect("known");
        assert!(
            usable(spec.memory) >= Bytes::gib(12) && spec.vcpus >= 4,
            "{offer:?}"
        );
        assert!(offer.saves_an_hour > Some(UsdPerHour::default()));
    }
    let best = advice.offers[0].saves_an_hour.expect("known").a_month();
    assert_eq!(advice.saving_a_month, Some(best));
    check(
        22,
        small.clone(),
        |_| (),
        Err("observed 23 of the required 24 hours"),
    );
    let mut unknown = small.clone();
    unknown.usage.peak_memory = None;
    check(25, unknown, |_| (), Err("cores or memory"));
    check(
        25,
        run(1, "serve", 0, (16, 59)),
        |world| {
            for machine in world.inventory.instances.values_mut() {
                machine.instance_type = kind("m7i-flex.4xlarge");
            }
        },
        Err("no cheaper instance type"),
    );
    let spot = |world: &mut World| {
        for machine in world.inventory.instances.values_mut() {
            machine.market = Market::Spot;
        }
    };
    check(25, small, spot, Err("its effective price"));
}

#[test]
fn a_node_is_offered_as_many_vcpus_as_it_needs_whatever_their_speed() {
    let check = |busy: u64, least: u32| {
        let world = watched(25, run(1, "serve", 0, (busy, 10)));
        let advice = world.evaluate().targets.nodes.remove(0);
        let needs = advice.needs.cores.expect("it was seen");
        for offer in &advice.offers {
            let spec = Catalogue::built_in().spec(&offer.instance_type);
            let vcpus = spec.expect("known").vcpus;
            let needs = needs.min(MilliCores::cores(16));
            assert!(MilliCores::cores(vcpus.into()) >= needs, "{offer:?}");
            assert!(vcpus >= least, "{offer:?}");
        }
        (needs, advice.refused)
    };
    let (needs, _) = check(10, 12);
    assert_eq!(needs, MilliCores(12_000));
    // With headroom it needs 19.2 vCPUs, but as many as now hold the same work.
    let (needs, refused) = check(16, 16);
    assert_eq!(needs, MilliCores(19_200));
    assert_eq!(refused, None);
    let lacking: [fn(&mut PlacedStep); 2] = [
        |step| step.usage.end = StepEnd::OutOfMemory,
        |step| {
            let ran = Duration::from_nanos(step.usage.cpu.0);
            step.usage.detail.run_queue = Some(ran);
        },
    ];
    for lacks in lacking {
        let mut step = run(1, "serve", 0, (16, 10));
        lacks(&mut step);
        let advice = watched(25, step).evaluate().targets.nodes.remove(0);
        assert_eq!(advice.offers, [], "{:?}", advice.refused);
    }
}

#[test]
fn steps_at_one_time_add_up_and_one_after_the_other_do_not() {
    let check = |begins: &[u64], expect: u64| {
        let mut world = watched(25, run(1, "a", 0, (1, 10)));
        for begin in begins {
            world.finished.push(run(1, "b", *begin, (1, 5)));
        }
        let advice = world.evaluate().targets.nodes.remove(0);
        assert_eq!(advice.used.memory, Some(Bytes::gib(expect)), "{begins:?}");
    };
    check(&[], 10);
    check(&[HOUR / 2], 10);
    check(&[HOUR / 4], 15);
    check(&[60, 120], 20);
}

#[test]
fn the_same_facts_give_the_same_bytes() {
    let json = || {
        let mut world = world();
        in_batch(&mut world);
        serde_json::to_string(&world.evaluate().targets).expect("it has a form")
    };
    assert_eq!(json(), json());
}
