//! Gather, fold, judge, publish: one sweep over the ports. The Lambda and the
//! terminal program are thin users of it.

pub mod render;
