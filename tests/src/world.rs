//! The files that the seed of the simulated account writes (`tests/sim/seed.py`): the activity of
//! its nodes and, in a separate file, the planted waste.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use ebb_model::finding_kind::FindingKind;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// `world.json`: the nodes and their activity, without the planted waste.
#[derive(Debug, Clone, Deserialize)]
pub struct World {
    /// The seed.
    pub seed: u64,
    /// Regions with instances.
    pub regions: Vec<String>,
    /// The node that this machine represents.
    pub probe_node: String,
    /// Every running node.
    pub nodes: Vec<Node>,
}

/// A running instance.
#[derive(Debug, Clone, Deserialize)]
pub struct Node {
    /// Its instance id.
    pub instance_id: String,
    /// Its region.
    pub region: String,
    /// Its `Name` tag.
    pub name: String,
    /// How it behaves.
    pub profile: Profile,
    /// The second of the generator's clock from which an idle node has only background activity.
    pub quiet_after_seconds: u64,
    /// Its cores.
    pub vcpus: u64,
    /// Its memory.
    pub memory_bytes: u64,
    /// Its GPUs.
    pub gpus: u32,
    /// How long it has run.
    pub age_seconds: u64,
    /// Jobs that run on it.
    pub steps: Vec<Step>,
    /// Jobs that ended on it.
    pub finished_steps: Vec<Step>,
    /// Session of its role; `None` if no probe is installed.
    pub credentials: Option<Credentials>,
}

/// How a node behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Most cores work.
    Busy,
    /// A little work all the time.
    Light,
    /// Short work with short pauses.
    Bursty,
    /// Only background activity from a time on.
    Quiet,
    /// Only background activity, and lost heartbeats.
    Gappy,
    /// No probe.
    Silent,
    /// A real probe.
    Probe,
}

/// One job on its node. The usage is `None` for jobs on the node with the real probe, which
/// measures it.
#[derive(Debug, Clone, Deserialize)]
pub struct Step {
    /// The ECS task, which names the cgroup.
    pub step_id: String,
    /// The Batch job.
    pub job_id: String,
    /// The Batch job's name.
    pub job_name: String,
    /// The memory limit of its cgroup.
    pub requested_memory_bytes: u64,
    /// Cores in use.
    pub cpu_cores: Option<f64>,
    /// Used memory.
    pub memory_bytes: Option<u64>,
    /// Disk traffic.
    pub disk_bytes_per_second: Option<u64>,
    /// Seconds since it started.
    pub started_age_seconds: u64,
    /// Seconds since it ended.
    pub stopped_age_seconds: Option<u64>,
    /// Its exit code.
    pub exit_code: Option<u8>,
}

/// A session of the node role.
#[derive(Debug, Clone, Deserialize)]
pub struct Credentials {
    /// `ASIA…`.
    pub access_key_id: String,
    /// Its secret.
    pub secret_access_key: String,
    /// Its token.
    pub session_token: String,
    /// The identity that AWS attests: `AROA…:i-…`.
    pub user_id: String,
}

/// One planted waste.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Planted {
    /// The rule that must find it.
    pub kind: FindingKind,
    /// The variant, if a rule has several.
    pub variant: Option<String>,
    /// Instance id, job id or job name.
    pub resource: String,
}

impl World {
    /// Reads `world.json` of a folder.
    ///
    /// # Errors
    /// If the file does not exist or is not valid.
    pub fn read(folder: &Path) -> Result<Self> {
        read(&folder.join("world.json"))
    }

    /// The node that this machine represents.
    pub fn probe(&self) -> Option<&Node> {
        self.nodes.iter().find(|n| n.instance_id == self.probe_node)
    }
}

impl Planted {
    /// Reads `planted.json` of a folder.
    ///
    /// # Errors
    /// If the file does not exist or is not valid.
    pub fn read(folder: &Path) -> Result<Vec<Self>> {
        read(&folder.join("planted.json"))
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not understood", path.display()))
}
