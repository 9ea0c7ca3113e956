//! Manual pages and completion scripts, from the arguments of the program.

use std::fs;
use std::io::{Write, stdout};
use std::path::Path;

use anyhow::Context;
use clap::CommandFactory;

use crate::args::Args;

/// Writes a page for the program and one for each command to `folder`; without a folder, prints the
/// page of the program.
pub fn write_pages(folder: Option<&Path>) -> anyhow::Result<()> {
    let program = Args::command();
    let Some(folder) = folder else {
        let mut page = Vec::new();
        clap_mangen::Man::new(program).render(&mut page)?;
        return stdout()
            .write_all(&page)
            .context("failed to write to standard output");
    };
    let failed = || format!("failed to write manual pages to {}", folder.display());
    fs::create_dir_all(folder).with_context(failed)?;
    clap_mangen::generate_to(program, folder).with_context(failed)?;
    eprintln!("Wrote manual pages to {}.", folder.display());
    Ok(())
}

/// Prints a completion script for a shell.
pub fn print_completions(shell: clap_complete::Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "ebb-probe", &mut script);
    stdout()
        .write_all(&script)
        .context("failed to write to standard output")
}
