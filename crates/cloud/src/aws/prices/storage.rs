//! Prices of volumes, snapshots and public addresses, from the Price List.

use ebb_catalog::storage_prices::StoragePrices;
use ebb_telemetry::money::{Usd, UsdPerHour};
use serde_json::Value;

use super::{is_usage, usd};

/// The product families of `AmazonEC2`, with one request for each.
pub(super) const FAMILIES: [&str; 4] = [
    "Storage",
    "System Operation",
    "Provisioned Throughput",
    "Storage Snapshot",
];

/// Addresses belong to another service.
pub(super) const VPC: &str = "AmazonVPC";
pub(super) const ADDRESSES: (&str, &str) = ("group", "VPCPublicIPv4Address");

/// The prices in the products of one region; missing prices are unknown.
///
/// Source of the usage types: EBS user guide, "Understand codes for Amazon EBS in billing and
/// usage reports", and VPC user guide, "Public IPv4 address charges".
pub(super) fn prices(products: &[Value]) -> StoragePrices {
    let price = |usage: &str, unit: Option<&str>| -> Option<UsdPerHour> {
        let mut those = products.iter().filter(|product| is_usage(product, usage));
        those.find_map(|product| usd(product, unit))
    };
    let a_month = |usage: &str| price(usage, None).map(|price| price.0);
    let volumes = StoragePrices::VOLUME_TYPES.iter().filter_map(|name| {
        let usage = match *name {
            "standard" => "EBS:VolumeUsage".to_owned(),
            name => format!("EBS:VolumeUsage.{name}"),
        };
        Some(((*name).to_owned(), a_month(&usage)?))
    });
    StoragePrices {
        volumes: volumes.collect(),
        gp3_iops: a_month("EBS:VolumeP-IOPS.gp3"),
        gp3_mibps: throughput(&price),
        snapshot: a_month("EBS:SnapshotUsage"),
        archived_snapshot: a_month("EBS:SnapshotArchiveStorage"),
        address: price("PublicIPv4:IdleAddress", Some("Hrs")),
    }
}

/// The price of throughput in MiB/s, which is listed per GiB/s.
fn throughput(price: &impl Fn(&str, Option<&str>) -> Option<UsdPerHour>) -> Option<Usd> {
    let usage = "EBS:VolumeP-Throughput.gp3";
    let by_gib = price(usage, Some("GiBps-mo")).map(|price| price.part(1, 1_024));
    let by_mib = || price(usage, Some("MiBps-Mo"));
    by_gib.or_else(by_mib).map(|price| price.0)
}

#[cfg(test)]
mod tests {
    use super::super::testing::product;
    use super::*;

    #[test]
    fn storage_has_the_prices_of_its_own_region() {
        let products = [
            product("EUW1-EBS:VolumeUsage", "GB-Mo", "0.0550000000"),
            product("EUW1-EBS:VolumeUsage.gp3", "GB-Mo", "0.0880000000"),
            product("EUW1-EBS:VolumeUsage.io2", "GB-Mo", "0.1380000000"),
            product("EUW1-EBS:VolumeP-IOPS.gp3", "IOPS-Mo", "0.0055000000"),
            product("EUW1-EBS:VolumeP-Throughput.gp3", "GiBps-mo", "45.0560000"),
            product("EUW1-EBS:SnapshotUsage.outposts", "GB-Mo", "0.0900000000"),
            product("EUW1-EBS:SnapshotUsage", "GB-Mo", "0.0500000000"),
            product("EUW1-XYZ1-EBS:SnapshotArchiveStorage", "GB-Mo", "0.09"),
            product("EUW1-PublicIPv4:InUseAddress", "Hrs", "0.0060000000"),
            product("EUW1-PublicIPv4:IdleAddress", "Hrs", "0.0050000000"),
        ];
        let found = prices(&products);
        let volumes = found.volumes.iter();
        let volumes: Vec<_> = volumes.map(|(n, usd)| (n.as_str(), usd.micros())).collect();
        assert_eq!(volumes, [("gp3", 88_000), ("standard", 55_000)]);
        let micros = |price: Option<Usd>| price.map(Usd::micros);
        assert_eq!(micros(found.gp3_iops), Some(5_500));
        assert_eq!(micros(found.gp3_mibps), Some(44_000));
        assert_eq!(micros(found.snapshot), Some(50_000));
        assert_eq!(found.archived_snapshot, None);
        assert_eq!(found.address, Some(UsdPerHour::from_micros(5_000)));
        // us-east-1 has no prefix.
        let there = [product("EBS:VolumeUsage.gp2", "GB-Mo", "0.1000000000")];
        assert_eq!(
            micros(prices(&there).volumes.get("gp2").copied()),
            Some(100_000)
        );
        assert_eq!(prices(&[]), StoragePrices::default());
    }
}
