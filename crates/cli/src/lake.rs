//! `ebb lake`: rows of the lake's tables, and SQL over them.

#[cfg(feature = "sweep")]
mod database;
#[cfg(feature = "sweep")]
mod read;

use anyhow::Result;

#[cfg(feature = "sweep")]
pub(crate) use self::read::open_lake;

use crate::args::LakeArgs;
use crate::output::Outcome;

#[cfg(feature = "sweep")]
pub(crate) fn run(args: &LakeArgs) -> Result<Outcome> {
    let text = crate::runtime::runtime()?.block_on(read::answer(&args.command))?;
    crate::output::write(&text, None)?;
    Ok(Outcome::Done)
}

#[cfg(not(feature = "sweep"))]
pub(crate) fn run(_: &LakeArgs) -> Result<Outcome> {
    anyhow::bail!(
        "this program was built without the lake\n  build it with the lake, in the repository: \
         cargo run --release -p ebb-cli --features sweep -- lake"
    )
}
