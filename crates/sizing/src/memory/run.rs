//! What a run with a given input would have needed, as a sample.

use std::collections::VecDeque;
use std::time::Duration;

use ebb_telemetry::units::Bytes;
use serde::{Deserialize, Serialize};

/// What one finished run tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Bytes it read in; `None` when unknown.
    pub input: Option<Bytes>,
    /// The least memory it would have lived with.
    pub peak: Bytes,
    /// How long it held that memory.
    pub wall: Duration,
}

/// Runs with the nearest inputs that [`Shape::Near`] looks at.
const NEAREST: usize = 20;

/// The share of a sample that its tail is fitted to.
const TAIL: f64 = 0.2;

/// How a past run's need is carried over to another input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// As it is: the input explains nothing.
    Same,
    /// Along a straight line through all runs.
    Linear,
    /// Along a power of the input.
    Power,
    /// As it is, from the runs with the nearest inputs only.
    Near,
}

/// Needs in bytes, least first, with how long each would have been held.
pub(crate) struct Sample {
    needs: Vec<(f64, f64)>,
}

impl Sample {
    /// `None` where the shape needs inputs and they are unknown.
    pub(crate) fn of(runs: &VecDeque<Run>, shape: Shape, input: Option<Bytes>) -> Option<Self> {
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

    /// The tail above its threshold: the share of needs in it, the logarithm of
    /// the threshold, and the mean excess over it. Exceedances of a high threshold
    /// are near exponential (Pickands, 1975) where no moment is unbounded; in
    /// logarithms, because needs spread by factors.
    fn tail(&self) -> (f64, f64, f64) {
        let n = self.needs.len();
        let above = ((n as f64 * TAIL).ceil() as usize).clamp(2.min(n - 1), n - 1);
        let log = |i: usize| self.needs[i].0.max(1.0).ln();
        let threshold = log(n - above - 1);
        let excess: f64 = (n - above..n).map(|i| log(i) - threshold).sum();
        (above as f64 / n as f64, threshold, excess / above as f64)
    }

    /// The size that only `share` of runs exceed; never below what was seen, as
    /// long as fewer runs were seen than it takes to see that share.
    pub(crate) fn exceeded_by(&self, share: f64) -> f64 {
        let (above, threshold, excess) = self.tail();
        let size = (threshold + excess * (above / share).ln().max(0.0)).exp();
        if (self.needs.len() as f64) * share < 1.0 {
            return size.max(self.greatest());
        }
        size
    }

    /// The chance that a run needs more than `size`.
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

/// Moves each need along the least-squares line of needs over inputs, both as
/// `read` shows them.
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
