//! The program `ebb`. Its code is in the library of the same name.

use std::process::ExitCode;

fn main() -> ExitCode {
    ebb::run()
}
