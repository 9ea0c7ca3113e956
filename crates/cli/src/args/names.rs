//! Arguments of `names`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use ebb_model::task_record::RecordText;

use super::ImportKind;

const MORE: &str = "\
Examples:
  ebb names push trace.txt --lake file:///srv/ebb --run angry_euler --pipeline rnaseq
  SLURM_TIME_FORMAT=%s sacct -D -a --parsable2 --starttime now-1hour \\
    --format=JobID,JobIDRaw,State,Elapsed,Start,End,ReqMem,ReqCPUS,AllocCPUS,\\
NNodes,WorkDir,JobName,Comment |
    ebb names push - --lake s3://bucket/ebb
  SLURM_TIME_FORMAT=%s squeue -a -t all -o '%A|%T|%S|%Z|%C|%D|%j|%k' |
    ebb names push - --lake s3://bucket/ebb
  ebb names explain 7.batch --lake file:///srv/ebb

A probe knows a Slurm task as 7.batch and a Nextflow task as ab/cdef12. The records of the engine
contain their names. `push` stores names, ids, times and requests of the tasks below names/v1/ of
the lake, and the next sweep uses them. It stores no resource use, users or commands. A repeated
push of the same records changes nothing. A push deletes names of tasks that ended more than 14 days
ago. On S3 it needs s3:ListBucket, and s3:GetObject, s3:PutObject and s3:DeleteObject on names/*.

Slurm keeps comments of ended jobs only with AccountingStoreFlags=job_comment. The column Comment
must be the last one, because a comment may contain |. Jobs of Nextflow need the column WorkDir, so
that the trace can complete their names. Slurm 26.05 and later also needs the column SLUID.

Exit status:
  0  success
  1  a file could not be read, no name was found, or the lake failed
  2  invalid command line";

#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub(crate) struct NamesArgs {
    #[command(subcommand)]
    pub(crate) command: NamesCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NamesCommand {
    /// Store the names of tasks from engine records for the next sweeps
    Push(PushArgs),
    /// Show every source of the step name of a task, and which one is used
    Explain(ExplainArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub(crate) struct PushArgs {
    /// Nextflow traces, or output of sacct or squeue; - for standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// URL of the folder or bucket that `ebb sweep` reads
    #[arg(long, value_name = "URL")]
    pub(crate) lake: String,
    /// Format of the files [default: derived from their first line]
    #[arg(long, value_enum)]
    pub(crate) kind: Option<ImportKind>,
    /// Pipeline run of all tasks in the files
    #[arg(long, value_name = "NAME", value_parser = text)]
    pub(crate) run: Option<RecordText>,
    /// Pipeline of all tasks in the files
    #[arg(long, value_name = "NAME", value_parser = text)]
    pub(crate) pipeline: Option<RecordText>,
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: NamesFormat,
}

#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub(crate) struct ExplainArgs {
    /// Id of a task, such as 7.batch, ab/cdef12, or 7 for all tasks of a job
    #[arg(value_name = "TASK")]
    pub(crate) task: String,
    /// URL of the folder or bucket that `ebb sweep` reads
    #[arg(long, value_name = "URL")]
    pub(crate) lake: String,
    /// Policy file [default: config/policy.toml of --lake]
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: NamesFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NamesFormat {
    /// For a terminal
    Table,
    /// For a program
    Json,
}

fn text(text: &str) -> Result<RecordText, String> {
    RecordText::try_from(text.to_owned())
}
