//! Values of fields as the contract writes them.

use std::time::Duration;

use ebb_telemetry::origin::Origin;
use ebb_telemetry::safe_text::clean;

use crate::contents::MAX_TEXT_BYTES;
use crate::encode::LARGEST;
use crate::proto;

pub(crate) fn number(number: u64) -> u64 {
    number.min(LARGEST)
}

/// More than 292 years are as many.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).map_or(LARGEST, number)
}

/// A name as readers take it: nothing of a node may be refused for what its users call
/// their programs.
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
