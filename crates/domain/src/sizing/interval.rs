//! How sure a chance is that was read from so many runs.

use serde::{Deserialize, Serialize};

use super::Sample;
use crate::units::Bytes;

/// Nine times in ten the chance lies within.
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
    /// The chance that a run needs more than `size`, by how many runs did: the score
    /// interval at 90 %. It does not use the tail that the chance itself is read from,
    /// so that it holds where that is mistaken.
    ///
    /// Source: Wilson, "Probable Inference, the Law of Succession, and Statistical
    /// Inference", 1927.
    pub(super) fn of(samples: &[Sample], size: Bytes) -> Self {
        let more = |sample: &&Sample| sample.peak_memory.is_some_and(|peak| peak.bytes > size);
        let n = samples.len().max(1) as f64;
        let share = samples.iter().filter(more).count() as f64 / n;
        let middle = share + Z * Z / (2.0 * n);
        let aside = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
        let ppm = |chance: f64| {
            let chance = chance / (1.0 + Z * Z / n);
            (chance.clamp(0.0, 1.0) * 1e6).round() as u32
        };
        Self {
            from_ppm: ppm(middle - aside),
            to_ppm: ppm(middle + aside),
        }
    }
}
