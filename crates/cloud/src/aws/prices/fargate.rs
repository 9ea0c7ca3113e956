//! Fargate prices, from the Price List.

use ebb_catalog::fargate_prices::{FargatePrices, FargateRates};
use ebb_telemetry::money::UsdPerHour;
use serde_json::Value;

use super::{is_usage, usd};

pub(super) const SERVICE: &str = "AmazonECS";

/// The suffix of the Linux usage types, after the prefix of the region.
///
/// Source: AWS Price List, attribute `usagetype` of the products of `AmazonECS`.
const X86_64: [&str; 2] = ["Fargate-vCPU-Hours:perCPU", "Fargate-GB-Hours"];
const ARM64: [&str; 2] = ["Fargate-ARM-vCPU-Hours:perCPU", "Fargate-ARM-GB-Hours"];

/// The prices in the products of one region; missing prices are unknown.
pub(super) fn prices(products: &[Value]) -> FargatePrices {
    let price = |ending: &str| -> Option<UsdPerHour> {
        let mut products = products.iter();
        products.find_map(|product| is_usage(product, ending).then(|| usd(product, None))?)
    };
    let rates = |[vcpu, gib]: [&str; 2]| {
        Some(FargateRates {
            per_vcpu: price(vcpu)?,
            per_gib: price(gib)?,
        })
    };
    FargatePrices {
        x86_64: rates(X86_64),
        arm64: rates(ARM64),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::product;
    use super::*;

    #[test]
    fn linux_has_a_price_where_both_halves_are_listed() {
        let products = [
            product("EUW1-Fargate-Windows-vCPU-Hours:perCPU", "hours", "0.09"),
            product("EUW1-SpotUsage-Fargate-vCPU-Hours:perCPU", "hours", "0.01"),
            product("EUW1-Fargate-vCPU-Hours:perCPU", "hours", "0.0404800000"),
            product("EUW1-Fargate-GB-Hours", "hours", "0.0044450000"),
            product("EUW1-Fargate-ARM-vCPU-Hours:perCPU", "hours", "0.03238"),
            product(
                "EUW1-Fargate-EphemeralStorage-GB-Hours",
                "GB-Hours",
                "0.0001",
            ),
        ];
        let found = prices(&products);
        let micros = |price: UsdPerHour| price.0.micros();
        let x86 = found
            .x86_64
            .map(|r| (micros(r.per_vcpu), micros(r.per_gib)));
        assert_eq!((x86, found.arm64), (Some((40_480, 4_445)), None));
        assert_eq!(prices(&[]), FargatePrices::default());
    }
}
