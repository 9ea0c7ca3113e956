//! Reads the stored parts of a shard (state and hourly activity) in the same way.

use ebb_cloud::ports::{CloudError, Objects, PutIf};
use ebb_telemetry::activity::ActivityPolicy;
use ebb_telemetry::shard::Shard;
use serde::de::DeserializeOwned;

use crate::state_store::format::{MAX_PACKED_BYTES, StoredError, unpack};

/// A stored part of a shard.
pub(crate) trait Part: DeserializeOwned {
    const SCHEMA: &str;
    /// Prefix of its object name.
    const PREFIX: &str;

    fn activity(&self) -> &ActivityPolicy;

    /// Merges two parts; the result is folded only as far as both.
    fn join(self, other: Self) -> Self;

    fn keep_shard(&mut self, shard: Shard);
}

/// An existing part.
pub(crate) struct LoadedPart<T> {
    /// Condition of the next write.
    pub(crate) replaces: PutIf,
    pub(crate) part: Result<T, Unusable<T>>,
}

/// A part that must be rebuilt.
pub(crate) struct Unusable<T> {
    pub(crate) why: String,
    /// The decoded part, if only its thresholds between active and idle differ.
    pub(crate) other: Option<T>,
}

/// Reads a part; `None` if it does not exist.
///
/// # Errors
/// If the bucket does not respond. Invalid content is never an error.
pub(crate) async fn find<T: Part>(
    objects: &dyn Objects,
    key: &str,
    activity: &ActivityPolicy,
) -> Result<Option<LoadedPart<T>>, StoredError> {
    let object = match objects.get(key, MAX_PACKED_BYTES).await {
        Ok(object) => object,
        Err(CloudError::Missing { .. }) => return Ok(None),
        Err(source) => {
            let key = key.to_owned();
            return Err(StoredError::Cloud { key, source });
        }
    };
    let part = match unpack::<T>(T::SCHEMA, &object.bytes) {
        Ok(part) if part.activity() == activity => Ok(part),
        Ok(other) => Err(Unusable {
            why: "the activity policy changed".to_owned(),
            other: Some(other),
        }),
        Err(why) => Err(Unusable { why, other: None }),
    };
    let replaces = PutIf::Matches(object.etag);
    Ok(Some(LoadedPart { replaces, part }))
}
