//! Batch jobs on Fargate, where no probe can run: what each asked for, how long it ran, what
//! that costs at the list price, and by what it was judged, if by anything.

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
#[serde(default)]
pub struct FargateJobs {
    /// The newest first, at most [`ebb_analysis::evaluate::fargate_jobs::MAX_FARGATE_JOBS`].
    pub jobs: Vec<FargateJob>,
    /// Jobs beyond those.
    pub left_out: usize,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FargateJob {
    /// Its id.
    pub id: JobId,
    /// Its name.
    pub name: String,
    /// The name of its definition; `None` when unknown.
    pub definition: Option<String>,
    /// Its queue's name.
    pub queue: String,
    /// Where it is.
    pub region: Region,
    /// Whom to ask; `None` when no tag tells.
    pub owner: Option<String>,
    /// Whether it was measured or made by a generator.
    pub origin: Origin,
    /// How it stands.
    pub status: JobStatus,
    /// Why it stopped, or does not start: ECS's word, else Batch's.
    pub reason: Option<String>,
    /// The id of its ECS task; `None` before it has one.
    pub task: Option<String>,
    /// ECS's word for how that is; `None` from an hour after its end.
    pub task_status: Option<String>,
    /// What its task has, else what it asked for.
    pub asks: SizedRequest,
    /// When its container started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub stopped_at: Option<Timestamp>,
    /// How long its containers ran, those of all its attempts; `None` where none began.
    pub ran: Option<Duration>,
    /// How it is bought; `None` where its queue may do either and ECS does not say.
    pub market: Option<Market>,
    /// What an hour of it is listed at; `None` where that is not known.
    #[serde(rename = "per_hour_usd", alias = "per_hour")]
    pub per_hour: Option<UsdPerHour>,
    /// What it costs so far at that price, from its container's start; `None` where that is
    /// not known.
    #[serde(rename = "cost_usd", alias = "cost")]
    pub cost: Option<Usd>,
    /// Of when that price is; `None` where it is not known.
    #[serde(default)]
    pub price_as_of: Option<Timestamp>,
    /// Why no price is known.
    pub unpriced: Option<String>,
    /// CPU of the busiest task of its family while it ran, of what that asked for, by
    /// Container Insights: this one used no more. `None` where nothing tells.
    pub cpu: Option<Share>,
    /// The same of memory.
    pub memory: Option<Share>,
    /// Why it is not judged; `None` where Container Insights tells of its task alone, or it
    /// never ran.
    pub not_judged: Option<String>,
}
