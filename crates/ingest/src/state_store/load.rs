//! What is kept a shard, as it lies in the bucket: read in one way, whatever it is.

use ebb_cloud::ports::{CloudError, Objects, PutIf};
use ebb_telemetry::activity::ActivityPolicy;
use ebb_telemetry::shard::Shard;
use serde::de::DeserializeOwned;

use crate::state_store::format::{MAX_PACKED_BYTES, StoredError, unpack};

/// What is kept a shard.
pub(crate) trait Part: DeserializeOwned {
    const SCHEMA: &str;
    /// What its name begins with.
    const PREFIX: &str;

    fn activity(&self) -> &ActivityPolicy;

    /// Both, folded as far as both are.
    fn join(self, other: Self) -> Self;

    fn keep_shard(&mut self, shard: Shard);
}

/// One that is there.
pub(crate) struct Found<T> {
    /// What its replacement must name.
    pub(crate) replaces: PutIf,
    pub(crate) part: Result<T, Unusable<T>>,
}

/// One that must be folded anew.
pub(crate) struct Unusable<T> {
    pub(crate) why: String,
    /// What it says all the same, where another policy told active from idle.
    pub(crate) other: Option<T>,
}

/// Reads one; `None` where nothing lies.
///
/// # Errors
/// When the bucket does not answer. What it answers is never an error.
pub(crate) async fn find<T: Part>(
    objects: &dyn Objects,
    key: &str,
    activity: &ActivityPolicy,
) -> Result<Option<Found<T>>, StoredError> {
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
            why: "it was folded with another activity policy".to_owned(),
            other: Some(other),
        }),
        Err(why) => Err(Unusable { why, other: None }),
    };
    let replaces = PutIf::Matches(object.etag);
    Ok(Some(Found { replaces, part }))
}
