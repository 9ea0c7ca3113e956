//! The sequence of memory sizes for successive attempts.

use crate::memory::run::Sample;

/// Maximum number of candidate rungs. Finer steps than a sixty-fourth of the tasks change the cost
/// by less than the noise of the tasks.
const MAX_GROUPS: usize = 64;

/// Sizes in bytes in ascending order; at least one.
#[derive(Debug, Clone)]
pub(crate) struct Ladder(Vec<f64>);

impl Ladder {
    /// The ladder with the least expected cost. Every attempt costs its size for the duration of
    /// the task, whether it fails or not. The method is dynamic programming from the largest need
    /// down. The cost from `k` assumes that the need exceeds all sizes below `k`. It is the cost of
    /// the best next size for all remaining tasks, plus the least cost from there.
    pub(crate) fn cheapest(sample: &Sample) -> Self {
        let groups = groups(sample.needs());
        let n = groups.len();
        let mut left = 0.0;
        let mut cost = vec![0.0; n + 1];
        let mut next = vec![0; n];
        for k in (0..n).rev() {
            left += groups[k].1;
            let (mut best, mut least) = (k, f64::INFINITY);
            for j in k..n {
                let total = groups[j].0 * left + cost[j + 1];
                if total < least {
                    (best, least) = (j, total);
                }
            }
            cost[k] = least;
            next[k] = best;
        }
        let mut rungs = Vec::new();
        let mut k = 0;
        while k < n {
            rungs.push(groups[next[k]].0);
            k = next[k] + 1;
        }
        Self(rungs)
    }

    /// Multiplies all sizes by a factor.
    pub(crate) fn scaled(mut self, by: f64) -> Self {
        self.0.iter_mut().for_each(|size| *size *= by);
        self
    }

    /// Removes the sizes below `size`, and begins with `size`.
    pub(crate) fn start_at(&mut self, size: f64) {
        if self.first() >= size {
            return;
        }
        self.0.retain(|rung| *rung > size);
        self.0.insert(0, size);
    }

    pub(crate) fn first(&self) -> f64 {
        self.0.first().copied().unwrap_or(1.0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = f64> + '_ {
        self.0.iter().copied()
    }

    /// The sizes, followed by sizes that grow without end.
    pub(crate) fn then_growing(&self, by: f64) -> impl Iterator<Item = f64> + '_ {
        let last = self.0.last().copied().unwrap_or(1.0);
        let further = std::iter::successors(Some(last * by), move |size| Some(size * by));
        self.iter().chain(further)
    }
}

/// Groups adjacent needs: the largest need of each group, and the total time for which the needs
/// were held.
fn groups(needs: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let size = needs.len().div_ceil(MAX_GROUPS).max(1);
    let group = |part: &[(f64, f64)]| {
        let held = part.iter().map(|need| need.1).sum();
        (part.last().map_or(1.0, |need| need.0), held)
    };
    needs.chunks(size).map(group).collect()
}
