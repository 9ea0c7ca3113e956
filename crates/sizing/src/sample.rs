use ebb_telemetry::units::Bytes;

/// Step of memory requests: 256 MiB, too small to matter on a bill.
pub(crate) const MEMORY_STEP: Bytes = Bytes::mib(256);

pub(crate) fn in_steps(needed: u128) -> Bytes {
    let steps = needed.div_ceil(u128::from(MEMORY_STEP.0)).max(1);
    Bytes(u64::try_from(steps * u128::from(MEMORY_STEP.0)).unwrap_or(u64::MAX))
}
