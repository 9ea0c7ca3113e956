//! Batch jobs on Fargate, which cannot run a probe. For each job: its request, run time and cost at
//! the list price, and whether it was evaluated.

use std::time::Duration;

use ebb_telemetry::identity::Region;
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::units::Share;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::advice::sized_request::SizedRequest;
use crate::inventory::batch::job::{JobId, JobStatus};
use crate::inventory::instance::Market;

/// The jobs that Batch placed on Fargate.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct FargateJobs {
    /// The newest first, at most `ebb_analysis::evaluate::fargate_jobs::MAX_FARGATE_JOBS`.
    pub jobs: Vec<FargateJob>,
    /// Number of jobs beyond those.
    pub left_out: usize,
}

/// A Batch job on Fargate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FargateJob {
    /// Its id.
    pub id: JobId,
    /// Its name.
    pub name: String,
    /// The name of its job definition; `None` when unknown.
    pub definition: Option<String>,
    /// The name of its queue.
    pub queue: String,
    /// The region.
    pub region: Region,
    /// The owner; `None` when no tag names one.
    pub owner: Option<String>,
    /// Whether it was measured or made by a generator.
    pub origin: Origin,
    /// The job status.
    pub status: JobStatus,
    /// Why it stopped or does not start, as ECS reports it, or else Batch. `None` without a reason.
    pub reason: Option<String>,
    /// The id of its ECS task; `None` before it has one.
    pub task: Option<String>,
    /// The status of the ECS task; `None` from an hour after its end.
    pub task_status: Option<String>,
    /// The size of its task, or the request if the size is unknown.
    pub asks: SizedRequest,
    /// When its container started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub stopped_at: Option<Timestamp>,
    /// Total run time of the containers of all attempts; `None` if none began.
    pub ran: Option<Duration>,
    /// The purchase option; `None` if its queue allows both and ECS does not report it.
    pub market: Option<Market>,
    /// The list price per hour; `None` when unknown.
    #[serde(rename = "per_hour_usd", alias = "per_hour")]
    pub per_hour: Option<UsdPerHour>,
    /// The cost so far at that price, since the start of its container; `None` when unknown.
    #[serde(rename = "cost_usd", alias = "cost")]
    pub cost: Option<Usd>,
    /// The date of that price; `None` when unknown.
    #[serde(default)]
    pub price_as_of: Option<Timestamp>,
    /// Why no price is known; `None` if a price is known.
    pub unpriced: Option<String>,
    /// Peak CPU of its task family while it ran, as a share of the request, from Container
    /// Insights. The job used at most as much. `None` without data.
    pub cpu: Option<Share>,
    /// The same for memory.
    pub memory: Option<Share>,
    /// Why it was not evaluated. `None` if Container Insights reports its task alone, or if it
    /// never ran.
    #[serde(alias = "not_judged")]
    pub not_evaluated: Option<String>,
}
