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

/// Schema of the state; this program does not read any other schema.
pub(crate) const SCHEMA: &str = "ebb.state/15";

/// Folder of states and hourly activity.
pub(crate) const FOLDER: &str = "state/v1/";

/// 100,000 nodes take about 25 MB. A larger state needs more shards; until then the nodes with the
/// oldest heartbeats are left out.
pub(crate) const MAX_PACKED_BYTES: u64 = 64 << 20;

/// Maximum decompressed size: half the memory of the smallest sweeper.
const MAX_UNPACKED_BYTES: u64 = 512 << 20;

/// Level 3 is the default of zstd; the network is not the bottleneck of a sweep.
const ZSTD_LEVEL: i32 = 3;

/// Reason why the state was not read or written.
#[derive(Debug, Error)]
pub enum StoredError {
    /// Error of the bucket.
    #[error("failed to read or write the state {key}")]
    Cloud {
        /// Key of the state.
        key: String,
        /// Cause.
        source: CloudError,
    },
    /// The state is too large for one object even without nodes.
    #[error("the state has {bytes} bytes without any node, more than the maximum of {max}")]
    TooLarge {
        /// Size of the state.
        bytes: u64,
        /// Maximum size.
        max: u64,
    },
    /// The state could not be serialized.
    #[error("failed to encode the state")]
    Encode(#[source] postcard::Error),
    /// Compression failed.
    #[error("failed to compress the state")]
    Compress(#[source] std::io::Error),
}

/// Versions of the tables in the lake that the state includes; `None` before the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Folded {
    /// Version of the heartbeats.
    pub heartbeats: Option<u64>,
    /// Version of the finished tasks.
    pub steps: Option<u64>,
}

/// Data that is stored between sweeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// Thresholds between active and idle; other thresholds require a rebuild.
    pub activity: ActivityPolicy,
    /// Folded versions of the lake.
    pub folded: Folded,
    /// Data that is not in the lake. It is lost with an unusable state; waiting periods then start
    /// again.
    pub memory: Memory,
    /// The role that sends data for each node. It is not in the lake either; after a loss it is
    /// learned again.
    pub roles: Roles,
    /// State of the nodes.
    pub fleet: FleetState,
}

impl Stored {
    /// A state without data.
    pub fn empty(activity: &ActivityPolicy) -> Self {
        Self {
            activity: activity.clone(),
            folded: Folded::default(),
            memory: Memory::default(),
            roles: Roles::default(),
            fleet: FleetState::default(),
        }
    }

    /// Returns the stored form and the number of nodes that were left out for lack of room.
    ///
    /// # Errors
    /// `TooLarge` if the state does not fit even without nodes.
    pub fn pack(&mut self) -> Result<(Vec<u8>, usize), StoredError> {
        pack_what_fits(SCHEMA, self, MAX_PACKED_BYTES)
    }
}

/// Data by node from which nodes can be removed.
pub(crate) trait OfNodes {
    fn nodes(&self) -> usize;

    /// Keeps the `max` nodes with the newest heartbeats; returns the number of removed nodes.
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

/// Serializes and compresses the value. If the value does not fit, the nodes with the oldest
/// heartbeats are removed, because terminated nodes are among them.
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
        // Keeps a tenth less than fits, so that the next sweep does not remove nodes again.
        let fit = u128::from(max) * value.nodes() as u128 * 9 / (u128::from(bytes) * 10);
        left_out += value.keep_newest(usize::try_from(fit).unwrap_or(0));
        tracing::warn!(
            left_out,
            schema,
            "removed the nodes with the oldest data because the state is full; use more shards"
        );
    }
}

pub(crate) fn unpack<T: DeserializeOwned>(schema: &str, bytes: &[u8]) -> Result<T, String> {
    let line = format!("{schema}\n");
    let packed = bytes
        .strip_prefix(line.as_bytes())
        .ok_or_else(|| format!("the schema is not {schema}"))?;
    let plain = inflate(packed, MAX_UNPACKED_BYTES)?;
    postcard::from_bytes(&plain).map_err(|e| format!("failed to decode it: {e}"))
}

/// A single shard has no folder of its own.
pub(crate) fn in_folder(Shard { index, of }: Shard, prefix: &str) -> String {
    match of {
        1 => format!("{FOLDER}{prefix}shard={index:02}.zst"),
        _ => format!("{FOLDER}of={of:02}/{prefix}shard={index:02}.zst"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use ebb_model::cost_record::{WrittenCosts, WrittenDay};
    use ebb_model::report::cost_shares::CostDimension;
    use ebb_model::spend_history::{SpendDay, SpendHistory};
    use ebb_model::sweep_memory::{Jobless, ProbeMark};
    use ebb_telemetry::heartbeat::node_signals::{GpuUse, Pressure};
    use ebb_telemetry::identity::attested;
    use ebb_telemetry::money::Usd;
    use ebb_telemetry::stable_hash::stable_hash;
    use ebb_telemetry::step::{
        MemorySource, PeakMemory, Requested, StepDetail, StepUsage, ToolUsage,
    };
    use ebb_telemetry::testing::{at, clock, node, placed, placed_step, usage};
    use ebb_telemetry::units::{Bytes, CpuTime, MilliCores, Share};

    use super::*;

    /// The schema, and the digest of the stored form of a state with all its fields.
    const STORED_FORM: (&str, u64) = ("ebb.state/15", 0xa001_2272_f6a6_3f6e);

    #[test]
    fn a_changed_stored_form_has_a_new_schema() {
        let bytes = postcard::to_allocvec(&full()).expect("it is encoded");
        let form = (SCHEMA, stable_hash(bytes));
        assert_eq!(
            form, STORED_FORM,
            "The stored form of the state changed. A sweep would read states of the earlier form \
             wrongly. If a release wrote states of this schema, raise SCHEMA. Then write the new \
             schema and digest into STORED_FORM: {form:#x?}"
        );
    }

    fn full_usage() -> StepUsage {
        StepUsage {
            peak_memory: Some(PeakMemory {
                bytes: Bytes(3),
                source: MemorySource::CgroupSampled,
            }),
            disk_read: Some(Bytes(5)),
            disk_written: Some(Bytes(7)),
            requested: Requested {
                cores: Some(MilliCores(11)),
                memory: Some(Bytes(13)),
            },
            tools: vec![ToolUsage {
                name: "bwa".to_owned(),
                processes: 17,
                cpu: CpuTime(19),
                peak_memory: Some(Bytes(23)),
                disk: Some(Bytes(29)),
                events: None,
            }],
            detail: StepDetail::sample(),
            ..usage(1, clock(60))
        }
    }

    fn full_spend() -> SpendHistory {
        let names = BTreeMap::from([("rnaseq".to_owned(), Some(Usd::from_micros(41)))]);
        let day = SpendDay {
            billed: Usd::from_micros(43),
            by: BTreeMap::from([(CostDimension::Pipeline, names)]),
            left_out: BTreeMap::from([(CostDimension::CostCentre, 47)]),
        };
        SpendHistory {
            cost_centre_tag: Some("CostCenter".to_owned()),
            days: BTreeMap::from([(jiff::civil::date(2026, 11, 20), day)]),
            ..SpendHistory::default()
        }
    }

    fn full_memory() -> Memory {
        Memory {
            disconnected_since: BTreeMap::from([(node(1), at(3))]),
            jobless: BTreeMap::from([(
                "i-1/task".to_owned(),
                Jobless {
                    since: at(5),
                    sweeps: 7,
                },
            )]),
            unassociated_since: BTreeMap::from([("eipalloc-1".to_owned(), at(11))]),
            first_sweep: Some(at(13)),
            probes: BTreeMap::from([(
                node(1),
                ProbeMark {
                    heard_at: at(19),
                    lost: [23, 29],
                    lost_at: [Some(at(31)), None],
                    spool: Bytes(37),
                    spool_grows: true,
                },
            )]),
            spend: full_spend(),
            node_hours: Some(61),
            costs: WrittenCosts {
                batch: Some(53),
                days: BTreeMap::from([(
                    jiff::civil::date(2026, 11, 20),
                    WrittenDay {
                        billed: Usd::from_micros(59),
                        is_closed: true,
                    },
                )]),
            },
        }
    }

    /// A state in which every map has an entry and every option a value.
    fn full() -> Stored {
        let mut stored = Stored::empty(&ActivityPolicy::default());
        stored.folded = Folded {
            heartbeats: Some(1),
            steps: Some(2),
        };
        stored.memory = full_memory();
        let sender = attested("AROAEXAMPLE:i-00000001").expect("a sender");
        let claimed = stored.roles.claim(&sender.node, &sender.role, at(17));
        claimed.expect("its first role");
        let month = 28 * 24 * 60;
        for sequence in [0, month] {
            let mut heartbeat = placed(1, sequence);
            let h = &mut heartbeat.heartbeat;
            h.steps = vec![full_usage()];
            h.coverage.gpu = Some(Share::ALL);
            h.detail.gpus = vec![GpuUse {
                number: 1,
                model: "L4".to_owned(),
                busy: Some(Share::ALL),
                memory_held: Some(Bytes(19)),
                memory: Some(Bytes(23)),
                processes: Some(29),
            }];
            h.detail.version = Some("1.2.3".parse().expect("a version"));
            h.detail.pressure = Some(Pressure {
                disk_some: Duration::from_secs(6),
                ..Pressure::default()
            });
            stored.fleet.fold_heartbeat(&heartbeat, &stored.activity);
            let mut ended = placed_step(1, sequence);
            ended.usage.detail = StepDetail::sample();
            stored.fleet.fold_step(&ended);
        }
        stored
    }
}
