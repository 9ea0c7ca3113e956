//! Hourly prices of Fargate on Linux.

use serde::{Deserialize, Serialize};

use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::units::{Bytes, MilliCores};

/// Prices of one region by architecture; `None` if the price is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FargatePrices {
    /// Intel and AMD.
    pub x86_64: Option<FargateRates>,
    /// Graviton.
    pub arm64: Option<FargateRates>,
}

/// The prices of the parts of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FargateRates {
    /// One vCPU.
    pub per_vcpu: UsdPerHour,
    /// One GiB of memory.
    pub per_gib: UsdPerHour,
}

/// Source: "AWS Fargate Pricing", us-east-1, Linux: 0.04048 USD a vCPU and 0.004445 USD a GB
/// an hour on x86, 0.03238 and 0.00356 on Arm.
pub(crate) const BUILT_IN: (&str, FargatePrices) = (
    "us-east-1",
    FargatePrices {
        x86_64: Some(FargateRates {
            per_vcpu: UsdPerHour::from_micros(40_480),
            per_gib: UsdPerHour::from_micros(4_445),
        }),
        arm64: Some(FargateRates {
            per_vcpu: UsdPerHour::from_micros(32_380),
            per_gib: UsdPerHour::from_micros(3_560),
        }),
    },
);

impl FargateRates {
    /// The hourly cost of a task with this request.
    pub fn price(self, cores: MilliCores, memory: Bytes) -> UsdPerHour {
        let memory = self.per_gib.part(memory.0, Bytes::gib(1).0);
        UsdPerHour(self.per_vcpu.part(cores.0, 1_000).0 + memory.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalogue;
    use crate::machine_type::Architecture;
    use ebb_telemetry::identity::Region;

    #[test]
    fn a_task_costs_its_vcpus_and_its_memory() {
        let check = |region: &str, on: Architecture, expect: Option<i64>| {
            let region = Region::new(region).expect("a region");
            let rates = Catalogue::built_in().fargate(&region, on);
            let price = rates.map(|rates| rates.price(MilliCores(2_000), Bytes::gib(4)));
            assert_eq!(price.map(|price| price.0.micros()), expect, "{region}");
        };
        check("us-east-1", Architecture::X86_64, Some(98_740));
        check("us-east-1", Architecture::Arm64, Some(79_000));
        check("eu-west-1", Architecture::X86_64, None);
    }
}
