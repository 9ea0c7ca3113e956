//! Initial state of a shard after a change of the number of shards. It merges the states of the
//! previous number, restricted to the nodes of the shard. Missing data is folded from the lake as
//! usual.

use std::collections::BTreeMap;

use ebb_cloud::ports::Objects;
use ebb_model::sweep_memory::Memory;
use ebb_node_state::fleet_state::FleetState;
use ebb_telemetry::activity::ActivityPolicy;
use ebb_telemetry::shard::Shard;
use jiff::Timestamp;

use crate::state_store::format::{FOLDER, Folded, SCHEMA, Stored, StoredError, in_folder};
use crate::state_store::load;
use crate::state_store::load::{Part, Unusable};

/// Limit on listed objects: states and hourly activity for a few numbers of shards, and notified
/// findings.
const MAX_LISTED: usize = 1_000;

impl Part for Stored {
    const SCHEMA: &str = SCHEMA;
    const PREFIX: &str = "";

    fn activity(&self) -> &ActivityPolicy {
        &self.activity
    }

    fn join(self, other: Self) -> Self {
        let fleet: FleetState = self.fleet.merge(other.fleet);
        let mut memory = self.memory;
        memory
            .disconnected_since
            .extend(other.memory.disconnected_since);
        memory.jobless.extend(other.memory.jobless);
        let mut roles = self.roles;
        roles.join(other.roles);
        Self {
            activity: self.activity,
            folded: Folded {
                heartbeats: self.folded.heartbeats.min(other.folded.heartbeats),
                steps: self.folded.steps.min(other.folded.steps),
            },
            memory,
            roles,
            fleet,
        }
    }

    fn keep_shard(&mut self, shard: Shard) {
        self.fleet.keep_shard(shard);
        self.roles.keep_shard(shard);
        // Only the shard that evaluates and reports needs the memory.
        if !shard.reports() {
            self.memory = Memory::default();
        }
    }
}

/// Part of `shard` from the states that another number of shards wrote last; `None` if no set of
/// states is complete.
pub(crate) async fn others<T: Part>(
    objects: &dyn Objects,
    shard: Shard,
    activity: &ActivityPolicy,
) -> Result<Option<T>, StoredError> {
    let failed = |source| StoredError::Cloud {
        key: FOLDER.to_owned(),
        source,
    };
    let listed = objects
        .list(FOLDER, None, MAX_LISTED)
        .await
        .map_err(failed)?;
    let written: BTreeMap<String, Timestamp> = listed
        .into_iter()
        .map(|one| (one.key, one.modified_at))
        .collect();
    let newest = (1..=Shard::MOST)
        .filter(|of| *of != shard.of)
        .filter_map(|of| Some((last_written(&written, of, T::PREFIX)?, of)))
        .max();
    let Some((_, of)) = newest else {
        return Ok(None);
    };
    let mut joined: Option<T> = None;
    for other in (Shard { index: 0, of }).all() {
        let key = in_folder(other, T::PREFIX);
        let Some(found) = load::find::<T>(objects, &key, activity).await? else {
            return Ok(None);
        };
        let mut part = match found.part {
            Ok(part) => part,
            Err(Unusable { why, .. }) => {
                tracing::warn!(key, why, "rebuilding the state from the lake");
                return Ok(None);
            }
        };
        part.keep_shard(shard);
        joined = Some(match joined {
            Some(before) => before.join(part),
            None => part,
        });
    }
    tracing::info!(
        shard.index,
        shard.of,
        of,
        "starting from the state of other shards"
    );
    Ok(joined)
}

/// Time of the last write of all shards; `None` unless all of them exist.
fn last_written(written: &BTreeMap<String, Timestamp>, of: u16, prefix: &str) -> Option<Timestamp> {
    let all = (Shard { index: 0, of }).all();
    let times = all.map(|shard| written.get(&in_folder(shard, prefix)).copied());
    times.collect::<Option<Vec<_>>>()?.into_iter().max()
}
