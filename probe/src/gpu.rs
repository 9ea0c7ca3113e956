//! GPU use of the node: NVIDIA devices through a separate program, AMD devices through sysfs. The
//! values are summed by device and interval; another module assigns them to tasks.

mod amd;
mod nvidia;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ebb_telemetry::gpu_sample::{GpuDevice, GpuProcess, GpuSample};
use ebb_telemetry::heartbeat::GpuUse;
use ebb_telemetry::safe_text;
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, CpuTime, Share};
use ebb_telemetry::watch::WatchGpu;
use ebb_wire::MAX_GPUS;

use self::amd::Amd;
use self::nvidia::Nvidia;
use crate::node;

/// Name of the GPU program, which is in the directory of the probe.
const PROGRAM: &str = "ebb-gpu";

/// Maximum time between two samples of the GPU program. The driver stores nothing of a process that
/// ended, so a task may lose its last GPU use of that length.
const LONGEST_PERIOD: Duration = Duration::from_secs(2);

/// Time between two scans of [`Gpus::check`], and its maximum time.
const CHECK_EVERY: Duration = Duration::from_millis(200);
const LONGEST_CHECK: Duration = Duration::from_secs(10);

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
    /// The CPU time of the GPU program, and its resident memory; `None` if there is none.
    pub cost: Option<(CpuTime, Bytes)>,
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
    ever_answered: bool,
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
    busy: Duration,
    /// The time in which it is known whether the device was busy.
    known: Duration,
}

impl Gpus {
    /// `None` if there is no GPU, or no program to query it. If there is an NVIDIA device, an AMD
    /// device is the CPU's integrated graphics and is left out.
    ///
    /// `scan_period` is the time between two scans. The program samples at least twice as often, so
    /// that each scan has a sample.
    pub fn find(scan_period: Duration) -> Option<Self> {
        if !nvidia::has_device(Path::new("/dev")) {
            return Amd::find("/sys", "/proc").map(|amd| Self::new(GpuSource::Amd(amd)));
        }
        let program = std::env::current_exe().ok()?.with_file_name(PROGRAM);
        if !program.exists() {
            return None;
        }
        let mut nvidia = Nvidia::with_helper(program, LONGEST_PERIOD.min(scan_period / 2));
        nvidia.start();
        Some(Self::new(GpuSource::Nvidia(nvidia)))
    }

    /// The models of the GPUs, from a first sample. Waits up to 10 seconds for it.
    ///
    /// # Errors
    /// If the program for NVIDIA GPUs is missing or gives no sample; the text contains the remedy.
    pub fn check() -> Result<Vec<String>, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let program = program.with_file_name(PROGRAM);
        let has_nvidia = nvidia::has_device(Path::new("/dev"));
        if has_nvidia && !program.exists() {
            return Err(format!(
                "{} is missing; copy it there from the release",
                program.display()
            ));
        }
        let Some(mut gpus) = Self::find(CHECK_EVERY) else {
            return Ok(Vec::new());
        };
        let began = Instant::now();
        while began.elapsed() < LONGEST_CHECK {
            if let Some(sample) = gpus.scan(node::clock()).pop() {
                let models = sample.devices.into_iter();
                return Ok(models.map(|device| device.model).collect());
            }
            std::thread::sleep(CHECK_EVERY);
        }
        Err(format!("no sample; run {} to see why", program.display()))
    }

    /// Queries NVIDIA GPUs through this program, which samples at this period.
    pub const fn with_helper(program: PathBuf, period: Duration) -> Self {
        Self::new(GpuSource::Nvidia(Nvidia::with_helper(program, period)))
    }

    /// Starts the program again after this time without a sample.
    #[must_use]
    pub fn restart_after(mut self, silence: Duration) -> Self {
        if let GpuSource::Nvidia(nvidia) = &mut self.source {
            nvidia.longest_silence = silence;
        }
        self
    }

    const fn new(source: GpuSource) -> Self {
        Self {
            source,
            scans: 0,
            answers: 0,
            ever_answered: false,
            sums: BTreeMap::new(),
            newest: Vec::new(),
        }
    }

    /// The samples since the last scan.
    pub fn scan(&mut self, at: BootClock) -> Vec<GpuSample> {
        self.scans += 1;
        let samples = match &mut self.source {
            GpuSource::Nvidia(nvidia) => nvidia.scan(),
            GpuSource::Amd(amd) => vec![amd.sample(at)],
        };
        if let Some(newest) = samples.last() {
            self.answers += 1;
            self.ever_answered = true;
            self.newest = newest.devices.iter().take(MAX_GPUS).map(watched).collect();
        }
        for sample in &samples {
            for device in &sample.devices {
                self.add(device, sample.covers);
            }
        }
        samples
    }

    /// The devices at the last result.
    pub fn newest(&self) -> &[WatchGpu] {
        &self.newest
    }

    /// The values since the last call.
    pub fn close(&mut self) -> GpuInterval {
        let sums = std::mem::take(&mut self.sums).into_values();
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let gpus = sums.map(|sum| GpuUse {
            busy: Share::from_parts(nanos(sum.busy), nanos(sum.known)),
            ..sum.usage
        });
        let (scans, answers) = (
            std::mem::take(&mut self.scans),
            std::mem::take(&mut self.answers),
        );
        let (restarts, cost) = match &mut self.source {
            GpuSource::Nvidia(nvidia) => (nvidia.restarts, nvidia.cost()),
            GpuSource::Amd(_) => (0, None),
        };
        GpuInterval {
            gpus: gpus.collect(),
            coverage: Share::from_parts(answers, scans).filter(|_| self.ever_answered),
            restarts,
            cost,
        }
    }

    /// Adds a device; devices beyond the limit of a heartbeat are left out.
    fn add(&mut self, device: &GpuDevice, covers: Duration) {
        if self.sums.len() >= MAX_GPUS && !self.sums.contains_key(&device.number) {
            return;
        }
        let sum = self.sums.entry(device.number).or_default();
        sum.usage.number = device.number;
        sum.usage.model = safe_text::clean(&device.model, MAX_MODEL_BYTES).into_owned();
        sum.usage.memory = device.memory;
        sum.usage.memory_held = sum.usage.memory_held.max(device.memory_held);
        let running = |all: &Vec<GpuProcess>| all.iter().filter(|one| !one.has_ended).count();
        let processes = device.processes.as_ref().map(running);
        let processes = processes.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        sum.usage.processes = sum.usage.processes.max(processes);
        if let Some(busy) = device.busy {
            sum.busy += covers.mul_f64(busy.as_f64());
            sum.known += covers;
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
        let second = Duration::from_secs(1);
        let mut gpus = Gpus::with_helper("/nowhere/ebb-gpu".into(), second);
        for number in 0..1_000 {
            let device = GpuDevice {
                number,
                model: "GPU\u{1b}[2J ".repeat(1_000),
                busy: Some(Share::ALL),
                memory_held: None,
                memory: None,
                processes: None,
            };
            gpus.add(&device, second);
        }
        let reported_gpus = gpus.close().gpus;
        assert_eq!(reported_gpus.len(), MAX_GPUS);
        assert!(
            reported_gpus
                .iter()
                .all(|gpu| gpu.model.len() <= MAX_MODEL_BYTES)
        );
        assert!(!reported_gpus.iter().any(|gpu| gpu.model.contains('\u{1b}')));
    }
}
