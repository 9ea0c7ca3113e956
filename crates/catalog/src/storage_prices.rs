//! Prices of volumes, snapshots and public addresses.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use ebb_telemetry::money::{Usd, UsdPerHour};

/// Prices of one region; `None` if the price is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoragePrices {
    /// Monthly price of a GiB by the volume's type, such as `gp3`. Types whose price always depends
    /// on their IOPS (`io1`, `io2`) are left out.
    pub volumes: BTreeMap<String, Usd>,
    /// Monthly price of each gp3 IOPS above the included ones.
    pub gp3_iops: Option<Usd>,
    /// Monthly price of each gp3 MiB/s above the included ones.
    pub gp3_mibps: Option<Usd>,
    /// Monthly price of a GiB of a snapshot in the standard tier.
    pub snapshot: Option<Usd>,
    /// Monthly price of a GiB of a snapshot in the archive tier.
    pub archived_snapshot: Option<Usd>,
    /// Hourly price of an unassigned public IPv4 address.
    pub address: Option<UsdPerHour>,
}

impl StoragePrices {
    /// The volume types that are billed by size.
    pub const VOLUME_TYPES: [&str; 5] = ["gp2", "gp3", "st1", "sc1", "standard"];

    /// Whether AWS returned all prices of volumes and snapshots.
    pub(crate) fn is_whole(&self) -> bool {
        let snapshot_prices = [self.snapshot, self.archived_snapshot];
        snapshot_prices.iter().all(Option::is_some)
            && (Self::VOLUME_TYPES.iter()).all(|name| self.volumes.contains_key(*name))
    }
}

/// Monthly price of a GiB in micro-dollars: volumes as in [`StoragePrices::VOLUME_TYPES`], and
/// snapshots in the standard and the archive tier.
///
/// Source: aws.amazon.com/ebs/pricing, from memory. Unlike the prices of machines, these were
/// checked against no file (`scripts/catalogue` has none of EBS).
type Row = ([i64; 5], [i64; 2]);

const UNITED_STATES: Row = ([100_000, 80_000, 45_000, 15_000, 50_000], [50_000, 12_500]);
const IRELAND: Row = ([110_000, 88_000, 50_000, 16_800, 55_000], [50_000, 12_500]);
const FRANKFURT: Row = ([119_000, 95_200, 54_000, 18_000, 59_000], [54_000, 13_500]);

/// The same in every region, unless AWS returned another price.
///
/// Source: aws.amazon.com/vpc/pricing, "Public IPv4 addresses", since 2024-02-01.
const ADDRESS: UsdPerHour = UsdPerHour::from_micros(5_000);

pub(crate) static REMEMBERED: LazyLock<BTreeMap<&'static str, StoragePrices>> =
    LazyLock::new(|| {
        BTreeMap::from([
            ("us-east-1", of_row(UNITED_STATES)),
            ("us-east-2", of_row(UNITED_STATES)),
            ("us-west-2", of_row(UNITED_STATES)),
            ("eu-west-1", of_row(IRELAND)),
            ("eu-central-1", of_row(FRANKFURT)),
        ])
    });

pub(crate) static ELSEWHERE: StoragePrices = StoragePrices {
    volumes: BTreeMap::new(),
    gp3_iops: None,
    gp3_mibps: None,
    snapshot: None,
    archived_snapshot: None,
    address: Some(ADDRESS),
};

fn of_row((volumes, [snapshot, archived]): Row) -> StoragePrices {
    let volumes = StoragePrices::VOLUME_TYPES.iter().zip(volumes);
    StoragePrices {
        volumes: volumes
            .map(|(name, micros)| ((*name).to_owned(), Usd::from_micros(micros)))
            .collect(),
        snapshot: Some(Usd::from_micros(snapshot)),
        archived_snapshot: Some(Usd::from_micros(archived)),
        ..ELSEWHERE.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalogue;
    use crate::refreshed_prices::{Refreshed, RegionPrices};
    use ebb_telemetry::identity::{InstanceType, Region};

    #[test]
    fn later_prices_hold_and_the_rest_is_as_remembered_or_unknown() {
        let name = |name: &str| Region::new(name).expect("a region");
        let usd = Usd::from_micros;
        let kind = InstanceType::new("m5.large").expect("a type");
        let prices = RegionPrices {
            at: "2026-11-22T00:00:00Z".parse().expect("a time"),
            on_demand: BTreeMap::from([(kind, UsdPerHour::from_micros(1))]),
            spot: BTreeMap::new(),
            fargate: Default::default(),
            storage: StoragePrices {
                volumes: BTreeMap::from([("gp3".to_owned(), usd(77_000))]),
                snapshot: Some(usd(48_000)),
                ..StoragePrices::default()
            },
        };
        let both = ["eu-west-1", "ap-south-1"].map(|region| (name(region), prices.clone()));
        let catalogue = Catalogue::built_in().with(&Refreshed {
            regions: both.into(),
            ..Refreshed::default()
        });
        let check = |region: &str, gp3: Option<i64>, gp2: Option<i64>, archived: Option<i64>| {
            let region = &name(region);
            let volume =
                |name: &str| catalogue.storage(region, |all| all.volumes.get(name).copied());
            let archived_snapshot = catalogue.storage(region, |all| all.archived_snapshot);
            let known = (volume("gp3"), volume("gp2"), archived_snapshot);
            assert_eq!(
                known,
                (gp3.map(usd), gp2.map(usd), archived.map(usd)),
                "{region}"
            );
            assert_eq!(catalogue.storage(region, |all| all.address), Some(ADDRESS));
            assert!(!catalogue.has_refreshed_storage(region));
        };
        check("eu-west-1", Some(77_000), Some(110_000), Some(12_500));
        check("ap-south-1", Some(77_000), None, None);
        check("us-east-1", Some(80_000), Some(100_000), Some(12_500));
        check("sa-east-1", None, None, None);
    }
}
