//! Arguments of `tune`, `serve` and `import`.

use std::path::PathBuf;

use clap::ValueEnum;
use ebb_telemetry::units::Bytes;
use ebb_workflows::export;
use ebb_workflows::export::request;

use super::deployment::ReportArgs;

const TUNE_MORE: &str = "\
Examples:
  ebb tune --demo                                the built-in demo account
  ebb tune --report report.json                  a report of a sweep
  ebb tune --bucket NAME                         the newest report of a deployment
  ebb tune --lake file:///srv/ebb                the folder of `ebb sweep`
  ebb tune --report report.json variant-call --format batch | sh
  ebb tune --report report.json --format nextflow > tuned.config
  ebb tune --report report.json pipeline rnaseq
  ebb tune --report report.json environment align --format batch-environment
  ebb tune --report report.json node i-0a3c5e7f9b1d2e468

The name of a pipeline is the tag ebb:pipeline of the job or machine. Without this tag, it is the
pipeline that the launcher of the run, such as Nextflow, reports.

The formats nextflow, snakemake, slurm and batch contain the steps whose request should change, and
only what changes. With nextflow and snakemake, each retry requests more memory and time. After a
smaller request, the retry gets the present one. The retry policy of the pipeline stays, unless
--with-retry is given. AWS Batch cannot raise a request at a retry.

The format batch is a script that copies the newest revision of each job definition and changes
only its vCPU and memory. Command, role, volumes and environment stay.

The formats batch-environment, launch-template, asg and terraform contain machine types. Each type
is large enough for the recommended request of the largest step, so change the requests first.
With several environments the JSON is a list; --output DIR/ writes a file for each. For one
environment, batch-environment is the input of
`aws batch update-compute-environment --cli-input-json`. Spot environments and groups stay on Spot.
Replace each value that begins with REPLACE-WITH.

Exit status:
  0  success
  1  failure
  2  invalid command line
  3  a step requests far more than it needs (with --exit-code only)";

#[derive(Debug, clap::Args)]
#[command(after_help = TUNE_MORE)]
pub(crate) struct TuneArgs {
    /// Step name or its end; or pipeline, environment or node, before NAME
    #[arg(value_name = "STEP")]
    pub(crate) step: Option<String>,
    /// Name of the pipeline or compute environment, or id of the node
    #[arg(value_name = "NAME", requires = "step")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) form: Form,
    /// Exit with status 3 if a step requests far more than it needs
    #[arg(long)]
    pub(crate) exit_code: bool,
    #[command(flatten)]
    pub(crate) of: ReportArgs,
}

/// Output of recommendations.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Form {
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: TuneFormat,
    /// Write to a file; with DIR/ one file for each JSON input of the AWS CLI
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Nextflow, Snakemake: also set how often failures are retried
    ///
    /// With Nextflow, also which failures.
    #[arg(long)]
    pub(crate) with_retry: bool,
    // `ebb import` sets it for a Snakemake that evaluates no expressions in a profile.
    #[arg(skip)]
    pub(crate) numbers_only: bool,
}

impl Form {
    pub(crate) fn options(&self) -> export::TextOptions {
        export::TextOptions {
            numbers_only: self.numbers_only,
            retry: match self.with_retry {
                true => request::RetryPolicy::Replaced,
                false => request::RetryPolicy::Unchanged,
            },
        }
    }
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
    /// `#SBATCH` lines for job scripts
    Slurm,
    /// Shell script (AWS CLI, jq) that registers job definitions again
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
    pub(crate) fn text(self) -> Option<export::Form> {
        use ebb_workflows::export::Form;
        Some(match self {
            Self::Table | Self::Json => return None,
            Self::Nextflow => Form::Nextflow,
            Self::Snakemake => Form::Snakemake,
            Self::Slurm => Form::Slurm,
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
  ebb serve --lake file:///srv/ebb
  curl http://127.0.0.1:8080/v1/steps

The server listens on 127.0.0.1 only and prints the addresses of its pages and its API. Open the
first address in a browser. Stop the server with Ctrl-C. With --bucket or --lake, decisions about
findings are stored for the sweeps of the deployment. Otherwise they last until the server stops.
The server shows the report of a new sweep without a restart.

With EBB_SLACK_SIGNING_SECRET, the server accepts the buttons of a Slack app.";

#[derive(Debug, clap::Args)]
#[command(after_help = SERVE_MORE)]
pub(crate) struct ServeArgs {
    /// Port; 0 for any free port
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    #[command(flatten)]
    pub(crate) of: ReportArgs,
}

const IMPORT_MORE: &str = "\
Examples:
  ebb import trace.txt
  ebb import run-1/trace.txt run-2/trace.txt.gz  several runs show how far runs differ
  ebb import trace.txt --step NFCORE_RNASEQ:RNASEQ:STAR_ALIGN
  ebb import --format nextflow trace-*.txt > tuned.config
  ebb import results/pipeline_info/execution_report_*.html  the report of a run of nf-core
  ebb import benchmarks/* --snakefile workflow/Snakefile
  ebb import benchmarks/* --benchmark-pattern 'benchmarks/{sample}.{rule}.txt'
  sacct -a --parsable2 \\
    --format=JobID,JobName,User,State,ExitCode,Elapsed,TotalCPU,MaxRSS,ReqMem,\\
ReqCPUS,AllocCPUS,AllocTRES,TRESUsageInMax,NTasks,NNodes,Submit,Start,End,\\
Timelimit,WorkDir,Comment |
    ebb import -

Files may be gzipped. These records contain only the average number of busy cores. Fewer cores are
recommended only if a task takes little longer with them, even in the worst case. Lines that cannot
be read are listed on standard error and skipped.

--snakefile asks Snakemake 7, 8 or 9 which rule wrote which benchmark file, and what each
rule asks for. Snakemake executes the Snakefile to parse it, and no rule runs: use it for
workflows that you trust, in the folder in which you run snakemake. It may take 60 s.
Name the --profile, --workflow-profile and --configfile of the run, because the requests depend on
them. The workflow profile that Snakemake uses by itself needs no option.
With --format snakemake, a rule that the Snakefile does not have is an error.

Exit status:
  0  success
  1  a file could not be read, or no task was found
  2  invalid command line";

#[derive(Debug, clap::Args)]
#[command(after_help = IMPORT_MORE)]
pub(crate) struct ImportArgs {
    /// Nextflow traces, reports, Snakemake benchmarks, sacct; - for stdin
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Format of the files [default: derived from their first line]
    #[arg(long, value_enum)]
    pub(crate) kind: Option<ImportKind>,
    /// Name pattern of benchmark files, with {rule} for the rule name
    #[arg(long, value_name = "PATTERN")]
    pub(crate) benchmark_pattern: Option<String>,
    /// Snakefile of the benchmark files; Snakemake executes it to parse it
    #[arg(long, value_name = "FILE")]
    pub(crate) snakefile: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) run: SnakemakeArgs,
    /// Recommend for tasks that read this much, such as 12GiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) input: Option<Bytes>,
    /// Order of the steps
    #[arg(long, value_enum, default_value = "saving")]
    pub(crate) sort: StepOrder,
    /// Show the step with this name, or those whose names end with it
    #[arg(long, value_name = "NAME")]
    pub(crate) step: Option<String>,
    #[command(flatten)]
    pub(crate) form: Form,
}

/// The program that reads a Snakefile, and the options of the run.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct SnakemakeArgs {
    /// Program snakemake, or its Python [default: snakemake on the PATH]
    #[arg(long, value_name = "PROGRAM", requires = "snakefile")]
    pub(crate) snakemake: Option<PathBuf>,
    /// A profile of Snakemake that the run used; with --snakefile
    #[arg(long, value_name = "DIR", requires = "snakefile")]
    pub(crate) profile: Vec<PathBuf>,
    /// Workflow profile of the run, or none [default: profiles/default]
    #[arg(long, value_name = "DIR", requires = "snakefile")]
    pub(crate) workflow_profile: Option<PathBuf>,
    /// Configuration file of the run; with --snakefile
    #[arg(long, value_name = "FILE", requires = "snakefile")]
    pub(crate) configfile: Vec<PathBuf>,
}

/// The order of steps in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StepOrder {
    /// The greatest saving first
    Saving,
    /// By name
    Name,
    /// The most requested core hours first
    Cpu,
    /// The most requested memory hours first
    Memory,
    /// The most hours lost by failures first
    Failures,
}

fn size(text: &str) -> Result<Bytes, String> {
    let has_unit = text.ends_with(|end: char| end.is_ascii_alphabetic());
    let size = ebb_workflows::import::read_size(text).filter(|_| has_unit);
    size.ok_or_else(|| "expected a number with a unit, such as 12GiB".to_owned())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportKind {
    /// Nextflow trace or report
    Nextflow,
    /// Snakemake benchmark file
    Snakemake,
    /// Output of Slurm's sacct
    Sacct,
    /// Output of Slurm's squeue, for `ebb names push` only
    Squeue,
}
