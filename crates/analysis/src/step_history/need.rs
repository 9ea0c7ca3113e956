//! The need of a step from the tasks of its profile.
//!
//! A profile is a set of recent tasks. Merging is the union by task; the newest record of a task
//! replaces earlier ones, and only the newest tasks are kept. Merging is therefore commutative,
//! associative and idempotent, so a profile may be rebuilt from the lake in any order.

use ebb_model::advice::self_sizing::SelfSizing;
use ebb_model::policy::Policy;
use ebb_model::step_profile::StepProfile;
use ebb_sizing::need;
use ebb_sizing::need::Need;
use ebb_telemetry::units::Bytes;

/// Need of a task; `input` is the size of its input, `None` if unknown. If a tool derives its
/// memory from the request, the need uses the share of the request that such tools get.
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
