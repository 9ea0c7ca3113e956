//! All thresholds of Ebb, with unit and reason. The user's TOML file overrides single values, and
//! unknown keys are errors.

pub mod anomaly;
pub mod batch;
pub mod bounds;
pub mod budget;
pub mod costs;
pub mod error;
pub mod exemption;
mod file_position;
pub mod gpu_and_hours;
pub mod idle;
mod ids;
pub mod lake;
pub mod links;
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
pub mod webhook;
pub mod weekly_digest;
pub mod weekly_schedule;

use ebb_telemetry::activity::ActivityPolicy;
use serde::{Deserialize, Serialize};

use crate::policy::anomaly::AnomalyPolicy;
use crate::policy::batch::BatchPolicy;
use crate::policy::budget::Budget;
use crate::policy::costs::CostsPolicy;
use crate::policy::error::PolicyError;
use crate::policy::exemption::Exemption;
use crate::policy::gpu_and_hours::{GpuPolicy, HoursPolicy};
use crate::policy::idle::IdlePolicy;
use crate::policy::lake::LakePolicy;
use crate::policy::links::LinksPolicy;
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
use crate::policy::webhook::Webhook;
use crate::policy::weekly_digest::DigestPolicy;

/// All thresholds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Exempted resources.
    pub exempt: Vec<Exemption>,
    /// Recipients of the findings of single owners.
    pub route: Vec<Route>,
    /// Webhooks of other programs.
    pub webhooks: Vec<Webhook>,
    /// Prices of machines without a list price.
    pub prices: Vec<StatedPrice>,
    /// Budgets of pipelines and cost centres.
    pub budgets: Vec<Budget>,
    /// Rules that derive run, pipeline and sample from the name of a task; none by default.
    pub names: Vec<NameRule>,
    /// Activity of a node.
    pub activity: ActivityPolicy,
    /// Idle nodes.
    pub idle: IdlePolicy,
    /// Stuck Batch jobs.
    pub batch: BatchPolicy,
    /// Overprovisioned steps and nodes.
    pub overprovisioned: OverprovisionedPolicy,
    /// Recommended requests.
    pub sizing: SizingPolicy,
    /// Machine types, regions and zones for recommendations.
    pub placement: PlacementPolicy,
    /// Evaluation of nodes without a probe by metrics of the cloud, and the cost of metrics.
    pub metrics: MetricsPolicy,
    /// Allocation of the cost of machines to tasks.
    pub costs: CostsPolicy,
    /// Unusual costs of pipelines and cost centres.
    pub anomaly: AnomalyPolicy,
    /// How long the tables of the lake store their rows.
    pub lake: LakePolicy,
    /// Unused volumes, addresses and snapshots.
    pub storage: StoragePolicy,
    /// Problems of steps.
    pub step: StepPolicy,
    /// Idle GPUs.
    pub gpu: GpuPolicy,
    /// Recurring idle hours, and underutilized nodes.
    pub hours: HoursPolicy,
    /// Hours without notifications.
    pub quiet: QuietPolicy,
    /// Links of notifications to pages.
    pub links: LinksPolicy,
    /// Weekly digest of savings and spend.
    pub digest: DigestPolicy,
}

impl Policy {
    /// Parses a policy file. A missing key has its default.
    ///
    /// # Errors
    /// Names the line and the key of the first invalid value.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let policy: Self = toml::from_str(text)?;
        bounds::check(&toml::from_str(text)?)?;
        policy.quiet.check()?;
        policy.digest.check()?;
        policy.lake.check()?;
        Route::check_all(&policy.route)?;
        Webhook::check_all(&policy.webhooks)?;
        Budget::check_all(&policy.budgets, &policy.costs)?;
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
        let earlier = "[idle]\nlow_duty_ppm = 1\njudge_unwatched_gpus = true\n[step]\njudged_after_seconds = 2\n";
        let earlier = Policy::parse(earlier).expect("names of an earlier version");
        assert_eq!(earlier.idle.underutilized_ppm, 1);
        assert!(earlier.idle.evaluate_unwatched_gpus);
        assert_eq!(earlier.step.min_run(), Duration::from_secs(2));

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
        check("[idle]\nmin_coverage_ppm = 2000000\n", "must be between");
    }
}
