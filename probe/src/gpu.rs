//! GPU use of the node: NVIDIA devices through a separate program, AMD devices through sysfs. The
//! values are summed by device and interval; another module assigns them to tasks.

mod amd;
mod nvidia;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ebb_telemetry::gpu_sample::{GpuDevice, GpuSample};
use ebb_telemetry::heartbeat::GpuUse;
use ebb_telemetry::safe_text;
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::Share;
use ebb_telemetry::watch::WatchGpu;
use ebb_wire::MAX_GPUS;

use self::amd::Amd;
use self::nvidia::Nvidia;

/// Name of the GPU program, which is in the directory of the probe.
const PROGRAM: &str = "ebb-gpu";

/// Maximum bytes of a model name; real names have up to 40.
const MAX_MODEL_BYTES: usize = 64;

/// The GPU use of one interval.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GpuInterval {
    /// Each GPU, by number.
    pub gpus: Vec<GpuUse>,
    /// The share of GPU samples that succeeded; `None` without a sample.
    pub coverage: Option<Share>,
    /// Restarts of the GPU program since the start of the probe.
    pub restarts: u64,
}

impl GpuInterval {
    /// The utilization of the busiest GPU.
    pub fn busiest(&self) -> Option<Share> {
        self.gpus.iter().filter_map(|gpu| gpu.busy).max()
    }
}

/// Samples the GPUs.
#[derive(Debug)]
pub struct Gpus {
    source: GpuSource,
    scans: u64,
    answers: u64,
    last_answer: Option<BootClock>,
    sums: BTreeMap<u32, GpuTotals>,
    newest: Vec<WatchGpu>,
}

#[derive(Debug)]
enum GpuSource {
    Nvidia(Nvidia),
    Amd(Amd),
}

#[derive(Debug, Default)]
struct GpuTotals {
    usage: GpuUse,
    busy_ppm: u64,
    samples: u64,
}

impl Gpus {
    /// `None` if there is no GPU, or no program to query it. If there is an NVIDIA device, an AMD
    /// device is the CPU's integrated graphics and is left out.
    pub fn find() -> Option<Self> {
        if !nvidia::has_device(Path::new("/dev")) {
            return Amd::find("/sys", "/proc").map(|amd| Self::new(GpuSource::Amd(amd)));
        }
        let program = std::env::current_exe().ok()?.with_file_name(PROGRAM);
        program.exists().then(|| Self::with_helper(program, None))
    }

    /// Queries NVIDIA GPUs through this program, which loads this library or else the one of the
    /// system.
    pub const fn with_helper(program: PathBuf, library: Option<PathBuf>) -> Self {
        Self::new(GpuSource::Nvidia(Nvidia::with_helper(program, library)))
    }

    const fn new(source: GpuSource) -> Self {
        Self {
            source,
            scans: 0,
            answers: 0,
            last_answer: None,
            sums: BTreeMap::new(),
            newest: Vec::new(),
        }
    }

    /// The GPU use since the previous result, and the time that it covers; `None` if there is no
    /// result.
    pub fn scan(&mut self, at: BootClock) -> Option<(GpuSample, Duration)> {
        self.scans += 1;
        let sample = match &mut self.source {
            GpuSource::Nvidia(nvidia) => nvidia.scan(),
            GpuSource::Amd(amd) => Some(amd.sample(at)),
        }?;
        self.answers += 1;
        self.newest = sample.devices.iter().take(MAX_GPUS).map(watched).collect();
        let since = self.last_answer.replace(at).and_then(|last| at.since(last));
        sample.devices.iter().for_each(|device| self.add(device));
        Some((sample, since.unwrap_or_default()))
    }

    /// The devices at the last result.
    pub fn newest(&self) -> &[WatchGpu] {
        &self.newest
    }

    /// The values since the last call.
    pub fn close(&mut self) -> GpuInterval {
        let sums = std::mem::take(&mut self.sums).into_values();
        let gpus = sums.map(|sum| GpuUse {
            busy: sum
                .busy_ppm
                .checked_div(sum.samples)
                .map(|ppm| Share::from_ppm(u32::try_from(ppm).unwrap_or(u32::MAX))),
            ..sum.usage
        });
        let (scans, answers) = (
            std::mem::take(&mut self.scans),
            std::mem::take(&mut self.answers),
        );
        GpuInterval {
            gpus: gpus.collect(),
            coverage: Share::of(answers, scans).filter(|_| self.last_answer.is_some()),
            restarts: match &self.source {
                GpuSource::Nvidia(nvidia) => nvidia.restarts,
                GpuSource::Amd(_) => 0,
            },
        }
    }

    /// Adds a device; devices beyond the limit of a heartbeat are left out.
    fn add(&mut self, device: &GpuDevice) {
        if self.sums.len() >= MAX_GPUS && !self.sums.contains_key(&device.number) {
            return;
        }
        let sum = self.sums.entry(device.number).or_default();
        sum.usage.number = device.number;
        sum.usage.model = safe_text::clean(&device.model, MAX_MODEL_BYTES).into_owned();
        sum.usage.memory = device.memory;
        sum.usage.memory_held = sum.usage.memory_held.max(device.memory_held);
        let processes = device.processes.as_ref().map(Vec::len);
        let processes = processes.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        sum.usage.processes = sum.usage.processes.max(processes);
        if let Some(busy) = device.busy {
            sum.busy_ppm += u64::from(busy.ppm());
            sum.samples += 1;
        }
    }
}

fn watched(device: &GpuDevice) -> WatchGpu {
    WatchGpu {
        number: device.number,
        model: safe_text::clean(&device.model, MAX_MODEL_BYTES).into_owned(),
        busy_ppm: device.busy,
        memory_used_bytes: device.memory_held,
        memory_bytes: device.memory,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_helpers_output_is_bounded_and_cleaned() {
        let mut gpus = Gpus::with_helper("/nowhere/ebb-gpu".into(), None);
        for number in 0..1_000 {
            gpus.add(&GpuDevice {
                number,
                model: "GPU\u{1b}[2J ".repeat(1_000),
                busy: Some(Share::ALL),
                memory_held: None,
                memory: None,
                processes: None,
            });
        }
        let told = gpus.close().gpus;
        assert_eq!(told.len(), MAX_GPUS);
        assert!(told.iter().all(|gpu| gpu.model.len() <= MAX_MODEL_BYTES));
        assert!(!told.iter().any(|gpu| gpu.model.contains('\u{1b}')));
    }
}
