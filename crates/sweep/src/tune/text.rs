//! Advice as text that can be pasted into a workflow's or a platform's own
//! configuration. Each form has its file, and escapes names for its own syntax.

mod batch;
mod nextflow;
mod snakemake;
mod terraform;

use std::collections::BTreeMap;

use ebb_domain::heartbeat::Origin;
use ebb_domain::profile::advice::StepAdvice;
use ebb_domain::sizing::SizedRequest;
use ebb_domain::units::{Bytes, MilliCores};

pub use batch::batch;
pub use nextflow::nextflow;
pub use snakemake::snakemake;
pub use terraform::terraform;

/// What one step is to ask for.
struct Ask<'a> {
    name: &'a str,
    /// Whole cores; `None` leaves them.
    cores: Option<u64>,
    /// What to ask for first and after each failure; empty leaves it.
    sizes: Vec<Bytes>,
    now: SizedRequest,
    origin: Origin,
    samples: u32,
}

/// The steps whose request is to change, by name. Where steps of one name differ by
/// region, the one that needs more memory speaks, because these forms know no regions.
fn asks(steps: &[StepAdvice]) -> Vec<Ask<'_>> {
    let mut by_name: BTreeMap<&str, &StepAdvice> = BTreeMap::new();
    for step in steps.iter().filter(|step| step.should_ask != step.asks) {
        let entry = by_name.entry(&step.step).or_insert(step);
        if step.should_ask.memory > entry.should_ask.memory {
            *entry = step;
        }
    }
    let ask = |step: &'_ StepAdvice| -> Vec<Bytes> {
        let first = step.should_ask.memory;
        let further = first.iter().flat_map(|_| step.risk.attempts.iter());
        first.iter().chain(further).copied().collect()
    };
    by_name
        .into_values()
        .map(|step| Ask {
            name: &step.step,
            cores: step.should_ask.cores.map(whole),
            sizes: ask(step),
            now: step.asks,
            origin: step.origin,
            samples: step.samples,
        })
        .collect()
}

fn whole(cores: MilliCores) -> u64 {
    cores.0.div_ceil(1000).max(1)
}

fn mib(bytes: Bytes) -> u64 {
    bytes.0.div_ceil(1 << 20).max(1)
}

/// A comment's line, with the mark in front; says what was made up.
fn origin_note(mark: &str, asks: &[Ask<'_>]) -> String {
    match asks.iter().any(|ask| ask.origin == Origin::Simulated) {
        true => format!("{mark} SIMULATED: a generator made runs of these steps.\n"),
        false => String::new(),
    }
}

/// What is said where there is nothing to change.
fn nothing(mark: &str) -> String {
    format!("{mark} No step's request is to be changed.\n")
}

/// As an identifier or a name of letters, digits, `-` and `_`: the part of a job
/// definition that names it, without its ARN and revision.
fn plain_name(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    let bare = match last.rsplit_once(':') {
        Some((bare, revision)) if revision.bytes().all(|b| b.is_ascii_digit()) => bare,
        _ => last,
    };
    let allowed = |c: char| match c {
        c if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') => c,
        _ => '_',
    };
    let plain: String = bare.chars().map(allowed).take(128).collect();
    match plain.starts_with(|c: char| c.is_ascii_alphabetic()) {
        true => plain,
        false => format!("step_{}", plain.chars().take(120).collect::<String>()),
    }
}
