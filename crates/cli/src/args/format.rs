use clap::ValueEnum;

/// Formats of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableFormat {
    /// For a terminal
    Table,
    /// Every value
    Json,
    /// One row an entry
    Csv,
}
