//! What a step should ask for: from the peaks of its past runs.

pub mod memory;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::policy::SizingPolicy;
use crate::step::{PeakMemory, Requested};
use crate::units::{Bytes, MilliCores};

/// Cores and memory to ask for; `None` leaves the request as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SizedRequest {
    /// Cores.
    pub cores: Option<MilliCores>,
    /// Memory.
    pub memory: Option<Bytes>,
}

impl From<Requested> for SizedRequest {
    fn from(requested: Requested) -> Self {
        Self {
            cores: requested.cores,
            memory: requested.memory,
        }
    }
}

/// What one past run of a step tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The most cores it kept busy over a sample interval; `None` when unknown.
    pub peak_cores: Option<MilliCores>,
    /// The most memory it held; `None` when unknown.
    pub peak_memory: Option<PeakMemory>,
    /// How long it was seen.
    pub wall: Duration,
}

/// Memory is asked for in steps of 256 MiB: fine enough to matter on no bill.
const MEMORY_STEP: Bytes = Bytes::mib(256);

/// Sizes a request: memory from the greatest peak with the policy's headroom,
/// cores from the greatest parallelism, rounded up to whole ones. A request is
/// never raised here; what cannot be told from the samples stays as it is.
///
/// Source: HealthOmics Run Analyzer's `ceil(max x (1 + headroom))`.
pub fn size(current: Requested, samples: &[Sample], policy: &SizingPolicy) -> SizedRequest {
    let peak_memory = greatest(samples, |sample| sample.peak_memory.map(|peak| peak.bytes));
    let peak_cores = greatest(samples, |sample| sample.peak_cores);
    let memory = match (current.memory, peak_memory) {
        (Some(now), Some(peak)) => Some(with_headroom(peak, policy).min(now)),
        (now, _) => now,
    };
    let cores = match (current.cores, peak_cores) {
        (Some(now), Some(peak)) => Some(whole(peak).min(now)),
        (now, _) => now,
    };
    SizedRequest { cores, memory }
}

/// The greatest of a value over all samples; `None` as soon as one is unknown,
/// for the unknown one could be the greatest.
fn greatest<T: Ord>(samples: &[Sample], value: impl Fn(&Sample) -> Option<T>) -> Option<T> {
    let all: Option<Vec<T>> = samples.iter().map(value).collect();
    all?.into_iter().max()
}

fn with_headroom(peak: Bytes, policy: &SizingPolicy) -> Bytes {
    let parts = 1_000_000 + u128::from(policy.memory_headroom_ppm);
    let needed = (u128::from(peak.0) * parts).div_ceil(1_000_000);
    let steps = needed.div_ceil(u128::from(MEMORY_STEP.0)).max(1);
    Bytes(u64::try_from(steps * u128::from(MEMORY_STEP.0)).unwrap_or(u64::MAX))
}

fn whole(cores: MilliCores) -> MilliCores {
    MilliCores::cores(cores.0.div_ceil(1000).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::MemorySource;

    fn sample(milli_cores: Option<u64>, mib: Option<u64>) -> Sample {
        let peak = |mib| PeakMemory {
            bytes: Bytes::mib(mib),
            source: MemorySource::CgroupSampled,
        };
        Sample {
            peak_cores: milli_cores.map(MilliCores),
            peak_memory: mib.map(peak),
            wall: Duration::from_secs(600),
        }
    }

    #[test]
    fn a_request_follows_the_greatest_peak_and_is_never_raised() {
        let check = |samples: &[Sample], cores: u64, memory_mib: u64| {
            let current = Requested {
                cores: Some(MilliCores::cores(16)),
                memory: Some(Bytes::gib(32)),
            };
            let sized = size(current, samples, &SizingPolicy::default());
            let expect = SizedRequest {
                cores: Some(MilliCores::cores(cores)),
                memory: Some(Bytes::mib(memory_mib)),
            };
            assert_eq!(sized, expect);
        };
        check(&[sample(Some(2_100), Some(4_000))], 3, 4_864);
        check(
            &[
                sample(Some(2_100), Some(4_000)),
                sample(Some(900), Some(100)),
            ],
            3,
            4_864,
        );
        check(&[sample(Some(0), Some(0))], 1, 256);
        check(&[sample(Some(20_000), Some(60_000))], 16, 32 << 10);
        check(&[sample(None, Some(4_000))], 16, 4_864);
        check(
            &[sample(Some(2_100), Some(4_000)), sample(Some(900), None)],
            3,
            32 << 10,
        );
        check(&[], 16, 32 << 10);
    }

    #[test]
    fn doubling_all_usage_never_shrinks_a_request() {
        let current = Requested {
            cores: Some(MilliCores::cores(64)),
            memory: Some(Bytes::gib(512)),
        };
        for i in 0..200 {
            let (cores, mib) = (i * 137, i * 411);
            let once = size(
                current,
                &[sample(Some(cores), Some(mib))],
                &SizingPolicy::default(),
            );
            let twice = size(
                current,
                &[sample(Some(2 * cores), Some(2 * mib))],
                &SizingPolicy::default(),
            );
            assert!(twice >= once, "{i}");
        }
    }
}
