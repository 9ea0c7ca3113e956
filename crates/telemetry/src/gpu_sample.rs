//! GPU samples: the GPU program writes one JSON line for each sample, and the probe reads it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Share};

/// The use of all GPUs since the previous sample.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GpuSample {
    /// The time since the previous sample.
    pub covers: Duration,
    /// The devices, in the order of their numbers.
    pub devices: Vec<GpuDevice>,
}

/// One GPU; a field is `None` if the driver does not report the value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuDevice {
    /// The driver's number for the device.
    pub number: u32,
    /// The model name.
    pub model: String,
    /// The mean share of time in which the device computed since the previous sample.
    pub busy: Option<Share>,
    /// Device memory in use.
    pub memory_held: Option<Bytes>,
    /// Total device memory.
    pub memory: Option<Bytes>,
    /// The processes that use the device, or used it at the previous sample.
    pub processes: Option<Vec<GpuProcess>>,
}

/// A process that uses a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuProcess {
    /// The process id.
    pub pid: u32,
    /// Device memory that the process uses.
    pub memory: Option<Bytes>,
    /// The mean share of time in which the device computed for the process.
    pub busy: Option<Share>,
    /// It no longer uses the device.
    pub has_ended: bool,
}
