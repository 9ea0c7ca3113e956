//! Documents that Ebb stores in its bucket and that several programs read.

pub mod decisions;
pub mod inflate;
pub mod prices;
pub mod report_files;
