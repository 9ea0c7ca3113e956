//! The confidence interval of a chance that was estimated from a number of tasks.

use ebb_model::advice::sized_request::ChanceRange;

/// Normal quantile of a two-sided interval at 90 %.
const Z: f64 = 1.645;

/// The 90 % score interval of the chance that a task needs more than some size. `share` is the
/// share of observed tasks that needed more; `effective` is the number of independent tasks. The
/// interval uses no tail that is fitted to the peaks, so it also holds if such a tail is wrong.
///
/// Source: Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", 1927.
pub(crate) fn chance_range(share: f64, effective: f64) -> ChanceRange {
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
