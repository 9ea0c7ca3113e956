//! What the program that asks the GPUs tells the probe: one JSON line a look.

use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Share};

/// All GPUs since the look before.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GpuLook {
    /// Each, by number.
    pub devices: Vec<GpuDevice>,
}

/// One GPU; `None` is what its driver does not tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuDevice {
    /// Its number, as the driver counts.
    pub number: u32,
    /// Its model.
    pub model: String,
    /// The mean share of time in which it computed since the look before.
    pub busy: Option<Share>,
    /// Its memory that is held.
    pub memory_held: Option<Bytes>,
    /// Its memory.
    pub memory: Option<Bytes>,
    /// The processes that use it.
    pub processes: Option<Vec<GpuProcess>>,
}

/// A process that uses a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuProcess {
    /// Its process id.
    pub pid: u32,
    /// The device's memory that it holds.
    pub memory: Option<Bytes>,
    /// The mean share of time in which the device computed for it.
    pub busy: Option<Share>,
}
