//! Guarantees of sizing for arbitrary tasks.

use std::time::Duration;

use ebb_model::policy::sizing::SizingPolicy;
use ebb_model::step_profile::sample::Sample;
use ebb_telemetry::step::{MemorySource, PeakMemory};
use ebb_telemetry::units::{Bytes, MilliCores};
use proptest::prelude::*;

use crate::need::{Need, need};

fn sample(milli_cores: u64, mib: u64, input: Option<u64>) -> Sample {
    Sample {
        peak_cores: Some(MilliCores(milli_cores)),
        peak_memory: Some(PeakMemory {
            bytes: Bytes::mib(mib),
            source: MemorySource::CgroupSampled,
        }),
        wall: Duration::from_secs(600),
        input: input.map(Bytes::mib),
        ..Sample::default()
    }
}

fn runs() -> impl Strategy<Value = Vec<(u64, u64, u64)>> {
    prop::collection::vec((0_u64..8_000, 1_u64..60_000, 1_u64..4_000), 1..60)
}

fn needed(runs: &[(u64, u64, u64)], times: u64) -> Need {
    let sample = |run: &(u64, u64, u64)| sample(run.0 * times, run.1 * times, Some(run.2));
    let samples: Vec<Sample> = runs.iter().map(sample).collect();
    need(&samples, None, &SizingPolicy::default())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn doubling_all_usage_never_shrinks_a_request(runs in runs()) {
        let (once, twice) = (needed(&runs, 1), needed(&runs, 2));
        prop_assert!(twice.cores >= once.cores, "{once:?} {twice:?}");
        prop_assert!(twice.memory >= once.memory, "{once:?} {twice:?}");
        let fargate_memory = |need: &Need| need.on_fargate.and_then(|pair| pair.memory);
        prop_assert!(fargate_memory(&twice).is_none() || fargate_memory(&twice) >= fargate_memory(&once));
    }

    #[test]
    fn a_size_keeps_to_its_chance_and_the_same_runs_give_the_same(runs in runs()) {
        let (once, again) = (needed(&runs, 1), needed(&runs, 1));
        prop_assert_eq!(&once, &again);
        // Equal needs of all tasks do not support a smaller chance.
        let alike = 500_000 / (u32::try_from(runs.len()).unwrap_or(u32::MAX) + 1) + 1;
        let allowed = SizingPolicy::default().oom_ppm.max(alike);
        prop_assert!(once.risk.oom_ppm.is_none_or(|ppm| ppm <= allowed));
        prop_assert!(once.risk.attempts.is_sorted());
        prop_assert!(once.risk.attempts.first() > once.memory.as_ref());
        let greatest = runs.iter().map(|run| Bytes::mib(run.1)).max();
        prop_assert!(once.memory >= greatest, "fewer than a hundred runs show no 1 %");
    }
}

/// Needs that spread by a factor, from a generator with the given seed.
fn spread(seed: u64, count: u64) -> Vec<Sample> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        // xorshift64, Marsaglia 2003.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    (0..count)
        .map(|_| {
            let (u, v): (f64, f64) = (next().max(1e-12), next());
            (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
        })
        .enumerate()
        .map(|(n, normal)| Sample {
            // Each belongs to a run of its own, so that all are independent.
            pipeline_run: Some(n as u64),
            ..sample(1_000, (4_000.0 * (0.3 * normal).exp()) as u64, None)
        })
        .collect()
}

#[test]
fn four_times_the_samples_narrow_the_interval_over_a_thousand_seeds() {
    let width = |count: u64| -> f64 {
        let of = |seed: u64| {
            let need = need(&spread(seed, count), None, &SizingPolicy::default());
            let between = need.risk.oom_between.expect("there are enough runs");
            f64::from(between.to_ppm - between.from_ppm)
        };
        (0..1_000).map(of).sum::<f64>() / 1_000.0
    };
    let (few, many) = (width(20), width(80));
    assert!(many < 0.5 * few, "{few} ppm by 20 runs, {many} by 80");
}
