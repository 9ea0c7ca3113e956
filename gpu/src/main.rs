//! Reads the state of each GPU and its processes from the NVIDIA driver. Each line on the standard
//! input requests one line of JSON. This is a separate program for two reasons: the static probe
//! cannot load the driver's library at run time, and the library can hang.
//!
//!     ebb-gpu [LIBRARY]      the driver's library [libnvidia-ml.so.1]

use std::ffi::OsString;
use std::io::{BufRead, Write, stdin, stdout};

use anyhow::Context;
use ebb_telemetry::gpu_sample::{GpuDevice, GpuProcess, GpuSample};
use ebb_telemetry::units::{Bytes, Share};
use nvml_wrapper::enum_wrappers::device::Sampling;
use nvml_wrapper::enums::device::{SampleValue, UsedGpuMemory};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::{ProcessInfo, ProcessUtilizationSample};
use nvml_wrapper::{Device, Nvml};

const LIBRARY: &str = "libnvidia-ml.so.1";

fn main() -> anyhow::Result<()> {
    let library = std::env::args_os().nth(1);
    let library = library.unwrap_or_else(|| OsString::from(LIBRARY));
    let nvml = Nvml::builder().lib_path(&library).init();
    let nvml = nvml.with_context(|| format!("failed to load {}", library.display()))?;
    let mut sampled_until = Vec::new();
    for line in stdin().lock().lines() {
        line.context("failed to read a request")?;
        let sample = sample(&nvml, &mut sampled_until)?;
        let mut out = stdout().lock();
        serde_json::to_writer(&mut out, &sample).context("failed to write the answer")?;
        writeln!(out).and_then(|()| out.flush())?;
    }
    Ok(())
}

/// The driver's times of the newest samples of a device that were reported.
#[derive(Debug, Default, Clone, Copy)]
struct SampledUntil {
    device: u64,
    processes: u64,
}

fn sample(nvml: &Nvml, sampled_until: &mut Vec<SampledUntil>) -> anyhow::Result<GpuSample> {
    let count = nvml.device_count().context("failed to count the GPUs")?;
    sampled_until.resize(count as usize, SampledUntil::default());
    let mut devices = Vec::new();
    for (number, until) in (0..count).zip(sampled_until) {
        // A device that fails must not hide the others.
        if let Ok(device) = nvml.device_by_index(number) {
            devices.push(read_device(number, &device, until));
        }
    }
    Ok(GpuSample { devices })
}

fn read_device(number: u32, device: &Device<'_>, until: &mut SampledUntil) -> GpuDevice {
    let memory = device.memory_info().ok();
    let busy = busy(device, &mut until.device);
    GpuDevice {
        number,
        model: device.name().unwrap_or_default(),
        busy,
        memory_held: memory.as_ref().map(|memory| Bytes(memory.used)),
        memory: memory.as_ref().map(|memory| Bytes(memory.total)),
        processes: processes(device, busy, &mut until.processes),
    }
}

/// The mean of the driver's own samples, several a second. If the driver stores none, the current
/// value.
fn busy(device: &Device<'_>, until: &mut u64) -> Option<Share> {
    let Ok(samples) = device.samples(Sampling::GpuUtilization, *until) else {
        return device.utilization_rates().ok().map(|now| percent(now.gpu));
    };
    let newest = samples.iter().map(|sample| sample.timestamp).max();
    *until = newest.unwrap_or(*until);
    let shares = samples.iter().filter_map(|sample| match sample.value {
        SampleValue::U32(percent) => Some(u64::from(percent)),
        _ => None,
    });
    mean(shares)
}

/// The processes of a device; `None` if the driver does not list them. The driver has samples only
/// of the time in which a process was busy, so their mean is limited to the device's.
fn processes(
    device: &Device<'_>,
    device_busy: Option<Share>,
    until: &mut u64,
) -> Option<Vec<GpuProcess>> {
    let compute = device.running_compute_processes().ok()?;
    let samples = match device.process_utilization_stats(*until) {
        Ok(samples) => Some(samples),
        Err(NvmlError::NotFound) => Some(Vec::new()),
        Err(_) => None,
    };
    let newest = samples.iter().flatten().map(|sample| sample.timestamp);
    *until = newest.max().unwrap_or(*until);
    let read_process = |process: ProcessInfo| {
        let of_it = |all: &Vec<ProcessUtilizationSample>| {
            let of_it = all.iter().filter(|sample| sample.pid == process.pid);
            let busy = mean(of_it.map(|sample| u64::from(sample.sm_util)));
            busy.unwrap_or(Share::NONE)
                .min(device_busy.unwrap_or(Share::ALL))
        };
        GpuProcess {
            pid: process.pid,
            memory: match process.used_gpu_memory {
                UsedGpuMemory::Used(bytes) => Some(Bytes(bytes)),
                UsedGpuMemory::Unavailable => None,
            },
            busy: samples.as_ref().map(of_it),
        }
    };
    Some(compute.into_iter().map(read_process).collect())
}

fn percent(percent: u32) -> Share {
    Share::from_ppm(percent.min(100) * 10_000)
}

/// The mean of percentages; `None` if there are none.
fn mean(percents: impl Iterator<Item = u64>) -> Option<Share> {
    let (count, sum) = percents.fold((0, 0), |(count, sum), p| (count + 1, sum + p.min(100)));
    let ppm = (sum * 10_000).checked_div(count)?;
    Some(Share::from_ppm(u32::try_from(ppm).unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
