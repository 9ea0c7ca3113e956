//! The condition of one probe.

use ebb_telemetry::identity::NodeId;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::probe_version::ProbeVersion;
use ebb_telemetry::units::{Bytes, Share};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::report::probe_problem::ProbeProblem;

/// The condition of one probe, from its last heartbeat. Counters begin with the start of the probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Probe"))]
pub struct ProbeSummary {
    /// The node.
    pub node: NodeId,
    /// Whether the data was measured or made by a generator.
    pub origin: Origin,
    /// How it observes processes.
    pub mode: ProbeMode,
    /// The end of its last heartbeat.
    pub heard_at: Timestamp,
    /// Kernel events lost because the ring buffer was full.
    pub events_lost: u64,
    /// Records that it lost before it could send them.
    pub records_dropped: u64,
    /// Bytes that wait on disk to be sent.
    pub spool_bytes: Bytes,
    /// Its resident memory; `None` if it could not be read.
    pub resident_bytes: Option<Bytes>,
    /// Its CPU time as a share of one core; `None` for an interval without length.
    pub cpu_share: Option<Share>,
    /// By how many seconds the clock of the node is ahead; negative if it is behind. Up to two
    /// minutes behind are not distinguished from a slow network and count as 0.
    pub clock_ahead_seconds: i64,
    /// Its version; `None` if it did not send one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub version: Option<ProbeVersion>,
    /// Its problems, the most urgent first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<ProbeProblem>,
}

/// How a probe observes processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ProbeMode {
    /// The kernel reports every process by eBPF.
    Ebpf,
    /// The probe samples procfs, and misses short processes.
    Procfs,
}
