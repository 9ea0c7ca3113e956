//! Advice for one step.

use std::time::Duration;

use ebb_telemetry::identity::{AccountId, InstanceType, Region};
use ebb_telemetry::money::Usd;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::StepKind;
use ebb_telemetry::units::{Bytes, MilliCores};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::advice::bottleneck::Boundness;
use crate::advice::offer::Offers;
use crate::advice::self_sizing::SelfSizing;
use crate::advice::sized_request::{Risk, SizedInput, SizedRequest};
use crate::step_profile::failure::FailureCount;
use crate::step_profile::tasks::PresentRequest;

/// Observations and advice for one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepAdvice {
    /// The name of its job definition, job or script.
    pub step: String,
    /// How that name relates to the name in the configuration of the engine.
    #[serde(default)]
    pub name_form: NameForm,
    /// The region; `None` when unknown.
    pub region: Option<Region>,
    /// The account; `None` when unknown.
    #[serde(default)]
    pub account: Option<AccountId>,
    /// The kind of its newest task.
    pub kind: StepKind,
    /// The owner; `None` when no tag names one.
    pub owner: Option<String>,
    /// Simulated if at least one task is simulated.
    pub origin: Origin,
    /// When its newest task was last observed.
    pub last_seen: Timestamp,
    /// Number of recorded tasks, at most [`crate::step_profile::MAX_RUNS`].
    pub runs: u32,
    /// Number of these tasks that show the needs of the step.
    pub samples: u32,
    /// Number of tasks that failed.
    pub failed: u32,
    /// Number of failed tasks that were OOM-killed.
    pub oom_kills: u32,
    /// Mean duration of the tasks that show the needs of the step; `None` without such tasks.
    pub mean_wall: Option<Duration>,
    /// Mean number of busy cores of these tasks, weighted by duration; `None` if the CPU time of
    /// one of them is unknown.
    #[serde(default)]
    pub mean_cores: Option<MilliCores>,
    /// The largest peak memory of these tasks and of failed ones; `None` when no peak is known.
    #[serde(default)]
    pub peak_memory: Option<Bytes>,
    /// Whether that peak is an upper bound: a sum over the tasks or steps of a job, which may have
    /// held their memory at different times.
    #[serde(default)]
    pub peak_is_upper_bound: bool,
    /// The task that used the greatest share of its own request for memory; `None` without measured
    /// peaks or requests.
    #[serde(default)]
    pub fullest: Option<MemoryUse>,
    /// The largest memory request with which a task was OOM-killed.
    #[serde(default)]
    pub exhausted_memory: Option<Bytes>,
    /// The largest number of tasks that one job runs in parallel (MPI ranks, `srun` tasks); 0 when
    /// unknown.
    #[serde(default)]
    pub parallel_tasks: u32,
    /// The largest number of attempts of a task.
    #[serde(default)]
    pub attempts: u32,
    /// Instance types that it ran on, sorted.
    pub machines: Vec<InstanceType>,
    /// The present request, from the first attempts of its tasks.
    pub asks: SizedRequest,
    /// All requests of first attempts, and how many of these attempts ran out of memory.
    #[serde(default)]
    pub present: PresentRequest,
    /// The recommended request; larger than the present one if the step needs more.
    pub should_ask: SizedRequest,
    /// The risk of the recommended memory.
    pub risk: Risk,
    /// The largest slowdown of tasks with the recommended cores, in parts per million. `None` if no
    /// task kept more cores busy at once.
    #[serde(default)]
    pub slowdown_ppm: Option<u32>,
    /// The present and the recommended time limit; `None` when no limit is known.
    #[serde(default)]
    pub time_limit: Option<TimeLimit>,
    /// The tool of the step that derives its memory use from the request.
    #[serde(default)]
    pub self_sizing: Option<SelfSizing>,
    /// Failed attempts by kind, the most lost time first.
    #[serde(default)]
    pub failures: Vec<FailureCount>,
    /// Totals of the requests and the use of its tasks; `None` if they were not counted.
    #[serde(default)]
    pub usage: Option<StepTotals>,
    /// Memory by the number of bytes that a task reads; empty if the input size does not explain
    /// the memory.
    #[serde(default)]
    pub by_input: Vec<SizedInput>,
    /// The recommended request on Fargate, which has fixed pairs of vCPU and memory. `None` if the
    /// needs are unknown or exceed the largest size of Fargate.
    #[serde(default)]
    pub on_fargate: Option<SizedRequest>,
    /// The resource that limits the step, and the resources that it underuses.
    pub bound: Boundness,
    /// Offers of instance types; empty if they were not computed.
    #[serde(default)]
    pub offers: Offers,
    /// The saving in a month with the recommendation; `None` when unknown.
    pub saving_a_month: Option<Usd>,
    /// An upper bound of the saving in a month, if only a bound is known; otherwise `None`.
    #[serde(default)]
    pub saving_at_most_a_month: Option<Usd>,
    /// The id of the finding about the step; `None` without a finding.
    pub finding: Option<String>,
}

/// The memory that a task used, and the memory that it requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryUse {
    /// Its peak in bytes.
    pub used: Bytes,
    /// Its request in bytes.
    pub requested: Bytes,
}

impl MemoryUse {
    /// The used share of the request in parts per million.
    pub fn share(&self) -> u128 {
        u128::from(self.used.0) * 1_000_000 / u128::from(self.requested.0.max(1))
    }
}

/// How the recorded name of a step relates to the name in the configuration of its engine.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NameForm {
    /// Both names are the same.
    #[default]
    Exact,
    /// The name of a job that Nextflow submitted to a grid scheduler. Each `:` of the process name
    /// is replaced by `_`.
    NextflowJob,
    /// No source names the step. The name is that of the command that submitted its jobs, such as
    /// `wrap` of Slurm. Or it lists the executables that did the work, such as
    /// `bwa+samtools`, after the image of their container. The engine does not know it.
    Executables,
    /// A step of a Slurm job that did not do the work of the job alone: the name of the job with the
    /// step, such as `align.0`. The request of the job is for all its steps.
    SlurmStep,
}

/// The time limit of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimeLimit {
    /// The request of first attempts.
    pub asks: Duration,
    /// The recommended request.
    pub should_ask: Duration,
}

/// Sums over all attempts of the tasks of a step. If a record lacks a request or its use, neither
/// sum includes the attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepTotals {
    /// Number of tasks.
    pub tasks: u64,
    /// Number of attempts.
    pub attempts: u64,
    /// Number of failed attempts.
    pub failed: u64,
    /// Total run time of the attempts.
    pub wall_seconds: u64,
    /// Total run time of failed attempts.
    pub lost_seconds: u64,
    /// Requested cores multiplied by run time.
    pub asked_core_seconds: u64,
    /// CPU time of the attempts whose requested cores are known.
    pub used_core_seconds: u64,
    /// Requested memory in GiB multiplied by run time.
    pub asked_gib_seconds: u64,
    /// Peak memory in GiB multiplied by run time, for attempts whose request is known.
    pub used_gib_seconds: u64,
    /// Number of attempts in the sums of cores.
    #[serde(default)]
    pub core_attempts: u64,
    /// Run time of these attempts.
    #[serde(default)]
    pub core_wall_seconds: u64,
    /// Number of attempts in the sums of memory.
    #[serde(default)]
    pub memory_attempts: u64,
    /// Run time of these attempts, multiplied by their number of nodes.
    #[serde(default)]
    pub memory_wall_seconds: u64,
}

impl StepTotals {
    /// Adds the sums of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let add = u64::saturating_add;
        Self {
            tasks: add(self.tasks, other.tasks),
            attempts: add(self.attempts, other.attempts),
            failed: add(self.failed, other.failed),
            wall_seconds: add(self.wall_seconds, other.wall_seconds),
            lost_seconds: add(self.lost_seconds, other.lost_seconds),
            asked_core_seconds: add(self.asked_core_seconds, other.asked_core_seconds),
            used_core_seconds: add(self.used_core_seconds, other.used_core_seconds),
            asked_gib_seconds: add(self.asked_gib_seconds, other.asked_gib_seconds),
            used_gib_seconds: add(self.used_gib_seconds, other.used_gib_seconds),
            core_attempts: add(self.core_attempts, other.core_attempts),
            core_wall_seconds: add(self.core_wall_seconds, other.core_wall_seconds),
            memory_attempts: add(self.memory_attempts, other.memory_attempts),
            memory_wall_seconds: add(self.memory_wall_seconds, other.memory_wall_seconds),
        }
    }
}
