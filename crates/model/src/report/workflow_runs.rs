//! Pipeline runs and their tasks.

use std::collections::BTreeMap;
use std::fmt;

use ebb_telemetry::identity::NodeId;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::StepKind;
use ebb_telemetry::step::resource_usage::SchedulerLabels;
use ebb_telemetry::units::CpuTime;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::inventory::batch::job::Job;
use crate::report::run_cost::RunCost;

/// The name of the pseudo run that contains the unassigned tasks.
pub const UNASSIGNED: &str = "unassigned";

/// How a task was assigned to its run, the most reliable way first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum JoinedBy {
    /// The label `run` from the scheduler.
    Label,
    /// A tag of its job: `ebb:run`, or a tag that Nextflow sets.
    Tag,
    /// The record of its engine or scheduler, see `ebb names push`.
    Record,
    /// The launcher process that started it on its node.
    Launcher,
    /// Dependencies between jobs.
    Dependency,
    /// The array job of which its job is a child.
    Array,
    /// A policy rule that derives the run from a name.
    Name,
}

impl fmt::Display for JoinedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Label => "label",
            Self::Tag => "tag",
            Self::Record => "record",
            Self::Launcher => "launcher",
            Self::Dependency => "dependencies",
            Self::Array => "array",
            Self::Name => "name",
        })
    }
}

/// The source of the step name of a task, the most reliable one first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StepNameSource {
    /// The label `step` from the scheduler.
    Label,
    /// A tag of its job.
    Tag,
    /// A policy rule.
    Rule,
    /// The record of its engine or scheduler, see `ebb names push`.
    Record,
    /// The name of its Batch job.
    JobName,
    /// The job definition of its Batch job.
    JobDefinition,
    /// The name that the probe read, such as that of a script.
    Probe,
    /// The image of its container and the executables that did the work, because no other source
    /// names the step.
    Image,
    /// The executables that did the work, because no other source names the step.
    Executables,
    /// Only an id, such as the number of a job.
    Id,
}

impl StepNameSource {
    /// Whether a person or program gave the step this name.
    pub fn is_given(self) -> bool {
        !matches!(self, Self::Image | Self::Executables | Self::Id)
    }
}

impl fmt::Display for StepNameSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Label => "label",
            Self::Tag => "tag",
            Self::Rule => "rule",
            Self::Record => "record",
            Self::JobName => "job name",
            Self::JobDefinition => "job definition",
            Self::Probe => "program",
            Self::Image => "image",
            Self::Executables => "executables",
            Self::Id => "id",
        })
    }
}

/// The engine, scheduler or runtime that a task belongs to, by what the probe observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskRuntime {
    /// A job of AWS Batch.
    Batch,
    /// A pod of Kubernetes.
    Pod,
    /// A container of ECS outside of Batch, or of another runtime.
    Container,
    /// A job of Slurm.
    Slurm,
    /// A task that Nextflow starts on its own machine.
    Nextflow,
    /// A job that Snakemake starts on its own machine.
    Snakemake,
    /// A process tree, such as a script.
    Script,
}

impl TaskRuntime {
    /// The runtime of a task, from its kind and whether it is a job of Batch.
    pub fn from_kind(kind: StepKind, job: Option<&Job>) -> Self {
        match kind {
            StepKind::EcsTask if job.is_some() => Self::Batch,
            StepKind::EcsTask | StepKind::Container => Self::Container,
            StepKind::Pod => Self::Pod,
            StepKind::SlurmJob => Self::Slurm,
            StepKind::NextflowTask => Self::Nextflow,
            StepKind::SnakemakeJob => Self::Snakemake,
            StepKind::Session | StepKind::Service | StepKind::Tree => Self::Script,
        }
    }
}

impl fmt::Display for TaskRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Batch => "Batch",
            Self::Pod => "pods",
            Self::Container => "containers",
            Self::Slurm => "Slurm",
            Self::Nextflow => "Nextflow",
            Self::Snakemake => "Snakemake",
            Self::Script => "scripts",
        })
    }
}

/// Numbers of tasks of one runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NamedTasks {
    /// All tasks.
    pub tasks: usize,
    /// Tasks whose step has a name from a person or program.
    pub named: usize,
}

/// The pipeline runs of the tasks that probes observed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Runs {
    /// Number of observed tasks, without login sessions and services.
    pub steps: usize,
    /// Number of assigned tasks, by how they were assigned.
    pub joined: BTreeMap<JoinedBy, usize>,
    /// Number of tasks, by the source of their step name.
    pub named: BTreeMap<StepNameSource, usize>,
    /// Number of tasks, and of those with a step name, by engine, scheduler or runtime.
    pub named_by_runtime: BTreeMap<TaskRuntime, NamedTasks>,
    /// The newest runs, at most `ebb_analysis::workflow_runs::MAX_RUNS`; [`UNASSIGNED`] is the
    /// last.
    pub runs: Vec<WorkflowRun>,
    /// Number of runs beyond those.
    pub left_out: usize,
    /// Tasks with a trace id or labels from a scheduler, the newest, at most
    /// `ebb_analysis::workflow_runs::MAX_TASK_LABELS`.
    #[serde(alias = "handed")]
    pub task_labels: Vec<TaskLabels>,
    /// Number of such tasks beyond those.
    #[serde(alias = "handed_left_out")]
    pub task_labels_left_out: usize,
}

impl Runs {
    /// The assigned share of the tasks, in parts per million; `None` without tasks.
    pub fn joined_ppm(&self) -> Option<u32> {
        let joined: usize = self.joined.values().sum();
        let ppm = (joined * 1_000_000).checked_div(self.steps)?;
        u32::try_from(ppm).ok()
    }
}

/// One pipeline run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkflowRun {
    /// The name of the run; [`UNASSIGNED`] for unassigned tasks.
    pub run: String,
    /// How its tasks were assigned; `None` for [`UNASSIGNED`].
    pub by: Option<JoinedBy>,
    /// The pipeline; `None` if it is unknown, or if the tasks have different pipelines.
    pub pipeline: Option<String>,
    /// Number of tasks.
    pub steps: usize,
    /// Number of running tasks.
    pub running: usize,
    /// Number of failed tasks.
    pub failed: usize,
    /// Total CPU time of the tasks.
    pub cpu: CpuTime,
    /// When the first task began.
    pub from: Timestamp,
    /// When the last task was observed.
    pub to: Timestamp,
    /// The sample names, at most 20; empty if no rule derives them.
    pub samples: Vec<String>,
    /// Number of samples beyond those.
    pub samples_left_out: usize,
    /// Simulated if at least one task is simulated.
    pub origin: Origin,
    /// Its cost by part; `None` if the cost of a part of its tasks is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_breakdown: Option<RunCost>,
}

/// A task with a trace id or labels from a scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskLabels {
    /// The node that it ran on.
    pub node: NodeId,
    /// The name of its step.
    pub step: String,
    /// The key of the task on its node.
    pub key: String,
    /// When it was last observed.
    pub at: Timestamp,
    /// The run.
    pub run: String,
    /// The sample; `None` when unknown.
    pub sample: Option<String>,
    /// The trace id and labels.
    #[serde(flatten)]
    pub scheduler_labels: SchedulerLabels,
}
