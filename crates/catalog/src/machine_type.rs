//! What a machine type has.

use serde::{Deserialize, Serialize};

use ebb_telemetry::identity::InstanceType;
use ebb_telemetry::units::Bytes;

/// What a machine type has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypeSpec {
    /// Its name, such as `m5.xlarge`.
    pub name: InstanceType,
    /// Virtual processors: hardware threads.
    pub vcpus: u32,
    /// Physical cores; `None` when the source does not tell.
    pub cores: Option<u32>,
    /// Memory as advertised; the kernel sees a little less.
    pub memory: Bytes,
    /// What its programs are compiled for.
    pub architecture: Architecture,
    /// Sustained clock in MHz; `None` when the source does not tell.
    pub clock_mhz: Option<u32>,
    /// Its GPUs; `None` when it has none.
    pub gpus: Option<Devices>,
    /// Accelerators that are not GPUs (Inferentia, Trainium, FPGA, media);
    /// `None` when it has none.
    pub accelerators: Option<Devices>,
    /// Network that it can sustain, in Mbit/s; `None` when the source does not tell.
    pub network_baseline_mbps: Option<u32>,
    /// Network that it can reach for a while, in Mbit/s; `None` when the source does not
    /// tell.
    pub network_burst_mbps: Option<u32>,
    /// EBS bandwidth that it can sustain, in Mbit/s; `None` when the source does not tell.
    pub ebs_baseline_mbps: Option<u32>,
    /// EBS bandwidth that it can reach for a while, in Mbit/s; `None` when the source
    /// does not tell.
    pub ebs_burst_mbps: Option<u32>,
    /// Local disks together; `None` when it has none.
    pub local_disk: Option<Bytes>,
    /// Who makes its processor: `Intel`, `AMD` or `AWS`; `None` when the source does not
    /// tell.
    pub processor: Option<String>,
    /// Earns and spends CPU credits, so that its vCPUs are not whole for long.
    pub burstable: bool,
    /// Bare metal.
    pub metal: bool,
    /// Belongs to what AWS calls the current generation.
    pub current_generation: bool,
    /// Is sold on the spot market.
    pub spot: bool,
    /// What it is built on; `None` when the source does not tell.
    #[serde(default)]
    pub hypervisor: Option<Hypervisor>,
}

/// What a machine is built on.
///
/// Source: EC2 User Guide, "Instances built on the AWS Nitro System".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hypervisor {
    /// The Nitro System, bare metal included.
    Nitro,
    /// What came before it.
    Xen,
}

impl TypeSpec {
    /// How many GPUs it has.
    pub fn gpu_count(&self) -> u32 {
        self.gpus.as_ref().map_or(0, |gpus| gpus.count)
    }
}

/// GPUs or accelerators of one machine type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Devices {
    /// How many. A type with a part of a GPU counts as one, with less memory.
    pub count: u32,
    /// The model, such as `T4`.
    pub name: String,
    /// Memory of all of them together; `None` when the source does not tell.
    pub memory: Option<Bytes>,
}

impl Devices {
    /// Memory of one of them; `None` when the source does not tell.
    pub fn memory_each(&self) -> Option<Bytes> {
        let all = self.memory?.0;
        all.checked_div(self.count.into()).map(Bytes)
    }
}

/// What a machine's programs are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Architecture {
    /// Intel and AMD, 64 bits.
    #[serde(rename = "x86_64")]
    X86_64,
    /// Graviton and other Arm, 64 bits.
    #[serde(rename = "arm64")]
    Arm64,
}
