//! A bucket in memory.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Bound;

use async_trait::async_trait;
use jiff::Timestamp;

use super::FakeClock;
use super::shared::Shared;
use crate::ports::{
    CloudError, CloudResult, Etag, Listed, Object, Objects, PutIf, PutOptions, too_large,
};

/// An object in the fake bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredObject {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// When it was written.
    pub modified_at: Timestamp,
    /// The content type.
    pub content_type: Option<&'static str>,
    /// User metadata.
    pub metadata: BTreeMap<String, String>,
}

impl StoredObject {
    /// As in S3, equal bytes have equal versions.
    fn etag(&self) -> Etag {
        let mut hasher = DefaultHasher::new();
        self.bytes.hash(&mut hasher);
        Etag(format!("\"{:016x}\"", hasher.finish()))
    }
}

/// A bucket with write times from a test clock.
#[derive(Debug, Clone)]
pub struct FakeObjects {
    clock: FakeClock,
    stored: Shared<BTreeMap<String, StoredObject>>,
}

impl FakeObjects {
    /// An empty bucket.
    pub fn new(clock: FakeClock) -> Self {
        Self {
            clock,
            stored: Shared::default(),
        }
    }

    /// Adds an object with the time of the clock.
    pub fn insert(&self, key: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        let object = StoredObject {
            bytes: bytes.into(),
            modified_at: self.clock.now(),
            content_type: None,
            metadata: BTreeMap::new(),
        };
        self.stored.lock().insert(key.into(), object);
    }

    /// The object under `key`.
    pub fn stored(&self, key: &str) -> Option<StoredObject> {
        self.stored.lock().get(key).cloned()
    }

    /// All keys, in order.
    pub fn keys(&self) -> Vec<String> {
        self.stored.lock().keys().cloned().collect()
    }
}

#[async_trait]
impl Objects for FakeObjects {
    async fn get(&self, key: &str, max_bytes: u64) -> CloudResult<Object> {
        const OPERATION: &str = "s3:GetObject";
        let object = self.stored(key).ok_or_else(|| CloudError::Missing {
            operation: OPERATION.to_owned(),
            what: key.to_owned(),
        })?;
        if object.bytes.len() as u64 > max_bytes {
            return Err(too_large(OPERATION, key, max_bytes));
        }
        Ok(Object {
            etag: object.etag(),
            modified_at: object.modified_at,
            bytes: object.bytes,
        })
    }

    async fn put(&self, key: &str, bytes: Vec<u8>, options: PutOptions) -> CloudResult<Etag> {
        let mut stored = self.stored.lock();
        let there = stored.get(key).map(StoredObject::etag);
        let may = match &options.condition {
            PutIf::Always => true,
            PutIf::Absent => there.is_none(),
            PutIf::Matches(etag) => there.as_ref() == Some(etag),
        };
        if !may {
            return Err(CloudError::Conflict {
                operation: "s3:PutObject".to_owned(),
                what: key.to_owned(),
            });
        }
        let object = StoredObject {
            bytes,
            modified_at: self.clock.now(),
            content_type: options.content_type,
            metadata: options.plain_metadata(),
        };
        let etag = object.etag();
        stored.insert(key.to_owned(), object);
        Ok(etag)
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> CloudResult<Vec<Listed>> {
        let stored = self.stored.lock();
        let after = after.filter(|after| *after >= prefix);
        let from = match after {
            Some(after) => Bound::Excluded(after),
            None => Bound::Included(prefix),
        };
        let under = stored
            .range::<str, _>((from, Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix));
        let listed = under.map(|(key, object)| Listed {
            key: key.clone(),
            bytes: object.bytes.len() as u64,
            modified_at: object.modified_at,
        });
        Ok(listed.take(limit).collect())
    }

    async fn delete(&self, keys: &[String]) -> CloudResult<()> {
        let mut stored = self.stored.lock();
        for key in keys {
            stored.remove(key);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put_if(condition: PutIf) -> PutOptions {
        PutOptions {
            condition,
            ..PutOptions::default()
        }
    }

    #[tokio::test]
    async fn a_conditional_write_sees_versions() {
        let bucket = FakeObjects::new(FakeClock::at(Timestamp::UNIX_EPOCH));
        let first = bucket
            .put("state", b"1".to_vec(), put_if(PutIf::Absent))
            .await
            .expect("nothing is there yet");
        let again = bucket.put("state", b"2".to_vec(), put_if(PutIf::Absent));
        assert!(matches!(again.await, Err(CloudError::Conflict { .. })));
        let matching = bucket.put(
            "state",
            b"2".to_vec(),
            put_if(PutIf::Matches(first.clone())),
        );
        let second = matching.await.expect("the version is the one expected");
        let stale = bucket.put("state", b"3".to_vec(), put_if(PutIf::Matches(first)));
        assert!(matches!(stale.await, Err(CloudError::Conflict { .. })));
        let nowhere = bucket.put("none", b"3".to_vec(), put_if(PutIf::Matches(second)));
        assert!(matches!(nowhere.await, Err(CloudError::Conflict { .. })));
    }

    #[tokio::test]
    async fn reading_is_bounded_and_listing_is_in_order() {
        let bucket = FakeObjects::new(FakeClock::at(Timestamp::UNIX_EPOCH));
        for key in ["in/b", "in/a", "in/c", "out/a"] {
            bucket.insert(key, *b"1234");
        }
        let listed = bucket.list("in/", None, 2).await.expect("listed");
        let keys: Vec<_> = listed.iter().map(|l| l.key.as_str()).collect();
        assert_eq!(keys, ["in/a", "in/b"]);
        assert!(bucket.get("in/a", 4).await.is_ok());
        assert!(matches!(
            bucket.get("in/a", 3).await,
            Err(CloudError::Failed { .. })
        ));
        assert!(matches!(
            bucket.get("in/z", 3).await,
            Err(CloudError::Missing { .. })
        ));
    }
}
