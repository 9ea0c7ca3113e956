//! End to end: the demo and the generator of its fleet, as a library, so that
//! tests play parts of them.

pub mod demo;
pub mod fleet;
pub mod simulated;
pub mod world;

use std::path::PathBuf;

/// Where `scripts/setup` keeps what it makes: `EBB_CACHE`, or `.cache/ebb` of the home
/// folder; `None` where there is neither.
pub fn cache() -> Option<PathBuf> {
    let told = std::env::var_os("EBB_CACHE").map(PathBuf::from);
    told.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/ebb")))
}

/// Python with the simulators, as `scripts/setup` makes it.
pub fn python() -> Option<PathBuf> {
    Some(cache()?.join("venv/bin/python"))
}
