//! `ebb catalog`: machine types and their prices, and their refresh.

mod show;

#[cfg(feature = "aws")]
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use ebb_catalog::catalog::Catalogue;
use ebb_catalog::refreshed_prices::Refreshed;
use jiff::Timestamp;

use crate::args::{CatalogArgs, CatalogCommand, CatalogLocation, RefreshArgs};
#[cfg(feature = "aws")]
use crate::aws_credentials;
use crate::output::{self, Outcome};
use crate::text_file;

/// The most bytes of a file. Prices of all regions and types take some mebibytes.
const MAX_BYTES: u64 = 64 << 20;

pub(crate) fn run(args: &CatalogArgs) -> Result<Outcome> {
    let text = crate::runtime::runtime()?.block_on(async {
        match &args.command {
            CatalogCommand::Show(wanted) => {
                let refreshed = load(&wanted.place).await?;
                let catalogue = Catalogue::built_in().with(&refreshed);
                show::written(&catalogue, &refreshed, wanted, Timestamp::now())
            }
            CatalogCommand::Refresh(wanted) => refresh(wanted).await,
        }
    })?;
    output::print(&text)?;
    Ok(Outcome::Done)
}

/// The stored prices and types; empty if no place is given.
async fn load(place: &CatalogLocation) -> Result<Refreshed> {
    match (&place.file, &place.bucket) {
        (Some(file), _) => read(file),
        (None, Some(bucket)) => of_bucket::load(place, bucket).await,
        (None, None) => Ok(Refreshed::default()),
    }
}

/// Reads the output of `refresh --file`.
pub(crate) fn read(file: &Path) -> Result<Refreshed> {
    let text = text_file::read(file, MAX_BYTES)
        .context("no prices; run `ebb catalog refresh --file FILE` first")?;
    serde_json::from_str(&text).with_context(|| {
        format!(
            "{} is not a price file of this version; run `ebb catalog refresh --file FILE` again",
            file.display()
        )
    })
}

#[cfg(not(feature = "aws"))]
#[expect(clippy::unused_async, reason = "the same shape as with the feature")]
async fn refresh(_: &RefreshArgs) -> Result<String> {
    anyhow::bail!(
        "this program was built without AWS and has only the built-in prices\n  build it with AWS, \
         in the repository: {} -- catalog refresh",
        crate::BUILD_WITH_AWS
    )
}

#[cfg(not(feature = "aws"))]
mod of_bucket {
    use super::*;

    #[expect(clippy::unused_async, reason = "the same shape as with the feature")]
    pub(super) async fn load(_: &CatalogLocation, _: &str) -> Result<Refreshed> {
        anyhow::bail!(
            "this program was built without AWS and cannot read a bucket\n  build it with AWS, in \
             the repository: {} -- catalog show",
            crate::BUILD_WITH_AWS
        )
    }
}

#[cfg(feature = "aws")]
async fn refresh(args: &RefreshArgs) -> Result<String> {
    of_bucket::refresh(args).await
}

#[cfg(feature = "aws")]
mod of_bucket {
    use anyhow::bail;
    use ebb_cloud::aws::{
        AwsConfig, AwsInventory, AwsMarkets, AwsObjects, AwsPrices, SPOT_ADVISOR,
    };
    use ebb_cloud::ports::InventorySource;

    use ebb_telemetry::identity::Region;

    use super::*;
    use ebb_cloud::documents::prices;
    use ebb_sweep::collect::catalog_refresh;

    async fn connect(place: &CatalogLocation) -> Result<AwsConfig> {
        let region: Option<&Region> = place.bucket_region.as_ref();
        Ok(aws_credentials::connect(region, place.profile.as_deref())
            .await?
            .0)
    }

    pub(super) async fn load(place: &CatalogLocation, bucket: &str) -> Result<Refreshed> {
        let objects = AwsObjects::new(&connect(place).await?, bucket);
        let stored_prices = prices::load(&objects).await;
        stored_prices.with_context(|| format!("failed to read prices from {bucket}"))
    }

    pub(super) async fn refresh(args: &RefreshArgs) -> Result<String> {
        let place = &args.place;
        if place.bucket.is_none() && place.file.is_none() {
            bail!(
                "no place to store the prices\n  add --bucket NAME, which the sweep reads, or \
                 --file FILE"
            );
        }
        let config = connect(place).await?;
        let regions = match args.region.is_empty() {
            true => AwsInventory::new(&config).regions().await,
            false => Ok(args.region.clone()),
        };
        let regions =
            regions.context("failed to list the enabled regions (--region names them)")?;
        let (prices, markets) = (
            AwsPrices::new(&config),
            AwsMarkets::new(&config, SPOT_ADVISOR),
        );
        let now = Timestamp::now();
        let (update, gaps) = catalog_refresh::refresh(&prices, Some(&markets), &regions, now).await;
        for gap in &gaps {
            eprintln!("{}: {}", gap.scope, gap.reason);
        }
        if update.regions.is_empty() {
            bail!("no region returned prices; nothing was stored");
        }
        // Stored values without a newer answer are kept.
        let mut stored_prices = match &place.file {
            Some(file) if !file.exists() => Refreshed::default(),
            _ => super::load(place).await?,
        };
        let prices = update.regions.values().map(|region| region.on_demand.len());
        let (regions, prices) = (update.regions.len(), prices.sum::<usize>());
        let types = update.types.len();
        stored_prices.absorb(update);
        let (kept, who) = match (&place.file, &place.bucket) {
            (Some(file), _) => {
                let text = serde_json::to_string(&stored_prices)?;
                fs::write(file, text)
                    .with_context(|| format!("failed to write {}", file.display()))?;
                let file = file.display();
                (
                    file.to_string(),
                    format!("`ebb scan --catalog {file}` uses them"),
                )
            }
            (None, bucket) => {
                let bucket = bucket.as_deref().unwrap_or_default();
                let objects = AwsObjects::new(&config, bucket);
                let kept = prices::save(&objects, &stored_prices).await;
                kept.with_context(|| format!("failed to store the prices in {bucket}"))?;
                let kept = format!("{bucket}/{}", prices::KEY);
                (kept, "the next sweep uses them".to_owned())
            }
        };
        Ok(format!(
            "Stored {prices} prices of {regions} regions and {types} machine types in {kept}; \
             {who}.\n"
        ))
    }
}
