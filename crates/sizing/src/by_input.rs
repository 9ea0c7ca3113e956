//! Memory by the size of the input, if the input explains the memory of past tasks.

use ebb_model::advice::sized_request::SizedInput;
use ebb_model::policy::sizing::SizingPolicy;
use ebb_model::step_profile::sample::Sample;
use ebb_telemetry::units::{Bytes, Share};

use crate::memory::{learned, run};
use crate::need::with_reserve;
use crate::sample::in_steps;

/// Minimum correlation of the logarithms of input and need. With a smaller correlation the input
/// does not explain the need.
const TOGETHER: f64 = 0.5;

/// The memory for the smallest input must be at most this share of the memory for the largest.
/// Otherwise a single size is simpler.
const MUCH_LESS: Share = Share::from_ppm(800_000);

/// Memory sizes at the quartiles and the maximum of the observed inputs. A larger input never gets
/// less memory. Empty with too few tasks, with an unknown input, or if inputs explain too little.
pub(crate) fn by_input(samples: &[Sample], policy: &SizingPolicy) -> Vec<SizedInput> {
    let runs: Option<Vec<run::Run>> = samples.iter().map(run).collect();
    let enough = samples.len() >= policy.confident_samples as usize;
    let Some(runs) = runs.filter(|runs| enough && go_together(runs)) else {
        return Vec::new();
    };
    let mut inputs: Vec<Bytes> = runs.iter().filter_map(|run| run.input).collect();
    inputs.sort();
    let history = learned(runs.clone(), policy);
    let mut sizes: Vec<SizedInput> = Vec::new();
    for quarter in 1..=4 {
        let Some(input) = inputs.get(inputs.len() * quarter / 4 - 1) else {
            continue;
        };
        let Ok(advice) = history.advise(Some(*input)) else {
            return Vec::new();
        };
        let size = in_steps(u128::from(advice.first().0));
        // A model of needs without scatter leaves no reserve.
        let runs_up_to_input = runs.iter().filter(|run| run.input <= Some(*input));
        let peak = runs_up_to_input
            .map(|run| run.peak)
            .max()
            .unwrap_or_default();
        let size = size.max(with_reserve(peak));
        let memory = sizes.last().map_or(size, |last| last.memory.max(size));
        if sizes.last().is_none_or(|last| last.input < *input) {
            sizes.push(SizedInput {
                input: *input,
                memory,
            });
        }
    }
    let least = sizes.first().zip(sizes.last());
    let least = least.and_then(|(least, most)| Share::from_parts(least.memory.0, most.memory.0));
    match least.is_some_and(|share| share <= MUCH_LESS) {
        true => sizes,
        false => Vec::new(),
    }
}

fn run(sample: &Sample) -> Option<run::Run> {
    Some(run::Run {
        input: Some(sample.input?),
        peak: sample.peak_memory?.bytes,
        wall: sample.wall,
    })
}

fn go_together(runs: &[run::Run]) -> bool {
    let log = |bytes: Bytes| (bytes.0.max(1) as f64).ln();
    let points = runs
        .iter()
        .filter_map(|run| Some((log(run.input?), log(run.peak))));
    let points: Vec<(f64, f64)> = points.collect();
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let sum = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
    let together = sum(&|p| (p.0 - x) * (p.1 - y));
    let apart = sum(&|p| (p.0 - x).powi(2)) * sum(&|p| (p.1 - y).powi(2));
    apart > 0.0 && together / apart.sqrt() >= TOGETHER
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use ebb_telemetry::step::{MemorySource, PeakMemory};

    #[test]
    fn sizes_follow_the_input_where_it_explains_the_peaks_and_only_there() {
        let check = |count: u64, peak_mib: fn(u64) -> u64, expect: usize| {
            let sample = |n: u64| Sample {
                peak_cores: None,
                peak_memory: Some(PeakMemory {
                    bytes: Bytes::mib(peak_mib(n)),
                    source: MemorySource::CgroupSampled,
                }),
                wall: Duration::from_secs(600),
                input: Some(Bytes::mib(100 + n * 7_919 % 4_000)),
                ..Sample::default()
            };
            let samples: Vec<Sample> = (0..count).map(sample).collect();
            let sizes = by_input(&samples, &SizingPolicy::default());
            assert_eq!(sizes.len(), expect, "{sizes:?}");
            assert!(sizes.is_sorted_by(|a, b| a.input < b.input && a.memory <= b.memory));
            let holds = |sample: &Sample| {
                let sized = sizes.iter().find(|sized| Some(sized.input) >= sample.input);
                sized.map(|sized| sized.memory) >= sample.peak_memory.map(|peak| peak.bytes)
            };
            let held = samples.iter().filter(|sample| holds(sample)).count();
            assert!(expect == 0 || held == samples.len(), "{held}");
        };
        let follows = |n: u64| 1_000 + 2 * (n * 7_919 % 4_000);
        check(60, follows, 4);
        check(19, follows, 0);
        check(60, |n| 4_000 + n * 37 % 900, 0);
        check(60, |_| 4_000, 0);
    }

    #[test]
    fn an_unknown_input_explains_nothing() {
        let mut samples = Vec::new();
        for n in 0..40 {
            samples.push(Sample {
                peak_cores: None,
                peak_memory: Some(PeakMemory {
                    bytes: Bytes::mib(100 * (n + 1)),
                    source: MemorySource::CgroupSampled,
                }),
                wall: Duration::from_secs(600),
                input: (n > 0).then(|| Bytes::mib(n + 1)),
                ..Sample::default()
            });
        }
        assert_eq!(by_input(&samples, &SizingPolicy::default()), []);
    }
}
