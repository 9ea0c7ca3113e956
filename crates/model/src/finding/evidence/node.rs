//! Evidence that a machine is larger or smaller than its work needs: its GPUs, hours, generation
//! and size.

use std::fmt;
use std::time::Duration;

use ebb_telemetry::identity::InstanceType;
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::units::{Bytes, CpuTime, HumanDuration, MilliCores, Share};
use serde::{Deserialize, Serialize};

use crate::finding::evidence::idle::SeenBy;
use crate::finding::evidence::optional;

/// GPUs that compute nothing while the machine works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IdleGpus {
    /// Number of GPUs.
    pub gpus: u32,
    /// Time without computation.
    pub quiet_for: Duration,
    /// GPU memory in use; `None` when unknown.
    pub held: Option<Bytes>,
    /// Names of the steps that hold the memory; empty when unknown.
    pub holders: Vec<String>,
    /// An instance type without GPUs that has enough of everything else; `None` when none has.
    pub instead: Option<InstanceType>,
    /// The source of the observations; reports of earlier releases contain probes only.
    #[serde(default)]
    pub seen_by: SeenBy,
}

/// A node that is used in the same hours of each week, and runs all the time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OffHours {
    /// The hours of use in UTC, such as `Mon-Fri 8-18`.
    pub used: String,
    /// Hours of a week in which it could be off.
    pub off_hours: u32,
    /// Number of observed weeks.
    pub weeks: u32,
    /// The source of the observations; reports of earlier releases contain probes only.
    #[serde(default)]
    pub seen_by: SeenBy,
}

/// A newer instance type with the same capacity and a lower price.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NewerGeneration {
    /// The newer type.
    pub instead: InstanceType,
    /// The list price of the present type.
    #[serde(rename = "now_per_hour_usd", alias = "now")]
    pub now: UsdPerHour,
    /// The list price of the newer type.
    #[serde(rename = "then_per_hour_usd", alias = "then")]
    pub then: UsdPerHour,
}

/// A node whose work needs only a part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OversizedNode {
    /// Cores that its busiest minute needs, with headroom.
    pub cores: MilliCores,
    /// Cores of the node.
    pub of_cores: MilliCores,
    /// Memory that its tasks need at the same time, with headroom.
    pub memory: Bytes,
    /// Memory of the node.
    pub of_memory: Bytes,
    /// Hours in which its probe observed the node.
    pub hours: u32,
    /// The cheapest instance type with enough of both.
    pub instead: InstanceType,
}

/// A node whose work needs more than it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UndersizedNode {
    /// The evidence that it lacks cores; `None` if it does not.
    pub cores: Option<ShortOfCores>,
    /// The evidence that it lacks memory; `None` if it does not.
    pub memory: Option<ShortOfMemory>,
    /// The cheapest similar type with at least half as much more of what is missing; `None` when
    /// none is known.
    pub instead: Option<LargerType>,
}

/// The work of a node waits for its cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShortOfCores {
    /// Mean number of busy cores.
    pub busy: MilliCores,
    /// Cores of the node.
    pub of: MilliCores,
    /// Time that runnable threads waited for a core, summed over all threads.
    pub waited: Duration,
    /// CPU time of these threads.
    pub cpu: CpuTime,
    /// Age of the oldest of their tasks; all values are totals or means since the start of each
    /// task. `None` in reports of earlier releases.
    #[serde(default)]
    pub since: Option<Duration>,
}

impl ShortOfCores {
    /// Waiting time as a share of waiting time and CPU time together; `None` when both are zero.
    pub fn share(&self) -> Option<Share> {
        self.cpu.share_waited(self.waited)
    }
}

/// OOM kills of sessions and services without a memory limit of their own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShortOfMemory {
    /// Number of sessions and services that the kernel killed.
    pub kills: u32,
    /// The name of the newest one.
    pub newest: String,
    /// Memory of the node.
    pub of: Bytes,
    /// Time before the evaluation in which kills count; `None` in reports of earlier releases.
    #[serde(default)]
    pub within: Option<Duration>,
}

/// The size of a machine compared with its metrics.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MetricSize {
    /// The way in which the size does not fit.
    pub fit: SizeFit,
    /// The time for which CPU metrics are known.
    pub watched: Duration,
    /// The percentile that `cpu`, network and disk refer to, as a share of the time.
    pub percentile: Share,
    /// CPU of the whole machine at that percentile.
    pub cpu: Share,
    /// The 95th percentile of CPU of the whole machine.
    pub cpu_p95: Share,
    /// The share of the time with full CPU.
    pub full: Share,
    /// Cores that `cpu` amounts to, with headroom; `None` when `of_cores` is `None`.
    pub needs: Option<MilliCores>,
    /// Cores of the machine; `None` when unknown.
    pub of_cores: Option<MilliCores>,
    /// The peak of memory in use; `None` when unknown.
    pub memory: Option<Share>,
    /// Memory of the machine; `None` when unknown.
    pub of_memory: Option<Bytes>,
    /// Network bytes per second at that percentile; `None` when unknown.
    pub network_a_second: Option<Bytes>,
    /// Disk bytes per second at that percentile; `None` when unknown.
    pub disk_a_second: Option<Bytes>,
    /// The cheapest type that has enough for the work; `None` when none is known.
    pub instead: Option<LargerType>,
    /// The risk of the change: the share of the time in which the work needed more cores than that
    /// type has. If no type is known, half of the present cores are the limit. `None` without a
    /// recommendation to reduce the size.
    pub beyond: Option<Share>,
}

/// The ways in which the size of a machine does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SizeFit {
    /// The work needs at most half of the cores.
    TooLarge,
    /// The cores are fully used for a long time.
    CoresFull,
    /// The memory is fully used for a long time.
    MemoryFull,
    /// Both the cores and the memory are fully used for a long time.
    CoresAndMemoryFull,
    /// The machine uses little, and no better size is known.
    LittleUsed,
}

/// A recommended instance type with its price.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LargerType {
    /// The recommended type.
    pub instance_type: InstanceType,
    /// The price of the present type: of the list, or of the spot market; `None` when unknown.
    #[serde(rename = "now_per_hour_usd", alias = "now")]
    pub now: Option<UsdPerHour>,
    /// The list price of the recommended type.
    #[serde(rename = "then_per_hour_usd", alias = "then")]
    pub then: UsdPerHour,
}

/// A small share, displayed with one decimal.
struct Percent(Share);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.ppm() {
            0 | 100_000.. => write!(f, "{}", self.0),
            1..500 => f.write_str("less than 0.1 %"),
            _ => write!(f, "{:.1} %", self.0.as_f64() * 100.0),
        }
    }
}

impl fmt::Display for MetricSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let watched = HumanDuration(self.watched);
        match self.fit {
            SizeFit::TooLarge | SizeFit::LittleUsed => self.write_low(f)?,
            SizeFit::CoresFull | SizeFit::CoresAndMemoryFull => {
                write!(
                    f,
                    "CPU was fully used for {} of {watched}",
                    Percent(self.full)
                )?;
            }
            SizeFit::MemoryFull => {}
        }
        let memory = self.memory.map(Percent);
        let of = self
            .of_memory
            .map_or_else(|| "its memory".to_owned(), |of| of.to_string());
        match (self.fit, memory) {
            (SizeFit::MemoryFull, Some(memory)) => {
                write!(
                    f,
                    "memory usage of up to {memory} of {of} in {watched}, and close to that for \
                     most of the time"
                )?;
            }
            (SizeFit::CoresFull, _) => {}
            (_, Some(memory)) => write!(f, "; memory usage at most {memory} of {of}")?,
            (_, None) => f.write_str("; memory usage is unknown")?,
        }
        self.write_network(f)?;
        self.write_instead(f)
    }
}

impl MetricSize {
    fn write_low(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (watched, share) = (
            HumanDuration(self.watched),
            self.percentile.as_f64() * 100.0,
        );
        let (cpu, share) = match self.fit {
            SizeFit::LittleUsed => (self.cpu_p95, 95.0),
            _ => (self.cpu, share),
        };
        write!(
            f,
            "for {share} % of {watched}, CPU usage was at most {} of its",
            Percent(cpu)
        )?;
        match (self.fit, self.needs, self.of_cores) {
            (SizeFit::TooLarge, Some(needs), Some(cores)) => {
                write!(f, " {cores} cores ({:.1} with headroom)", needs.as_cores())
            }
            (_, _, Some(cores)) => write!(f, " {cores} cores"),
            _ => f.write_str(" cores"),
        }
    }

    fn write_network(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.fit, self.network_a_second) {
            (SizeFit::TooLarge | SizeFit::LittleUsed, Some(bytes)) => {
                write!(f, ", {bytes}/s of network")
            }
            (SizeFit::TooLarge | SizeFit::LittleUsed, None) => {
                f.write_str("; network usage is unknown")
            }
            _ => Ok(()),
        }
    }

    fn write_instead(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(LargerType {
            instance_type,
            now,
            then,
        }) = &self.instead
        {
            let has = match self.fit {
                SizeFit::TooLarge | SizeFit::LittleUsed => "is large enough and costs",
                _ => "is larger and costs",
            };
            write!(f, "; {instance_type} {has} {then}")?;
            if let Some(now) = now {
                write!(f, " instead of {now}")?;
            }
        }
        match (self.beyond, &self.instead) {
            (None, _) => Ok(()),
            (Some(Share::NONE), Some(_)) => {
                f.write_str("; no sample needed more cores than this type has")
            }
            (Some(beyond), Some(_)) => {
                write!(
                    f,
                    "; for {} of the time, the work needed more cores than this type has",
                    Percent(beyond)
                )
            }
            (Some(Share::NONE), None) => {
                f.write_str("; no sample used more than half of the cores")
            }
            (Some(beyond), None) => {
                write!(
                    f,
                    "; for {} of the time, more than half of the cores were used",
                    Percent(beyond)
                )
            }
        }
    }
}

impl fmt::Display for UndersizedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(memory) = &self.memory {
            let (newest, of) = (&memory.newest, memory.of);
            let within = memory.within.map(HumanDuration);
            let within = optional(" in the last ", within);
            match memory.kills {
                1 => write!(f, "the kernel OOM-killed {newest}{within}")?,
                many => write!(
                    f,
                    "the kernel OOM-killed {many} sessions or services{within}, the last one \
                     {newest}"
                )?,
            }
            write!(
                f,
                ", which had no memory limit except the {of} of the machine"
            )?;
        }
        if let Some(cores) = &self.cores {
            let and = if self.memory.is_some() { "; " } else { "" };
            write!(f, "{and}{cores}")?;
        }
        let Some(LargerType {
            instance_type,
            now,
            then,
        }) = &self.instead
        else {
            return Ok(());
        };
        write!(f, "; {instance_type} is larger and costs {then}")?;
        match now {
            Some(now) => write!(f, " instead of {now}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for ShortOfCores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (busy, of) = (self.busy.as_cores(), self.of);
        let since = self.since.map(HumanDuration);
        let since = since.map(|since| format!("{since} since the oldest of their tasks started"));
        write!(
            f,
            "runnable threads waited {} for a core and used {} of CPU, with {busy:.1} of {of} \
             cores busy{}",
            HumanDuration(self.waited),
            self.cpu,
            optional(" in the ", since)
        )
    }
}

impl fmt::Display for OversizedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cores, of_cores, memory, of_memory) =
            (self.cores, self.of_cores, self.memory, self.of_memory);
        write!(
            f,
            "all tasks of {} hours need {cores} of {of_cores} cores and {memory} of {of_memory}, \
             including headroom; {} is large enough",
            self.hours, self.instead
        )
    }
}

impl fmt::Display for IdleGpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (gpus, quiet) = (self.gpus, HumanDuration(self.quiet_for));
        let word = if gpus == 1 { "GPU" } else { "GPUs" };
        write!(f, "{gpus} {word} idle for {quiet}")?;
        if let Some(held) = self.held {
            write!(f, ", {held} of GPU memory in use")?;
        }
        if !self.holders.is_empty() {
            write!(f, " by {}", self.holders.join(", "))?;
        }
        match self.seen_by {
            SeenBy::Probe => Ok(()),
            SeenBy::Metrics => f.write_str(", according to the CloudWatch agent"),
        }
    }
}

impl fmt::Display for OffHours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (used, off, weeks) = (&self.used, self.off_hours, self.weeks);
        write!(
            f,
            "used on {used} UTC only, in each of {weeks} weeks; idle in {off} of 168 hours"
        )?;
        match self.seen_by {
            SeenBy::Probe => Ok(()),
            SeenBy::Metrics => f.write_str(", according to its metrics"),
        }
    }
}

impl fmt::Display for NewerGeneration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (instead, now, then) = (&self.instead, self.now, self.then);
        write!(
            f,
            "newer type {instead} is at least as large and costs {then} instead of {now}"
        )
    }
}
