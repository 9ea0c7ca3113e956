//! Idle time of a node and its evidence.

use ebb_model::confidence::Confidence;
use ebb_model::finding::evidence::idle::IdleNode;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::time::Window;
use ebb_telemetry::units::Share;

/// Basis of the saving in a month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Projection {
    /// The observed cost continues for a month.
    Month,
    /// Too little time was observed: the saving is the cost of the window.
    WindowOnly,
}

/// An idle time of sufficient length and coverage.
pub(crate) struct Quiet {
    pub(crate) window: Window,
    pub(crate) coverage: Share,
    pub(crate) evidence: IdleNode,
    pub(crate) origin: Origin,
    pub(crate) confidence: Confidence,
    pub(crate) projection: Projection,
}
