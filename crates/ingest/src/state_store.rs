//! The state between sweeps, stored as one object in the bucket: a cache of the lake. An unusable
//! state is not an error; it is rebuilt from the lake.

pub mod fold_batch;
pub mod format;
pub mod hourly_activity;
pub mod load;
pub mod reshard;
#[cfg_attr(
    not(feature = "lake"),
    expect(dead_code, reason = "only the fold claims nodes for roles")
)]
pub mod roles;

use ebb_cloud::ports::{CloudError, Objects, PutIf, PutOptions};
use ebb_model::sweep_memory::Memory;
use ebb_telemetry::activity::ActivityPolicy;
use ebb_telemetry::shard::Shard;

use crate::state_store::format::{Stored, StoredError, in_folder};
use crate::state_store::load::Unusable;

/// A loaded state and the condition for its replacement.
#[derive(Debug)]
pub struct Loaded {
    /// The state; it has no nodes if no usable state exists.
    pub stored: Stored,
    /// Condition of the next write.
    pub replaces: PutIf,
    /// Reason why an existing state is not used; `None` if it is used.
    pub unusable: Option<String>,
}

/// Key of the state of a shard.
pub fn key(shard: Shard) -> String {
    in_folder(shard, "")
}

/// Reads the state of a shard.
///
/// # Errors
/// If the bucket does not respond. Invalid content is never an error.
pub async fn load(
    objects: &dyn Objects,
    shard: Shard,
    activity: &ActivityPolicy,
) -> Result<Loaded, StoredError> {
    let Some(found) = load::find(objects, &key(shard), activity).await? else {
        let adopted = reshard::others::<Stored>(objects, shard, activity).await?;
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

/// Result of a write.
#[derive(Debug)]
pub enum Saved {
    /// The state was written.
    Done {
        /// Condition of the next write.
        replaces: PutIf,
        /// Number of nodes for which there was no room.
        left_out: usize,
    },
    /// Another writer was faster.
    Conflict,
}

/// Writes the state of a shard, unless another writer was faster. Old data and nodes without room
/// are also removed from `stored`.
///
/// # Errors
/// If the state is too large or the bucket rejects it.
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
    use ebb_cloud::fake::clock::FakeClock;
    use ebb_cloud::fake::objects::FakeObjects;
    use ebb_telemetry::identity::NodeId;
    use jiff::Timestamp;

    use super::*;
    use crate::state_store::format::{OfNodes, SCHEMA, pack_what_fits};
    use serde::Serialize;

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
        check(b"ebb.state/1\n".to_vec(), "the schema is not").await;
        let nonsense = format!("{SCHEMA}\nnonsense");
        check(nonsense.into_bytes(), "failed to decompress").await;
        check(whole[..whole.len() / 2].to_vec(), "failed to").await;
        check(whole, "the activity policy changed").await;
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
