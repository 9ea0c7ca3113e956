//! Why something that arrived is not believed.

use std::error::Error;

use ebb_cloud::error_chain::reason;
use ebb_telemetry::arrival::PlaceError;
use ebb_telemetry::identity::{BootId, IdentityError, RoleId};
use ebb_wire::DecodeError;
use thiserror::Error;

/// Why something that arrived is not believed.
#[derive(Debug, Error)]
pub enum Refusal {
    /// The queue hands out a sender with every message.
    #[error("the queue did not say who sent it")]
    NoSender,
    /// And a time of arrival.
    #[error("the queue did not say when it arrived")]
    NoArrival,
    /// Whoever sent it is no node.
    #[error("the sender names no node")]
    NotANode(#[from] IdentityError),
    /// It does not keep the wire contract.
    #[error("it cannot be read")]
    Unreadable(#[from] DecodeError),
    /// It claims to be someone else's, or its clocks contradict each other.
    #[error("it cannot be placed")]
    Misplaced(#[from] PlaceError),
    /// Another role spoke for the node less than an hour before.
    #[error("role {role} does not speak for the node: role {holder} does")]
    AnotherRole {
        /// Whose credentials sent it.
        role: RoleId,
        /// Whose sent what was accepted before.
        holder: RoleId,
    },
    /// No probe writes such a key.
    #[error("the key is not ingest/v1/<aws:userid>/<boot>/<probe start>/<sequence>.steps.zst")]
    ForeignKey,
    /// The key says one thing, the body another.
    #[error("the key says {key}, the body {body}")]
    KeyMismatch {
        /// Boot, probe start and sequence of the key.
        key: String,
        /// Those of the body.
        body: String,
    },
    /// Steps left over from a boot before the one that sent them.
    #[error(
        "its steps ran in boot {boot}, which had ended when it was sent, so their time is not known"
    )]
    EarlierBoot {
        /// The boot that they ran in.
        boot: BootId,
    },
    /// No probe writes such an object, and reading it would cost memory.
    #[error("it has {bytes} bytes; at most {max} are read")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The bound.
        max: u64,
    },
    /// Sweeps crashed whenever they opened it.
    #[error("two sweeps crashed while they opened it and nothing else")]
    Crashes,
    /// A value that no column of the lake takes.
    #[error("the lake cannot hold it")]
    Unstorable(#[source] Box<dyn Error + Send + Sync>),
}

impl Refusal {
    /// The name that it is counted under.
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

    /// The whole chain of reasons in one line, for the person who looks into the
    /// dead-letter place.
    pub fn reason(&self) -> String {
        reason(self)
    }
}
