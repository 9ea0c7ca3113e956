//! End to end tests: the demo and its fleet generator as a library, so that tests can run parts of
//! them.

pub mod demo;
pub mod fleet;
pub mod simulated;
pub mod world;

use std::path::PathBuf;

/// The folder of `scripts/setup`: `EBB_CACHE`, or `.cache/ebb` in the home folder; `None` without
/// both.
pub fn cache() -> Option<PathBuf> {
    let configured_folder = std::env::var_os("EBB_CACHE").map(PathBuf::from);
    configured_folder.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/ebb")))
}

/// The Python with the simulators that `scripts/setup` installs.
pub fn python() -> Option<PathBuf> {
    Some(cache()?.join("venv/bin/python"))
}
