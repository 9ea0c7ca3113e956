//! Offers for a profiled step: on demand and spot in its own region. Other regions are included if
//! the moved bytes are known. Each offer contains the expected time and cost of a task and their
//! basis.

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
use crate::step_history::by_step::{Profiles, StepHistory};

/// Number of tasks in a trial: the fewest that show a spread.
const TRIAL_RUNS: f64 = 3.0;

/// Factor between the actual and the predicted run time, if the prediction uses published facts. It
/// is the 90th percentile of the error on tasks that never ran on the target type. The machines
/// were similar (`eval runtime-transfer`, chipseq and atacseq).
const TRIAL_MAY_TAKE: f64 = 1.4;

/// Properties of a step other than its tasks.
pub(crate) struct StepConditions<'a> {
    pub(crate) tags: &'a BTreeMap<String, String>,
    pub(crate) arm: Arm<'a>,
    /// Effective price of its last machine.
    pub(crate) paid: Option<Paid<'a>>,
}

/// Returns offers for a step with the request `request`.
pub(crate) fn offers(
    facts: &Facts<'_>,
    profiles: &Profiles<'_>,
    (home, profiled): (&Region, &StepHistory<'_>),
    request: SizedRequest,
) -> Offers {
    let placing = Placing::new(facts, profiles);
    let requests = (request, profiled.requested());
    let paid = profiled.newest().and_then(|run| Paid::find(facts, run));
    let about = StepConditions {
        tags: &profiled.tags(),
        arm: Arm::from_history(profiled),
        paid,
    };
    placing.offers(&profiled.profile, requests, home, &about)
}

/// Number of tasks in a month at the observed rate; `None` for a single task.
fn runs_a_month(profile: &StepProfile) -> Option<f64> {
    let runs = profile.by_time();
    let known = Window {
        from: runs.iter().map(|run| run.started_at).min()?,
        to: runs.iter().map(|run| run.observed_at).max()?,
    };
    (runs.len() > 1).then_some(runs.len() as f64 * known.times_a_month())
}
