//! How well the observed tasks predict a task of another run and another sample.
//!
//! Tasks of one pipeline run share its inputs. Tasks of one sample are often parts of the same
//! file, so that 21 tasks may contain no more information than one. The spread of peaks is
//! therefore divided into three parts: between runs, between samples of a run, and between tasks of
//! a sample. Two results follow from these parts. The first is the equivalent number of independent
//! tasks. The second is the size that the next task of a new run exceeds with a given chance.
//!
//! Source: nested analysis of variance with effective sample size (design effect), Kish, "Survey
//! Sampling", 1965; degrees of freedom by Satterthwaite, 1946.

use std::collections::{BTreeMap, BTreeSet};

use ebb_model::advice::sized_request::EstimateBasis;
use ebb_model::step_profile::sample::Sample;
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::sample::MEMORY_STEP;

/// Assumed standard deviations of the logarithm of a peak, until the data show others: 6 % between
/// runs, 10 % between samples, 5 % between tasks of a sample. For equal inputs on seven machines,
/// public traces differ by 4 % between runs on average, and by 13 % for one step in ten. Different
/// inputs add to the difference.
const ASSUMED: Parts<f64> = Parts {
    run: 0.06,
    sample: 0.10,
    task: 0.05,
};

/// The weight of the assumption, in degrees of freedom.
const ASSUMED_FREEDOM: f64 = 3.0;

/// The assumed share of the spread that is between runs, until several runs were observed.
const ASSUMED_OF_RUNS: f64 = 0.2;

/// The assumed share of the remaining spread that is between samples, until several tasks of one
/// sample were observed.
const ASSUMED_OF_SAMPLES: f64 = 0.5;

/// One value for each part of the spread.
#[derive(Debug, Clone, Copy)]
struct Parts<T> {
    run: T,
    sample: T,
    task: T,
}

/// The spread of the logarithms of peaks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spread {
    mean: f64,
    /// Variance of a task of a new run and a new sample around the mean.
    predictive: f64,
    freedom: f64,
    basis: EstimateBasis,
}

impl Spread {
    /// `None` without a known peak. Peaks below the smallest step of requests count as that step,
    /// because smaller differences do not matter.
    pub(crate) fn from_samples(samples: &[Sample]) -> Option<Self> {
        let peaks: Vec<(Cell, f64)> = samples
            .iter()
            .enumerate()
            .filter_map(|(index, sample)| {
                let peak = sample.peak_memory?.bytes.max(MEMORY_STEP);
                Some((Cell::new(sample, index), (peak.0 as f64).ln()))
            })
            .collect();
        if peaks.is_empty() {
            return None;
        }
        let cells = means(peaks.iter().map(|(cell, log)| (*cell, *log)));
        let runs = means(cells.iter().map(|(cell, group)| (cell.run, group.mean())));
        let mean = runs.values().map(Group::mean).sum::<f64>() / runs.len() as f64;
        let counts = Parts {
            run: runs.len() as f64,
            sample: distinct_samples(&peaks) as f64,
            task: peaks.len() as f64,
        };
        let variances = observed_variances(&peaks, &cells, &runs, mean);
        let terms = [
            (variances.run, ASSUMED.run, counts.run),
            (variances.sample, ASSUMED.sample, counts.sample),
            (variances.task, ASSUMED.task, counts.task),
        ];
        let terms = terms.map(|(variance, assumed, count)| {
            let (value, freedom) = variance.weighed(assumed);
            (value * (1.0 + 1.0 / count), freedom)
        });
        let predictive: f64 = terms.iter().map(|(term, _)| term).sum();
        let by_freedom: f64 = terms.iter().map(|(term, f)| term * term / f).sum();
        let count = |n: f64| n.round().min(f64::from(u32::MAX)) as u32;
        Some(Self {
            mean,
            predictive,
            freedom: predictive * predictive / by_freedom,
            basis: EstimateBasis {
                tasks: count(counts.task),
                samples: count(counts.sample),
                runs: count(counts.run),
                effective_tasks_millis: count(effective_tasks(counts, variances) * 1e3),
            },
        })
    }

    /// The basis of the spread.
    pub(crate) fn basis(&self) -> EstimateBasis {
        self.basis
    }

    /// The size in bytes that a task of a new run and a new sample exceeds with this chance.
    pub(crate) fn exceeded_by(&self, chance: f64) -> f64 {
        let quantile = match self.distribution() {
            Some(t) => t.inverse_cdf(1.0 - chance.clamp(1e-6, 1.0 - 1e-6)),
            None => 0.0,
        };
        (self.mean + quantile * self.predictive.sqrt()).exp()
    }

    fn distribution(&self) -> Option<StudentsT> {
        StudentsT::new(0.0, 1.0, self.freedom).ok()
    }
}

/// The run and the sample of a task; each task without a known sample is a sample of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    run: Option<u64>,
    sample: Result<u64, usize>,
}

impl Cell {
    fn new(sample: &Sample, index: usize) -> Self {
        Self {
            run: sample.pipeline_run,
            sample: sample.sample.ok_or(index),
        }
    }
}

/// A sum and its number of values.
#[derive(Debug, Clone, Copy, Default)]
struct Group {
    sum: f64,
    count: f64,
}

impl Group {
    fn mean(&self) -> f64 {
        self.sum / self.count
    }
}

fn means<K: Ord>(values: impl Iterator<Item = (K, f64)>) -> BTreeMap<K, Group> {
    let mut groups: BTreeMap<K, Group> = BTreeMap::new();
    for (key, value) in values {
        let group = groups.entry(key).or_default();
        group.sum += value;
        group.count += 1.0;
    }
    groups
}

/// The number of different samples; a sample that occurs in several runs counts once.
fn distinct_samples(peaks: &[(Cell, f64)]) -> usize {
    let samples: BTreeSet<_> = peaks.iter().map(|(cell, _)| cell.sample).collect();
    samples.len()
}

/// An observed variance.
#[derive(Debug, Clone, Copy)]
struct ObservedVariance {
    value: f64,
    freedom: f64,
    /// Whether this part can be separated from the part above it. With one task for each sample,
    /// differences between tasks are differences between samples.
    is_apart: bool,
}

impl ObservedVariance {
    /// A variance from a sum of squares. `noise` is the contribution of the part below.
    fn new(squares: f64, freedom: f64, noise: f64, is_apart: bool) -> Self {
        let value = match freedom > 0.0 {
            true => (squares / freedom - noise).max(0.0),
            false => 0.0,
        };
        Self {
            value,
            freedom,
            is_apart,
        }
    }

    /// The variance weighted with the assumed one, and its degrees of freedom.
    fn weighed(self, assumed: f64) -> (f64, f64) {
        let all = ASSUMED_FREEDOM + self.freedom;
        let assumed = if self.is_apart { assumed } else { 0.0 };
        let sum = ASSUMED_FREEDOM * assumed * assumed + self.freedom * self.value;
        (sum / all, all)
    }
}

fn observed_variances(
    peaks: &[(Cell, f64)],
    cells: &BTreeMap<Cell, Group>,
    runs: &BTreeMap<Option<u64>, Group>,
    mean: f64,
) -> Parts<ObservedVariance> {
    let (n, c, r) = (peaks.len() as f64, cells.len() as f64, runs.len() as f64);
    let of_cell = |cell: &Cell| cells.get(cell).map_or(mean, Group::mean);
    let of_run = |run: &Option<u64>| runs.get(run).map_or(mean, Group::mean);
    let within = peaks.iter().map(|(cell, y)| (y - of_cell(cell)).powi(2));
    let between = cells
        .iter()
        .map(|(cell, group)| (group.mean() - of_run(&cell.run)).powi(2));
    let of_runs = runs.values().map(|group| (group.mean() - mean).powi(2));
    let task = ObservedVariance::new(within.sum(), n - c, 0.0, n > c);
    let noise = task.value * c / n;
    let sample = ObservedVariance::new(between.sum(), c - r, noise, c > r || r <= 1.0);
    let noise = sample.value * r / c;
    let run = ObservedVariance::new(of_runs.sum(), r - 1.0, noise, true);
    Parts { run, sample, task }
}

/// The number of independent tasks whose mean would be as certain, by the shares of the spread
/// between runs and between samples.
fn effective_tasks(counts: Parts<f64>, variances: Parts<ObservedVariance>) -> f64 {
    let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let below = variances.sample.value + variances.task.value;
    let weighed = |assumed: f64, observed: f64, freedom: f64| {
        (ASSUMED_FREEDOM * assumed + freedom * observed) / (ASSUMED_FREEDOM + freedom)
    };
    let run = weighed(
        ASSUMED_OF_RUNS,
        share(variances.run.value, variances.run.value + below),
        variances.run.freedom,
    );
    let sample = weighed(
        ASSUMED_OF_SAMPLES,
        share(variances.sample.value, below),
        variances.task.freedom.min(variances.sample.freedom),
    );
    let sample = (1.0 - run) * sample;
    let of_mean = run / counts.run + sample / counts.sample + (1.0 - run - sample) / counts.task;
    (1.0 / of_mean).clamp(1.0, counts.task)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use ebb_telemetry::step::{MemorySource, PeakMemory};
    use ebb_telemetry::units::Bytes;

    /// Tasks by the numbers of runs, of samples in each run and of tasks in each sample; the peak
    /// is a function of these numbers.
    fn tasks(
        runs: u64,
        samples: u64,
        tasks: u64,
        mib: impl Fn(u64, u64, u64) -> u64,
    ) -> Vec<Sample> {
        let mut all = Vec::new();
        for run in 0..runs {
            for sample in 0..samples {
                for task in 0..tasks {
                    all.push(Sample {
                        peak_memory: Some(PeakMemory {
                            bytes: Bytes::mib(mib(run, sample, task)),
                            source: MemorySource::ProcessesSampled,
                        }),
                        wall: Duration::from_secs(60),
                        pipeline_run: Some(run),
                        sample: Some(sample),
                        ..Sample::default()
                    });
                }
            }
        }
        all
    }

    fn spread(samples: &[Sample]) -> Spread {
        Spread::from_samples(samples).expect("peaks")
    }

    #[test]
    fn tasks_of_one_sample_count_as_little_more_than_one() {
        let check = |runs, samples, of_each, least: f64, most: f64| {
            let all = tasks(runs, samples, of_each, |_, _, _| 4_000);
            let basis = spread(&all).basis();
            assert_eq!(u64::from(basis.tasks), runs * samples * of_each);
            assert_eq!((basis.runs, basis.samples), (runs as u32, samples as u32));
            let effective = basis.effective_tasks();
            assert!(
                (least..=most).contains(&effective),
                "{runs} {samples} {of_each}: {effective}"
            );
        };
        check(1, 1, 1, 1.0, 1.0);
        check(1, 1, 21, 1.0, 2.0);
        check(1, 8, 1, 3.0, 4.0);
        check(1, 100, 1, 4.0, 5.0);
        // The same ten samples, ten times.
        check(10, 10, 1, 10.0, 20.0);
    }

    #[test]
    fn the_size_shrinks_towards_the_peaks_as_runs_and_samples_are_added() {
        let size = |runs, samples, of_each| {
            let all = tasks(runs, samples, of_each, |_, _, _| 4_000);
            spread(&all).exceeded_by(0.01) / Bytes::mib(4_000).0 as f64
        };
        let sizes = [size(1, 1, 3), size(1, 8, 1), size(3, 8, 1), size(20, 8, 1)];
        assert!(sizes.is_sorted_by(|a, b| a > b), "{sizes:?}");
        assert!(sizes[0] < 2.0 && sizes[3] < 1.1, "{sizes:?}");
    }

    #[test]
    fn runs_that_differ_widen_the_size_more_than_tasks_that_differ() {
        let between_runs = tasks(3, 10, 1, |run, _, _| 2_000 + 2_000 * run);
        let between_tasks = tasks(3, 10, 1, |_, sample, _| 2_000 + 444 * sample);
        let size = |samples: &[Sample]| spread(samples).exceeded_by(0.01);
        assert!(size(&between_runs) > 1.5 * size(&between_tasks));
    }

    #[test]
    fn a_size_is_exceeded_as_often_as_stated() {
        // Sample means 20 % apart, runs 10 %: drawn by a fixed generator.
        let mut random = fastrand::Rng::with_seed(7);
        let mut normal = move || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        let (mut exceeded, mut all) = (0, 0);
        for _ in 0..400 {
            let mut drawn: Vec<Sample> = Vec::new();
            let mut held_out = Vec::new();
            for run in 0..6_u64 {
                let of_run = 0.1 * normal();
                for sample in 0..6 {
                    let log = 9.0 + of_run + 0.2 * normal();
                    let mib = log.exp().round() as u64;
                    match run {
                        5 => held_out.push(Bytes::mib(mib)),
                        _ => drawn.extend(tasks(1, 1, 1, |_, _, _| mib).into_iter().map(|s| {
                            Sample {
                                pipeline_run: Some(run),
                                sample: Some(run * 6 + sample),
                                ..s
                            }
                        })),
                    }
                }
            }
            let size = spread(&drawn).exceeded_by(0.05);
            exceeded += held_out.iter().filter(|b| b.0 as f64 > size).count();
            all += held_out.len();
        }
        let share = exceeded as f64 / all as f64;
        assert!((0.02..=0.07).contains(&share), "{share}");
    }
}
