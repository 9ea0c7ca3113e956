//! Specs of a machine type.

use serde::{Deserialize, Serialize};

use ebb_telemetry::identity::InstanceType;
use ebb_telemetry::units::Bytes;

/// Specs of a machine type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypeSpec {
    /// Its name, such as `m5.xlarge`.
    pub name: InstanceType,
    /// Hardware threads.
    pub vcpus: u32,
    /// Physical cores; `None` if the source does not contain them.
    pub cores: Option<u32>,
    /// Memory as advertised; the kernel reports a little less.
    pub memory: Bytes,
    /// The instruction set of its programs.
    pub architecture: Architecture,
    /// Sustained clock in MHz; `None` if the source does not contain it.
    pub clock_mhz: Option<u32>,
    /// Its GPUs; `None` without a GPU.
    pub gpus: Option<Devices>,
    /// Accelerators that are not GPUs (Inferentia, Trainium, FPGA, media); `None` without one.
    pub accelerators: Option<Devices>,
    /// Sustained network bandwidth in Mbit/s; `None` if the source does not contain it.
    pub network_baseline_mbps: Option<u32>,
    /// Burst network bandwidth in Mbit/s; `None` if the source does not contain it.
    pub network_burst_mbps: Option<u32>,
    /// Sustained EBS bandwidth in Mbit/s; `None` if the source does not contain it.
    pub ebs_baseline_mbps: Option<u32>,
    /// Burst EBS bandwidth in Mbit/s; `None` if the source does not contain it.
    pub ebs_burst_mbps: Option<u32>,
    /// Total size of the local disks; `None` without a local disk.
    pub local_disk: Option<Bytes>,
    /// Vendor of its processor: `Intel`, `AMD` or `AWS`; `None` if the source does not contain it.
    pub processor: Option<String>,
    /// Whether it earns and spends CPU credits, so that its vCPUs are not fully available for long.
    pub burstable: bool,
    /// Whether it is bare metal.
    pub metal: bool,
    /// Whether AWS calls it current generation.
    pub current_generation: bool,
    /// Whether it is offered on the spot market.
    pub spot: bool,
    /// The hypervisor; `None` if the source does not contain it.
    #[serde(default)]
    pub hypervisor: Option<Hypervisor>,
}

impl TypeSpec {
    /// Whether it is for tightly coupled jobs only: hardly any bandwidth to EBS, no Spot, few zones.
    ///
    /// Source: EC2 User Guide, "High performance computing instances".
    pub fn is_hpc(&self) -> bool {
        self.name.as_str().starts_with("hpc")
    }
}

/// The hypervisor of a machine.
///
/// Source: EC2 User Guide, "Instances built on the AWS Nitro System".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hypervisor {
    /// The Nitro System, bare metal included.
    Nitro,
    /// The hypervisor before Nitro.
    Xen,
}

impl TypeSpec {
    /// The number of GPUs; 0 without a GPU.
    pub fn gpu_count(&self) -> u32 {
        self.gpus.as_ref().map_or(0, |gpus| gpus.count)
    }
}

/// GPUs or accelerators of one machine type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Devices {
    /// The number of devices. A type with a part of a GPU counts as one, with less memory.
    pub count: u32,
    /// The model, such as `T4`.
    pub name: String,
    /// Total memory of the devices; `None` if the source does not contain it.
    pub memory: Option<Bytes>,
}

impl Devices {
    /// Memory of one device; `None` if the source does not contain it.
    pub fn memory_each(&self) -> Option<Bytes> {
        let all = self.memory?.0;
        all.checked_div(self.count.into()).map(Bytes)
    }
}

/// The instruction set of a machine's programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Architecture {
    /// Intel and AMD, 64 bits.
    #[serde(rename = "x86_64")]
    X86_64,
    /// Graviton and other Arm, 64 bits.
    #[serde(rename = "arm64")]
    Arm64,
}
