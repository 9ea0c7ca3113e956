//! What version 1.4 added.

use std::time::Duration;

use ebb_domain::step::{Asked, Reclaim, Unmoved};
use ebb_domain::units::Bytes;

use crate::error::DecodeError;
use crate::read::fields::Fields;

pub(super) fn asked(bytes: &[u8]) -> Result<Asked, DecodeError> {
    let mut asked = Asked::default();
    let mut fields = Fields(bytes);
    while let Some((tag, value)) = fields.next()? {
        match tag {
            1 => asked.read = Bytes(value.number()?),
            2 => asked.written = Bytes(value.number()?),
            3 => asked.read_calls = value.number()?,
            4 => asked.write_calls = value.number()?,
            _ => {}
        }
    }
    Ok(asked)
}

pub(super) fn unmoved(bytes: &[u8]) -> Result<Unmoved, DecodeError> {
    let mut unmoved = Unmoved::default();
    let mut fields = Fields(bytes);
    while let Some((tag, value)) = fields.next()? {
        match tag {
            1 => unmoved.now = Duration::from_nanos(value.number()?),
            2 => unmoved.longest = Duration::from_nanos(value.number()?),
            _ => {}
        }
    }
    Ok(unmoved)
}

pub(super) fn reclaim(bytes: &[u8]) -> Result<Reclaim, DecodeError> {
    let mut reclaim = Reclaim::default();
    let mut fields = Fields(bytes);
    while let Some((tag, value)) = fields.next()? {
        match tag {
            1 => reclaim.taken = Some(Bytes(value.number()?)),
            2 => reclaim.limit_hits = value.number()?,
            _ => {}
        }
    }
    Ok(reclaim)
}
