//! The need of a step from the tasks of its profile.
//!
//! A profile is a set of recent tasks. Merging is the union by task; the newest record of a task
//! replaces earlier ones, and only the newest tasks are kept. Merging is therefore commutative,
//! associative and idempotent, so a profile may be rebuilt from the lake in any order.

use ebb_model::advice::self_sizing::SelfSizing;
use ebb_model::policy::Policy;
use ebb_model::step_profile::StepProfile;
use ebb_model::step_profile::sample::Sample;
use ebb_sizing::need;
use ebb_sizing::need::Need;
use ebb_telemetry::step::{MemorySource, PeakMemory};
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
    // A request shrinks only with enough tasks. Tools that fill their request show no need.
    if samples.len() >= policy.sizing.min_runs as usize && self_sizing.is_none() {
        samples.extend(profile.used_until_failures(&samples, policy));
    }
    let assumes = profile.ran_out_of_memory() && !need::has_enough_peaks(&samples);
    if assumes {
        samples.iter_mut().for_each(assume_request);
    }
    for sample in &mut samples {
        let needed = needed_memory(sample, self_sizing.is_some());
        if let Some((peak, needed)) = sample.peak_memory.as_mut().zip(needed) {
            peak.bytes = needed;
        }
    }
    let mut need = need::need(&samples, input, &policy.sizing);
    if assumes {
        let enough = samples.iter().filter_map(|sample| sample.sufficient_memory);
        limit_to(enough.max(), &mut need);
    }
    need
}

/// Limits the memory to a request that was enough for the greatest need.
fn limit_to(enough: Option<Bytes>, need: &mut Need) {
    let greatest = need.peaks.last().copied();
    if let Some(enough) = enough
        && greatest <= Some(enough)
        && need.memory > Some(enough)
    {
        need.memory = Some(enough);
        need.risk = need.risk_after(enough);
    }
}

/// Gives a task that succeeded with an unknown peak its request as an upper bound. A step that ran out
/// of memory needs a larger request, and one that was enough is known.
fn assume_request(sample: &mut Sample) {
    let request = sample.sufficient_memory.map(|bytes| PeakMemory {
        bytes,
        source: MemorySource::MaxRssUpperBound,
    });
    sample.peak_memory = sample.peak_memory.or(request);
}

/// The memory that a task needed; `None` if its peak is unknown. The need is only estimated if the
/// peak is an upper bound, or if the tool derives its memory from the request. Such an estimate
/// never exceeds the request with which the task succeeded.
fn needed_memory(sample: &Sample, is_self_sizing: bool) -> Option<Bytes> {
    let peak = sample.peak_memory?;
    let is_estimate = is_self_sizing || peak.source.is_upper_bound();
    let needed = match is_self_sizing {
        true => Bytes(ebb_sizing::self_sizing::request_for(peak.bytes.0)),
        false => peak.bytes,
    };
    Some(match sample.sufficient_memory.filter(|_| is_estimate) {
        Some(sufficient) => needed.min(sufficient.max(sample.held_memory.unwrap_or_default())),
        None => needed,
    })
}
