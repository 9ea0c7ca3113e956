//! Advice as text that can be pasted into a workflow's or a platform's own
//! configuration. Each form has its file, and escapes names for its own syntax.

mod batch;
pub mod environment;
mod group;
mod machines;
mod nextflow;
mod slurm;
mod snakemake;
mod terraform;
#[cfg(test)]
mod tests;

pub use environment::update as environment_update;

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_model::advice::group::GroupAdvice;
use ebb_model::advice::sized_request::SizedRequest;
use ebb_model::advice::step::{NameForm, StepAdvice};
use ebb_model::step_profile::tasks::RequestBasis;
use ebb_telemetry::money::Usd;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::safe_text::one_line;
use ebb_telemetry::units::{Bytes, MilliCores};
use serde_json::Value;
use thiserror::Error;

use self::machines::{Pool, pools};

/// A form of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `withName` selectors for `nextflow.config`.
    Nextflow,
    /// A workflow profile of Snakemake.
    Snakemake,
    /// `#SBATCH` lines for job scripts.
    Slurm,
    /// A shell script that registers job definitions again with other requests.
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
    pub const ALL: [Self; 9] = [
        Self::Nextflow,
        Self::Snakemake,
        Self::Slurm,
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
            Self::Slurm => "slurm",
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

    /// The media type of its text.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::BatchEnvironment | Self::LaunchTemplate | Self::AutoScalingGroup => JSON,
            Self::Nextflow
            | Self::Snakemake
            | Self::Slurm
            | Self::Batch
            | Self::Terraform
            | Self::TerraformGroup => "text/plain; charset=utf-8",
        }
    }

    /// Whether it is about machines only, and so needs offers of them.
    pub const fn is_of_machines(self) -> bool {
        matches!(
            self,
            Self::BatchEnvironment
                | Self::LaunchTemplate
                | Self::AutoScalingGroup
                | Self::TerraformGroup
        )
    }

    /// Whether it is input of the AWS CLI.
    pub fn is_json(self) -> bool {
        self.content_type() == JSON
    }

    /// What is to change about steps, in this form.
    pub fn write(self, steps: &[StepAdvice], options: TextOptions) -> String {
        self.write_for(steps, &pools(steps), options)
    }

    /// What is to change about a pipeline or an environment and its steps. All forms name
    /// the same types, market and way to choose among them.
    ///
    /// # Errors
    /// Where the form is about machines and there is nothing to change.
    pub fn write_group(
        self,
        group: GroupSubject<'_>,
        steps: &[StepAdvice],
        options: TextOptions,
    ) -> Result<String, NoAdvice> {
        Ok(match self {
            Self::Nextflow | Self::Snakemake | Self::Slurm | Self::Batch => {
                self.write_for(steps, &[], options)
            }
            Self::BatchEnvironment => match group {
                GroupSubject::Environment(group) => as_text(environment::update(group)?),
                GroupSubject::Pipeline(group) => as_text(environment::create(&cheaper(group)?)),
            },
            Self::Terraform => match cheaper(group.advice()) {
                Ok(pool) => self.write_for(steps, &[pool], options),
                Err(reason) => {
                    let requests = self.write_for(steps, &[], options);
                    let reason = one_line(&reason.to_string());
                    format!("{requests}# Machines stay as they are: {reason}\n")
                }
            },
            Self::LaunchTemplate | Self::AutoScalingGroup | Self::TerraformGroup => {
                self.write_for(steps, &[cheaper(group.advice())?], options)
            }
        })
    }

    fn write_for(self, steps: &[StepAdvice], pools: &[Pool<'_>], options: TextOptions) -> String {
        match self {
            Self::Nextflow => nextflow::nextflow(steps, options.retry),
            Self::Snakemake => snakemake::snakemake(steps),
            Self::Slurm => slurm::slurm(steps),
            Self::Batch => batch::batch(steps),
            Self::BatchEnvironment | Self::LaunchTemplate | Self::AutoScalingGroup => {
                let documents = self.documents_of(pools);
                one_or_all(documents.into_iter().map(|one| one.value).collect())
            }
            Self::Terraform => terraform::batch(steps, pools),
            Self::TerraformGroup => terraform::groups(steps, pools),
        }
    }

    /// The same as one document for each call of the AWS CLI; `None` for a form that is one
    /// text whatever it holds.
    pub fn documents(self, steps: &[StepAdvice]) -> Option<Vec<Document>> {
        self.is_json().then(|| self.documents_of(&pools(steps)))
    }

    fn documents_of(self, pools: &[Pool<'_>]) -> Vec<Document> {
        let document = |pool: &Pool<'_>| Document {
            name: plain_name(&pool.name),
            value: match self {
                Self::LaunchTemplate => group::launch_template(pool),
                Self::AutoScalingGroup => group::group(pool),
                _ => environment::create(pool),
            },
        };
        pools.iter().map(document).collect()
    }
}

const JSON: &str = "application/json";

/// Input of one call of the AWS CLI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// A name for a file: letters, digits, `-` and `_`.
    pub name: String,
    /// What the call takes.
    pub value: Value,
}

impl Document {
    /// As a file holds it.
    pub fn text(&self) -> String {
        format!("{:#}\n", self.value)
    }
}

/// What steps run in.
#[derive(Debug, Clone, Copy)]
pub enum GroupSubject<'a> {
    /// A pipeline, for whose machines there is no present configuration.
    Pipeline(&'a GroupAdvice),
    /// A compute environment of AWS Batch.
    Environment(&'a GroupAdvice),
}

impl<'a> GroupSubject<'a> {
    fn advice(self) -> &'a GroupAdvice {
        match self {
            Self::Pipeline(advice) | Self::Environment(advice) => advice,
        }
    }
}

/// Why no machines are advised.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoAdvice {
    /// The advice gives a reason.
    #[error("{0}")]
    Refused(String),
    /// What it runs on is the cheapest.
    #[error("no cheaper machines are known")]
    NothingCheaper,
    /// Batch cannot change the types of such an environment.
    #[error(
        "its allocation strategy is BEST_FIT, with which Batch cannot change the types: create \
         an environment with BEST_FIT_PROGRESSIVE or SPOT_PRICE_CAPACITY_OPTIMIZED"
    )]
    BestFit,
}

/// What a group should run on, where that is known to save anything.
fn cheaper(group: &GroupAdvice) -> Result<Pool<'_>, NoAdvice> {
    let saves = group.saving_a_month;
    match (
        Pool::of_group(group),
        saves.is_some_and(|saving| saving > Usd::ZERO),
    ) {
        (Some(pool), true) => Ok(pool),
        _ => Err(match &group.refused {
            Some(reason) => NoAdvice::Refused(reason.clone()),
            None => NoAdvice::NothingCheaper,
        }),
    }
}

/// What a text holds beyond what every text of its form does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TextOptions {
    /// For [`Form::Nextflow`].
    pub retry: RetryPolicy,
}

/// Whether a text sets which failures are tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RetryPolicy {
    /// The pipeline's own policy stays.
    #[default]
    Unchanged,
    /// The exit statuses that nf-core pipelines retry, as often as there are sizes of memory.
    Replaced,
}

/// What only the job definition itself knows.
const IMAGE: &str = "REPLACE-WITH-THE-IMAGE-OF-THE-REVISION-BEFORE";

/// A step whose configuration is to change.
struct Change<'a> {
    name: &'a str,
    name_form: NameForm,
    /// Whole cores; `None` leaves them.
    cores: Option<u64>,
    /// What to ask for first and after each failure; empty leaves it.
    sizes: Vec<Bytes>,
    /// How long a first attempt may run; `None` leaves it.
    time: Option<Duration>,
    now: SizedRequest,
    /// First attempts ask for different things, so that `now` is their median.
    is_median: bool,
    origin: Origin,
    samples: u32,
    /// Tasks that a job of it runs in parallel, at the most.
    parallel_tasks: u32,
}

impl<'a> Change<'a> {
    /// `None` where nothing is to change.
    fn new(step: &'a StepAdvice) -> Option<Self> {
        let limit = step.time_limit;
        let changes_time = limit.is_some_and(|limit| limit.should_ask != limit.asks);
        if step.should_ask == step.asks && !changes_time {
            return None;
        }
        let is_median = step.present.basis == RequestBasis::Median;
        // One value for all tasks would replace the pipeline's own, which differ. It is set
        // only where it is enough for all and raises none.
        let counts = || step.present.counts.iter();
        let least_cores = counts().filter_map(|count| count.request.cores).min();
        let least_memory = counts().filter_map(|count| count.request.memory).min();
        let cores = step.should_ask.cores;
        let cores = cores.filter(|cores| !is_median || least_cores.is_some_and(|n| *cores <= n));
        let memory = step.should_ask.memory;
        let memory = memory.filter(|size| !is_median || least_memory.is_some_and(|n| *size <= n));
        if cores.is_none() && memory.is_none() && !changes_time {
            return None;
        }
        let further = memory.iter().flat_map(|_| step.risk.attempts.iter());
        Some(Self {
            name: &step.step,
            name_form: step.name_form,
            cores: cores.filter(|_| step.parallel_tasks <= 1).map(whole),
            sizes: memory.iter().chain(further).copied().collect(),
            time: limit.map(|limit| limit.should_ask),
            now: step.asks,
            is_median,
            origin: step.origin,
            samples: step.samples,
            parallel_tasks: step.parallel_tasks,
        })
    }

    /// Whether cores or memory are to change, and not the time limit only.
    fn is_of_request(&self) -> bool {
        let memory = self.sizes.first().copied();
        let cores = self.cores.is_some() && self.cores != self.now.cores.map(whole);
        cores || memory.is_some() && memory != self.now.memory
    }
}

/// The names of the steps that texts for workflow systems change.
pub fn changed_steps(steps: &[StepAdvice]) -> impl Iterator<Item = &str> {
    changes(steps).into_iter().map(|change| change.name)
}

/// The steps that are to change, by name. Where steps of one name differ by region or
/// account, the one that needs more memory counts, changed or not, because these forms
/// know neither.
fn changes(steps: &[StepAdvice]) -> Vec<Change<'_>> {
    let mut by_name: BTreeMap<&str, &StepAdvice> = BTreeMap::new();
    for step in steps {
        let entry = by_name.entry(&step.step).or_insert(step);
        if step.should_ask.memory > entry.should_ask.memory {
            *entry = step;
        }
    }
    by_name.into_values().filter_map(Change::new).collect()
}

fn whole(cores: MilliCores) -> u64 {
    cores.0.div_ceil(1000).max(1)
}

fn mib(bytes: Bytes) -> u64 {
    bytes.0.div_ceil(1 << 20).max(1)
}

fn minutes(time: Duration) -> u64 {
    time.as_secs().div_ceil(60).max(1)
}

/// A comment with the mark in front, where a generator made runs of the steps.
fn origin_note(mark: &str, changes: &[Change<'_>]) -> String {
    let origins = changes.iter().map(|change| change.origin);
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
    match <[Value; 1]>::try_from(all) {
        Ok([one]) => as_text(one),
        Err(many) => as_text(Value::Array(many)),
    }
}

fn as_text(value: Value) -> String {
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
