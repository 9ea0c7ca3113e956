//! Text from outside, made safe; see [`ebb_telemetry::safe_text`].

pub(crate) use ebb_telemetry::safe_text::{clip, counted, one_line, wrap};
