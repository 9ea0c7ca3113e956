//! `ebb names`: stores names of tasks from the records of engines, and explains the name of a task.

#[cfg(feature = "sweep")]
mod place;

use anyhow::Result;
use ebb_report::zone::Zone;

use crate::args::NamesArgs;
use crate::output::Outcome;

#[cfg(feature = "sweep")]
pub(crate) fn run(args: &NamesArgs, zone: &Zone) -> Result<Outcome> {
    use crate::args::names::NamesCommand;

    match &args.command {
        NamesCommand::Push(push) => place::push(push),
        NamesCommand::Explain(explain) => place::explain(explain, zone),
    }
}

#[cfg(not(feature = "sweep"))]
pub(crate) fn run(_: &NamesArgs, _: &Zone) -> Result<Outcome> {
    anyhow::bail!(
        "this program was built without the lake\n  build it with the lake, in the repository: \
         cargo run --release -p ebb-cli --features sweep -- names"
    )
}
