//! Stores the answers of metered and slow calls between sweeps. If they are lost, a sweep costs a
//! little more money but does not fail.

use ebb_cloud::documents::inflate::inflate;
use ebb_cloud::ports::{CloudError, Objects, PutOptions};
use serde::{Deserialize, Serialize};

use crate::collect::metered_calls::Paid;
use crate::collect::price_list::Listed;
use crate::collect::spot_market::Sold;

/// Answers of earlier sweeps that would cost money or time to request again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AnswerCache {
    /// Answers of metered calls.
    pub paid: Paid,
    /// Answers about the spot market.
    pub sold: Sold,
    /// When price lists were requested.
    pub listed: Listed,
}

const KEY: &str = "state/v1/paid.zst";

const SCHEMA: &str = "ebb.paid/15\n";

const ZSTD_LEVEL: i32 = 3;

/// 100,000 nodes with twelve hours of metrics take 400 MB before compression. Two weeks of hourly
/// metrics for 20,000 of them take 80 MB more.
const MAX_BYTES: u64 = 512 << 20;

/// Reads the stored answers; returns the default if they cannot be read.
pub async fn load(objects: &dyn Objects) -> AnswerCache {
    let object = match objects.get(KEY, MAX_BYTES).await {
        Ok(object) => object,
        Err(CloudError::Missing { .. }) => return AnswerCache::default(),
        Err(error) => {
            tracing::warn!(%error, "failed to read the cache of metered calls");
            return AnswerCache::default();
        }
    };
    unpack(&object.bytes).unwrap_or_else(|why| {
        tracing::warn!(
            why,
            "failed to decode the cache of metered calls; the calls are repeated"
        );
        AnswerCache::default()
    })
}

/// Stores the answers for later sweeps.
pub async fn save(objects: &dyn Objects, kept: &AnswerCache) {
    let bytes = match pack(kept) {
        Ok(bytes) => bytes,
        Err(why) => {
            tracing::warn!(why, "failed to store the cache of metered calls");
            return;
        }
    };
    if let Err(error) = objects.put(KEY, bytes, PutOptions::default()).await {
        tracing::warn!(%error, "failed to store the cache of metered calls");
    }
}

fn unpack(bytes: &[u8]) -> Result<AnswerCache, String> {
    let packed = bytes
        .strip_prefix(SCHEMA.as_bytes())
        .ok_or("unsupported schema")?;
    postcard::from_bytes(&inflate(packed, MAX_BYTES)?).map_err(|e| e.to_string())
}

fn pack(kept: &AnswerCache) -> Result<Vec<u8>, String> {
    let plain = postcard::to_allocvec(kept).map_err(|e| e.to_string())?;
    let packed = zstd::bulk::compress(&plain, ZSTD_LEVEL).map_err(|e| e.to_string())?;
    Ok([SCHEMA.as_bytes(), &packed].concat())
}
