//! Advice as text that can be pasted into a workflow's or a platform's own
//! configuration. Each form has its file, and escapes names for its own syntax.

mod batch;
mod environment;
mod group;
mod machines;
mod nextflow;
mod snakemake;
mod terraform;
#[cfg(test)]
mod tests;

pub use environment::update as environment_update;

use std::collections::BTreeMap;

use ebb_domain::heartbeat::Origin;
use ebb_domain::profile::advice::StepAdvice;
use ebb_domain::sizing::SizedRequest;
use ebb_domain::units::{Bytes, MilliCores};

use serde_json::Value;

/// A form of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `withName` selectors for `nextflow.config`.
    Nextflow,
    /// A workflow profile of Snakemake.
    Snakemake,
    /// Input of `aws batch register-job-definition --cli-input-json`.
    Batch,
    /// Input of `aws batch create-compute-environment --cli-input-json`.
    BatchEnvironment,
    /// Input of `aws ec2 create-launch-template-version --cli-input-json`.
    LaunchTemplate,
    /// Input of `aws autoscaling update-auto-scaling-group --cli-input-json`.
    AutoScalingGroup,
    /// A diff of job definitions and compute environments.
    Terraform,
    /// A diff of launch templates and Auto Scaling groups.
    TerraformGroup,
}

impl Form {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Nextflow,
        Self::Snakemake,
        Self::Batch,
        Self::BatchEnvironment,
        Self::LaunchTemplate,
        Self::AutoScalingGroup,
        Self::Terraform,
        Self::TerraformGroup,
    ];

    /// The name that it is asked for by.
    pub const fn slug(self) -> &'static str {
        match self {
            Self::Nextflow => "nextflow",
            Self::Snakemake => "snakemake",
            Self::Batch => "batch",
            Self::BatchEnvironment => "batch-environment",
            Self::LaunchTemplate => "launch-template",
            Self::AutoScalingGroup => "asg",
            Self::Terraform => "terraform",
            Self::TerraformGroup => "terraform-asg",
        }
    }

    /// By that name; `None` where there is none of it.
    pub fn of(slug: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.slug() == slug)
    }

    /// What it is to a browser.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Batch | Self::BatchEnvironment | Self::LaunchTemplate => "application/json",
            Self::AutoScalingGroup => "application/json",
            Self::Nextflow | Self::Snakemake | Self::Terraform | Self::TerraformGroup => {
                "text/plain; charset=utf-8"
            }
        }
    }

    /// What is to change about steps, in this form.
    pub fn write(self, steps: &[StepAdvice]) -> String {
        match self {
            Self::Nextflow => nextflow::nextflow(steps),
            Self::Snakemake => snakemake::snakemake(steps),
            Self::Batch => batch::batch(steps),
            Self::BatchEnvironment => environment::environment(steps),
            Self::LaunchTemplate => group::launch_template(steps),
            Self::AutoScalingGroup => group::group(steps),
            Self::Terraform => terraform::batch(steps),
            Self::TerraformGroup => terraform::groups(steps),
        }
    }
}

/// What only the job definition itself knows.
const IMAGE: &str = "REPLACE-WITH-THE-IMAGE-OF-THE-REVISION-BEFORE";

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

/// The steps whose request is to change, by name. Where steps of one name differ by region
/// or account, the one that needs more memory speaks, changed or not, because these forms
/// know neither.
fn asks(steps: &[StepAdvice]) -> Vec<Ask<'_>> {
    let mut by_name: BTreeMap<&str, &StepAdvice> = BTreeMap::new();
    for step in steps {
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
        .filter(|step| step.should_ask != step.asks)
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
    let origins = asks.iter().map(|ask| ask.origin);
    simulated_note(mark, origins.max().unwrap_or(Origin::Measured))
}

fn simulated_note(mark: &str, origin: Origin) -> String {
    match origin == Origin::Simulated {
        true => format!("{mark} SIMULATED: a generator made runs of these steps.\n"),
        false => String::new(),
    }
}

/// One value, or a list of them where there are several.
fn one_or_all(all: Vec<Value>) -> String {
    let value = match <[Value; 1]>::try_from(all) {
        Ok([one]) => one,
        Err(many) => Value::Array(many),
    };
    format!("{value:#}\n")
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
