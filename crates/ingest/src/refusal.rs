//! Reasons why an arrival is refused.

use std::error::Error;

use ebb_cloud::error_chain::reason;
use ebb_telemetry::arrival::PlaceError;
use ebb_telemetry::identity::{BootId, IdentityError, RoleId};
use ebb_wire::DecodeError;
use jiff::Timestamp;
use thiserror::Error;

/// Reason why an arrival is refused.
#[derive(Debug, Error)]
pub enum Refusal {
    /// The queue returned no sender.
    #[error("no sender in the queue message")]
    NoSender,
    /// The queue returned no arrival time.
    #[error("no arrival time in the queue message")]
    NoArrival,
    /// The sender is not a node.
    #[error("the sender is not a node")]
    NotANode(#[from] IdentityError),
    /// The arrival violates the wire format.
    #[error("failed to decode the message or object")]
    Unreadable(#[from] DecodeError),
    /// The arrival claims another node, or its clocks contradict each other.
    #[error("failed to assign the message or object to a node and time")]
    Misplaced(#[from] PlaceError),
    /// Another role sent data for the node less than an hour before.
    #[error("role {role} may not send for the node; role {holder} sends for it")]
    AnotherRole {
        /// Role of this sender.
        role: RoleId,
        /// Role of the accepted sender.
        holder: RoleId,
    },
    /// No probe writes such a key.
    #[error("the key is not ingest/v1/<aws:userid>/<boot>/<probe start>/<sequence>.steps.zst")]
    ForeignKey,
    /// Key and body contradict each other.
    #[error("the key contains {key}, but the body {body}")]
    KeyMismatch {
        /// Boot, probe start and sequence in the key.
        key: String,
        /// Boot, probe start and sequence in the body.
        body: String,
    },
    /// Tasks of a boot before the one that sent them.
    #[error(
        "the tasks ran in boot {boot}, which ended before it was sent, so their time is unknown"
    )]
    EarlierBoot {
        /// Boot of the tasks.
        boot: BootId,
    },
    /// It arrived so long ago that each such arrival could get a day of its own in the lake.
    #[error("it arrived on {at}, more than {days} days before this sweep")]
    Expired {
        /// When it arrived.
        at: Timestamp,
        /// The maximum age in days.
        days: u64,
    },
    /// No probe writes such a large object, and reading it would cost memory.
    #[error("{bytes} bytes, more than the maximum of {max}")]
    TooLarge {
        /// Size of the object.
        bytes: u64,
        /// Maximum size.
        max: u64,
    },
    /// Sweeps crashed each time they opened the arrival.
    #[error("two sweeps crashed while they opened only this")]
    Crashes,
    /// A value does not fit into its column of the lake.
    #[error("failed to convert it to a row of the lake")]
    Unstorable(#[source] Box<dyn Error + Send + Sync>),
}

impl Refusal {
    /// Name under which the refusal is counted.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NoSender | Self::NoArrival | Self::NotANode(_) => "not_attested",
            Self::Unreadable(DecodeError::UnknownSchema { .. }) => "unknown_schema",
            Self::Unreadable(_) => "unreadable",
            Self::Misplaced(PlaceError::ClaimsAnotherNode { .. }) => "claims_another_node",
            Self::Misplaced(_) | Self::EarlierBoot { .. } => "not_placed_in_time",
            Self::AnotherRole { .. } => "another_role",
            Self::ForeignKey => "foreign_object",
            Self::KeyMismatch { .. } => "key_mismatch",
            Self::Expired { .. } => "expired",
            Self::TooLarge { .. } => "too_large",
            Self::Crashes => "crashes",
            Self::Unstorable(_) => "unstorable",
        }
    }

    /// All causes in one line, for a user who inspects the dead letters.
    pub fn reason(&self) -> String {
        reason(self)
    }
}
