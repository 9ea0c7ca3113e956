//! Prices and machine types that AWS told later than the program was built: asked for, kept
//! in the lake, and read from there by the sweep and the API.

use ebb_catalog::catalog::Catalogue;
use ebb_catalog::refreshed_prices::Refreshed;
use ebb_model::visibility_gap::Gap;

use crate::ports::{CloudError, CloudResult, Objects, PutIf, PutOptions};

/// Where they lie.
pub const KEY: &str = "lake/catalogue/v1/prices.json";

/// All regions together take about 5 MB, and all machine types half of one.
const MAX_BYTES: u64 = 64 << 20;

/// What is kept; nothing where nobody has asked yet.
///
/// # Errors
/// When it is there and cannot be read.
pub async fn load(objects: &dyn Objects) -> CloudResult<Refreshed> {
    Ok(read(objects).await?.0)
}

/// What is kept, and on which condition it may be replaced by more.
async fn read(objects: &dyn Objects) -> CloudResult<(Refreshed, PutIf)> {
    let object = match objects.get(KEY, MAX_BYTES).await {
        Ok(object) => object,
        Err(CloudError::Missing { .. }) => return Ok((Refreshed::default(), PutIf::Absent)),
        Err(error) => return Err(error),
    };
    let told = serde_json::from_slice(&object.bytes).map_err(|error| CloudError::Failed {
        operation: KEY.to_owned(),
        message: format!("{error}; `ebb catalog refresh` writes it anew"),
    });
    Ok((told?, PutIf::Matches(object.etag)))
}

/// Keeps it.
///
/// # Errors
/// When it cannot be written.
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

/// The catalogue as it is best known, with what more of it can be kept by.
#[derive(Debug)]
pub struct BestKnown {
    /// The built-in one, with what is kept.
    pub catalogue: Catalogue,
    /// Why what is kept could not be read; the built-in prices hold then.
    pub unread: Option<Gap>,
    kept: Option<(Refreshed, PutIf)>,
}

impl BestKnown {
    /// Reads what is kept.
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
                    format!("{error}; the built-in prices hold"),
                )),
                kept: None,
            },
        }
    }

    /// Keeps what was told since. What could not be read is left as it is, for a later
    /// program may read it; and where somebody wrote meanwhile, a later sweep asks again.
    pub async fn keep(self, objects: &dyn Objects, told: Refreshed) {
        let Some((mut all, condition)) = self.kept.filter(|_| !told.is_empty()) else {
            return;
        };
        all.absorb(told);
        if let Err(error) = put(objects, &all, condition).await {
            tracing::warn!(%error, "refreshed prices cannot be kept");
        }
    }
}
