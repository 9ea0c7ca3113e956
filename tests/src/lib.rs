//! End to end: the demo and the generator of its fleet, as a library, so that
//! tests play parts of them.

pub mod demo;
pub mod fleet;
pub mod simulated;
pub mod world;
