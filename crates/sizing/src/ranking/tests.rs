//! Guarantees of a ranking, on the whole built-in catalogue.

use std::collections::BTreeSet;
use std::time::Duration;

use ebb_catalog::catalog::Catalogue;
use ebb_catalog::machine_type::{Architecture, TypeSpec};
use ebb_telemetry::identity::Region;
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::units::{Bytes, MilliCores};

use crate::cheapest_type::usable;
use crate::core_speed::Family;
use crate::ranking::misfit;
use crate::ranking::offer::{Bound, Market, ObservedTasks};
use crate::spot_risk::Interruptions;
use crate::work::{Phase, Work};

use super::*;

fn region(name: &str) -> Region {
    Region::new(name).expect("a region")
}

fn spec(name: &str) -> &'static TypeSpec {
    let name = InstanceType::new(name).expect("a type");
    Catalogue::built_in().spec(&name).expect("it is known")
}

fn work(cores: u64, seconds: u64) -> Work {
    Work {
        phases: vec![Phase {
            cores: MilliCores(cores * 1000),
            wall: Duration::from_secs(seconds),
        }],
        ..Work::default()
    }
}

fn limits() -> Limits {
    Limits {
        architectures: BTreeSet::from([Architecture::X86_64]),
        spot: true,
        ..Limits::default()
    }
}

struct Case {
    work: Work,
    on: &'static str,
    home: Region,
    moved: Option<Bytes>,
}

impl Case {
    fn new(work: Work) -> Self {
        Self {
            work,
            on: "m5.4xlarge",
            home: region("us-east-1"),
            moved: Some(Bytes(0)),
        }
    }

    fn observed_tasks(&self) -> [ObservedTasks<'_>; 1] {
        [ObservedTasks {
            work: &self.work,
            on: spec(self.on),
            among_others: true,
            runs: 1,
        }]
    }

    fn step<'a>(&'a self, observed_tasks: &'a [ObservedTasks<'a>]) -> Step<'a> {
        Step {
            seen: observed_tasks,
            cores: MilliCores::cores(4),
            memory: Bytes::gib(8),
            at_once: 1,
            home: &self.home,
            moved: self.moved,
            committed: None,
        }
    }
}

fn on_demand(regions: &[&'static str]) -> Vec<Offer<'static>> {
    let catalogue = Catalogue::built_in();
    let named = |name: &&str| catalogue.regions().find(|r| r.as_str() == *name);
    let mut offers = Vec::new();
    for region in regions.iter().filter_map(named) {
        offers.extend(catalogue.types_in(region).map(|(spec, per_hour)| Offer {
            spec,
            region,
            market: Market::OnDemand,
            per_hour,
            zones: None,
        }));
    }
    offers
}

#[test]
fn no_limit_is_ever_broken_and_the_order_is_by_dollars() {
    let case = Case::new(work(4, 3600));
    let check = |limits: &Limits, holds: &dyn Fn(&TypeSpec) -> bool| {
        let offers = on_demand(&["us-east-1", "eu-west-1"]);
        let all = offers.len();
        let ranking = rank(
            &case.step(&case.observed_tasks()),
            offers,
            limits,
            &Speeds::default(),
        );
        assert!(!ranking.ranked.is_empty());
        let left_out: usize = ranking.left_out.values().sum();
        assert_eq!(
            ranking.ranked.len() + left_out,
            all,
            "each offer has its answer"
        );
        for ranked in &ranking.ranked {
            let spec = ranked.offer.spec;
            assert!(holds(spec), "{spec:?}");
            assert!(spec.vcpus >= 4 && usable(spec.memory) >= Bytes::gib(8));
            assert!(!spec.metal && !spec.burstable);
        }
        let dollars: Vec<f64> = ranking.ranked.iter().map(|ranked| ranked.usd).collect();
        assert!(dollars.is_sorted());
    };
    check(&limits(), &|spec| {
        spec.architecture == Architecture::X86_64 && spec.gpus.is_none()
    });
    let arm = Limits {
        architectures: BTreeSet::from([Architecture::Arm64]),
        ..limits()
    };
    check(&arm, &|spec| spec.architecture == Architecture::Arm64);
    let family = Family::from_name(&spec("m6i.large").name);
    let families = Limits {
        families: Some(BTreeSet::from([family.clone()])),
        ..limits()
    };
    check(&families, &|spec| Family::from_name(&spec.name) == family);
    let disk = Limits {
        local_disk: Some(Bytes::gib(100)),
        ..limits()
    };
    check(&disk, &|spec| spec.local_disk >= Some(Bytes::gib(100)));
}

#[test]
fn a_part_of_a_gpu_does_not_stand_in_for_a_whole_one() {
    let case = Case::new(work(4, 3600));
    let observed_tasks = case.observed_tasks();
    let check = |wanted: &str, offered: &str, expect: bool| {
        let limits = Limits {
            gpu: spec(wanted).gpus.clone(),
            ..limits()
        };
        let fits = misfit::fits(&case.step(&observed_tasks), spec(offered), &limits);
        assert_eq!(fits.is_ok(), expect, "{offered} for {wanted}");
    };
    check("g6.2xlarge", "g6.2xlarge", true);
    check("g6.2xlarge", "g6.12xlarge", true);
    check("g6.2xlarge", "g6f.2xlarge", false);
    check("g6f.2xlarge", "g6.2xlarge", true);
    check("g6.2xlarge", "g4dn.2xlarge", false);
}

#[test]
fn the_same_machine_at_a_higher_price_comes_later() {
    let case = Case::new(work(4, 3600));
    let home = region("us-east-1");
    let offer = |micros: i64| Offer {
        spec: spec("m6i.xlarge"),
        region: &home,
        market: Market::OnDemand,
        per_hour: UsdPerHour::from_micros(micros),
        zones: None,
    };
    let ranking = rank(
        &case.step(&case.observed_tasks()),
        [offer(300_000), offer(200_000), offer(100_000)],
        &limits(),
        &Speeds::default(),
    );
    let prices: Vec<i64> = ranking
        .ranked
        .iter()
        .map(|ranked| ranked.offer.per_hour.0.micros())
        .collect();
    assert_eq!(prices, [100_000, 200_000, 300_000]);
}

#[test]
fn another_region_is_offered_only_when_moving_the_data_has_a_known_price() {
    let check = |moved: Option<Bytes>, other: &'static str, expect: Option<f64>| {
        let case = Case {
            moved,
            ..Case::new(work(4, 3600))
        };
        let offers = on_demand(&[other]);
        let cheapest = |step: &Step<'_>| {
            let ranking = rank(step, offers.clone(), &limits(), &Speeds::default());
            ranking.ranked.first().map(|ranked| ranked.usd)
        };
        let there = Case {
            home: region(other),
            ..Case::new(work(4, 3600))
        };
        let without_moving =
            cheapest(&there.step(&there.observed_tasks())).expect("something fits");
        let dollars = cheapest(&case.step(&case.observed_tasks())).map(|usd| usd - without_moving);
        match (dollars, expect) {
            (Some(dollars), Some(expect)) => assert!((dollars - expect).abs() < 1e-9),
            (dollars, expect) => assert_eq!(dollars, expect),
        }
    };
    check(Some(Bytes(100_000_000_000)), "us-west-2", Some(2.0));
    check(Some(Bytes(0)), "us-west-2", Some(0.0));
    check(None, "us-west-2", None);
    check(Some(Bytes(1)), "sa-east-1", None);
}

#[test]
fn spot_is_chosen_for_short_runs_and_left_for_long_ones() {
    let home = region("us-east-1");
    let often = Interruptions::from_monthly_share(0.25).expect("a share");
    let offers = [
        Offer {
            spec: spec("m6i.xlarge"),
            region: &home,
            market: Market::OnDemand,
            per_hour: UsdPerHour::from_micros(192_000),
            zones: None,
        },
        Offer {
            spec: spec("m6i.xlarge"),
            region: &home,
            market: Market::Spot(often),
            per_hour: UsdPerHour::from_micros(150_000),
            zones: None,
        },
    ];
    let first = |seconds: u64, spot: bool| {
        let case = Case::new(work(4, seconds));
        let limits = Limits { spot, ..limits() };
        let ranking = rank(
            &case.step(&case.observed_tasks()),
            offers,
            &limits,
            &Speeds::default(),
        );
        ranking.ranked[0].offer.market
    };
    assert_eq!(first(3600, true), Market::Spot(often));
    assert_eq!(first(3600 * 24 * 90, true), Market::OnDemand);
    assert_eq!(first(3600, false), Market::OnDemand);
}

#[test]
fn what_a_disk_can_carry_bounds_a_run_and_sharing_a_machine_divides_it() {
    let mut case = Case::new(work(4, 60));
    case.work.disk = Some(Bytes(1_000_000_000_000));
    let offers = || on_demand(&["us-east-1"]);
    let slow = rank(
        &case.step(&case.observed_tasks()),
        offers(),
        &limits(),
        &Speeds::default(),
    );
    let xlarge = |ranking: &Ranking<'static>| {
        let named = |r: &&Ranked<'static>| r.offer.spec.name.as_str() == "m6i.4xlarge";
        *ranking.ranked.iter().find(named).expect("it fits")
    };
    let alone = xlarge(&slow);
    assert_eq!((alone.bound, alone.runs_a_machine), (Bound::Disk, 1));
    let observed_tasks = case.observed_tasks();
    let step = Step {
        at_once: 4,
        ..case.step(&observed_tasks)
    };
    let shared = xlarge(&rank(&step, offers(), &limits(), &Speeds::default()));
    assert_eq!(shared.runs_a_machine, 4);
    assert!((shared.wall.as_secs_f64() / alone.wall.as_secs_f64() - 4.0).abs() < 1e-9);
}

#[test]
fn what_is_not_known_of_speed_is_left_out_and_counted() {
    let case = Case {
        on: "i3.xlarge",
        ..Case::new(work(4, 60))
    };
    let ranking = rank(
        &case.step(&case.observed_tasks()),
        on_demand(&["us-east-1"]),
        &limits(),
        &Speeds::default(),
    );
    assert!(ranking.ranked.is_empty());
    assert!(ranking.left_out[&Misfit::SpeedUnknown] > 100);
}
