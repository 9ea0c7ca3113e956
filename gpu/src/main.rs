//! Samples each GPU and its processes through the NVIDIA driver, and writes one line of JSON for
//! each sample to the standard output. This is a separate program for two reasons: the static probe
//! cannot load the driver's library at run time, and the library can hang.
//!
//!     ebb-gpu [MILLISECONDS [LIBRARY]]
//!
//! The time between two samples is at most 14 seconds [2000], because the driver stores that much;
//! LIBRARY is the library of the driver [libnvidia-ml.so.1].

use std::ffi::OsString;
use std::io::{Write, stdout};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use ebb_telemetry::gpu_sample::{GpuDevice, GpuProcess, GpuSample};
use ebb_telemetry::units::{Bytes, Share};
use nvml_wrapper::enum_wrappers::device::Sampling;
use nvml_wrapper::enums::device::{SampleValue, UsedGpuMemory};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

const LIBRARY: &str = "libnvidia-ml.so.1";
const PERIOD: Duration = Duration::from_secs(2);

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let period = match arguments.next() {
        None => PERIOD,
        Some(text) => {
            let number = text.to_str().and_then(|text| text.parse().ok());
            let number = number.with_context(|| format!("{} is no number", text.display()))?;
            Duration::from_millis(number)
        }
    };
    let library = arguments.next().unwrap_or_else(|| OsString::from(LIBRARY));
    let nvml = Nvml::builder().lib_path(&library).init();
    let nvml = nvml.with_context(|| format!("failed to load {}", library.display()))?;
    let mut sampler = Sampler::begin(&nvml)?;
    loop {
        std::thread::sleep(period);
        let sample = sampler.sample()?;
        let mut out = stdout().lock();
        serde_json::to_writer(&mut out, &sample).context("failed to write a sample")?;
        writeln!(out).and_then(|()| out.flush())?;
    }
}

/// Samples all devices.
struct Sampler<'a> {
    nvml: &'a Nvml,
    devices: Vec<DeviceSampler>,
    last: Instant,
}

impl<'a> Sampler<'a> {
    /// The first sample covers the time from now on.
    fn begin(nvml: &'a Nvml) -> anyhow::Result<Self> {
        let mut sampler = Self {
            nvml,
            devices: Vec::new(),
            last: Instant::now(),
        };
        // The driver has samples of the time before.
        sampler.sample()?;
        Ok(sampler)
    }

    fn sample(&mut self) -> anyhow::Result<GpuSample> {
        let count = self
            .nvml
            .device_count()
            .context("failed to count the GPUs")?;
        self.devices
            .resize_with(count as usize, DeviceSampler::default);
        let mut devices = Vec::new();
        for (number, sampler) in (0..count).zip(&mut self.devices) {
            // A device that fails must not hide the others.
            if let Ok(device) = self.nvml.device_by_index(number) {
                devices.push(sampler.sample(number, &device));
            }
        }
        let now = Instant::now();
        let before = std::mem::replace(&mut self.last, now);
        Ok(GpuSample {
            covers: now.duration_since(before),
            devices,
        })
    }
}

/// Samples one device.
#[derive(Debug, Default)]
struct DeviceSampler {
    model: Option<String>,
    /// The driver's time of its newest sample of the device that was read.
    device_until: u64,
    /// The same for its samples of processes.
    processes_until: u64,
    /// Processes at the previous sample.
    pids: Vec<u32>,
}

impl DeviceSampler {
    fn sample(&mut self, number: u32, device: &Device<'_>) -> GpuDevice {
        let memory = device.memory_info().ok();
        let usage = self.usage(device);
        if self.model.is_none() {
            self.model = device.name().ok();
        }
        GpuDevice {
            number,
            model: self.model.clone().unwrap_or_default(),
            busy: usage.busy,
            memory_held: memory.as_ref().map(|memory| Bytes(memory.used)),
            memory: memory.as_ref().map(|memory| Bytes(memory.total)),
            processes: self.processes(device, &usage),
        }
    }

    /// From the driver's own samples, five a second on an H200. If the driver stores none, the
    /// current value.
    fn usage(&mut self, device: &Device<'_>) -> DeviceUsage {
        let Ok(samples) = device.samples(Sampling::GpuUtilization, self.device_until) else {
            let now = device.utilization_rates().ok();
            return DeviceUsage {
                busy: now.map(|now| percent(now.gpu)),
                samples: Vec::new(),
            };
        };
        let newest = samples.iter().map(|sample| sample.timestamp).max();
        self.device_until = newest.unwrap_or(self.device_until);
        let samples = samples.iter().filter_map(|sample| match sample.value {
            SampleValue::U32(percent) => Some((sample.timestamp, u64::from(percent))),
            _ => None,
        });
        let samples: Vec<(u64, u64)> = samples.collect();
        DeviceUsage {
            busy: mean(samples.iter().map(|(_, percent)| *percent)),
            samples,
        }
    }

    /// The processes of a device; `None` if the driver does not list them.
    fn processes(&mut self, device: &Device<'_>, usage: &DeviceUsage) -> Option<Vec<GpuProcess>> {
        let compute = device.running_compute_processes().ok()?;
        let stored = match compute.is_empty() {
            true => Ok(Vec::new()),
            false => device.process_utilization_stats(self.processes_until),
        };
        let samples = match stored {
            Ok(samples) => Some(samples),
            Err(NvmlError::NotFound) => Some(Vec::new()),
            Err(_) => None,
        };
        let newest = samples.iter().flatten().map(|sample| sample.timestamp);
        self.processes_until = newest.max().unwrap_or(self.processes_until);
        let pids: Vec<u32> = compute.iter().map(|process| process.pid).collect();
        let before = std::mem::replace(&mut self.pids, pids);
        let computed = |pid: &u32| {
            let of_it = samples.as_ref()?.iter().filter(|sample| sample.pid == *pid);
            let computed = mean(of_it.map(|sample| u64::from(sample.sm_util)));
            let computed = computed.unwrap_or(Share::NONE);
            let is_new = !before.contains(pid);
            let most = is_new.then(|| usage.since(started(*pid)?)).flatten();
            Some(most.map_or(computed, |most| computed.min(most)))
        };
        let computed: Vec<Option<Share>> = self.pids.iter().map(computed).collect();
        let ended = before.iter().filter(|pid| !self.pids.contains(pid));
        let ended: Vec<u32> = ended.copied().collect();
        let divided = divide(usage.busy, &computed, ended.len());
        let running = compute.iter().zip(divided.running);
        let running = running.map(|(process, busy)| GpuProcess {
            pid: process.pid,
            memory: match process.used_gpu_memory {
                UsedGpuMemory::Used(bytes) => Some(Bytes(bytes)),
                UsedGpuMemory::Unavailable => None,
            },
            busy,
            has_ended: false,
        });
        let ended = ended.into_iter().map(|pid| GpuProcess {
            pid,
            memory: None,
            busy: divided.each_ended,
            has_ended: true,
        });
        Some(running.chain(ended).collect())
    }
}

/// The use of a device since the previous sample.
struct DeviceUsage {
    busy: Option<Share>,
    /// The driver's samples: the time in microseconds of the wall clock, and percent.
    samples: Vec<(u64, u64)>,
}

impl DeviceUsage {
    /// The share of the whole time in which the device computed after `start`; `None` without
    /// samples. The driver can assign use to a process that began later.
    fn since(&self, start: u64) -> Option<Share> {
        let after = |(time, percent): &(u64, u64)| if *time >= start { *percent } else { 0 };
        mean(self.samples.iter().map(after))
    }
}

/// When a process started, in microseconds of the wall clock.
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Field 22 counts from boot, in hundredths of a second; field 3 is the first after the name.
    let (_, fields) = stat.rsplit_once(')')?;
    let start: u64 = fields.split_whitespace().nth(22 - 3)?.parse().ok()?;
    let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    let age = Duration::from_secs_f64((uptime - start as f64 / 100.0).max(0.0));
    let start = SystemTime::now().checked_sub(age)?;
    u64::try_from(start.duration_since(UNIX_EPOCH).ok()?.as_micros()).ok()
}

/// The time of a device, by its processes.
#[derive(Debug, PartialEq)]
struct Divided {
    running: Vec<Option<Share>>,
    each_ended: Option<Share>,
}

/// Divides the time of a device. `computed` contains the driver's shares of the running processes,
/// each of the time in which that process used the device. They are reduced to a sum within the
/// device's share. The driver stores nothing of processes that ended, so they get the rest.
fn divide(device: Option<Share>, computed: &[Option<Share>], ended: usize) -> Divided {
    let shares: Option<Vec<Share>> = computed.iter().copied().collect();
    let (Some(device), Some(shares)) = (device, shares) else {
        // A device of one process computes for that process.
        let is_of_one = computed.len() == 1 && ended == 0;
        let running = match is_of_one {
            true => vec![device.or(computed[0])],
            false => computed.to_vec(),
        };
        return Divided {
            running,
            each_ended: None,
        };
    };
    let sum: u64 = shares.iter().map(|share| u64::from(share.ppm())).sum();
    let whole = u64::from(device.ppm());
    let part = |share: &Share| {
        let reduced = u64::from(share.ppm()) * whole / sum.max(whole).max(1);
        Some(from_ppm(reduced))
    };
    let rest = whole.saturating_sub(sum);
    Divided {
        running: shares.iter().map(part).collect(),
        each_ended: rest.checked_div(ended as u64).map(from_ppm),
    }
}

fn from_ppm(ppm: u64) -> Share {
    Share::from_ppm(u32::try_from(ppm).unwrap_or(u32::MAX))
}

fn percent(percent: u32) -> Share {
    Share::from_ppm(percent.min(100) * 10_000)
}

/// The mean of percentages; `None` if there are none.
fn mean(percents: impl Iterator<Item = u64>) -> Option<Share> {
    let (count, sum) = percents.fold((0, 0), |(count, sum), p| (count + 1, sum + p.min(100)));
    Some(from_ppm((sum * 10_000).checked_div(count)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_used_the_device_only_after_its_start() {
        let usage = DeviceUsage {
            busy: None,
            samples: vec![(10, 100), (20, 100), (30, 100), (40, 0)],
        };
        let check = |start: u64, expect: u32| {
            assert_eq!(usage.since(start), Some(percent(expect)), "{start}");
        };
        check(0, 75);
        check(30, 25);
        check(35, 0);
        // A process of less than a hundredth of a second has the present as its start.
        let start = u128::from(started(std::process::id()).expect("it runs"));
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.expect("a clock").as_micros();
        assert!(now.abs_diff(start) < 60_000_000, "{start} {now}");
    }

    #[test]
    fn a_mean_is_of_what_was_sampled_and_unknown_of_nothing() {
        let check = |percents: &[u64], expect: Option<u32>| {
            let got = mean(percents.iter().copied());
            assert_eq!(got, expect.map(Share::from_ppm), "{percents:?}");
        };
        check(&[], None);
        check(&[0, 0], Some(0));
        check(&[100, 50], Some(750_000));
        // Some drivers report more than 100 %.
        check(&[4_000], Some(1_000_000));
    }

    #[test]
    fn processes_that_ended_get_what_the_running_ones_did_not_compute() {
        let percent = |share: u32| Some(super::percent(share));
        let check = |device: Option<u32>,
                     computed: &[Option<u32>],
                     ended: usize,
                     running: &[Option<u32>],
                     each: Option<u32>| {
            let computed: Vec<_> = computed
                .iter()
                .map(|share| share.and_then(percent))
                .collect();
            let expect = Divided {
                running: running
                    .iter()
                    .map(|share| share.and_then(percent))
                    .collect(),
                each_ended: each.and_then(percent),
            };
            let got = divide(device.and_then(percent), &computed, ended);
            assert_eq!(got, expect, "{device:?} {computed:?} {ended}");
        };
        check(Some(50), &[Some(50)], 0, &[Some(50)], None);
        // They began during the sample, and the driver counts from then on.
        check(
            Some(40),
            &[Some(60), Some(20)],
            0,
            &[Some(30), Some(10)],
            None,
        );
        check(Some(80), &[Some(20)], 2, &[Some(20)], Some(30));
        check(Some(80), &[], 1, &[], Some(80));
        check(Some(0), &[Some(0)], 1, &[Some(0)], Some(0));
        // The driver reports no processes, or nothing about the device.
        check(Some(80), &[None], 0, &[Some(80)], None);
        check(Some(80), &[None, None], 0, &[None, None], None);
        check(None, &[Some(30), Some(20)], 1, &[Some(30), Some(20)], None);
        check(None, &[Some(30)], 0, &[Some(30)], None);
    }
}
