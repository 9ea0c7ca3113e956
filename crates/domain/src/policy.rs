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

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::units::{Bytes, CpuTime, Share, Usd};

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

/// What counts as activity. The floors are for the whole node and a minute, and
/// are scaled to the length of an interval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ActivityPolicy {
    /// The grain of activity in seconds. A minute: the finest at which cloud
    /// machines are managed, and the interval of a heartbeat.
    pub tick_seconds: u32,
    /// Workload CPU a minute below which a node does nothing, in milliseconds:
    /// 2 % of one core, above what a shell prompt or a poll loop uses.
    pub cpu_floor_ms: u64,
    /// Workload disk bytes a minute: above log writing, below any real read.
    pub disk_floor_bytes: u64,
    /// Network bytes a minute: 1,000 a second, below which OptScale calls a machine
    /// abandoned. Agents' own are left out here, so what passes it is somebody's.
    pub network_floor_bytes: u64,
    /// GPU utilization in parts per million: 1 %, the counter's own grain.
    pub gpu_floor_ppm: u32,
}

impl Default for ActivityPolicy {
    fn default() -> Self {
        Self {
            tick_seconds: 60,
            cpu_floor_ms: 1_200,
            disk_floor_bytes: 1_000_000,
            network_floor_bytes: 60_000,
            gpu_floor_ppm: 10_000,
        }
    }
}

impl ActivityPolicy {
    /// The grain of activity.
    pub fn tick(&self) -> Duration {
        Duration::from_secs(self.tick_seconds.into())
    }

    /// CPU a minute.
    pub fn cpu_floor(&self) -> CpuTime {
        CpuTime::from_millis(self.cpu_floor_ms)
    }

    /// Disk bytes a minute.
    pub fn disk_floor(&self) -> Bytes {
        Bytes(self.disk_floor_bytes)
    }

    /// Network bytes a minute.
    pub fn network_floor(&self) -> Bytes {
        Bytes(self.network_floor_bytes)
    }

    /// GPU utilization.
    pub fn gpu_floor(&self) -> Share {
        Share::from_ppm(self.gpu_floor_ppm)
    }
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
