//! The state between sweeps, as one object of the bucket: a cache of the lake. One
//! that cannot be used is not an error; it is folded again from the lake.

mod adopt;
mod found;
pub mod hours;
pub mod parts;
pub mod roles;

use std::io::Read;

use ebb_cloud::ports::{CloudError, Objects, PutIf, PutOptions};
use ebb_model::sweep_memory::Memory;
use ebb_node_state::fleet_state::FleetState;
use ebb_telemetry::activity::ActivityPolicy;
use ebb_telemetry::shard::Shard;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use self::found::Unusable;
use self::roles::Roles;

/// The schema line; another one is read by another program, or never again.
const SCHEMA: &str = "ebb.state/12";

/// Where states and hours lie.
const FOLDER: &str = "state/v1/";

/// 100,000 nodes take about 25 MB. Beyond this the fleet needs more shards, and those
/// nodes are left out that were heard of longest ago.
const MAX_PACKED_BYTES: u64 = 64 << 20;
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
trait OfNodes {
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
fn pack_what_fits<T: Serialize + OfNodes>(
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

fn unpack<T: DeserializeOwned>(schema: &str, bytes: &[u8]) -> Result<T, String> {
    let line = format!("{schema}\n");
    let packed = bytes
        .strip_prefix(line.as_bytes())
        .ok_or_else(|| format!("it is not of schema {schema}"))?;
    let plain = inflate(packed, MAX_UNPACKED_BYTES)?;
    postcard::from_bytes(&plain).map_err(|e| format!("it cannot be decoded: {e}"))
}

/// Unpacks at most `max` bytes; in words why not.
pub(crate) fn inflate(packed: &[u8], max: u64) -> Result<Vec<u8>, String> {
    let mut plain = Vec::new();
    zstd::stream::read::Decoder::new(packed)
        .and_then(|decoder| decoder.take(max + 1).read_to_end(&mut plain))
        .map_err(|e| format!("it cannot be unpacked: {e}"))?;
    if plain.len() as u64 > max {
        return Err(format!("it unpacks to more than {max} bytes"));
    }
    Ok(plain)
}

/// A state as it was found, and what its replacement must name.
#[derive(Debug)]
pub struct Loaded {
    /// The state; without nodes when there was none that could be used.
    pub stored: Stored,
    /// The condition of the next write.
    pub replaces: PutIf,
    /// Why a state that was there is not used.
    pub unusable: Option<String>,
}

/// Where the state of a shard lies.
pub fn key(shard: Shard) -> String {
    in_folder(shard, "")
}

/// The only shard has no folder of its own.
fn in_folder(Shard { index, of }: Shard, prefix: &str) -> String {
    match of {
        1 => format!("{FOLDER}{prefix}shard={index:02}.zst"),
        _ => format!("{FOLDER}of={of:02}/{prefix}shard={index:02}.zst"),
    }
}

/// Reads the state of a shard.
///
/// # Errors
/// When the bucket does not answer. What it answers is never an error.
pub async fn load(
    objects: &dyn Objects,
    shard: Shard,
    activity: &ActivityPolicy,
) -> Result<Loaded, StoredError> {
    let Some(found) = found::find(objects, &key(shard), activity).await? else {
        let adopted = adopt::others::<Stored>(objects, shard, activity).await?;
        return Ok(Loaded {
            stored: adopted.unwrap_or_else(|| Stored::empty(activity)),
            replaces: PutIf::Absent,
            unusable: None,
        });
    };
    let (stored, unusable) = match found.part {
        Ok(stored) => (stored, None),
        Err(Unusable { why, other }) => {
            let memory = other.map_or_else(Memory::default, |other: Stored| other.memory);
            let empty = Stored::empty(activity);
            (Stored { memory, ..empty }, Some(why))
        }
    };
    Ok(Loaded {
        stored,
        replaces: found.replaces,
        unusable,
    })
}

/// How a write ended.
#[derive(Debug)]
pub enum Saved {
    /// It stands.
    Done {
        /// What the next write must name.
        replaces: PutIf,
        /// Nodes that there was no room for.
        left_out: usize,
    },
    /// Someone else wrote in the meantime.
    Conflict,
}

/// Writes the state of a shard, unless someone else did. What it forgets and has no
/// room for is gone from `stored` too.
///
/// # Errors
/// When it is too large or the bucket does not take it.
pub async fn save(
    objects: &dyn Objects,
    shard: Shard,
    stored: &mut Stored,
    replaces: &PutIf,
) -> Result<Saved, StoredError> {
    let key = key(shard);
    let options = PutOptions {
        condition: replaces.clone(),
        ..PutOptions::default()
    };
    stored.fleet.forget();
    let (bytes, left_out) = stored.pack()?;
    match objects.put(&key, bytes, options).await {
        Ok(etag) => Ok(Saved::Done {
            replaces: PutIf::Matches(etag),
            left_out,
        }),
        Err(CloudError::Conflict { .. }) => Ok(Saved::Conflict),
        Err(source) => Err(StoredError::Cloud { key, source }),
    }
}

#[cfg(test)]
mod tests {
    use ebb_cloud::fake::{FakeClock, FakeObjects};
    use ebb_telemetry::identity::NodeId;
    use jiff::Timestamp;

    use super::*;

    fn bucket() -> FakeObjects {
        FakeObjects::new(FakeClock::at(Timestamp::UNIX_EPOCH))
    }

    #[tokio::test]
    async fn what_is_saved_is_loaded_and_a_second_writer_meets_a_conflict() {
        let (bucket, activity) = (bucket(), ActivityPolicy::default());
        let mut stored = Stored::empty(&activity);
        stored.folded.steps = Some(4);
        let first = save(&bucket, Shard::ONLY, &mut stored, &PutIf::Absent).await;
        assert!(matches!(first, Ok(Saved::Done { left_out: 0, .. })));
        let second = save(&bucket, Shard::ONLY, &mut stored, &PutIf::Absent).await;
        assert!(matches!(second, Ok(Saved::Conflict)));
        let loaded = load(&bucket, Shard::ONLY, &activity)
            .await
            .expect("it answers");
        assert_eq!((loaded.stored, loaded.unusable), (stored, None));
    }

    #[tokio::test]
    async fn a_state_that_cannot_be_used_is_replaced_and_said_so() {
        let activity = ActivityPolicy::default();
        let other = ActivityPolicy {
            tick_seconds: 1,
            ..ActivityPolicy::default()
        };
        let (whole, _) = Stored::empty(&other).pack().expect("it fits");
        let check = async |bytes: Vec<u8>, expect: &str| {
            let bucket = bucket();
            bucket.insert(key(Shard::ONLY), bytes);
            let mut loaded = load(&bucket, Shard::ONLY, &activity)
                .await
                .expect("it answers");
            let why = loaded.unusable.expect("it cannot be used");
            assert!(why.contains(expect), "{why} should say: {expect}");
            assert_eq!(loaded.stored, Stored::empty(&activity));
            let saved = save(&bucket, Shard::ONLY, &mut loaded.stored, &loaded.replaces).await;
            assert!(matches!(saved, Ok(Saved::Done { .. })));
        };
        check(b"ebb.state/1\n".to_vec(), "not of schema").await;
        let nonsense = format!("{SCHEMA}\nnonsense");
        check(nonsense.into_bytes(), "cannot be unpacked").await;
        check(whole[..whole.len() / 2].to_vec(), "cannot be").await;
        check(whole, "another activity policy").await;
    }
    #[derive(Serialize)]
    struct Names(Vec<NodeId>);

    impl OfNodes for Names {
        fn nodes(&self) -> usize {
            self.0.len()
        }

        fn keep_newest(&mut self, max: usize) -> usize {
            let gone = self.0.len().saturating_sub(max);
            self.0.drain(..gone);
            gone
        }
    }

    #[test]
    fn what_outgrew_its_object_is_packed_without_the_oldest_and_says_how_many() {
        let check = |max: u64, expect_left_out: std::ops::Range<usize>| {
            let names = (0..1_000u64)
                .map(|n| NodeId::new(format!("i-{:016x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))));
            let mut names = Names(names.collect::<Result<_, _>>().expect("names"));
            let newest = names.0.last().cloned();
            let packed = pack_what_fits("s", &mut names, max);
            let (bytes, left_out) = packed.expect("it fits");
            assert!(bytes.len() as u64 <= max, "{} bytes", bytes.len());
            assert!(expect_left_out.contains(&left_out), "{left_out}");
            assert_eq!(
                (names.0.len(), names.0.last()),
                (1_000 - left_out, newest.as_ref())
            );
        };
        check(100_000, 0..1);
        check(5_000, 400..800);
        let none = pack_what_fits("s", &mut Names(Vec::new()), 1);
        assert!(matches!(none, Err(StoredError::TooLarge { .. })));
    }
}
