//! Policy: every threshold Ebb judges by, with its unit and reason, in one place.
//! The TOML file of the user overrides single values; unknown keys are refused.

mod batch;
pub mod bounds;
mod exempt;
mod machine;
mod metrics;
mod names;
mod placement;
mod price;
mod quiet;
mod route;
mod schedule;
mod sizing;
mod step;
mod storage;

pub use batch::BatchPolicy;
pub use exempt::{Exemptable, Exemption};
pub use machine::{GpuPolicy, HoursPolicy};
pub use metrics::MetricsPolicy;
pub use names::{Drawn, Form, NameRule, NameSource};
pub use placement::PlacementPolicy;
pub use price::StatedPrice;
pub use quiet::QuietPolicy;
pub use route::Route;
pub use schedule::{Day, Schedule, time_zone};
pub use sizing::SizingPolicy;
pub use step::StepPolicy;
pub use storage::StoragePolicy;

pub use ebb_telemetry::activity::ActivityPolicy;

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::units::{Share, Usd};

/// Why a policy file was refused.
#[derive(Debug, Error)]
pub enum PolicyError {
    /// It is not TOML, or holds a key or type that is not known.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// An exemption that cannot work.
    #[error("the exemption of {subject}: {problem}")]
    Exemption {
        /// Which of the entries, from 0.
        index: usize,
        /// What it is about, and until when.
        subject: String,
        /// Why not.
        problem: &'static str,
    },
    /// A route that cannot work.
    #[error("the route of {owner}: {problem}")]
    Route {
        /// Which of the entries, from 0.
        index: usize,
        /// Whose.
        owner: String,
        /// Why not.
        problem: &'static str,
    },
    /// Quiet hours that cannot work.
    #[error("{key}: {problem}")]
    Quiet {
        /// The key with its table.
        key: &'static str,
        /// Why not.
        problem: String,
    },
    /// A stated price that cannot work.
    #[error("the price of {node}: {problem}")]
    Price {
        /// Which of the entries, from 0.
        index: usize,
        /// Of which node.
        node: String,
        /// Why not.
        problem: &'static str,
    },
    /// A value that cannot work.
    #[error("{key} is {value}: {problem}")]
    Value {
        /// The key with its table.
        key: String,
        /// What the file says.
        value: i64,
        /// Why not.
        problem: &'static str,
    },
}

/// All thresholds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
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

/// When a node is idle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IdlePolicy {
    /// Seconds without activity before a node is called idle. Half an hour: longer
    /// than a coffee, far shorter than the days that averages need.
    pub after_seconds: u64,
    /// The share of the window that must have been seen, in parts per million;
    /// below it the verdict is undetermined.
    pub min_coverage_ppm: u32,
    /// A node with one of these tags is meant to stand by: `key` or `key=value`.
    pub standby_tags: BTreeSet<String>,
    /// True to judge machines with GPUs whose GPUs nobody watches.
    pub judge_unwatched_gpus: bool,
    /// A node that works in less than this share of a day's minutes, in parts per
    /// million, is of low duty: 5 %, a little more than an hour.
    pub low_duty_ppm: u32,
}

impl Default for IdlePolicy {
    fn default() -> Self {
        Self {
            after_seconds: 30 * 60,
            min_coverage_ppm: 950_000,
            standby_tags: BTreeSet::from(["ebb:standby=true".to_owned()]),
            judge_unwatched_gpus: false,
            low_duty_ppm: 50_000,
        }
    }
}

impl IdlePolicy {
    /// Time without activity before a node is called idle.
    pub fn after(&self) -> Duration {
        Duration::from_secs(self.after_seconds)
    }

    /// The share of the window that must have been seen.
    pub fn min_coverage(&self) -> Share {
        Share::from_ppm(self.min_coverage_ppm)
    }
}

/// When a step asked for too much.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OverprovisionedPolicy {
    /// A step that still runs, or whose end was not seen, says nothing about what it
    /// needs when it was seen for less.
    pub min_wall_seconds: u64,
    /// A request is too large when what is needed, headroom counted, is at most
    /// this share of it, in parts per million: half, where the next smaller
    /// machine of a family begins.
    pub needed_share_ppm: u32,
    /// Savings below this a month, in millionths of a dollar, are churn for
    /// pennies.
    pub min_saving_usd_micros: i64,
}

impl Default for OverprovisionedPolicy {
    fn default() -> Self {
        Self {
            min_wall_seconds: 10 * 60,
            needed_share_ppm: 500_000,
            min_saving_usd_micros: 1_000_000,
        }
    }
}

impl OverprovisionedPolicy {
    /// See [`Self::min_wall_seconds`].
    pub fn min_wall(&self) -> Duration {
        Duration::from_secs(self.min_wall_seconds)
    }

    /// Savings below this a month are not worth a change.
    pub fn min_saving(&self) -> Usd {
        Usd::from_micros(self.min_saving_usd_micros)
    }
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
