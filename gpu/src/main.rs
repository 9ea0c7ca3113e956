//! Requests the use of each GPU and its processes from the NVIDIA driver: a line is read, a line of
//! JSON is written. It is a separate program for two reasons: the static probe cannot load the
//! library of the driver at run time, and the library can hang.
//!
//!     ebb-gpu [LIBRARY]      default: libnvidia-ml.so.1

use std::ffi::OsString;
use std::io::{BufRead, Write, stdin, stdout};

use anyhow::Context;
use ebb_telemetry::gpu_sample::{GpuDevice, GpuLook, GpuProcess};
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
    let nvml = nvml.with_context(|| format!("failed to start {}", library.display()))?;
    let mut seen_until = Vec::new();
    for line in stdin().lock().lines() {
        line.context("failed to read the request")?;
        let look = look(&nvml, &mut seen_until)?;
        let mut out = stdout().lock();
        serde_json::to_writer(&mut out, &look).context("failed to write the response")?;
        writeln!(out).and_then(|()| out.flush())?;
    }
    Ok(())
}

/// Driver times of the newest reported samples of a device.
#[derive(Debug, Default, Clone, Copy)]
struct SeenUntil {
    device: u64,
    processes: u64,
}

fn look(nvml: &Nvml, seen_until: &mut Vec<SeenUntil>) -> anyhow::Result<GpuLook> {
    let count = nvml.device_count().context("failed to count the GPUs")?;
    seen_until.resize(count as usize, SeenUntil::default());
    let mut devices = Vec::new();
    for (number, until) in (0..count).zip(seen_until) {
        // One that fell off the bus must not hide the others.
        if let Ok(device) = nvml.device_by_index(number) {
            devices.push(tell(number, &device, until));
        }
    }
    Ok(GpuLook { devices })
}

fn tell(number: u32, device: &Device<'_>, until: &mut SeenUntil) -> GpuDevice {
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

/// The mean of the driver's own samples, several a second; where it keeps none, its
/// last one.
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

/// GPU use of each process. The driver has no samples of an idle process, and only samples of the
/// busy time of another process. No process has a larger share than the device.
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
    let tell = |process: ProcessInfo| {
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
    Some(compute.into_iter().map(tell).collect())
}

fn percent(percent: u32) -> Share {
    Share::from_ppm(percent.min(100) * 10_000)
}

/// The mean of percentages; `None` of none.
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
        // Some drivers answer more than is possible.
        check(&[4_000], Some(1_000_000));
    }
}
