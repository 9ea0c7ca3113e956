//! Arguments of `init`.

use std::path::PathBuf;

use clap::ValueEnum;

const MORE: &str = "\
Examples:
  ebb init --engine nextflow --executor awsbatch
  ebb init --engine nextflow --executor slurm --write ebb.config
  ebb init --engine snakemake
  ebb init --engine slurm

The lines hand the names of tasks over to Ebb. Nextflow reads a file of them by
`includeConfig 'ebb.config'` in nextflow.config, or by `nextflow run -c ebb.config`.
Settings of a process or of a later file replace these lines; comments in them say which.

Exit status:
  0  success
  1  the file exists or could not be written
  2  invalid command line";

#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub(crate) struct InitArgs {
    /// Engine or scheduler to configure
    #[arg(long, value_enum)]
    pub(crate) engine: SetupEngine,
    /// Executor of Nextflow
    #[arg(long, value_enum, required_if_eq("engine", "nextflow"))]
    pub(crate) executor: Option<SetupExecutor>,
    /// Write to a new file [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "write")]
    pub(crate) force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SetupEngine {
    /// Lines for nextflow.config
    Nextflow,
    /// Lines for a profile of Snakemake
    Snakemake,
    /// A line for /etc/cron.d on the controller of Slurm
    Slurm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SetupExecutor {
    /// The machine of Nextflow itself
    Local,
    /// Jobs of Slurm
    Slurm,
    /// Jobs of AWS Batch
    #[value(name = "awsbatch")]
    AwsBatch,
    /// Pods of Kubernetes
    #[value(name = "k8s")]
    K8s,
    /// Jobs of Google Batch
    GoogleBatch,
}
