//! Wording that every form of a report uses.

/// What every form says of input that nobody measured.
pub const SIMULATED: &str = "SIMULATED";

/// The longest line of text from outside; the JSON has the whole of it.
pub const LINE_CHARS: usize = 500;
