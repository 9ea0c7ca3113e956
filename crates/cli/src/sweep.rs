//! `ebb sweep`: a sweep as in the Lambda function, for data in any object store.

#[cfg(feature = "sweep")]
mod location;

#[cfg(feature = "sweep")]
pub(crate) use location::{explain, open, send_test};

use anyhow::Result;

use crate::args::SweepArgs;
use crate::output::Outcome;

#[cfg(feature = "sweep")]
pub(crate) fn run(args: &SweepArgs) -> Result<Outcome> {
    location::log_warnings();
    let runtime = crate::runtime::runtime()?;
    if let Some(seconds) = args.watch {
        return runtime.block_on(location::watch(args, seconds));
    }
    let (summary, outcome) = runtime.block_on(location::once(args))?;
    crate::output::print(&format!("{summary:#}\n"))?;
    Ok(outcome)
}

#[cfg(not(feature = "sweep"))]
pub(crate) fn run(_: &SweepArgs) -> Result<Outcome> {
    anyhow::bail!(
        "this program was built without the lake\n  build it with the lake, in the repository: \
         cargo run --release -p ebb-cli --features sweep -- sweep"
    )
}

#[cfg(not(feature = "sweep"))]
#[expect(clippy::unused_async, reason = "the same shape as with the feature")]
pub(crate) async fn explain(
    _: &str,
    _: &str,
    _: Option<&std::path::Path>,
) -> Result<ebb_analysis::explain::Explanation> {
    anyhow::bail!(
        "this program was built without the lake\n  build it with the lake, in the repository: \
         cargo run --release -p ebb-cli --features sweep -- explain"
    )
}
