//! Arguments of `probes`.

use ebb_model::report::probe_summary::ProbeMode;

use super::deployment::ReportArgs;
use super::format::TableFormat;

const MORE: &str = "\
Examples:
  ebb probes --demo                              the built-in demo account
  ebb probes --lake file:///srv/ebb              the folder of `ebb sweep`
  ebb probes --bucket NAME --format csv > probes.csv
  ebb probes --api http://127.0.0.1:8080 --mode procfs
  ebb probes                                     the default deployment, see `ebb init`

Probes with the most urgent problem come first. Below the table are the problems with their nodes
and what to do. A probe in mode procfs misses short processes; `ebb doctor machine` on its node
shows why. If the last heartbeat is more than ten minutes older than the report, the probe or its
machine has probably stopped.

Exit status:
  0  success
  1  failure
  2  invalid command line";

#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub(crate) struct ProbesArgs {
    /// Show probes that observe processes in this way only
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ProbeModeArg>,
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: TableFormat,
    #[command(flatten)]
    pub(crate) of: ReportArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ProbeModeArg {
    /// Every process, reported by the kernel
    Ebpf,
    /// Samples of /proc, without short processes
    Procfs,
}

impl From<ProbeModeArg> for ProbeMode {
    fn from(mode: ProbeModeArg) -> Self {
        match mode {
            ProbeModeArg::Ebpf => Self::Ebpf,
            ProbeModeArg::Procfs => Self::Procfs,
        }
    }
}
