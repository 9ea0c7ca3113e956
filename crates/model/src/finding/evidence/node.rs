//! What shows that a machine is more than its work needs, or less: its GPUs, its hours, its
//! generation, its size.

use std::fmt;
use std::time::Duration;

use ebb_telemetry::identity::InstanceType;
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores, Share, Spoken};
use serde::{Deserialize, Serialize};

use crate::finding::evidence::idle::SeenBy;

/// GPUs compute nothing while the machine works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuietGpu {
    /// How many.
    pub gpus: u32,
    /// For how long.
    pub quiet_for: Duration,
    /// How much of their memory is held; `None` when it does not tell.
    pub held: Option<Bytes>,
    /// Steps that hold it, by name; empty when not known.
    pub holders: Vec<String>,
    /// A type without GPUs that holds the rest; `None` when none does.
    pub instead: Option<InstanceType>,
    /// Who watched; reports of earlier releases tell of probes only.
    #[serde(default)]
    pub seen_by: SeenBy,
}

/// A node is used in the same hours of each week, and runs in all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffHours {
    /// When it is used, in UTC, such as `Mon-Fri 8-18`.
    pub used: String,
    /// The hours of a week in which it could be off.
    pub off_hours: u32,
    /// Weeks watched.
    pub weeks: u32,
    /// Who watched; reports of earlier releases contain probes only.
    #[serde(default)]
    pub seen_by: SeenBy,
}

/// A newer type does the same for less.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Newer {
    /// The newer type.
    pub instead: InstanceType,
    /// The list price of the one that runs.
    #[serde(rename = "now_per_hour_usd", alias = "now")]
    pub now: UsdPerHour,
    /// That of the newer one.
    #[serde(rename = "then_per_hour_usd", alias = "then")]
    pub then: UsdPerHour,
}

/// A node's work needs but a part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roomy {
    /// Cores that its busiest minute needs, headroom included.
    pub cores: MilliCores,
    /// Cores that it has.
    pub of_cores: MilliCores,
    /// Memory that its steps at one time need, headroom included.
    pub memory: Bytes,
    /// Memory that it has.
    pub of_memory: Bytes,
    /// Hours in which its probe saw it.
    pub hours: u32,
    /// The cheapest type that holds it.
    pub instead: InstanceType,
}

/// A node's work needs more than there is of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tight {
    /// What shows that it lacks cores; `None` where it does not.
    pub cores: Option<ShortOfCores>,
    /// What shows that it lacks memory; `None` where it does not.
    pub memory: Option<ShortOfMemory>,
    /// The cheapest type alike with half as much more of that; `None` when none is known.
    pub instead: Option<Larger>,
}

/// What runs on a node waits for its cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShortOfCores {
    /// Cores that it keeps busy on average.
    pub busy: MilliCores,
    /// Cores that the node has.
    pub of: MilliCores,
    /// The time that its threads were ready and waited for one, together.
    pub waited: Duration,
    /// What they got.
    pub cpu: CpuTime,
}

impl ShortOfCores {
    /// The share of the time with work to do in which no core was there; `None` of no time.
    pub fn share(&self) -> Option<Share> {
        let waited = u64::try_from(self.waited.as_nanos()).ok()?;
        Share::of(waited, waited.saturating_add(self.cpu.0))
    }
}

/// What had no limit of its own was killed for want of memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShortOfMemory {
    /// Sessions and services that the kernel killed.
    pub kills: u32,
    /// The newest of them, by name.
    pub newest: String,
    /// Memory that the node has.
    pub of: Bytes,
}

/// How the size of a machine fits its metrics.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricSize {
    /// In which way it does not fit.
    pub fit: SizeFit,
    /// The time of which CPU is known.
    pub watched: Duration,
    /// The share of the time for which `cpu`, network and disk are not exceeded.
    pub percentile: Share,
    /// CPU of the whole machine at that percentile.
    pub cpu: Share,
    /// CPU of the whole machine that is not exceeded for 95 % of the time.
    pub cpu_p95: Share,
    /// The share of the time with full CPU.
    pub full: Share,
    /// Cores that `cpu` amounts to, headroom included; `None` when `of_cores` is.
    pub needs: Option<MilliCores>,
    /// Cores that it has; `None` when not known.
    pub of_cores: Option<MilliCores>,
    /// The most memory in use; `None` when not known.
    pub memory: Option<Share>,
    /// Memory that it has; `None` when not known.
    pub of_memory: Option<Bytes>,
    /// Network bytes a second at that percentile; `None` when not known.
    pub network_a_second: Option<Bytes>,
    /// Disk bytes a second at that percentile; `None` when not known.
    pub disk_a_second: Option<Bytes>,
    /// The cheapest type that holds the work, or has enough more; `None` when none is known.
    pub instead: Option<Larger>,
    /// The share of the time in which the work needed more cores than that type has, or half
    /// of its own where no type is known: the risk of the change.
    pub beyond: Option<Share>,
}

/// In which way the size of a machine does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SizeFit {
    /// Its work needs at most half of its cores.
    TooLarge,
    /// Its cores are full for long.
    CoresFull,
    /// Its memory is full for long.
    MemoryFull,
    /// Both are.
    CoresAndMemoryFull,
    /// It uses little, and a better size is not known.
    LittleUsed,
}

/// A type with more, and what that costs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Larger {
    /// The type.
    pub instance_type: InstanceType,
    /// The list price of the one that runs; `None` when not known.
    #[serde(rename = "now_per_hour_usd", alias = "now")]
    pub now: Option<UsdPerHour>,
    /// That of the larger one.
    #[serde(rename = "then_per_hour_usd", alias = "then")]
    pub then: UsdPerHour,
}

/// A small share with its first decimal.
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
        let watched = Spoken(self.watched);
        match self.fit {
            SizeFit::TooLarge | SizeFit::LittleUsed => self.write_low(f)?,
            SizeFit::CoresFull | SizeFit::CoresAndMemoryFull => {
                write!(f, "CPU was full for {} of {watched}", Percent(self.full))?;
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
                    "up to {memory} of {of} was in use in {watched}, and nearly all for most of it"
                )?;
            }
            (SizeFit::CoresFull, _) => {}
            (_, Some(memory)) => write!(f, "; at most {memory} of {of} in use")?,
            (_, None) => f.write_str("; memory in use is not known")?,
        }
        self.write_network(f)?;
        self.write_instead(f)
    }
}

impl MetricSize {
    fn write_low(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (watched, share) = (Spoken(self.watched), self.percentile.as_f64() * 100.0);
        let (cpu, share) = match self.fit {
            SizeFit::LittleUsed => (self.cpu_p95, 95.0),
            _ => (self.cpu, share),
        };
        write!(
            f,
            "for {share} % of {watched} it used at most {} of its",
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
                f.write_str("; network is not known")
            }
            _ => Ok(()),
        }
    }

    fn write_instead(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Larger {
            instance_type,
            now,
            then,
        }) = &self.instead
        {
            let has = match self.fit {
                SizeFit::TooLarge | SizeFit::LittleUsed => "holds that",
                _ => "has more",
            };
            write!(f, ": {instance_type} {has}, for {then}")?;
            if let Some(now) = now {
                write!(f, " instead of {now}")?;
            }
        }
        match (self.beyond, &self.instead) {
            (None, _) => Ok(()),
            (Some(Share::NONE), Some(_)) => f.write_str("; no sample needed more cores"),
            (Some(beyond), Some(_)) => {
                write!(f, "; {} of the time needed more cores", Percent(beyond))
            }
            (Some(Share::NONE), None) => f.write_str("; no sample used more than half of them"),
            (Some(beyond), None) => {
                write!(
                    f,
                    "; {} of the time used more than half of them",
                    Percent(beyond)
                )
            }
        }
    }
}

impl fmt::Display for Tight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(memory) = &self.memory {
            let (newest, of) = (&memory.newest, memory.of);
            match memory.kills {
                1 => write!(f, "the kernel killed {newest}")?,
                many => write!(f, "the kernel killed {many} times, last {newest}")?,
            }
            write!(f, ", which had no limit but the {of} of the machine")?;
        }
        if let Some(cores) = &self.cores {
            let and = if self.memory.is_some() { "; " } else { "" };
            write!(f, "{and}{cores}")?;
        }
        let Some(Larger {
            instance_type,
            now,
            then,
        }) = &self.instead
        else {
            return Ok(());
        };
        write!(f, ": {instance_type} has more, for {then}")?;
        match now {
            Some(now) => write!(f, " instead of {now}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for ShortOfCores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (busy, of) = (self.busy.as_cores(), self.of);
        write!(
            f,
            "its threads waited {} for a core and got {}, with {busy:.1} of {of} cores busy",
            Spoken(self.waited),
            self.cpu
        )
    }
}

impl fmt::Display for Roomy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cores, of_cores, memory, of_memory) =
            (self.cores, self.of_cores, self.memory, self.of_memory);
        write!(
            f,
            "all that ran in {} hours needs, headroom included, {cores} of {of_cores} cores and \
             {memory} of {of_memory}: {} holds it",
            self.hours, self.instead
        )
    }
}

impl fmt::Display for QuietGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (gpus, quiet) = (self.gpus, Spoken(self.quiet_for));
        let word = if gpus == 1 { "GPU" } else { "GPUs" };
        write!(f, "{gpus} {word} computed nothing for {quiet}")?;
        if let Some(held) = self.held {
            write!(f, ", {held} of memory held")?;
        }
        if !self.holders.is_empty() {
            write!(f, " by {}", self.holders.join(", "))?;
        }
        match self.seen_by {
            SeenBy::Probe => Ok(()),
            SeenBy::Metrics => f.write_str(", as its CloudWatch agent tells"),
        }
    }
}

impl fmt::Display for OffHours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (used, off, weeks) = (&self.used, self.off_hours, self.weeks);
        write!(
            f,
            "used {used} UTC only, in each of {weeks} weeks: {off} of 168 hours off"
        )?;
        match self.seen_by {
            SeenBy::Probe => Ok(()),
            SeenBy::Metrics => f.write_str(", by its metrics"),
        }
    }
}

impl fmt::Display for Newer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (instead, now, then) = (&self.instead, self.now, self.then);
        write!(f, "{instead} has as much for {then} instead of {now}")
    }
}
