//! Reasons why an arrival is refused.

use std::error::Error;

use ebb_cloud::error_chain::reason;
use ebb_telemetry::arrival::PlaceError;
use ebb_telemetry::identity::{BootId, IdentityError, RoleId};
use ebb_wire::DecodeError;
use thiserror::Error;

/// Reason why an arrival is refused.
#[derive(Debug, Error)]
pub enum Refusal {
    /// The queue returned no sender.
    #[error("the queue did not say who sent it")]
    NoSender,
    /// The queue returned no arrival time.
    #[error("the queue did not say when it arrived")]
    NoArrival,
    /// The sender is not a node.
    #[error("the sender names no node")]
    NotANode(#[from] IdentityError),
    /// The arrival violates the wire format.
    #[error("it cannot be read")]
    Unreadable(#[from] DecodeError),
    /// The arrival claims another node, or its clocks contradict each other.
    #[error("it cannot be placed")]
    Misplaced(#[from] PlaceError),
    /// Another role sent data for the node less than an hour before.
    #[error("role {role} does not speak for the node: role {holder} does")]
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
    #[error("the key says {key}, the body {body}")]
    KeyMismatch {
        /// Boot, probe start and sequence in the key.
        key: String,
        /// Boot, probe start and sequence in the body.
        body: String,
    },
    /// Tasks of a boot before the one that sent them.
    #[error(
        "its steps ran in boot {boot}, which had ended when it was sent, so their time is not known"
    )]
    EarlierBoot {
        /// Boot of the tasks.
        boot: BootId,
    },
    /// No probe writes such a large object, and reading it would cost memory.
    #[error("it has {bytes} bytes; at most {max} are read")]
    TooLarge {
        /// Size of the object.
        bytes: u64,
        /// Maximum size.
        max: u64,
    },
    /// Sweeps crashed each time they opened the arrival.
    #[error("two sweeps crashed while they opened it and nothing else")]
    Crashes,
    /// A value does not fit into its column of the lake.
    #[error("the lake cannot hold it")]
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
