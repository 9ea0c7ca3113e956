//! Policy: every threshold Ebb judges by, with its unit and reason, in one place.
//! The TOML file of the user overrides single values; unknown keys are refused.

pub mod batch;
pub mod bounds;
pub mod error;
pub mod exemption;
pub mod gpu_and_hours;
pub mod idle;
pub mod metrics;
pub mod name_rule;
pub mod overprovisioned;
pub mod placement;
pub mod quiet_hours;
pub mod route;
#[cfg(feature = "schema")]
pub mod schema;
pub mod sizing;
pub mod stated_price;
pub mod step;
pub mod storage;
pub mod weekly_schedule;

use ebb_telemetry::activity::ActivityPolicy;
use serde::{Deserialize, Serialize};

use crate::policy::batch::BatchPolicy;
use crate::policy::error::PolicyError;
use crate::policy::exemption::Exemption;
use crate::policy::gpu_and_hours::{GpuPolicy, HoursPolicy};
use crate::policy::idle::IdlePolicy;
use crate::policy::metrics::MetricsPolicy;
use crate::policy::name_rule::NameRule;
use crate::policy::overprovisioned::OverprovisionedPolicy;
use crate::policy::placement::PlacementPolicy;
use crate::policy::quiet_hours::QuietPolicy;
use crate::policy::route::Route;
use crate::policy::sizing::SizingPolicy;
use crate::policy::stated_price::StatedPrice;
use crate::policy::step::StepPolicy;
use crate::policy::storage::StoragePolicy;

/// All thresholds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// What is known to be so and meant to be.
    pub exempt: Vec<Exemption>,
    /// Where the word about an owner's findings goes.
    pub route: Vec<Route>,
    /// What machines cost where only their user knows.
    pub prices: Vec<StatedPrice>,
    /// Which names say of what run, pipeline and sample a step is; none by default.
    pub names: Vec<NameRule>,
    /// What counts as activity.
    pub activity: ActivityPolicy,
    /// When a node is idle.
    pub idle: IdlePolicy,
    /// When Batch is stuck.
    pub batch: BatchPolicy,
    /// When a step asked for too much.
    pub overprovisioned: OverprovisionedPolicy,
    /// How requests are sized.
    pub sizing: SizingPolicy,
    /// Where steps may run.
    pub placement: PlacementPolicy,
    /// What metrics of the cloud may say, and cost.
    pub metrics: MetricsPolicy,
    /// When volumes and addresses are waste.
    pub storage: StoragePolicy,
    /// When something is wrong with a step.
    pub step: StepPolicy,
    /// When GPUs are idle.
    pub gpu: GpuPolicy,
    /// When hours of the week are off, and cores for the most part.
    pub hours: HoursPolicy,
    /// When people are not told.
    pub quiet: QuietPolicy,
}

impl Policy {
    /// Reads a policy file; what it leaves out keeps its default.
    ///
    /// # Errors
    /// Names the line and key that is wrong.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let policy: Self = toml::from_str(text)?;
        bounds::check(&toml::from_str(text)?)?;
        policy.quiet.check()?;
        Route::check_all(&policy.route)?;
        for (index, price) in policy.prices.iter().enumerate() {
            price.check(index)?;
        }
        for (index, exemption) in policy.exempt.iter().enumerate() {
            exemption.check(index)?;
        }
        Ok(policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_file_overrides_single_values_and_unknown_keys_are_refused() {
        let policy = Policy::parse("[idle]\nafter_seconds = 30\n").expect("it is valid");
        assert_eq!(policy.idle.after(), Duration::from_secs(30));
        assert_eq!(policy.batch, BatchPolicy::default());

        let check = |text: &str, expect: &str| {
            let error = Policy::parse(text).expect_err(expect).to_string();
            assert!(error.contains(expect), "{error} should say: {expect}");
        };
        check("[idle]\nafter = 30\n", "unknown field `after`");
        check("[idle]\nafter_seconds = \"x\"\n", "line 2");
        check(
            "[activity]\ntick_seconds = 0\n",
            "activity.tick_seconds is 0",
        );
        check(
            "[idle]\nmin_coverage_ppm = 2000000\n",
            "a share lies between",
        );
    }
}
