//! Fuzz targets: one for each reader of bytes from outside, and one that takes heartbeats
//! from the wire to every renderer. `scripts/fuzz` runs them with coverage under libFuzzer;
//! the tests run each on its seeds and on a few hundred mutations of them.

pub mod evaluate;
pub mod limits;
mod story;
pub mod support;
mod targets;

/// Result of a reader for an input. A panic, too much memory or too much time is a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The reader took it, at least in part.
    Accepted,
    /// The reader refused it.
    Refused,
}

impl Outcome {
    fn from_result<T, E>(result: &Result<T, E>) -> Self {
        match result {
            Ok(_) => Self::Accepted,
            Err(_) => Self::Refused,
        }
    }
}

/// A reader and where to begin.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, which is also the name of its folder of inputs.
    pub name: &'static str,
    /// Gives the bytes to the reader.
    pub run: fn(&[u8]) -> Outcome,
    /// Inputs to begin with; the reader takes most of them.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

impl Target {
    /// All targets.
    pub const ALL: &[Self] = targets::ALL;

    /// The target of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|target| target.name == name)
    }
}
