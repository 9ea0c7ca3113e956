//! Keeps what was paid for between sweeps. Losing it costs a little money, never a
//! sweep.

use ebb_cloud::ports::{CloudError, Objects, PutOptions};

use super::Paid;
use crate::stored::inflate;

const KEY: &str = "state/v1/paid.zst";
const SCHEMA: &str = "ebb.paid/3\n";
const ZSTD_LEVEL: i32 = 3;

/// 100,000 nodes with six hours of metrics take less.
const MAX_BYTES: u64 = 256 << 20;

/// Reads what earlier sweeps paid for; nothing when it cannot be read.
pub async fn load(objects: &dyn Objects) -> Paid {
    let object = match objects.get(KEY, MAX_BYTES).await {
        Ok(object) => object,
        Err(CloudError::Missing { .. }) => return Paid::default(),
        Err(error) => {
            tracing::warn!(%error, "what was paid for cannot be read");
            return Paid::default();
        }
    };
    unpack(&object.bytes).unwrap_or_else(|why| {
        tracing::warn!(why, "what was paid for is asked for again");
        Paid::default()
    })
}

/// Keeps it for later sweeps.
pub async fn save(objects: &dyn Objects, paid: &Paid) {
    let bytes = match pack(paid) {
        Ok(bytes) => bytes,
        Err(why) => {
            tracing::warn!(why, "what was paid for cannot be kept");
            return;
        }
    };
    if let Err(error) = objects.put(KEY, bytes, PutOptions::default()).await {
        tracing::warn!(%error, "what was paid for cannot be kept");
    }
}

fn unpack(bytes: &[u8]) -> Result<Paid, String> {
    let packed = bytes
        .strip_prefix(SCHEMA.as_bytes())
        .ok_or("another schema")?;
    postcard::from_bytes(&inflate(packed, MAX_BYTES)?).map_err(|e| e.to_string())
}

fn pack(paid: &Paid) -> Result<Vec<u8>, String> {
    let plain = postcard::to_allocvec(paid).map_err(|e| e.to_string())?;
    let packed = zstd::bulk::compress(&plain, ZSTD_LEVEL).map_err(|e| e.to_string())?;
    Ok([SCHEMA.as_bytes(), &packed].concat())
}
