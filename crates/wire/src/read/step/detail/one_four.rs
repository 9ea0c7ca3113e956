//! What version 1.4 added.

use std::time::Duration;

use ebb_telemetry::step::{Asked, Reclaim, Unmoved};
use ebb_telemetry::units::Bytes;

use crate::error::DecodeError;
use crate::read::fields::Fields;

#[inline]
pub(super) fn asked(bytes: &[u8]) -> Result<Asked, DecodeError> {
    let mut said = Fields::of(bytes);
    let told = Asked {
        read: Bytes(said.or_zero(1)),
        written: Bytes(said.or_zero(2)),
        read_calls: said.or_zero(3),
        write_calls: said.or_zero(4),
    };
    said.end(4)?;
    Ok(told)
}

#[inline]
pub(super) fn unmoved(bytes: &[u8]) -> Result<Unmoved, DecodeError> {
    let mut said = Fields::of(bytes);
    let told = Unmoved {
        now: Duration::from_nanos(said.or_zero(1)),
        longest: Duration::from_nanos(said.or_zero(2)),
    };
    said.end(2)?;
    Ok(told)
}

#[inline]
pub(super) fn reclaim(bytes: &[u8]) -> Result<Reclaim, DecodeError> {
    let mut said = Fields::of(bytes);
    let told = Reclaim {
        taken: said.get(1).map(Bytes),
        limit_hits: said.or_zero(2),
    };
    said.end(2)?;
    Ok(told)
}
