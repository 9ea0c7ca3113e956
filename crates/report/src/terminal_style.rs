//! Width and colour of a terminal.

/// How the table looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Columns of the terminal; `None` where there is none, and nothing is cut.
    pub columns: Option<usize>,
    /// With or without colour.
    pub colour: Colour,
}

/// With or without colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// Plain text.
    Plain,
    /// Escape sequences of ANSI terminals.
    Ansi,
}

impl Look {
    /// For a file or a pipe.
    pub const PLAIN: Self = Self {
        columns: None,
        colour: Colour::Plain,
    };
}
