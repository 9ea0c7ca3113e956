//! How sure a chance is that was estimated from so many tasks.

use serde::{Deserialize, Serialize};

/// Normal quantile of a two-sided interval at 90 %.
const Z: f64 = 1.645;

/// Bounds of a chance, in parts per million.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ChanceRange {
    /// The least.
    pub from_ppm: u32,
    /// The most.
    pub to_ppm: u32,
}

impl ChanceRange {
    /// Whether it is narrow enough for `chance_ppm` to be shown alone: no wider than that
    /// chance.
    pub fn supports(self, chance_ppm: u32) -> bool {
        self.to_ppm - self.from_ppm <= chance_ppm
    }
}

/// The chance that a task needs more than some size, where `share` of those seen did,
/// which tell as much as `effective` independent ones: the score interval at 90 %. It
/// does not use a tail that is fitted to the peaks, so that it holds where that is
/// mistaken.
///
/// Source: Wilson, "Probable Inference, the Law of Succession, and Statistical
/// Inference", 1927.
pub(super) fn chance_range(share: f64, effective: f64) -> ChanceRange {
    let n = effective.max(1.0);
    let middle = share + Z * Z / (2.0 * n);
    let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    let ppm = |chance: f64| {
        let chance = chance / (1.0 + Z * Z / n);
        (chance.clamp(0.0, 1.0) * 1e6).round() as u32
    };
    ChanceRange {
        from_ppm: ppm(middle - half),
        to_ppm: ppm(middle + half),
    }
}
