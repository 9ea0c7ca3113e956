//! The expected run time of a step on another machine, from its run time on this one.
//!
//! The ratio of speeds of two machines depends on the resource that the work keeps busy. Two
//! observed features of a task indicate that resource. The first is the run time: computation
//! dominates long tasks, start-up and reading dominate short ones. The second is the number of busy
//! cores, which shows how much the cores of the other machine matter. The ratio of run times is
//! therefore fitted to these two features, over steps that ran on both machines. The fit uses least
//! absolute deviations, so that a task with a cold cache does not distort the line.

use std::time::Duration;

use ebb_telemetry::units::MilliCores;

/// Minimum number of pairs for a slope.
const MIN_PAIRS: usize = 5;

/// Ridge penalty that keeps slopes near zero unless many pairs support them. The unit is a share of
/// the number of pairs, for features with unit variance.
const RIDGE: f64 = 0.1;

/// Smaller deviations than 2 % are measurement noise. Without this bound the nearest pair would
/// have an infinite weight.
const LEAST_DEVIATION: f64 = 0.02;

/// Reweighted least squares converge within a few rounds.
const ROUNDS: usize = 8;

/// Features are limited to this many standard deviations, because a line does not hold far from the
/// observed steps.
const FURTHEST: f64 = 2.5;

/// A task as observed on one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObservedRunTime {
    /// Its run time.
    pub wall: Duration,
    /// Mean number of busy cores.
    pub cores: MilliCores,
}

impl ObservedRunTime {
    /// A task with a run time in seconds.
    pub fn new(seconds: f64, cores: MilliCores) -> Self {
        let wall = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        Self { wall, cores }
    }
}

/// The same work on both machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// The task on the machine that predictions start from.
    pub here: ObservedRunTime,
    /// The run time on the other machine.
    pub there: Duration,
}

/// The relation of the run times on two machines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transfer {
    mean: [f64; 2],
    deviation: [f64; 2],
    /// The slopes of both features, and the ratio at their mean; all of logarithms.
    fit: [f64; 3],
}

impl Transfer {
    /// Fits the relation; `None` with too few pairs, or if the fit has no solution.
    pub fn fit(pairs: &[Pair]) -> Option<Self> {
        if pairs.len() < MIN_PAIRS {
            return None;
        }
        let features: Vec<[f64; 2]> = pairs.iter().map(|pair| features(&pair.here)).collect();
        let (mean, deviation) = moments(&features);
        let mut this = Self {
            mean,
            deviation,
            fit: [0.0; 3],
        };
        let rows: Vec<([f64; 3], f64)> = pairs
            .iter()
            .map(|pair| (this.row(&pair.here), log(pair.there) - log(pair.here.wall)))
            .collect();
        this.fit[2] = median(rows.iter().map(|row| row.1).collect());
        for _ in 0..ROUNDS {
            this.fit = this.reweighted(&rows)?;
        }
        Some(this)
    }

    /// The predicted run time on the other machine.
    pub fn predict(&self, here: &ObservedRunTime) -> Duration {
        let ratio = dot(self.fit, self.row(here)).exp();
        Duration::try_from_secs_f64(here.wall.as_secs_f64() * ratio).unwrap_or(Duration::MAX)
    }

    fn row(&self, task: &ObservedRunTime) -> [f64; 3] {
        let f = features(task);
        let scaled =
            |i: usize| ((f[i] - self.mean[i]) / self.deviation[i]).clamp(-FURTHEST, FURTHEST);
        [scaled(0), scaled(1), 1.0]
    }

    fn reweighted(&self, rows: &[([f64; 3], f64)]) -> Option<[f64; 3]> {
        let weight =
            |row: &([f64; 3], f64)| 1.0 / (row.1 - dot(self.fit, row.0)).abs().max(LEAST_DEVIATION);
        let total: f64 = rows.iter().map(weight).sum();
        let mut left = [[0.0; 3]; 3];
        let mut right = [0.0; 3];
        for row in rows {
            let w = weight(row) / total;
            for (i, line) in left.iter_mut().enumerate() {
                right[i] += w * row.0[i] * row.1;
                for (cell, other) in line.iter_mut().zip(row.0) {
                    *cell += w * row.0[i] * other;
                }
            }
        }
        left[0][0] += RIDGE;
        left[1][1] += RIDGE;
        solve(left, right)
    }
}

fn log(wall: Duration) -> f64 {
    wall.as_secs_f64().max(1e-3).ln()
}

fn features(task: &ObservedRunTime) -> [f64; 2] {
    let cores = (task.cores.0.max(10) as f64 / 1000.0).ln();
    [log(task.wall), cores]
}

fn moments(features: &[[f64; 2]]) -> ([f64; 2], [f64; 2]) {
    let n = features.len() as f64;
    let (mut mean, mut deviation) = ([0.0; 2], [1.0; 2]);
    for i in 0..2 {
        mean[i] = features.iter().map(|f| f[i]).sum::<f64>() / n;
        let variance = features
            .iter()
            .map(|f| (f[i] - mean[i]).powi(2))
            .sum::<f64>()
            / n;
        if variance > 0.0 {
            deviation[i] = variance.sqrt();
        }
    }
    (mean, deviation)
}

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Cramer's rule; `None` when the rows are linearly dependent.
fn solve(a: [[f64; 3]; 3], b: [f64; 3]) -> Option<[f64; 3]> {
    let determinant = |m: &[[f64; 3]; 3]| {
        m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1])
            - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0])
            + m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0])
    };
    let whole = determinant(&a);
    if whole.abs() < 1e-12 {
        return None;
    }
    let mut solution = [0.0; 3];
    for (i, value) in solution.iter_mut().enumerate() {
        let mut with = a;
        for (row, right) in with.iter_mut().zip(b) {
            row[i] = right;
        }
        *value = determinant(&with) / whole;
    }
    Some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(seconds: f64, milli_cores: u64) -> ObservedRunTime {
        ObservedRunTime {
            wall: Duration::from_secs_f64(seconds),
            cores: MilliCores(milli_cores),
        }
    }

    fn fit(there: impl Fn(f64, u64) -> f64) -> Transfer {
        let mut pairs = Vec::new();
        for i in 1..20 {
            for cores in [500, 1_000, 4_000] {
                let seconds = f64::from(i * i);
                let there = Duration::from_secs_f64(there(seconds, cores));
                pairs.push(Pair {
                    here: task(seconds, cores),
                    there,
                });
            }
        }
        Transfer::fit(&pairs).expect("there are enough pairs")
    }

    #[test]
    fn one_factor_for_all_is_found_exactly() {
        let predicted = fit(|s, _| s * 0.7)
            .predict(&task(100.0, 1_000))
            .as_secs_f64();
        assert!((predicted - 70.0).abs() < 0.01, "{predicted}");
    }

    #[test]
    fn work_on_many_cores_has_a_factor_of_its_own() {
        let transfer = fit(|s, cores| if cores > 2_000 { s * 0.5 } else { s });
        let few = transfer.predict(&task(100.0, 500)).as_secs_f64();
        let many = transfer.predict(&task(100.0, 4_000)).as_secs_f64();
        assert!(many < 0.75 * few, "{many} and {few}");
    }

    #[test]
    fn one_run_that_met_a_cold_cache_does_not_bend_the_line() {
        let transfer = fit(|s, cores| {
            if s == 16.0 && cores == 500 {
                s * 20.0
            } else {
                s
            }
        });
        let predicted = transfer.predict(&task(16.0, 500)).as_secs_f64();
        assert!((predicted - 16.0).abs() < 0.5, "{predicted}");
    }

    #[test]
    fn too_few_pairs_fit_nothing_and_equal_ones_only_the_factor() {
        let pair = Pair {
            here: task(10.0, 1_000),
            there: Duration::from_secs(5),
        };
        assert_eq!(Transfer::fit(&[pair; 4]), None);
        let same = Transfer::fit(&[pair; 10]).expect("a factor is known");
        let predicted = same.predict(&task(10.0, 1_000)).as_secs_f64();
        assert!((predicted - 5.0).abs() < 0.01);
    }
}
