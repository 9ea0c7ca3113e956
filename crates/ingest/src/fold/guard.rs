//! Finds the arrival that stops a sweep. Before a batch is opened, its names are written to
//! the bucket; a sweep that ends in order deletes them. A sweep that finds names there knows
//! that the one before it crashed: it opens those last and in smaller batches, until one
//! arrival is alone in its batch and can be refused by name.

use std::collections::{BTreeMap, BTreeSet};

use ebb_cloud::ports::{CloudError, Objects, PutOptions};
use ebb_telemetry::shard::Shard;
use serde::{Deserialize, Serialize};

/// A crash divides the size of the batch by this: of 5,000 arrivals one is found after five.
const DIVISOR: usize = 8;

/// Suspects that are remembered: four full batches.
const MAX_SUSPECTS: usize = 20_000;

const MAX_BYTES: u64 = 16 << 20;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    /// Names of the batch that is being opened.
    in_flight: BTreeSet<String>,
    /// Names that were in flight when a sweep crashed, each with the largest batch that it
    /// may be opened in.
    suspects: BTreeMap<String, usize>,
}

impl Record {
    /// What follows from a crash with this record: the names to refuse.
    fn after_crash(&mut self) -> BTreeSet<String> {
        let in_flight = std::mem::take(&mut self.in_flight);
        let is_alone = in_flight.len() == 1;
        let mut refused = BTreeSet::new();
        for name in in_flight {
            let before = self.suspects.remove(&name);
            // Twice alone: a sweep may also be killed for another reason, once.
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

/// The names of what is being opened, in the bucket.
#[derive(Debug)]
pub(crate) struct Guard {
    key: String,
    record: Record,
    refused: BTreeSet<String>,
    is_stored: bool,
}

impl Guard {
    /// Reads what the last sweep left. A record that cannot be read is ignored: the guard
    /// must not stop a sweep.
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
            tracing::warn!(key, error, "failed to read what the last sweep opened");
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

    /// The largest batch that a suspect may be opened in; `None` for any other.
    pub(crate) fn limit_of(&self, name: &str) -> Option<usize> {
        self.record.suspects.get(name).copied()
    }

    /// Whether a sweep crashed on this arrival alone, more than once.
    pub(crate) fn refuses(&self, name: &str) -> bool {
        self.refused.contains(name)
    }

    /// Notes what is about to be opened.
    pub(crate) async fn opening(&mut self, objects: &dyn Objects, names: BTreeSet<String>) {
        self.record.in_flight = names;
        self.store(objects).await;
    }

    /// An arrival that the batch had no room for.
    pub(crate) fn put_back(&mut self, name: &str) {
        self.record.in_flight.remove(name);
    }

    /// The batch in flight is folded; none of it is suspect any longer.
    pub(crate) fn folded(&mut self) {
        for name in std::mem::take(&mut self.record.in_flight) {
            self.record.suspects.remove(&name);
        }
    }

    /// Ends in order: what is stored names only suspects that this sweep had no time for.
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
            tracing::warn!(key = self.key, %error, "failed to note what is being opened");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(range: std::ops::Range<usize>) -> BTreeSet<String> {
        range.map(|n| format!("message-{n:05}")).collect()
    }

    /// Sweeps that crash whenever `culprit` is opened, until it is refused.
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
