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

/// What is told of one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepAdvice {
    /// Its job definition, job or script name.
    pub step: String,
    /// How that name relates to the one in the engine's own configuration.
    #[serde(default)]
    pub name_form: NameForm,
    /// Where it runs; `None` when unknown.
    pub region: Option<Region>,
    /// In whose account; `None` where that is not told.
    #[serde(default)]
    pub account: Option<AccountId>,
    /// What kind of thing its newest run was.
    pub kind: StepKind,
    /// Whom to ask; `None` when no tag tells.
    pub owner: Option<String>,
    /// Simulated as soon as one of its runs is.
    pub origin: Origin,
    /// When its newest run was seen last.
    pub last_seen: Timestamp,
    /// Runs kept, of which at most [`crate::step_profile::MAX_RUNS`] are.
    pub runs: u32,
    /// Of those, runs that tell what it needs.
    pub samples: u32,
    /// Runs that ended badly.
    pub failed: u32,
    /// Of those, killed for want of memory.
    pub oom_kills: u32,
    /// How long its runs that tell took on average; `None` where there is none.
    pub mean_wall: Option<Duration>,
    /// Cores that those kept busy on average, the long ones counting more; `None` where
    /// the CPU time of one is unknown.
    #[serde(default)]
    pub mean_cores: Option<MilliCores>,
    /// The most memory that one of them held; `None` where no peak is known.
    #[serde(default)]
    pub peak_memory: Option<Bytes>,
    /// That peak is an upper bound: a sum over tasks or steps of a job, which need not have
    /// held their memory at the same time.
    #[serde(default)]
    pub peak_is_upper_bound: bool,
    /// Tasks that one job runs in parallel (MPI ranks, `srun` tasks), at the most; 0 where
    /// that is not known.
    #[serde(default)]
    pub parallel_tasks: u32,
    /// Machine types that it ran on, sorted.
    pub machines: Vec<InstanceType>,
    /// What it asks for, by the first attempts of its tasks.
    pub asks: SizedRequest,
    /// All that those asked for, and how many of them ended for want of memory.
    #[serde(default)]
    pub present: PresentRequest,
    /// What to ask for; more than now where it needs more.
    pub should_ask: SizedRequest,
    /// How that memory may fail.
    pub risk: Risk,
    /// How much longer tasks take with the cores that it should ask for, at the most, in
    /// parts per million; `None` where those cores were all that it kept busy at once.
    #[serde(default)]
    pub slowdown_ppm: Option<u32>,
    /// How long its tasks are allowed to run, and should be; `None` where no limit is
    /// known.
    #[serde(default)]
    pub time_limit: Option<TimeLimit>,
    /// The tool of it that takes its memory from its request.
    #[serde(default)]
    pub self_sizing: Option<SelfSizing>,
    /// How its attempts failed, the most time lost first.
    #[serde(default)]
    pub failures: Vec<FailureCount>,
    /// What its tasks asked for and used in all; `None` where nobody counted.
    #[serde(default)]
    pub usage: Option<StepTotals>,
    /// Memory by the bytes that a run reads; empty where those explain nothing.
    #[serde(default)]
    pub by_input: Vec<SizedInput>,
    /// What to ask for on Fargate, whose pairs of vCPU and memory are fixed; `None`
    /// where its needs are unknown or nothing there is as large.
    #[serde(default)]
    pub on_fargate: Option<SizedRequest>,
    /// What binds it and where it is underused.
    pub bound: Boundness,
    /// Where it would run; empty where that was not looked for.
    #[serde(default)]
    pub offers: Offers,
    /// What the change saves a month; `None` where none is known.
    pub saving_a_month: Option<Usd>,
    /// The finding about it.
    pub finding: Option<String>,
}

/// How the recorded name of a step relates to the one in its engine's configuration.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum NameForm {
    /// It is the same.
    #[default]
    Exact,
    /// From the name of a job that Nextflow submitted to a grid scheduler: each `:` of the
    /// process name is written as `_`.
    NextflowJob,
}

/// How long tasks may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TimeLimit {
    /// What first attempts ask for.
    pub asks: Duration,
    /// What to ask for.
    pub should_ask: Duration,
}

/// Sums over all attempts of a step's tasks. What a record does not hold is left out of
/// both its sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct StepTotals {
    /// Tasks.
    pub tasks: u64,
    /// Attempts.
    pub attempts: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// How long the attempts ran.
    pub wall_seconds: u64,
    /// How long failed attempts ran.
    pub lost_seconds: u64,
    /// Cores asked for, times how long.
    pub asked_core_seconds: u64,
    /// CPU time of the attempts whose request for cores is known.
    pub used_core_seconds: u64,
    /// Memory asked for in GiB, times how long.
    pub asked_gib_seconds: u64,
    /// Peak memory in GiB, times how long, of the attempts whose request is known.
    pub used_gib_seconds: u64,
}

impl StepTotals {
    /// The sum of both.
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
        }
    }
}
