//! Text from outside, made safe; see [`ebb_domain::safe_text`].

pub(crate) use ebb_domain::safe_text::{clip, counted, one_line, wrap};
