//! What the runs of one step show, together: what it needs, what binds it and where
//! its request is underused.
//!
//! A profile is a set of recent runs. Merging is the union by run, the newest record
//! of a run standing for the earlier ones, and of all runs the newest are kept: so it
//! is commutative, associative and idempotent, and a profile may be folded again
//! from the lake in any order.

use ebb_model::advice::self_sizing::SelfSizing;
use ebb_model::policy::Policy;
use ebb_model::step_profile::StepProfile;
use ebb_sizing::need;
use ebb_sizing::need::Need;
use ebb_telemetry::units::Bytes;

/// What a task needs whose input is known or not. What a tool took that sizes itself by
/// its request counts as the part of a request that such tools are given.
pub fn step_need(
    profile: &StepProfile,
    input: Option<Bytes>,
    self_sizing: Option<&SelfSizing>,
    policy: &Policy,
) -> Need {
    let mut samples = profile.samples(policy);
    if self_sizing.is_some() {
        let peaks = samples.iter_mut().filter_map(|s| s.peak_memory.as_mut());
        peaks.for_each(|peak| {
            peak.bytes = Bytes(ebb_sizing::self_sizing::request_for(peak.bytes.0))
        });
    }
    need::need(&samples, input, &policy.sizing)
}
