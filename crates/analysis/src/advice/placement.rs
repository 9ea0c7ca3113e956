//! Where a profiled step should run, among all that is sold: its own region on demand,
//! spot, and other regions where the bytes that it moves are known. Each offer says
//! what a run is expected to take and cost, and what that rests on.

pub mod current_price;
pub mod inputs;
pub mod limits;
pub mod offers;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use ebb_model::advice::offer::Offers;
use ebb_model::advice::sized_request::SizedRequest;
use ebb_model::step_profile::StepProfile;
use ebb_telemetry::identity::Region;
use ebb_telemetry::time::Window;

use crate::advice::placement::current_price::Paid;
use crate::advice::placement::inputs::{Arm, Placing};
use crate::facts::Facts;
use crate::step_history::by_step::{Profiled, Profiles};

/// Runs that a trial takes: the fewest with a spread.
const TRIAL_RUNS: f64 = 3.0;

/// How much longer than predicted from published facts a run may take: the 90th
/// percentile of the error on tasks never seen on the target, where the machines were
/// alike (`eval runtime-transfer`, chipseq and atacseq).
const TRIAL_MAY_TAKE: f64 = 1.4;

/// What is known of a step beside its runs.
pub(crate) struct About<'a> {
    pub(crate) tags: &'a BTreeMap<String, String>,
    pub(crate) arm: Arm<'a>,
    /// What is paid for the machine that it ran on last.
    pub(crate) paid: Option<Paid<'a>>,
}

/// Where a step should run that asks for `request`.
pub(crate) fn offers(
    facts: &Facts<'_>,
    profiles: &Profiles<'_>,
    (home, profiled): (&Region, &Profiled<'_>),
    request: SizedRequest,
) -> Offers {
    let placing = Placing::of(facts, profiles);
    let asked = (request, profiled.requested());
    let paid = profiled.newest().and_then(|run| Paid::of(facts, run));
    let about = About {
        tags: &profiled.tags(),
        arm: Arm::of(profiled),
        paid,
    };
    placing.offers(&profiled.profile, asked, home, &about)
}

/// As often as in the time over which its runs are known; `None` for a single one.
fn runs_a_month(profile: &StepProfile) -> Option<f64> {
    let runs = profile.by_time();
    let known = Window {
        from: runs.iter().map(|run| run.started_at).min()?,
        to: runs.iter().map(|run| run.observed_at).max()?,
    };
    (runs.len() > 1).then_some(runs.len() as f64 * known.times_a_month())
}
