//! Readers of untrusted text files: lines, CSV records, and the invalid lines. They limit their
//! memory, read from any source and open no file.

pub mod bad_lines;
pub mod csv;
pub mod lines;
