//! Recommendations as text to paste into the configuration of a workflow or platform. Each form has
//! its own file, and escapes names for its own syntax.

pub mod batch;
pub mod environment;
pub mod group;
pub mod machines;
pub mod nextflow;
pub mod request;
pub mod slurm;
pub mod snakemake;
pub mod terraform;
#[cfg(test)]
mod tests;

use ebb_model::advice::group::GroupAdvice;
use ebb_model::advice::step::StepAdvice;
use ebb_telemetry::safe_text::one_line;
use serde_json::Value;

use crate::export::machines::{Pool, pools};
use crate::export::request::{NoAdvice, RetryPolicy, changes, cheaper, plain_name, unnamed_note};

/// A form of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `withName` selectors for `nextflow.config`.
    Nextflow,
    /// A workflow profile of Snakemake.
    Snakemake,
    /// `#SBATCH` lines for job scripts.
    Slurm,
    /// A shell script that registers job definitions again with new requests.
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

    /// Its name in arguments and paths.
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

    /// The form with this name; `None` if there is none.
    pub fn from_slug(slug: &str) -> Option<Self> {
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

    /// Whether it contains only machines, and so requires recommended types.
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

    /// The changes of steps in this form.
    pub fn write(self, steps: &[StepAdvice], options: TextOptions) -> String {
        self.write_for(steps, &pools(steps), options)
    }

    /// The changes of a pipeline or an environment and its steps. All forms contain the same types,
    /// market and allocation strategy.
    ///
    /// # Errors
    /// If the form contains only machines and there is nothing to change.
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
        let mut text = self.write_named(steps, pools, options);
        match self {
            Self::Nextflow => text.push_str(&unnamed_note("//", steps)),
            Self::Snakemake | Self::Slurm | Self::Terraform => {
                text.push_str(&unnamed_note("#", steps));
            }
            // The script lists what it leaves out.
            Self::Batch => {}
            Self::BatchEnvironment
            | Self::LaunchTemplate
            | Self::AutoScalingGroup
            | Self::TerraformGroup => {}
        }
        text
    }

    fn write_named(self, steps: &[StepAdvice], pools: &[Pool<'_>], options: TextOptions) -> String {
        match self {
            Self::Nextflow => nextflow::nextflow(steps, options.retry),
            Self::Snakemake => snakemake::snakemake(steps, options),
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

    /// The same as one document for each call of the AWS CLI; `None` for a form that is always one
    /// text.
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
    /// A file name: letters, digits, `-` and `_`.
    pub name: String,
    /// The input.
    pub value: Value,
}

impl Document {
    /// The text of the file.
    pub fn text(&self) -> String {
        format!("{:#}\n", self.value)
    }
}

/// The group that steps run in.
#[derive(Debug, Clone, Copy)]
pub enum GroupSubject<'a> {
    /// A pipeline; the present configuration of its machines is unknown.
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

/// Options of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TextOptions {
    /// For [`Form::Nextflow`] and [`Form::Snakemake`].
    pub retry: RetryPolicy,
    /// For [`Form::Snakemake`]: whether a profile contains numbers only, because Snakemake 7 does not
    /// evaluate expressions in it.
    pub numbers_only: bool,
}

/// The names of the steps that the texts for workflow systems change.
pub fn changed_steps(steps: &[StepAdvice]) -> impl Iterator<Item = &str> {
    changes(steps).into_iter().map(|change| change.name)
}

/// A single value, or a list of several.
fn one_or_all(all: Vec<Value>) -> String {
    match <[Value; 1]>::try_from(all) {
        Ok([one]) => as_text(one),
        Err(many) => as_text(Value::Array(many)),
    }
}

fn as_text(value: Value) -> String {
    format!("{value:#}\n")
}
