//! Idle nodes: how long they are idle, and what prevents that they are stopped.

use std::fmt;
use std::time::Duration;

use ebb_telemetry::time::Window;
use ebb_telemetry::units::{HumanDuration, MilliCores};
use serde::{Deserialize, Serialize};

/// A node without activity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IdleNode {
    /// Time since the last activity.
    pub idle_for: Duration,
    /// True if the node may have been idle for longer: the earlier hours are no longer stored.
    #[serde(default)]
    pub is_longer: bool,
    /// Total time observed, if the node was never active; `None` if it was active.
    pub never_active: Option<Duration>,
    /// Cores that background processes used in the newest interval; `None` when unknown.
    pub background_cores: Option<MilliCores>,
    /// The reason why the node was not stopped; `None` when unknown.
    pub kept_alive_by: Option<KeptAliveBy>,
    /// The source of the observations.
    pub seen_by: SeenBy,
}

/// The source of observations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SeenBy {
    /// The probe on the node.
    #[default]
    Probe,
    /// Metrics of the cloud provider, including those of the CloudWatch agent.
    Metrics,
}

/// The reason why an idle node was not stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum KeptAliveBy {
    /// The name of a task that exists without activity.
    QuietStep(String),
    /// The name of a login session in which nobody types.
    Login(String),
    /// The name of a notebook server that nobody uses.
    Notebook(String),
    /// Number of ECS tasks that are not Batch jobs. Batch does not scale in a machine with such
    /// tasks.
    DaemonTasks(u32),
    /// The number of vCPUs that its environment always keeps.
    MinimumCapacity(u32),
    /// Its environment is disabled, but has a minimum of vCPUs.
    DisabledEnvironment,
    /// Minutes for which its environment keeps a machine after the last job. This delay is over.
    ScaleInDelay(u32),
}

impl IdleNode {
    /// An idle node from metrics. `never_active` is the time that the metrics cover, if they show
    /// no activity at all.
    pub fn by_metrics(window: Window, never_active: Option<Duration>) -> Self {
        Self {
            idle_for: window.length(),
            is_longer: false,
            never_active,
            background_cores: None,
            kept_alive_by: None,
            seen_by: SeenBy::Metrics,
        }
    }
}

impl KeptAliveBy {
    /// A task by its name. Names of notebook servers become [`Self::Notebook`].
    pub fn step(name: &str) -> Self {
        const SERVERS: [&str; 6] = [
            "jupyter",
            "notebook",
            "rstudio",
            "rserver",
            "code-server",
            "zeppelin",
        ];
        let lower = name.to_lowercase();
        match SERVERS.iter().any(|server| lower.contains(server)) {
            true => Self::Notebook(name.to_owned()),
            false => Self::QuietStep(name.to_owned()),
        }
    }
}

impl fmt::Display for KeptAliveBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QuietStep(name) => write!(f, "task {name} exists without activity"),
            Self::Login(name) => write!(f, "login {name} is open without input"),
            Self::Notebook(name) => write!(f, "notebook {name} is open without computation"),
            Self::DaemonTasks(tasks) => {
                write!(
                    f,
                    "{tasks} ECS tasks outside AWS Batch prevent its scale-in"
                )
            }
            Self::MinimumCapacity(vcpus) => {
                write!(f, "its compute environment keeps at least {vcpus} vCPUs")
            }
            Self::DisabledEnvironment => f.write_str(
                "its compute environment is disabled, but keeps instances for its minimum vCPUs",
            ),
            Self::ScaleInDelay(minutes) => write!(
                f,
                "the scale-in delay of its compute environment ({minutes} min) is over"
            ),
        }
    }
}

impl fmt::Display for IdleNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.seen_by {
            SeenBy::Probe => "no activity for ",
            SeenBy::Metrics => "no activity in its metrics for ",
        })?;
        if self.is_longer {
            f.write_str("at least ")?;
        }
        write!(f, "{}", HumanDuration(self.idle_for))?;
        match (self.never_active, self.seen_by) {
            (None, _) => {}
            (Some(observed_time), SeenBy::Probe) if observed_time <= self.idle_for => {
                f.write_str(", which is the whole observed time")?;
            }
            (Some(observed_time), SeenBy::Probe) => {
                write!(
                    f,
                    ", and none before in the observed {}",
                    HumanDuration(observed_time)
                )?;
            }
            (Some(observed_time), SeenBy::Metrics) if observed_time <= self.idle_for => {
                f.write_str(", which is all they cover")?;
            }
            (Some(observed_time), SeenBy::Metrics) => {
                let observed_time = HumanDuration(observed_time);
                write!(f, ", and none before in the {observed_time} they cover")?;
            }
        }
        if let Some(cores) = self.background_cores {
            write!(
                f,
                "; background processes use {:.2} cores",
                cores.as_cores()
            )?;
        }
        if let Some(keeper) = &self.kept_alive_by {
            write!(f, "; {keeper}")?;
        }
        Ok(())
    }
}
