//! The stored form of the state.

use ebb_cloud::documents::inflate::inflate;
use ebb_cloud::ports::CloudError;
use ebb_model::sweep_memory::Memory;
use ebb_node_state::fleet_state::FleetState;
use ebb_telemetry::activity::ActivityPolicy;
use ebb_telemetry::shard::Shard;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::state_store::roles::Roles;

/// The schema line; another one is read by another program, or never again.
pub(crate) const SCHEMA: &str = "ebb.state/12";

/// Where states and hours lie.
pub(crate) const FOLDER: &str = "state/v1/";

/// 100,000 nodes take about 25 MB. Beyond this the fleet needs more shards, and those
/// nodes are left out that were heard of longest ago.
pub(crate) const MAX_PACKED_BYTES: u64 = 64 << 20;

/// What a packed state may unpack to: half the memory of the smallest sweeper.
const MAX_UNPACKED_BYTES: u64 = 512 << 20;

/// Level 3 is zstd's own default; the network is not what a sweep waits for.
const ZSTD_LEVEL: i32 = 3;

/// Why the state was not read or written.
#[derive(Debug, Error)]
pub enum StoredError {
    /// The bucket.
    #[error("the state {key}")]
    Cloud {
        /// Its key.
        key: String,
        /// Why.
        source: CloudError,
    },
    /// It outgrew one object without any node in it.
    #[error("without any node the state takes {bytes} bytes, at most {max} are stored")]
    TooLarge {
        /// What it would take.
        bytes: u64,
        /// The bound.
        max: u64,
    },
    /// It could not be expressed.
    #[error("encoding the state")]
    Encode(#[source] postcard::Error),
    /// The compressor failed.
    #[error("compressing the state")]
    Compress(#[source] std::io::Error),
}

/// Versions of the lake's tables that the state holds; `None` for nothing yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Folded {
    /// Of the heartbeats.
    pub heartbeats: Option<u64>,
    /// Of the finished steps.
    pub steps: Option<u64>,
}

/// What is remembered between sweeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// The policy that told active from idle; another one needs another fold.
    pub activity: ActivityPolicy,
    /// How far the lake was folded.
    pub folded: Folded,
    /// What is not in the lake. Lost with a state that cannot be used: waits then begin
    /// anew.
    pub memory: Memory,
    /// Which role speaks for each node. Not in the lake either: lost, it is learned again.
    pub roles: Roles,
    /// The nodes.
    pub fleet: FleetState,
}

impl Stored {
    /// Nothing yet.
    pub fn empty(activity: &ActivityPolicy) -> Self {
        Self {
            activity: activity.clone(),
            folded: Folded::default(),
            memory: Memory::default(),
            roles: Roles::default(),
            fleet: FleetState::default(),
        }
    }

    /// As it is stored, and how many nodes were left out of it for want of room.
    ///
    /// # Errors
    /// `TooLarge` where that is not enough.
    pub fn pack(&mut self) -> Result<(Vec<u8>, usize), StoredError> {
        pack_what_fits(SCHEMA, self, MAX_PACKED_BYTES)
    }
}

/// What can do with fewer nodes.
pub(crate) trait OfNodes {
    fn nodes(&self) -> usize;

    /// Leaves out all but those heard of last; tells how many that were.
    fn keep_newest(&mut self, max: usize) -> usize;
}

impl OfNodes for Stored {
    fn nodes(&self) -> usize {
        self.fleet.nodes.len()
    }

    fn keep_newest(&mut self, max: usize) -> usize {
        let left_out = self.fleet.keep_newest(max);
        let nodes = &self.fleet.nodes;
        self.roles.keep(|node| nodes.contains_key(node));
        left_out
    }
}

/// Packs it. A fleet that outgrew its object is swept all the same, without the nodes
/// that were heard of longest ago: who is gone goes first.
pub(crate) fn pack_what_fits<T: Serialize + OfNodes>(
    schema: &str,
    value: &mut T,
    max_packed: u64,
) -> Result<(Vec<u8>, usize), StoredError> {
    let mut left_out = 0;
    loop {
        let plain = postcard::to_allocvec(value).map_err(StoredError::Encode)?;
        let packed = zstd::bulk::compress(&plain, ZSTD_LEVEL).map_err(StoredError::Compress)?;
        let mut bytes = format!("{schema}\n").into_bytes();
        bytes.extend(packed);
        let sizes = [
            (plain.len() as u64, MAX_UNPACKED_BYTES),
            (bytes.len() as u64, max_packed),
        ];
        let Some((bytes, max)) = sizes.into_iter().find(|(size, max)| size > max) else {
            return Ok((bytes, left_out));
        };
        if value.nodes() == 0 {
            return Err(StoredError::TooLarge { bytes, max });
        }
        // A tenth less than would fit, so that the next sweep does not do it again.
        let fit = u128::from(max) * value.nodes() as u128 * 9 / (u128::from(bytes) * 10);
        left_out += value.keep_newest(usize::try_from(fit).unwrap_or(0));
        tracing::warn!(
            left_out,
            schema,
            "nodes that were heard of longest ago are left out for want of room: use more shards"
        );
    }
}

pub(crate) fn unpack<T: DeserializeOwned>(schema: &str, bytes: &[u8]) -> Result<T, String> {
    let line = format!("{schema}\n");
    let packed = bytes
        .strip_prefix(line.as_bytes())
        .ok_or_else(|| format!("it is not of schema {schema}"))?;
    let plain = inflate(packed, MAX_UNPACKED_BYTES)?;
    postcard::from_bytes(&plain).map_err(|e| format!("it cannot be decoded: {e}"))
}

/// The only shard has no folder of its own.
pub(crate) fn in_folder(Shard { index, of }: Shard, prefix: &str) -> String {
    match of {
        1 => format!("{FOLDER}{prefix}shard={index:02}.zst"),
        _ => format!("{FOLDER}of={of:02}/{prefix}shard={index:02}.zst"),
    }
}
