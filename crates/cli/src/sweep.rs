//! `ebb sweep`: a sweep as in the Lambda function, for data in any object store.

#[cfg(feature = "sweep")]
mod at;

#[cfg(feature = "sweep")]
pub(crate) use at::open;

use anyhow::Result;

use crate::args::SweepArgs;
use crate::output::Outcome;

#[cfg(feature = "sweep")]
pub(crate) fn run(args: &SweepArgs) -> Result<Outcome> {
    let summary = crate::scan::runtime()?.block_on(at::sweep(args))?;
    crate::output::print(&format!("{summary:#}\n"))?;
    Ok(Outcome::Done)
}

#[cfg(not(feature = "sweep"))]
pub(crate) fn run(_: &SweepArgs) -> Result<Outcome> {
    anyhow::bail!(
        "this program was built without the lake\n  build it with the lake, in the repository: \
         cargo run --release -p ebb-cli --features sweep -- sweep"
    )
}
