//! The memory needs of a task with a given input, as a sample from past tasks.

use std::collections::VecDeque;
use std::time::Duration;

use ebb_telemetry::units::Bytes;
use serde::{Deserialize, Serialize};

/// The memory need of one ended task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Bytes of input; `None` when unknown.
    pub input: Option<Bytes>,
    /// The least memory with which it would have succeeded.
    pub peak: Bytes,
    /// The time for which it held that memory.
    pub wall: Duration,
}

/// Number of tasks with the nearest inputs that [`Shape::Near`] uses.
const NEAREST: usize = 20;

/// The share of a sample that its tail is fitted to.
const TAIL: f64 = 0.2;

/// How the need of a past task is transferred to another input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Unchanged: the input explains nothing.
    Same,
    /// Along a straight line through all tasks.
    Linear,
    /// Along a power of the input.
    Power,
    /// Unchanged, but only from the tasks with the nearest inputs.
    Near,
}

/// Needs in bytes in ascending order, each with the time in seconds for which it would have been
/// held.
pub(crate) struct Sample {
    needs: Vec<(f64, f64)>,
}

impl Sample {
    /// `None` if the shape needs inputs and they are unknown.
    pub(crate) fn from_runs(
        runs: &VecDeque<Run>,
        shape: Shape,
        input: Option<Bytes>,
    ) -> Option<Self> {
        let plain = runs.iter().map(|run| (run.peak.0 as f64, seconds(run)));
        let mut needs: Vec<(f64, f64)> = match shape {
            Shape::Same => plain.collect(),
            Shape::Linear => along(runs, size(input)?, |v| v, |v| v)?,
            Shape::Power => along(runs, size(input)?.ln(), f64::ln, f64::exp)?,
            Shape::Near => near(runs, size(input)?)?,
        };
        needs.sort_by(|a, b| a.0.total_cmp(&b.0));
        Some(Self { needs })
    }

    pub(crate) fn needs(&self) -> &[(f64, f64)] {
        &self.needs
    }

    fn greatest(&self) -> f64 {
        self.needs.last().map_or(1.0, |need| need.0)
    }

    /// The tail above its threshold: the share of needs in the tail, the logarithm of the
    /// threshold, and the mean excess over it. Exceedances of a high threshold are nearly
    /// exponential (Pickands, 1975) if no moment is unbounded. The tail uses logarithms, because
    /// needs spread by factors.
    fn tail(&self) -> (f64, f64, f64) {
        let n = self.needs.len();
        let above = ((n as f64 * TAIL).ceil() as usize).clamp(2.min(n - 1), n - 1);
        let log = |i: usize| self.needs[i].0.max(1.0).ln();
        let threshold = log(n - above - 1);
        let excess: f64 = (n - above..n).map(|i| log(i) - threshold).sum();
        (above as f64 / n as f64, threshold, excess / above as f64)
    }

    /// The size that only `share` of the tasks exceed. With fewer than `1 / share` tasks, the size
    /// is at least the largest observed need.
    pub(crate) fn exceeded_by(&self, share: f64) -> f64 {
        let (above, threshold, excess) = self.tail();
        let size = (threshold + excess * (above / share).ln().max(0.0)).exp();
        if (self.needs.len() as f64) * share < 1.0 {
            return size.max(self.greatest());
        }
        size
    }

    /// The chance that a task needs more than `size`.
    pub(crate) fn chance_above(&self, size: f64) -> f64 {
        let n = self.needs.len() as f64;
        let (above, threshold, excess) = self.tail();
        let over = size.max(1.0).ln() - threshold;
        if over <= 0.0 {
            let count = self.needs.iter().filter(|need| need.0 > size).count();
            return (count as f64 + 0.5) / (n + 1.0);
        }
        if excess <= 0.0 {
            return 0.5 / (n + 1.0);
        }
        above * (-over / excess).exp()
    }
}

fn seconds(run: &Run) -> f64 {
    run.wall.as_secs_f64().max(1e-3)
}

fn size(input: Option<Bytes>) -> Option<f64> {
    input.map(|bytes| bytes.0.max(1) as f64)
}

/// Moves each need along the least-squares line of needs over inputs, both transformed by `read`.
fn along(
    runs: &VecDeque<Run>,
    at: f64,
    read: fn(f64) -> f64,
    write: fn(f64) -> f64,
) -> Option<Vec<(f64, f64)>> {
    let points: Option<Vec<(f64, f64)>> = runs
        .iter()
        .map(|run| Some((read(size(run.input)?), read(run.peak.0.max(1) as f64))))
        .collect();
    let points = points?;
    let n = points.len() as f64;
    let (x, y) = points
        .iter()
        .fold((0.0, 0.0), |sum, p| (sum.0 + p.0, sum.1 + p.1));
    let (x, y) = (x / n, y / n);
    let spread: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    if spread <= 0.0 {
        return None;
    }
    let slope = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>() / spread;
    let moved = points.iter().zip(runs).map(|(p, run)| {
        let need = write(p.1 + slope * (at - p.0));
        (need.max(1.0), seconds(run))
    });
    Some(moved.collect())
}

fn near(runs: &VecDeque<Run>, at: f64) -> Option<Vec<(f64, f64)>> {
    let mut by_distance: Vec<(f64, &Run)> = Vec::with_capacity(runs.len());
    for run in runs {
        by_distance.push(((size(run.input)?.ln() - at.ln()).abs(), run));
    }
    if by_distance.len() > NEAREST {
        by_distance.select_nth_unstable_by(NEAREST - 1, |a, b| a.0.total_cmp(&b.0));
        by_distance.truncate(NEAREST);
    }
    let needs = by_distance
        .iter()
        .map(|(_, run)| (run.peak.0 as f64, seconds(run)));
    Some(needs.collect())
}
