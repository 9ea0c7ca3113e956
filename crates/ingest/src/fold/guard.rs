//! Finds the arrival that crashes a sweep. A sweep writes the names of a batch to the bucket before
//! it opens the batch, and deletes them when it ends normally. Names found at the start show that
//! the previous sweep crashed. The sweep then opens these arrivals last and in smaller batches.
//! Finally one arrival is alone in its batch and can be refused.

use std::collections::{BTreeMap, BTreeSet};

use ebb_cloud::ports::{CloudError, Objects, PutOptions};
use ebb_telemetry::shard::Shard;
use serde::{Deserialize, Serialize};

/// Each crash divides the batch size by this; among 5,000 arrivals one is found after five crashes.
const DIVISOR: usize = 8;

/// Limit on stored suspects: four full batches.
const MAX_SUSPECTS: usize = 20_000;

const MAX_BYTES: u64 = 16 << 20;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    /// Names in the current batch.
    in_flight: BTreeSet<String>,
    /// Names that were in flight during a crash, each with the largest batch in which it may be
    /// opened.
    suspects: BTreeMap<String, usize>,
}

impl Record {
    /// Updates the record after a crash and returns the names to refuse.
    fn after_crash(&mut self) -> BTreeSet<String> {
        let in_flight = std::mem::take(&mut self.in_flight);
        let is_alone = in_flight.len() == 1;
        let mut refused = BTreeSet::new();
        for name in in_flight {
            let before = self.suspects.remove(&name);
            // A name is refused after two crashes alone, because a sweep may once be killed for
            // another reason.
            if is_alone && before == Some(1) {
                refused.insert(name);
                continue;
            }
            if self.suspects.len() < MAX_SUSPECTS {
                self.suspects.insert(name, 0);
            }
        }
        refused
    }
}

/// Names of the current batch, stored in the bucket.
#[derive(Debug)]
pub(crate) struct Guard {
    key: String,
    record: Record,
    refused: BTreeSet<String>,
    is_stored: bool,
}

impl Guard {
    /// Reads the record of the last sweep. An unreadable record is ignored, because the guard must
    /// not stop a sweep.
    pub(crate) async fn load(objects: &dyn Objects, shard: Shard) -> Self {
        let key = format!(
            "state/opening/of={:02}/shard={:02}.json",
            shard.of, shard.index
        );
        let stored = match objects.get(&key, MAX_BYTES).await {
            Ok(object) => serde_json::from_slice(&object.bytes).map_err(|error| error.to_string()),
            Err(CloudError::Missing { .. }) => return Self::new(key, None),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = &stored {
            tracing::warn!(
                key,
                error,
                "failed to read the list of items that the last sweep opened"
            );
        }
        Self::new(key, stored.ok())
    }

    fn new(key: String, stored: Option<Record>) -> Self {
        let is_stored = stored.is_some();
        let mut record = stored.unwrap_or_default();
        let size = record.in_flight.len();
        let smallest = record
            .in_flight
            .iter()
            .filter_map(|name| record.suspects.get(name))
            .min();
        let limit = smallest.map_or(size, |limit| size.min(*limit)) / DIVISOR;
        let refused = record.after_crash();
        for allowed in record.suspects.values_mut().filter(|limit| **limit == 0) {
            *allowed = limit.max(1);
        }
        Self {
            key,
            record,
            refused,
            is_stored,
        }
    }

    /// Largest batch in which a suspect may be opened; `None` if the arrival is not a suspect.
    pub(crate) fn limit_of(&self, name: &str) -> Option<usize> {
        self.record.suspects.get(name).copied()
    }

    /// Whether sweeps crashed more than once on this arrival alone.
    pub(crate) fn refuses(&self, name: &str) -> bool {
        self.refused.contains(name)
    }

    /// Stores the names of the next batch.
    pub(crate) async fn opening(&mut self, objects: &dyn Objects, names: BTreeSet<String>) {
        self.record.in_flight = names;
        self.store(objects).await;
    }

    /// Removes an arrival for which the batch had no room.
    pub(crate) fn put_back(&mut self, name: &str) {
        self.record.in_flight.remove(name);
    }

    /// Marks the current batch as folded; its arrivals are no longer suspects.
    pub(crate) fn folded(&mut self) {
        for name in std::mem::take(&mut self.record.in_flight) {
            self.record.suspects.remove(&name);
        }
    }

    /// Ends normally: the stored record contains only suspects that were not opened yet.
    pub(crate) async fn end(&mut self, objects: &dyn Objects) {
        self.record.in_flight.clear();
        if !self.record.suspects.is_empty() {
            self.store(objects).await;
        } else if self.is_stored {
            let deleted = objects.delete(std::slice::from_ref(&self.key)).await;
            self.warn(deleted);
        }
    }

    async fn store(&mut self, objects: &dyn Objects) {
        let bytes = serde_json::to_vec(&self.record).unwrap_or_default();
        let put = objects.put(&self.key, bytes, PutOptions::default()).await;
        self.is_stored = true;
        self.warn(put.map(drop));
    }

    fn warn(&self, result: Result<(), CloudError>) {
        if let Err(error) = result {
            tracing::warn!(key = self.key, %error, "failed to write the list of items to open");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(range: std::ops::Range<usize>) -> BTreeSet<String> {
        range.map(|n| format!("message-{n:05}")).collect()
    }

    /// Number of crashes until `culprit` is refused, if each attempt to open it crashes.
    fn crashes_until_refused(batch: usize, culprit: &str) -> usize {
        let mut record = None;
        for crashes in 0.. {
            let guard = Guard::new(String::new(), record);
            if guard.refuses(culprit) {
                return crashes;
            }
            let limit = guard.limit_of(culprit).unwrap_or(batch);
            let all = names(0..batch);
            let place = all.iter().position(|name| name == culprit);
            let first = place.expect("it is there") / limit * limit;
            let mut record_now = guard.record;
            record_now.in_flight = all.into_iter().skip(first).take(limit).collect();
            record = Some(record_now);
        }
        unreachable!("the limit falls with each crash")
    }

    #[test]
    fn a_culprit_is_alone_after_few_crashes() {
        assert_eq!(crashes_until_refused(5_000, "message-04711"), 5);
        assert_eq!(crashes_until_refused(1, "message-00000"), 2);
    }

    #[test]
    fn a_second_culprit_does_not_free_the_first() {
        let first = Record {
            in_flight: names(0..800),
            ..Record::default()
        };
        let mut second = Guard::new(String::new(), Some(first)).record;
        second.in_flight = names(800..1_600);
        let guard = Guard::new(String::new(), Some(second));
        assert_eq!(guard.limit_of("message-00000"), Some(100));
        assert_eq!(guard.limit_of("message-00800"), Some(100));
        assert_eq!(guard.limit_of("message-01600"), None);
    }
}
