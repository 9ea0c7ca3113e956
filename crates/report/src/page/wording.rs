//! Text that every form of a report uses.

/// Label of input that was not measured.
pub const SIMULATED: &str = "SIMULATED";

/// Maximum length of external text on a line, in characters; the JSON contains the full text.
pub const LINE_CHARS: usize = 500;
