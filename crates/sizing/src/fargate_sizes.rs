//! The pairs of vCPU and memory that Fargate offers.

use ebb_model::advice::sized_request::SizedRequest;
use ebb_telemetry::units::{Bytes, MilliCores};

/// vCPUs in thousandths; the minimum memory, the maximum memory and the step between sizes, in MiB.
///
/// Source: "Fargate task size", Amazon ECS Developer Guide. Fargate does not offer 1.5 GiB with a
/// quarter of a vCPU; all other steps are even.
const SIZES: [(u64, u64, u64, u64); 8] = [
    (250, 512, 1_024, 512),
    (250, 2_048, 2_048, 1_024),
    (500, 1_024, 4_096, 1_024),
    (1_000, 2_048, 8_192, 1_024),
    (2_000, 4_096, 16_384, 1_024),
    (4_000, 8_192, 30_720, 1_024),
    (8_000, 16_384, 61_440, 4_096),
    (16_000, 32_768, 122_880, 8_192),
];

/// The price of a vCPU relative to the price of a GiB, which decides between pairs.
///
/// Source: "AWS Fargate Pricing", us-east-1, Linux on x86: 0.04048 USD a vCPU and 0.004445 USD a GB
/// an hour. The ratio is about the same in all regions.
const VCPU_IN_GIB: f64 = 9.1;

/// The cheapest pair with at least so many cores and so much memory; `None` if no pair is large
/// enough. Fractions of a vCPU are chosen for tasks that never kept a whole core busy.
pub fn pair(cores: MilliCores, memory: Bytes) -> Option<SizedRequest> {
    let wanted = memory.0.div_ceil(Bytes::mib(1).0);
    let fits = SIZES.iter().filter(|(vcpu, ..)| *vcpu >= cores.0);
    let sized = fits.filter_map(|(vcpu, least, most, step)| {
        let mib = wanted.max(*least).next_multiple_of(*step);
        (mib <= *most).then_some((*vcpu, mib))
    });
    let price =
        |(vcpu, mib): &(u64, u64)| VCPU_IN_GIB * *vcpu as f64 / 1_000.0 + *mib as f64 / 1_024.0;
    let (vcpu, mib) = sized.min_by(|a, b| price(a).total_cmp(&price(b)))?;
    Some(SizedRequest {
        cores: Some(MilliCores(vcpu)),
        memory: Some(Bytes::mib(mib)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheapest_pair_that_is_sold_holds_what_is_needed() {
        let check = |cores: u64, mib: u64, expect: Option<(u64, u64)>| {
            let pair = pair(MilliCores(cores), Bytes::mib(mib));
            let pair = pair.and_then(|pair| Some((pair.cores?.0, pair.memory?.0 >> 20)));
            assert_eq!(pair, expect, "{cores} {mib}");
        };
        check(0, 1, Some((250, 512)));
        check(250, 1_025, Some((250, 2_048)));
        check(251, 512, Some((500, 1_024)));
        check(250, 2_049, Some((500, 3_072)));
        check(1_000, 8_193, Some((2_000, 9_216)));
        check(3_000, 1, Some((4_000, 8_192)));
        check(8_000, 17_000, Some((8_000, 20_480)));
        check(16_000, 122_880, Some((16_000, 122_880)));
        check(16_001, 1, None);
        check(1, 122_881, None);
    }
}
