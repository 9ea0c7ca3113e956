//! Prices and machine types from AWS that are newer than the program. The sweep stores them in the
//! lake, and the sweep and the API read them.

use ebb_catalog::catalog::Catalogue;
use ebb_catalog::refreshed_prices::Refreshed;
use ebb_model::visibility_gap::Gap;

use crate::ports::{CloudError, CloudResult, Objects, PutIf, PutOptions};

/// The key of the object.
pub const KEY: &str = "lake/catalogue/v1/prices.json";

/// Maximum size. All regions together take about 5 MB, and all machine types half a megabyte.
const MAX_BYTES: u64 = 64 << 20;

/// The stored prices; empty if there are none yet.
///
/// # Errors
/// If the object exists and cannot be read.
pub async fn load(objects: &dyn Objects) -> CloudResult<Refreshed> {
    Ok(read(objects).await?.0)
}

/// The stored prices, and the condition for replacing them.
async fn read(objects: &dyn Objects) -> CloudResult<(Refreshed, PutIf)> {
    let object = match objects.get(KEY, MAX_BYTES).await {
        Ok(object) => object,
        Err(CloudError::Missing { .. }) => return Ok((Refreshed::default(), PutIf::Absent)),
        Err(error) => return Err(error),
    };
    let prices = serde_json::from_slice(&object.bytes).map_err(|error| CloudError::Failed {
        operation: KEY.to_owned(),
        message: format!(
            "{error}; to replace it, delete it and run `ebb catalog refresh --bucket NAME`"
        ),
    });
    Ok((prices?, PutIf::Matches(object.etag)))
}

/// Stores the prices.
///
/// # Errors
/// If the object cannot be written.
pub async fn save(objects: &dyn Objects, refreshed: &Refreshed) -> CloudResult<()> {
    put(objects, refreshed, PutIf::Always).await
}

async fn put(objects: &dyn Objects, refreshed: &Refreshed, condition: PutIf) -> CloudResult<()> {
    let bytes = serde_json::to_vec(refreshed).map_err(|error| CloudError::Failed {
        operation: KEY.to_owned(),
        message: error.to_string(),
    })?;
    let options = PutOptions {
        condition,
        content_type: Some("application/json"),
        ..PutOptions::default()
    };
    objects.put(KEY, bytes, options).await.map(drop)
}

/// The catalogue with the newest known prices, and the state for storing more.
#[derive(Debug)]
pub struct BestKnown {
    /// The built-in catalogue with the stored prices.
    pub catalogue: Catalogue,
    /// Why the stored prices could not be read; only the built-in prices are used then. `None` if
    /// they were read.
    pub unread: Option<Gap>,
    kept: Option<(Refreshed, PutIf)>,
}

impl BestKnown {
    /// Reads the stored prices.
    pub async fn read(objects: &dyn Objects) -> Self {
        match read(objects).await {
            Ok((refreshed, condition)) => Self {
                catalogue: Catalogue::built_in().with(&refreshed),
                unread: None,
                kept: Some((refreshed, condition)),
            },
            Err(error) => Self {
                catalogue: Catalogue::built_in().clone(),
                unread: Some(Gap::new(
                    "refreshed prices",
                    format!("{error}; using the built-in prices"),
                )),
                kept: None,
            },
        }
    }

    /// Stores prices read since. An object that could not be read is left unchanged, because a
    /// later version may be able to read it. After a conflict nothing is stored, and a later sweep
    /// requests the prices again.
    pub async fn keep(self, objects: &dyn Objects, later_prices: Refreshed) {
        let Some((mut all, condition)) = self.kept.filter(|_| !later_prices.is_empty()) else {
            return;
        };
        all.absorb(later_prices);
        if let Err(error) = put(objects, &all, condition).await {
            tracing::warn!(%error, "failed to store refreshed prices");
        }
    }
}
