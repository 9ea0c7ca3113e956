//! What keeps an idle node from being stopped, and the words for it.

use std::fmt;
use std::time::Duration;

use ebb_telemetry::time::Window;
use ebb_telemetry::units::{MilliCores, Spoken};
use serde::{Deserialize, Serialize};

/// Nothing ran on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleNode {
    /// How long.
    pub idle_for: Duration,
    /// How long it was watched in all, when it was never seen active.
    pub never_active: Option<Duration>,
    /// CPU that background used meanwhile in the newest interval, as cores;
    /// `None` when unknown.
    pub background_cores: Option<MilliCores>,
    /// What keeps it from being stopped, where that shows.
    pub kept_alive_by: Option<KeptAliveBy>,
    /// Who watched.
    pub seen_by: SeenBy,
}

/// Who watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeenBy {
    /// The probe on the node.
    #[default]
    Probe,
    /// Metrics of the cloud, an agent's among them.
    Metrics,
}

/// What keeps an idle node from being stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeptAliveBy {
    /// A step that is there and does nothing, by name.
    QuietStep(String),
    /// A login that is open and at which nobody types, by name.
    Login(String),
    /// A notebook server that nobody uses, by name.
    Notebook(String),
    /// Tasks on it that are none of Batch's, so that Batch never scales it in.
    DaemonTasks(u32),
    /// Its environment keeps so many vCPUs at all times.
    MinimumCapacity(u32),
    /// Its environment is switched off, which ends no machine.
    DisabledEnvironment,
    /// Its environment keeps a machine for so many minutes after its last job, which are
    /// over.
    ScaleInDelay(u32),
}

impl IdleNode {
    /// Of what metrics show; `never_active` is how long they reach back if they show no
    /// activity at all.
    pub fn by_metrics(window: Window, never_active: Option<Duration>) -> Self {
        Self {
            idle_for: window.length(),
            never_active,
            background_cores: None,
            kept_alive_by: None,
            seen_by: SeenBy::Metrics,
        }
    }
}

impl KeptAliveBy {
    /// Of a step by what it is called; notebooks are told by their servers' names.
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
            Self::QuietStep(name) => write!(f, "step {name} is there and does nothing"),
            Self::Login(name) => write!(f, "login {name} is open and nobody types"),
            Self::Notebook(name) => write!(f, "notebook {name} is open and computes nothing"),
            Self::DaemonTasks(tasks) => {
                write!(f, "{tasks} of its tasks are none of Batch's and hold it")
            }
            Self::MinimumCapacity(vcpus) => write!(f, "its environment keeps {vcpus} vCPU"),
            Self::DisabledEnvironment => {
                f.write_str("its environment is switched off and its machines stay")
            }
            Self::ScaleInDelay(minutes) => write!(
                f,
                "its environment's scale-in delay of {minutes} min is over and it stays"
            ),
        }
    }
}

impl fmt::Display for IdleNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seen_by {
            SeenBy::Probe => write!(f, "no workload for {}", Spoken(self.idle_for))?,
            SeenBy::Metrics => write!(
                f,
                "no activity in its metrics for {}",
                Spoken(self.idle_for)
            )?,
        }
        match (self.never_active, self.seen_by) {
            (None, _) => {}
            (Some(seen), SeenBy::Probe) => {
                write!(f, ", never active in {} of watching", Spoken(seen))?;
            }
            (Some(seen), SeenBy::Metrics) if seen <= self.idle_for => {
                f.write_str(", which is all that they cover")?;
            }
            (Some(seen), SeenBy::Metrics) => {
                write!(
                    f,
                    ", and none before in the {} that they cover",
                    Spoken(seen)
                )?;
            }
        }
        if let Some(cores) = self.background_cores {
            write!(f, "; background used {:.2} cores", cores.as_cores())?;
        }
        if let Some(keeper) = &self.kept_alive_by {
            write!(f, "; {keeper}")?;
        }
        Ok(())
    }
}
