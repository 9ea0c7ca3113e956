//! The format of the demo account's file. Times are minutes before `now`.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use ebb_model::inventory::batch::job::JobStatus;
use ebb_model::inventory::instance::{InstanceState, Market};
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::identity::{InstanceType, NodeId, Region};
use ebb_telemetry::step::resource_usage::TaskState;
use ebb_telemetry::step::{Requested, StepKind};
use ebb_telemetry::units::{Bytes, MilliCores};
use jiff::Timestamp;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Account {
    pub(super) now: Timestamp,
    pub(super) nodes: Vec<Node>,
    pub(super) bill: BillSpec,
    pub(super) environment: Environment,
    pub(super) jobs: Vec<JobSpec>,
    pub(super) fargate: FargateSpec,
    pub(super) steps: Vec<StepSpec>,
    pub(super) gaps: Vec<Gap>,
}

impl Account {
    pub(super) fn ago(&self, minutes: u64) -> Result<Timestamp> {
        Ok(self.now.checked_sub(Duration::from_secs(minutes * 60))?)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Node {
    pub(super) id: NodeId,
    pub(super) name: Option<String>,
    pub(super) owner: Option<String>,
    pub(super) region: Region,
    #[serde(rename = "type")]
    pub(super) instance_type: InstanceType,
    #[serde(default = "on_demand")]
    pub(super) market: Market,
    #[serde(default = "running")]
    pub(super) state: InstanceState,
    pub(super) age_hours: u64,
    /// The Auto Scaling group that maintains it.
    pub(super) group: Option<String>,
    /// The Batch environment that it belongs to.
    pub(super) environment: Option<String>,
    /// The pipeline of its steps, from its tag.
    pub(super) pipeline: Option<String>,
    #[serde(default)]
    pub(super) standby: bool,
    /// Billed dollars of a full day.
    pub(super) bill_a_day: Option<String>,
    pub(super) probe: Option<ProbeSpec>,
    pub(super) metrics: Option<MetricsSpec>,
    /// When its ECS agent was disconnected.
    pub(super) agent_lost: Option<u64>,
}

/// Dollars of each day.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BillSpec {
    /// Deleted machines by id.
    pub(super) past_machines: BTreeMap<NodeId, String>,
    /// The part of other services that Ebb's own resources cost a day.
    pub(super) ebb_a_day: String,
    /// Other services by their names in the bill.
    pub(super) services: BTreeMap<String, String>,
}

fn on_demand() -> Market {
    Market::OnDemand
}

fn busy() -> f64 {
    0.7
}

fn running() -> InstanceState {
    InstanceState::Running
}

/// Observations of its probe.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProbeSpec {
    /// When the probe was started.
    pub(super) watched: u64,
    /// When activity ended; `None` if there was none.
    pub(super) active: Option<u64>,
    /// One in this many heartbeats is missing.
    pub(super) missed_every: Option<u64>,
    /// Busy cores in its active minutes.
    #[serde(default = "busy")]
    pub(super) busy: f64,
    #[serde(default)]
    pub(super) gpus: u32,
    /// A task that runs all the time and does nothing.
    pub(super) open: Option<OpenStep>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenStep {
    pub(super) kind: StepKind,
    pub(super) key: String,
    pub(super) name: String,
}

/// Metrics of CloudWatch.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MetricsSpec {
    /// How many hours the metrics cover.
    pub(super) hours: u64,
    /// When work ended, in hours before `now`; `None` if there was none.
    pub(super) busy: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Environment {
    pub(super) name: String,
    pub(super) region: Region,
    pub(super) queue: String,
    pub(super) instance_types: Vec<String>,
    pub(super) allocation: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JobSpec {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) owner: String,
    pub(super) status: JobStatus,
    pub(super) reason: Option<String>,
    pub(super) created: u64,
    pub(super) node: Option<NodeId>,
    pub(super) task: Option<String>,
    /// The run and pipeline in its tags.
    pub(super) run_tag: Option<String>,
    pub(super) pipeline: Option<String>,
    pub(super) request: ResourceRequest,
    /// Observations of the probe; `None` without a probe.
    pub(super) run: Option<RunSpec>,
}

/// A queue on Fargate, in the region of the environment.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FargateSpec {
    pub(super) name: String,
    pub(super) queue: String,
    pub(super) jobs: Vec<FargateJobSpec>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FargateJobSpec {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) owner: String,
    pub(super) status: JobStatus,
    pub(super) created: u64,
    pub(super) started: u64,
    /// When it ended; `None` if it still runs.
    pub(super) stopped: Option<u64>,
    pub(super) task: String,
    pub(super) request: ResourceRequest,
    /// Container Insights of its family while it runs.
    pub(super) insights: Option<InsightsSpec>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InsightsSpec {
    pub(super) cpu_percent: u32,
    pub(super) memory_percent: u32,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResourceRequest {
    cores: u64,
    gib: u64,
}

impl From<ResourceRequest> for Requested {
    fn from(request: ResourceRequest) -> Self {
        Self {
            cores: Some(MilliCores::cores(request.cores)),
            memory: Some(Bytes::gib(request.gib)),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunSpec {
    pub(super) started: u64,
    pub(super) progress: u64,
    pub(super) cpu_seconds: u64,
    pub(super) processes: u64,
    pub(super) peak_cores: f64,
    pub(super) peak_mib: u64,
    /// Its executables, the busiest first.
    pub(super) tools: Vec<String>,
}

/// Finished tasks of one step.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StepSpec {
    pub(super) name: String,
    pub(super) node: NodeId,
    pub(super) runs: u64,
    pub(super) every: u64,
    pub(super) minutes: u64,
    pub(super) ended: u64,
    /// The Nextflow run that started it, from its node. Runs follow one another; each has this
    /// length in minutes.
    pub(super) launched: Option<u64>,
    pub(super) request: ResourceRequest,
    pub(super) peak_cores: f64,
    pub(super) peak_mib: u64,
    /// Its executables, the busiest first.
    pub(super) tools: Vec<String>,
    /// Its states in per cent of its time; empty if they were not observed.
    #[serde(default)]
    pub(super) doing: BTreeMap<TaskState, u64>,
}

/// Cores from the number in the file.
pub(super) fn milli(cores: f64) -> MilliCores {
    MilliCores((cores * 1000.0).round() as u64)
}
