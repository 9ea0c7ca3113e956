//! How long a node was idle, and how that is known.

use ebb_model::confidence::Confidence;
use ebb_model::finding::evidence::idle::IdleNode;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::time::Window;
use ebb_telemetry::units::Share;

/// What a saving a month may be told from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Projection {
    /// What was seen goes on for a month.
    Month,
    /// Too little was seen for that: the saving is what the window itself cost.
    WindowOnly,
}

/// A quiet time that is long enough and was seen well enough.
pub(crate) struct Quiet {
    pub(crate) window: Window,
    pub(crate) coverage: Share,
    pub(crate) evidence: IdleNode,
    pub(crate) origin: Origin,
    pub(crate) confidence: Confidence,
    pub(crate) projection: Projection,
}
