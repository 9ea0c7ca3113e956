//! How long a step would take on another machine, from how long it took on this.
//!
//! Two machines differ by one factor for work that keeps the same resource busy,
//! and by another for other work. What a probe sees of a step says which: long runs
//! are bound by what they compute, short ones by starting and reading, and the
//! cores kept busy say how much the other machine's cores matter. So the ratio of
//! wall times is fitted to those two, over steps that ran on both machines, by least
//! absolute deviations, because a run that met a cold cache must not bend the line.

use std::time::Duration;

use ebb_telemetry::units::MilliCores;

/// Fewer pairs than this say nothing of a slope.
const MIN_PAIRS: usize = 5;

/// Keeps slopes near zero unless many pairs bear them out; in parts of the number
/// of pairs, features having unit variance.
const RIDGE: f64 = 0.1;

/// Deviations below 2 % are measurement; without a bound the nearest pair would
/// weigh without end.
const LEAST_DEVIATION: f64 = 0.02;

/// Reweighted least squares come to rest within a few rounds.
const ROUNDS: usize = 8;

/// Features are not believed further out than this many standard deviations: a line
/// does not hold where no step was seen.
const FURTHEST: f64 = 2.5;

/// A run as it was seen on one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// How long it took.
    pub wall: Duration,
    /// Cores kept busy on average.
    pub cores: MilliCores,
}

impl Seen {
    /// A run of so many seconds.
    pub fn of(seconds: f64, cores: MilliCores) -> Self {
        let wall = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        Self { wall, cores }
    }
}

/// The same work on both machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// On the machine that predictions start from.
    pub here: Seen,
    /// How long it took on the other.
    pub there: Duration,
}

/// What the one machine's time says of the other's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transfer {
    mean: [f64; 2],
    deviation: [f64; 2],
    /// Slopes of both features, and the ratio in their middle; all of logarithms.
    fit: [f64; 3],
}

impl Transfer {
    /// Fits it; `None` when there are too few pairs.
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

    /// How long a run would take there.
    pub fn predict(&self, here: &Seen) -> Duration {
        let ratio = dot(self.fit, self.row(here)).exp();
        Duration::try_from_secs_f64(here.wall.as_secs_f64() * ratio).unwrap_or(Duration::MAX)
    }

    fn row(&self, seen: &Seen) -> [f64; 3] {
        let f = features(seen);
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

fn features(seen: &Seen) -> [f64; 2] {
    let cores = (seen.cores.0.max(10) as f64 / 1000.0).ln();
    [log(seen.wall), cores]
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

/// Cramer's rule; `None` when the rows say the same.
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

    fn seen(seconds: f64, milli_cores: u64) -> Seen {
        Seen {
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
                    here: seen(seconds, cores),
                    there,
                });
            }
        }
        Transfer::fit(&pairs).expect("there are enough pairs")
    }

    #[test]
    fn one_factor_for_all_is_found_exactly() {
        let predicted = fit(|s, _| s * 0.7)
            .predict(&seen(100.0, 1_000))
            .as_secs_f64();
        assert!((predicted - 70.0).abs() < 0.01, "{predicted}");
    }

    #[test]
    fn work_on_many_cores_has_a_factor_of_its_own() {
        let transfer = fit(|s, cores| if cores > 2_000 { s * 0.5 } else { s });
        let few = transfer.predict(&seen(100.0, 500)).as_secs_f64();
        let many = transfer.predict(&seen(100.0, 4_000)).as_secs_f64();
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
        let predicted = transfer.predict(&seen(16.0, 500)).as_secs_f64();
        assert!((predicted - 16.0).abs() < 0.5, "{predicted}");
    }

    #[test]
    fn too_few_pairs_fit_nothing_and_equal_ones_only_the_factor() {
        let pair = Pair {
            here: seen(10.0, 1_000),
            there: Duration::from_secs(5),
        };
        assert_eq!(Transfer::fit(&[pair; 4]), None);
        let same = Transfer::fit(&[pair; 10]).expect("a factor is known");
        let predicted = same.predict(&seen(10.0, 1_000)).as_secs_f64();
        assert!((predicted - 5.0).abs() < 0.01);
    }
}
