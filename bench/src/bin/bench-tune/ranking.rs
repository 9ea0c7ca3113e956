//! Ranking the whole catalogue for one step.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::Duration;

use ebb_catalog::catalog::Catalogue;
use ebb_catalog::machine_type::Architecture;
use ebb_sizing::core_speed::Speeds;
use ebb_sizing::ranking::offer::{Limits, Market, ObservedTasks, Offer, Step};
use ebb_sizing::ranking::rank;
use ebb_sizing::spot_risk::Interruptions;
use ebb_sizing::work::Work;
use ebb_telemetry::identity::{InstanceType, Region};
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores};

use crate::{line, times};

const GOAL: Duration = Duration::from_millis(5);

/// Every type of every region, on demand and on spot. The spot price is a third of the on-demand
/// price.
pub(crate) fn measure() {
    let catalogue = Catalogue::built_in();
    let interruptions = Interruptions::from_monthly_share(0.1).expect("a share");
    let offers: Vec<Offer<'_>> = catalogue
        .regions()
        .flat_map(|region| catalogue.types_in(region).map(move |t| (region, t)))
        .flat_map(|(region, (spec, per_hour))| {
            let on_demand = Offer {
                spec,
                region,
                market: Market::OnDemand,
                per_hour,
                zones: None,
            };
            let spot = Offer {
                market: Market::Spot(interruptions),
                per_hour: per_hour.part(1, 3),
                ..on_demand
            };
            [on_demand, spot]
        })
        .collect();
    let seen_on = InstanceType::new("m5.4xlarge").expect("a type");
    let home = Region::new("us-east-1").expect("a region");
    let hours = |hours: u64| Duration::from_secs(hours * 3600);
    let cpu = CpuTime(hours(9).as_nanos() as u64);
    let mut work = Work::from_totals(hours(2), cpu, Some(MilliCores::cores(12))).expect("work");
    work.disk = Some(Bytes::gib(200));
    work.network = Some(Bytes::gib(20));
    let seen = [ObservedTasks {
        work: &work,
        on: catalogue.spec(&seen_on).expect("it is known"),
        among_others: false,
        runs: 20,
    }];
    let step = Step {
        seen: &seen,
        cores: MilliCores::cores(12),
        memory: Bytes::gib(24),
        at_once: 40,
        home: &home,
        moved: Some(Bytes::gib(20)),
        committed: None,
    };
    let limits = Limits {
        architectures: BTreeSet::from([Architecture::X86_64, Architecture::Arm64]),
        spot: true,
        ..Limits::default()
    };
    let speeds = Speeds::default();
    let spread = times(200, |_| {
        black_box(rank(&step, offers.iter().copied(), &limits, &speeds));
    });
    let what = format!("one step ranked over {} offers, median", offers.len());
    line(&what, spread.percentile(50), Some(GOAL));
    line("  99th percentile", spread.percentile(99), None);
}
