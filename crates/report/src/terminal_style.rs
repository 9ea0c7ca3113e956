//! Width and colour of a terminal.

/// Layout of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalStyle {
    /// Columns of the terminal; `None` without a terminal, when nothing is truncated.
    pub columns: Option<usize>,
    /// With or without colour.
    pub colour: Colour,
}

/// With or without colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// Plain text.
    Plain,
    /// ANSI escape sequences.
    Ansi,
}

impl TerminalStyle {
    /// For a file or a pipe.
    pub const PLAIN: Self = Self {
        columns: None,
        colour: Colour::Plain,
    };
}
