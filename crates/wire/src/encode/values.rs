//! Encodes single values.

use std::time::Duration;

use ebb_telemetry::origin::Origin;
use ebb_telemetry::safe_text::clean;

use crate::contents::MAX_TEXT_BYTES;
use crate::encode::LARGEST;
use crate::proto;

pub(crate) fn number(number: u64) -> u64 {
    number.min(LARGEST)
}

/// In nanoseconds; more than 292 years become the largest value.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).map_or(LARGEST, number)
}

/// Cleans a name, so that the decoder does not refuse a task because of the name of a program.
pub(crate) fn name(name: &str) -> String {
    clean(name, MAX_TEXT_BYTES).into_owned()
}

pub(crate) fn origin_out(origin: Origin) -> i32 {
    match origin {
        Origin::Measured => proto::Origin::Measured,
        Origin::Simulated => proto::Origin::Simulated,
    }
    .into()
}
