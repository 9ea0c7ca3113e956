//! Terraform: what changes in an `aws_batch_job_definition`, as lines of a diff.

use std::fmt::Write;

use super::{Ask, asks, mib, nothing, origin_note, plain_name, whole};
use ebb_domain::profile::advice::StepAdvice;

/// The changed lines of each job definition, `-` what is there and `+` what to write.
pub fn terraform(steps: &[StepAdvice]) -> String {
    let asks = asks(steps);
    if asks.is_empty() {
        return nothing("#");
    }
    let mut out = origin_note("#", &asks);
    for ask in &asks {
        resource(&mut out, ask);
    }
    out
}

fn resource(out: &mut String, ask: &Ask<'_>) {
    let name = plain_name(ask.name);
    let times = if ask.samples == 1 { "run" } else { "runs" };
    let _ = writeln!(out, "# told by {} {times}", ask.samples);
    let _ = writeln!(out, " resource \"aws_batch_job_definition\" \"{name}\" {{");
    out.push_str("   container_properties = jsonencode({\n     resourceRequirements = [\n");
    let cores = ask.now.cores.map(whole);
    let memory = ask.now.memory.map(mib);
    change(out, "VCPU", cores, ask.cores);
    change(out, "MEMORY", memory, ask.sizes.first().copied().map(mib));
    out.push_str("     ]\n   })\n }\n");
}

fn change(out: &mut String, kind: &str, now: Option<u64>, then: Option<u64>) {
    let mut line = |mark: char, value: u64| {
        let _ = writeln!(
            out,
            "{mark}      {{ type = \"{kind}\", value = \"{value}\" }},"
        );
    };
    match (now, then) {
        (Some(now), None) => line(' ', now),
        (Some(now), Some(then)) if now == then => line(' ', now),
        (now, then) => {
            if let Some(now) = now {
                line('-', now);
            }
            if let Some(then) = then {
                line('+', then);
            }
        }
    }
}
