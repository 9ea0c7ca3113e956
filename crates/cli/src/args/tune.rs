//! What `tune` and `import` can be told.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use ebb_domain::units::Bytes;
use ebb_sweep::tune::text;

const TUNE_MORE: &str = "\
Examples:
  ebb tune --demo                                an account that is kept in the program
  ebb tune --report report.json                  what a sweep or `ebb scan` wrote
  ebb tune --report report.json variant-call --format batch
  ebb tune --report report.json --format nextflow > tuned.config
  ebb tune --report report.json pipeline rnaseq
  ebb tune --report report.json environment align --format batch-environment
  ebb tune --report report.json node i-0a3c5e7f9b1d2e468

A run is of the pipeline that the tag ebb:pipeline of its job or machine names, or its
launcher. Text of a pipeline or an environment is that of its steps; batch-environment
of an environment is the input of `aws batch update-compute-environment
--cli-input-json`.

Text is written for steps whose request is to change; that of compute environments,
launch templates and groups for steps with offers of other machines. Memory that failed
is asked for anew in the sizes that the evidence names; AWS Batch itself cannot raise a
request. What only you know is marked REPLACE-WITH.

Exit status:
  0  done, whatever was found (see --exit-code)
  1  failed
  2  the command line is wrong
  3  a step asks for far more than it needs, with --exit-code only";

#[derive(Debug, clap::Args)]
#[command(after_help = TUNE_MORE)]
pub(crate) struct TuneArgs {
    /// Only steps of this name; or pipeline, environment or node, of which NAME is one
    #[arg(value_name = "STEP")]
    pub(crate) step: Option<String>,
    /// The pipeline, the compute environment, or the node's id
    #[arg(value_name = "NAME", requires = "step")]
    pub(crate) name: Option<String>,
    /// Use the built-in demo account: offline, simulated, always the same
    #[arg(long)]
    pub(crate) demo: bool,
    /// Report as JSON, of a sweep or of `ebb scan --output report.json`
    #[arg(long, value_name = "FILE", conflicts_with = "demo")]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) form: Form,
    /// End with status 3 when a step asks for far more than it needs
    #[arg(long)]
    pub(crate) exit_code: bool,
}

/// Where a report comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source<'a> {
    /// A file.
    File(&'a Path),
    /// The built-in demo account.
    Demo,
    /// Nothing was given.
    Missing,
}

impl TuneArgs {
    pub(crate) fn source(&self) -> Source<'_> {
        match &self.report {
            Some(path) => Source::File(path),
            None if self.demo => Source::Demo,
            None => Source::Missing,
        }
    }
}

impl ServeArgs {
    pub(crate) fn source(&self) -> Source<'_> {
        match &self.report {
            Some(path) => Source::File(path),
            None if self.demo => Source::Demo,
            None => Source::Missing,
        }
    }
}

/// How advice is written.
#[derive(Debug, clap::Args)]
pub(crate) struct Form {
    /// How it is written
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: TuneFormat,
    /// Write it to a file
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TuneFormat {
    /// For a terminal
    Table,
    /// Every value, ebb.tune/2
    Json,
    /// `withName` selectors for nextflow.config
    Nextflow,
    /// A workflow profile
    Snakemake,
    /// Input of `aws batch register-job-definition --cli-input-json`
    Batch,
    /// Input of `aws batch create-compute-environment --cli-input-json`
    BatchEnvironment,
    /// Input of `aws ec2 create-launch-template-version --cli-input-json`
    LaunchTemplate,
    /// Input of `aws autoscaling update-auto-scaling-group --cli-input-json`
    Asg,
    /// A diff of job definitions and compute environments
    Terraform,
    /// A diff of launch templates and Auto Scaling groups
    TerraformAsg,
}

impl TuneFormat {
    /// The text that it is; `None` for what only the terminal has.
    pub(crate) fn text(self) -> Option<text::Form> {
        use text::Form;
        Some(match self {
            Self::Table | Self::Json => return None,
            Self::Nextflow => Form::Nextflow,
            Self::Snakemake => Form::Snakemake,
            Self::Batch => Form::Batch,
            Self::BatchEnvironment => Form::BatchEnvironment,
            Self::LaunchTemplate => Form::LaunchTemplate,
            Self::Asg => Form::AutoScalingGroup,
            Self::Terraform => Form::Terraform,
            Self::TerraformAsg => Form::TerraformGroup,
        })
    }
}

const SERVE_MORE: &str = "\
Examples:
  ebb serve --demo
  ebb serve --report report.json --port 8080
  curl http://127.0.0.1:8080/v1/steps

It listens on 127.0.0.1 only and prints where; interrupt it to end it. What is dismissed
or snoozed here is kept until then; a deployment keeps it for its sweeps.";

#[derive(Debug, clap::Args)]
#[command(after_help = SERVE_MORE)]
pub(crate) struct ServeArgs {
    /// Use the built-in demo account: offline, simulated, always the same
    #[arg(long)]
    pub(crate) demo: bool,
    /// Report as JSON, of a sweep or of `ebb scan --output report.json`
    #[arg(long, value_name = "FILE", conflicts_with = "demo")]
    pub(crate) report: Option<PathBuf>,
    /// The port; 0 for any that is free
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
}

const IMPORT_MORE: &str = "\
Examples:
  ebb import trace.txt
  ebb import --format nextflow trace-*.txt > tuned.config
  ebb import benchmarks/*.tsv --format snakemake
  sacct -a --parsable2 --format=JobID,JobName,State,Elapsed,TotalCPU,MaxRSS,ReqMem,AllocCPUS,Start,End > jobs.txt
  ebb import jobs.txt

These files tell of cores only how many were busy on average, so requests for cores stay
as they are. A line that cannot be read is said on standard error, and the rest goes on.

Exit status:
  0  done
  1  failed, or no line could be read
  2  the command line is wrong";

#[derive(Debug, clap::Args)]
#[command(after_help = IMPORT_MORE)]
pub(crate) struct ImportArgs {
    /// Nextflow traces, Snakemake benchmarks, or output of sacct --parsable2
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Who wrote them [default: by the names in their first line]
    #[arg(long, value_enum)]
    pub(crate) kind: Option<ImportKind>,
    /// Advise for a run that reads so much, such as 12GiB, where that explains the need
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) input: Option<Bytes>,
    #[command(flatten)]
    pub(crate) form: Form,
}

fn size(text: &str) -> Result<Bytes, String> {
    ebb_sweep::tune::import::size(text)
        .ok_or_else(|| "it is a number with a unit, such as 12GiB".to_owned())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportKind {
    /// Nextflow's trace
    Nextflow,
    /// A `benchmark:` file of Snakemake
    Snakemake,
    /// Slurm's accounting
    Sacct,
}
