//! Problems of probes with their remedies.

use std::collections::BTreeMap;

use ebb_telemetry::units::Bytes;
use serde::{Deserialize, Serialize};

/// A spool of this size is about an hour of heartbeats that were not sent.
pub const GROWN_SPOOL: Bytes = Bytes::mib(1);

/// Clocks that differ by more make times of tasks wrong.
pub const WRONG_CLOCK_SECONDS: u64 = 60;

/// A problem of a probe, the most urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ProbeProblem {
    /// No heartbeat arrived for the idle time of the policy, although the machine runs. A host
    /// without a cloud may be switched off.
    Silent,
    /// It dropped records in the last day, because they could not be sent for too long.
    RecordsLost,
    /// It lost events of the kernel in the last day.
    EventsLost,
    /// More and more data waits to be sent.
    SpoolGrows,
    /// The clock of the node is wrong by more than a minute.
    WrongClock,
    /// It samples procfs and misses short processes.
    NoEbpf,
    /// Its version is older than that of the sweep.
    OldVersion,
}

impl ProbeProblem {
    /// All problems, the most urgent first.
    pub const ALL: [Self; 7] = [
        Self::Silent,
        Self::RecordsLost,
        Self::EventsLost,
        Self::SpoolGrows,
        Self::WrongClock,
        Self::NoEbpf,
        Self::OldVersion,
    ];

    /// Its name in JSON.
    pub fn slug(self) -> &'static str {
        match self {
            Self::Silent => "silent",
            Self::RecordsLost => "records_lost",
            Self::EventsLost => "events_lost",
            Self::SpoolGrows => "spool_grows",
            Self::WrongClock => "wrong_clock",
            Self::NoEbpf => "no_ebpf",
            Self::OldVersion => "old_version",
        }
    }

    /// The problem in a few words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Silent => "silent, though the machine should run",
            Self::RecordsLost => "lost records in the last day",
            Self::EventsLost => "lost kernel events in the last day",
            Self::SpoolGrows => "unable to send all data",
            Self::WrongClock => "with a clock wrong by more than a minute",
            Self::NoEbpf => "without eBPF, so short processes are missed",
            Self::OldVersion => "older than the sweep",
        }
    }

    /// The remedy, on the node.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Silent => "systemctl status ebb-probe; journalctl -u ebb-probe",
            Self::RecordsLost | Self::SpoolGrows => {
                "ebb-probe check, which tries the queue and the bucket"
            }
            Self::EventsLost => {
                "journalctl -u ebb-probe; the probe got too little CPU for so many events"
            }
            Self::WrongClock => "timedatectl set-ntp true",
            Self::NoEbpf => "ebb-probe check, which shows what the machine lacks",
            Self::OldVersion => "install the version of the deployment",
        }
    }

    /// Whether a report mentions it. An older version works as before, and a machine may be unable
    /// to run eBPF, so that both would be in each report.
    pub fn is_urgent(self) -> bool {
        !matches!(self, Self::NoEbpf | Self::OldVersion)
    }
}

/// The number of probes with each problem. One probe may have several.
pub type ProbeProblemCounts = BTreeMap<ProbeProblem, usize>;
