//! Manual pages and completion scripts, from the arguments of the program.

use std::fs;

use anyhow::{Context, Result};
use clap::CommandFactory;

use crate::args::{Args, CompletionsArgs, ManArgs};
use crate::output::{self, Outcome};

/// `ebb completions`.
pub(crate) fn print_completions(args: &CompletionsArgs) -> Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "ebb", &mut script);
    output::write(&String::from_utf8(script)?, None)?;
    Ok(Outcome::Done)
}

/// `ebb man`.
pub(crate) fn write_pages(args: &ManArgs) -> Result<Outcome> {
    let program = Args::command();
    let Some(folder) = &args.folder else {
        let mut page = Vec::new();
        clap_mangen::Man::new(program).render(&mut page)?;
        output::write(&String::from_utf8(page)?, None)?;
        return Ok(Outcome::Done);
    };
    let failed = || format!("failed to write manual pages to {}", folder.display());
    fs::create_dir_all(folder).with_context(failed)?;
    clap_mangen::generate_to(program, folder).with_context(failed)?;
    eprintln!("Wrote manual pages to {}.", folder.display());
    Ok(Outcome::Done)
}
