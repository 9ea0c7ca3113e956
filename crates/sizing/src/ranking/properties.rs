//! Guarantees of a ranking for arbitrary steps, limits and prices.

use std::collections::BTreeSet;
use std::time::Duration;

use ebb_catalog::catalog::Catalogue;
use ebb_catalog::machine_type::{Architecture, Devices};
use ebb_telemetry::identity::Region;
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::units::{Bytes, MilliCores};
use proptest::prelude::*;

use crate::cheapest_type::usable;
use crate::ranking::offer::{Market, ObservedTasks};
use crate::work::{Phase, Work};

use super::*;

/// A step by its cores, memory in GiB, seconds, tasks at once and bytes to disk.
type Made = (u64, u64, u64, u32, u64);

fn made() -> impl Strategy<Value = Made> {
    let bytes = 0_u64..2_000_000_000_000;
    (1_u64..32, 1_u64..128, 1_u64..100_000, 1_u32..50, bytes)
}

fn region() -> &'static Region {
    let mut all = Catalogue::built_in().regions();
    all.find(|r| r.as_str() == "us-east-1")
        .expect("it is sold there")
}

fn sold() -> Vec<Offer<'static>> {
    let types = Catalogue::built_in().types_in(region());
    types
        .map(|(spec, per_hour)| Offer {
            spec,
            region: region(),
            market: Market::OnDemand,
            per_hour,
            zones: None,
        })
        .collect()
}

fn ranked(
    made: Made,
    times: u64,
    offers: Vec<Offer<'static>>,
    limits: &Limits,
) -> Ranking<'static> {
    let (cores, gib, seconds, at_once, bytes) = made;
    let m5 = InstanceType::new("m5.24xlarge").expect("a type");
    let work = Work {
        phases: vec![Phase {
            cores: MilliCores::cores(cores),
            wall: Duration::from_secs(seconds * times),
        }],
        disk: Some(Bytes(bytes * times)),
        ..Work::default()
    };
    let observed_tasks = [ObservedTasks {
        work: &work,
        on: Catalogue::built_in().spec(&m5).expect("it is known"),
        among_others: true,
        runs: 1,
    }];
    let step = Step {
        seen: &observed_tasks,
        cores: MilliCores::cores(cores * times),
        memory: Bytes::gib(gib * times),
        at_once,
        home: region(),
        moved: None,
        committed: None,
    };
    rank(&step, offers, limits, &Speeds::default())
}

fn limits() -> impl Strategy<Value = Limits> {
    let disk = prop::option::of(1_u64..2_000);
    let mbps = || prop::option::of(100_u32..20_000);
    (any::<bool>(), disk, mbps(), mbps(), any::<bool>()).prop_map(
        |(arm, disk, network, ebs, gpu)| Limits {
            architectures: BTreeSet::from([match arm {
                true => Architecture::Arm64,
                false => Architecture::X86_64,
            }]),
            local_disk: disk.map(Bytes::gib),
            network_mbps: network,
            ebs_mbps: ebs,
            gpu: gpu.then(|| Devices {
                count: 1,
                name: "T4".to_owned(),
                memory: None,
            }),
            ..Limits::default()
        },
    )
}

fn x86() -> Limits {
    Limits {
        architectures: BTreeSet::from([Architecture::X86_64]),
        ..Limits::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_constraint_is_never_broken(made in made(), limits in limits()) {
        let ranking = ranked(made, 1, sold(), &limits);
        for ranked in &ranking.ranked {
            let spec = ranked.offer.spec;
            prop_assert!(limits.architectures.contains(&spec.architecture));
            prop_assert!(u64::from(spec.vcpus) >= made.0);
            prop_assert!(usable(spec.memory) >= Bytes::gib(made.1));
            prop_assert!(spec.local_disk >= limits.local_disk);
            prop_assert!(spec.network_baseline_mbps >= limits.network_mbps);
            prop_assert!(spec.ebs_baseline_mbps >= limits.ebs_mbps);
            let gpu = spec.gpus.as_ref().map(|gpus| gpus.name.clone());
            prop_assert_eq!(gpu, limits.gpu.as_ref().map(|gpu| gpu.name.clone()));
            let held = u64::from(ranked.runs_a_machine);
            prop_assert!(held <= u64::from(made.3));
            prop_assert!(held * made.0 <= u64::from(spec.vcpus));
            prop_assert!(held * Bytes::gib(made.1).0 <= usable(spec.memory).0);
        }
        let left_out: usize = ranking.left_out.values().sum();
        prop_assert_eq!(ranking.ranked.len() + left_out, sold().len());
    }

    #[test]
    fn doubling_all_usage_never_makes_the_cheapest_cheaper(made in made()) {
        let once = ranked(made, 1, sold(), &x86());
        let twice = ranked(made, 2, sold(), &x86());
        if let (Some(once), Some(twice)) = (once.ranked.first(), twice.ranked.first()) {
            prop_assert!(twice.usd >= once.usd, "{once:?} {twice:?}");
        }
    }

    #[test]
    fn dearer_never_comes_before_cheaper_when_all_else_is_equal(
        made in made(), prices in prop::collection::vec(1_000_i64..5_000_000, 2..20),
    ) {
        let all = sold();
        let mut types = all.iter().filter(|offer| offer.spec.name.as_str() == "m6i.32xlarge");
        let one = *types.next().expect("it is sold");
        let offers = prices.iter().map(|micros| Offer {
            per_hour: UsdPerHour::from_micros(*micros),
            ..one
        });
        let ranking = ranked(made, 1, offers.collect(), &x86());
        let order = ranking.ranked.iter().map(|ranked| ranked.offer.per_hour);
        prop_assert!(order.is_sorted());
    }

    #[test]
    fn the_order_of_offers_changes_nothing(made in made()) {
        let (there, mut back) = (sold(), sold());
        back.reverse();
        prop_assert_eq!(ranked(made, 1, there, &x86()), ranked(made, 1, back, &x86()));
    }
}
