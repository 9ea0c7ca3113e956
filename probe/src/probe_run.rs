//! The identity of one run of the probe.

use ebb_telemetry::identity::{BootId, NodeId, ProbeStart};

/// The identity of this run, with which every record begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeRun {
    /// The node as the cloud attests it.
    pub node: NodeId,
    /// The boot id.
    pub boot: BootId,
    /// The start of the probe.
    pub probe_start: ProbeStart,
}
