//! Hourly activity of the nodes between sweeps, stored as an object next to the state. It is a
//! cache of the lake: missing data is folded from the lake again. Therefore neither its loss nor a
//! lost race for it is an error.

use ebb_cloud::ports::{CloudError, Objects, PutIf, PutOptions};
use ebb_node_state::hourly_activity::FleetHours;
use ebb_telemetry::activity::ActivityPolicy;
use ebb_telemetry::shard::Shard;
use serde::{Deserialize, Serialize};

use crate::state_store::format::{
    MAX_PACKED_BYTES, OfNodes, StoredError, in_folder, pack_what_fits,
};
use crate::state_store::load::{LoadedPart, Part, Unusable};
use crate::state_store::{load, reshard};

const SCHEMA: &str = "ebb.hours/2";

const PREFIX: &str = "hours.";

/// Sweeps overlap only by accident.
const ATTEMPTS: usize = 5;

/// Content of the object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Packed {
    /// Thresholds between active and idle; other thresholds require a rebuild.
    activity: ActivityPolicy,
    /// Folded version of the heartbeats in the lake; `None` before the first.
    folded: Option<u64>,
    fleet: FleetHours,
}

impl OfNodes for Packed {
    fn nodes(&self) -> usize {
        self.fleet.nodes.len()
    }

    fn keep_newest(&mut self, max: usize) -> usize {
        self.fleet.keep_newest(max)
    }
}

impl Part for Packed {
    const SCHEMA: &str = SCHEMA;
    const PREFIX: &str = PREFIX;

    fn activity(&self) -> &ActivityPolicy {
        &self.activity
    }

    fn join(self, other: Self) -> Self {
        Self {
            folded: self.folded.min(other.folded),
            fleet: self.fleet.merge(other.fleet),
            ..self
        }
    }

    fn keep_shard(&mut self, shard: Shard) {
        self.fleet.keep_shard(shard);
    }
}

/// Hourly activity during a sweep.
#[derive(Debug)]
pub struct Hours {
    kept: Packed,
    replaces: PutIf,
    is_dirty: bool,
    left_out: usize,
}

/// Key of the hourly activity of a shard.
pub fn key(shard: Shard) -> String {
    in_folder(shard, PREFIX)
}

impl Hours {
    /// Reads the hourly activity of a shard; empty if no usable object exists.
    ///
    /// # Errors
    /// If the bucket does not respond.
    pub async fn load(
        objects: &dyn Objects,
        shard: Shard,
        activity: &ActivityPolicy,
    ) -> Result<Self, StoredError> {
        let key = key(shard);
        let empty = Packed {
            activity: activity.clone(),
            folded: None,
            fleet: FleetHours::default(),
        };
        let (kept, replaces) = match load::find(objects, &key, activity).await? {
            Some(LoadedPart { part, replaces }) => {
                let rebuild = |unusable: Unusable<Packed>| {
                    let why = unusable.why;
                    tracing::warn!(key, why, "rebuilding the hourly activity from the lake");
                    empty
                };
                (part.unwrap_or_else(rebuild), replaces)
            }
            None => {
                let adopted = reshard::others(objects, shard, activity).await?;
                (adopted.unwrap_or(empty), PutIf::Absent)
            }
        };
        Ok(Self {
            kept,
            replaces,
            is_dirty: false,
            left_out: 0,
        })
    }

    /// Hourly activity of all nodes.
    pub fn fleet(&self) -> &FleetHours {
        &self.kept.fleet
    }

    /// Consumes the value and returns the hourly activity of all nodes.
    pub fn into_fleet(self) -> FleetHours {
        self.kept.fleet
    }

    /// Number of nodes for which there was no room.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Folded version of the heartbeats in the lake; `None` before the first.
    pub fn folded(&self) -> Option<u64> {
        self.kept.folded
    }

    /// Returns the hourly activity for a fold up to version `folded`.
    pub fn folding(&mut self, folded: Option<u64>) -> &mut FleetHours {
        self.is_dirty |= folded > self.kept.folded;
        self.kept.folded = self.kept.folded.max(folded);
        &mut self.kept.fleet
    }

    /// Writes new data, merged with the data that another sweep wrote in the meantime.
    ///
    /// # Errors
    /// If the data is too large or the bucket rejects it.
    pub async fn keep(&mut self, objects: &dyn Objects, shard: Shard) -> Result<(), StoredError> {
        for _ in 0..ATTEMPTS {
            if !self.is_dirty {
                return Ok(());
            }
            self.kept.fleet.forget_old();
            let (bytes, left_out) = pack_what_fits(SCHEMA, &mut self.kept, MAX_PACKED_BYTES)?;
            self.left_out += left_out;
            let options = PutOptions {
                condition: self.replaces.clone(),
                ..PutOptions::default()
            };
            let key = key(shard);
            match objects.put(&key, bytes, options).await {
                Ok(etag) => {
                    self.replaces = PutIf::Matches(etag);
                    self.is_dirty = false;
                }
                Err(CloudError::Conflict { .. }) => {
                    let theirs = Self::load(objects, shard, &self.kept.activity).await?;
                    self.kept.folded = self.kept.folded.max(theirs.kept.folded);
                    let ours = std::mem::take(&mut self.kept.fleet);
                    self.kept.fleet = ours.merge(theirs.kept.fleet);
                    self.replaces = theirs.replaces;
                }
                Err(source) => return Err(StoredError::Cloud { key, source }),
            }
        }
        tracing::warn!(
            "other sweeps wrote the hourly activity first; the next sweep adds the missing data"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ebb_cloud::fake::clock::FakeClock;
    use ebb_cloud::fake::objects::FakeObjects;
    use jiff::Timestamp;

    use super::*;

    #[tokio::test]
    async fn of_two_writers_both_are_kept_and_an_unusable_one_is_replaced() {
        let bucket = FakeObjects::new(FakeClock::at(Timestamp::UNIX_EPOCH));
        bucket.insert(key(Shard::ONLY), *b"nonsense");
        let activity = ActivityPolicy::default();
        let open = async || {
            let loaded = Hours::load(&bucket, Shard::ONLY, &activity).await;
            loaded.expect("the bucket answers")
        };
        let (mut first, mut second) = (open().await, open().await);
        assert_eq!(first.folded(), None);
        for (hours, version) in [(&mut first, 4), (&mut second, 7)] {
            let node = ebb_telemetry::identity::NodeId::new(format!("i-{version}"));
            let known = serde_json::from_str(r#"{"first": 9, "hours": [1]}"#);
            let (node, known) = (node.expect("a node id"), known.expect("an hour"));
            hours.folding(Some(version)).nodes.insert(node, known);
        }
        for hours in [&mut first, &mut second] {
            hours.keep(&bucket, Shard::ONLY).await.expect("it is kept");
        }
        let kept = open().await;
        assert_eq!((kept.folded(), kept.fleet().nodes.len()), (Some(7), 2));
    }
}
