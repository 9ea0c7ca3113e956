//! Prices and machine types that AWS told later than the program was built: asked for, kept
//! in the lake, and read from there by the sweep and the API.

use ebb_catalog::catalog::Catalogue;
use ebb_catalog::refreshed_prices::{Refreshed, RegionPrices};
use ebb_cloud::ports::{
    CloudError, CloudResult, MarketSource, Objects, PriceSource, PutIf, PutOptions,
};
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::identity::Region;
use futures::{StreamExt, stream};
use jiff::Timestamp;

/// Where they lie.
pub const KEY: &str = "lake/catalogue/v1/prices.json";

/// All regions together take about 5 MB, and all machine types half of one.
const MAX_BYTES: u64 = 64 << 20;

/// Regions asked at once; the Price List answers for all of them in one place.
const AT_ONCE: usize = 4;

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

/// Asks each region for its on-demand and, where there is who tells, spot prices, and for
/// all machine types that it knows; tells what refused. A region whose list refuses is left
/// out, and one whose spot prices do has none.
pub async fn refresh(
    prices: &dyn PriceSource,
    markets: Option<&dyn MarketSource>,
    regions: &[Region],
    now: Timestamp,
) -> (Refreshed, Vec<Gap>) {
    // Their own, so that what is asked may be awaited on any thread.
    let own: Vec<Region> = regions.to_vec();
    let asked = own.into_iter().map(|region| async move {
        let spot = async {
            match markets {
                Some(markets) => markets.spot_prices(&region).await,
                None => Ok(Default::default()),
            }
        };
        let all = futures::join!(
            prices.on_demand(&region),
            spot,
            prices.types(&region, None),
            prices.fargate(&region),
            prices.storage(&region),
        );
        (region, all)
    });
    let (mut all, mut gaps) = (Refreshed::default(), Vec::new());
    let mut answers = stream::iter(asked).buffered(AT_ONCE);
    while let Some((region, (on_demand, spot, types, fargate, storage))) = answers.next().await {
        let mut gap = |what: &str, reason: String| {
            gaps.push(Gap::new(format!("{region}: {what}"), reason));
        };
        match types {
            Ok(types) => all.describe(types, now),
            Err(error) => gap("machine types", error.to_string()),
        }
        let on_demand = match on_demand {
            Ok(told) if told.is_empty() => {
                gap("list prices", "the Price List has none".to_owned());
                continue;
            }
            Ok(told) => told,
            Err(error) => {
                gap("list prices", error.to_string());
                continue;
            }
        };
        let told = RegionPrices {
            at: now,
            on_demand,
            spot: spot.unwrap_or_else(|error| {
                gap("spot prices", error.to_string());
                Default::default()
            }),
            fargate: fargate.unwrap_or_else(|error| {
                gap("Fargate's prices", error.to_string());
                Default::default()
            }),
            storage: storage.unwrap_or_else(|error| {
                gap("prices of storage", error.to_string());
                Default::default()
            }),
        };
        all.regions.insert(region, told);
    }
    (all, gaps)
}

#[cfg(test)]
mod tests;
