//! The files that the seed of the simulated account writes (`tests/sim/seed.py`):
//! what its nodes do, and apart from that which of it is waste.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use ebb_model::finding_kind::FindingKind;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// `world.json`: what is there and what it does; not what is waste.
#[derive(Debug, Clone, Deserialize)]
pub struct World {
    /// What it was made from.
    pub seed: u64,
    /// Regions with instances.
    pub regions: Vec<String>,
    /// The node that this machine stands for.
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
    /// The second of the generator's clock from which a quiet node has only
    /// background.
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
    /// Its role's session; none where no probe is installed.
    pub credentials: Option<Credentials>,
}

/// How a node behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Most cores at work.
    Busy,
    /// A little at work all the time.
    Light,
    /// Short work, short pauses.
    Bursty,
    /// Background only, from a time on.
    Quiet,
    /// Background only, and heartbeats that get lost.
    Gappy,
    /// No probe.
    Silent,
    /// A real probe.
    Probe,
}

/// One job as its node sees it. What it uses is not known of those on the node
/// with the real probe: that is measured.
#[derive(Debug, Clone, Deserialize)]
pub struct Step {
    /// The ECS task, which names the cgroup.
    pub step_id: String,
    /// The Batch job.
    pub job_id: String,
    /// The Batch job's name.
    pub job_name: String,
    /// What its cgroup allows.
    pub requested_memory_bytes: u64,
    /// Cores in use.
    pub cpu_cores: Option<f64>,
    /// Memory held.
    pub memory_bytes: Option<u64>,
    /// Disk traffic.
    pub disk_bytes_per_second: Option<u64>,
    /// How long ago it started.
    pub started_age_seconds: u64,
    /// How long ago it ended.
    pub stopped_age_seconds: Option<u64>,
    /// How it ended.
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
    /// What AWS attests: `AROA…:i-…`.
    pub user_id: String,
}

/// One piece of waste that was planted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Planted {
    /// Which rule must find it.
    pub kind: FindingKind,
    /// In which way, where a rule knows several.
    pub variant: Option<String>,
    /// Instance id, job id or job name.
    pub resource: String,
}

impl World {
    /// Reads `world.json` of a folder.
    ///
    /// # Errors
    /// When it is not there or not understood.
    pub fn read(folder: &Path) -> Result<Self> {
        read(&folder.join("world.json"))
    }

    /// The node that this machine stands for.
    pub fn probe(&self) -> Option<&Node> {
        self.nodes.iter().find(|n| n.instance_id == self.probe_node)
    }
}

impl Planted {
    /// Reads `planted.json` of a folder.
    ///
    /// # Errors
    /// When it is not there or not understood.
    pub fn read(folder: &Path) -> Result<Vec<Self>> {
        read(&folder.join("planted.json"))
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not understood", path.display()))
}
