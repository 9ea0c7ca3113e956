//! A smaller number of cores from averages, if the peak of busy cores is unknown.
//!
//! Records of engines and schedulers contain the CPU time and the run time of a task, so only its
//! average parallelism `m`. With `n` cores, the task may have kept all of them busy for a share `m
//! / n` of the time and done nothing otherwise. That is the worst case for fewer cores. With `c`
//! cores this part takes `n / c` times as long, and the task takes `(m / n) x (n / c - 1)` longer.
//! Fewer cores are recommended only if this slowdown is within [`SizingPolicy::max_slowdown_ppm`].

use ebb_model::policy::sizing::SizingPolicy;
use ebb_model::step_profile::sample::Sample;
use ebb_telemetry::units::MilliCores;

/// Minimum run time in seconds. Shorter tasks are ignored: start-up dominates their average, and
/// their duration hardly matters.
const LEAST_SECONDS: f64 = 30.0;

/// The share of the run time that long tasks must have, so that the others do not count.
const MOST: f64 = 0.9;

/// The largest share of the requested cores that is worth a change.
const WORTH: f64 = 0.8;

/// A recommendation of fewer cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FewerCores {
    /// Whole cores.
    pub cores: MilliCores,
    /// The largest slowdown of a task, in parts per million.
    pub slowdown_ppm: u32,
}

/// The smallest whole number of cores with which no task slows down by more than the policy allows.
/// `None` if an average or the allowed cores are unknown, with too few tasks, or if the number is
/// too close to the present one.
pub fn from_averages(samples: &[Sample], policy: &SizingPolicy) -> Option<FewerCores> {
    if samples.len() < policy.min_runs as usize {
        return None;
    }
    let counted = counted(samples, policy);
    let averages: Option<Vec<Average>> = counted.into_iter().map(Average::from_sample).collect();
    let averages = averages?;
    let allowed = averages.iter().map(|one| one.allowed).fold(0.0, f64::max);
    let bound = f64::from(policy.max_slowdown_ppm) / 1e6;
    let slowest = |cores: f64| {
        averages
            .iter()
            .map(|one| one.slowdown(cores))
            .fold(0.0, f64::max)
    };
    // A configuration change for one core in twelve is not worth it.
    let worth = (allowed * WORTH).floor() as u64;
    let cores = (1..=worth).find(|cores| slowest(*cores as f64) <= bound)?;
    Some(FewerCores {
        cores: MilliCores::cores(cores),
        slowdown_ppm: (slowest(cores as f64) * 1e6).round() as u32,
    })
}

/// The long tasks, if they are enough and have most of the run time; else all tasks.
fn counted<'s>(samples: &'s [Sample], policy: &SizingPolicy) -> Vec<&'s Sample> {
    let seconds = |sample: &&Sample| sample.wall.as_secs_f64();
    let is_long = |sample: &&Sample| seconds(sample) >= LEAST_SECONDS;
    let long: Vec<&Sample> = samples.iter().filter(is_long).collect();
    let of_long: f64 = long.iter().map(seconds).sum();
    let of_all: f64 = samples.iter().map(|sample| seconds(&sample)).sum();
    match long.len() >= policy.min_runs as usize && of_long >= of_all * MOST {
        true => long,
        false => samples.iter().collect(),
    }
}

/// The mean number of busy cores of one task, and the cores that it was allowed.
struct Average {
    busy: f64,
    allowed: f64,
}

impl Average {
    fn from_sample(sample: &Sample) -> Option<Self> {
        let allowed = sample.allowed_cores?.as_cores();
        // More than allowed: the task was not limited, and used all available cores at once.
        let busy = sample.mean_cores?.as_cores();
        Some(Self {
            busy,
            allowed: allowed.max(busy),
        })
    }

    /// The largest relative slowdown with so many cores.
    fn slowdown(&self, cores: f64) -> f64 {
        let busy_share = self.busy / self.allowed.max(f64::MIN_POSITIVE);
        busy_share * (self.allowed / cores - 1.0).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn tasks(count: u64, mean_milli_cores: u64, allowed: u64) -> Vec<Sample> {
        let one = Sample {
            mean_cores: Some(MilliCores(mean_milli_cores)),
            allowed_cores: Some(MilliCores::cores(allowed)),
            wall: Duration::from_secs(600),
            ..Sample::default()
        };
        vec![one; count as usize]
    }

    #[test]
    fn cores_shrink_only_as_far_as_the_worst_shape_allows() {
        let policy = SizingPolicy::default();
        let check = |name: &str, samples: Vec<Sample>, expect: Option<(u64, u32)>| {
            let fewer = from_averages(&samples, &policy);
            let fewer = fewer.map(|fewer| (fewer.cores.0 / 1000, fewer.slowdown_ppm));
            assert_eq!(fewer, expect, "{name}");
        };
        // 1/12 of the time at 12 cores takes twice as long with 6: 8.3 % longer.
        check("one core of 12", tasks(3, 1_000, 12), Some((6, 83_333)));
        check(
            "a hundredth of a core of 12",
            tasks(3, 10, 12),
            Some((1, 9_167)),
        );
        check("all of 12", tasks(3, 12_000, 12), None);
        check("beyond its cores", tasks(3, 14_000, 12), None);
        check("two tasks", tasks(2, 1_000, 12), None);
        let mut unknown = tasks(3, 1_000, 12);
        unknown[1].mean_cores = None;
        check("one unknown", unknown, None);
        let mut short = tasks(4, 1_000, 12);
        short[0].wall = Duration::from_secs(1);
        short[0].mean_cores = Some(MilliCores::cores(12));
        check("a short one computes", short, Some((6, 83_333)));
        let mut many = tasks(200, 12_000, 12);
        many.iter_mut()
            .for_each(|task| task.wall = Duration::from_secs(29));
        many.extend(tasks(3, 100, 12));
        check("nearly all are short and compute", many, None);
    }

    #[test]
    fn no_shape_of_equal_average_takes_longer_than_stated() {
        let policy = SizingPolicy::default();
        let samples = tasks(5, 1_300, 16);
        let fewer = from_averages(&samples, &policy).expect("fewer");
        let (mean, all, few) = (1.3, 16.0, fewer.cores.as_cores());
        // Some share of the time at `high` cores, the rest at `low`.
        for high in 1..=16 {
            for tenth in 0..=10 {
                let (high, low) = (f64::from(high), mean * f64::from(tenth) / 10.0);
                if high <= mean {
                    continue;
                }
                let share = (mean - low) / (high - low);
                let longer = |busy: f64| (busy / few).max(1.0);
                let took = share * longer(high) + (1.0 - share) * longer(low);
                let bound = 1.0 + f64::from(fewer.slowdown_ppm) / 1e6;
                assert!(took <= bound + 1e-9, "{high} {low} of {all}: {took}");
            }
        }
    }
}
