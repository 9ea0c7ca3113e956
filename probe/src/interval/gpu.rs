//! Assigns GPU use to the tasks of the processes.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_telemetry::gpu_sample::{GpuProcess, GpuSample};
use ebb_telemetry::step::StepGpu;
use ebb_telemetry::units::{Bytes, Share};

use crate::interval::aggregator::IntervalAggregator;
use crate::interval::processes::ProcessOwner;
use crate::interval::processes::StepNumber;

/// GPU use of one task in one sample.
#[derive(Debug, Clone, Copy)]
struct StepGpuSample {
    devices: u32,
    busy: Option<Duration>,
    memory: Option<Bytes>,
}

impl IntervalAggregator {
    /// Adds the GPU samples since the last scan, in the order of time.
    pub fn add_gpu_samples(&mut self, samples: &[GpuSample]) {
        for sample in samples {
            self.add_gpu_sample(sample);
        }
        self.processes.remember_ended_from_now();
    }

    fn add_gpu_sample(&mut self, sample: &GpuSample) {
        let mut now: BTreeMap<StepNumber, StepGpuSample> = BTreeMap::new();
        let mut running = BTreeMap::new();
        for device in &sample.devices {
            let mut here: BTreeMap<StepNumber, StepGpuSample> = BTreeMap::new();
            for process in device.processes.iter().flatten() {
                let Some(number) = self.step_on_gpu(process) else {
                    continue;
                };
                if !process.has_ended {
                    running.insert(process.pid, number);
                }
                let busy = process.busy.map(|share| part(sample.covers, share));
                let first = StepGpuSample {
                    devices: 1,
                    busy: Some(Duration::ZERO),
                    memory: Some(Bytes(0)),
                };
                let sum = here.entry(number).or_insert(first);
                sum.busy = add(sum.busy, busy, Duration::saturating_add);
                sum.memory = add(sum.memory, process.memory, Bytes::saturating_add);
            }
            for (number, here) in here {
                let nothing = StepGpuSample { devices: 0, ..here };
                let sum = now.entry(number).or_insert(nothing);
                if sum.devices > 0 {
                    sum.busy = add(sum.busy, here.busy, Duration::saturating_add);
                    sum.memory = add(sum.memory, here.memory, Bytes::saturating_add);
                }
                sum.devices += 1;
            }
        }
        for (number, now) in now {
            let Some(step) = self.steps.get_mut(number) else {
                continue;
            };
            let first = StepGpu {
                busy: Some(Duration::ZERO),
                ..StepGpu::default()
            };
            let sum = step.gpu.get_or_insert(first);
            sum.devices = sum.devices.max(now.devices);
            sum.held = sum.held.saturating_add(sample.covers * now.devices);
            sum.busy = add(sum.busy, now.busy, Duration::saturating_add);
            sum.peak_memory = sum.peak_memory.max(now.memory);
        }
        for number in self.gpu_processes.values() {
            if let Some(step) = self.steps.get_mut(*number) {
                step.is_on_gpu = false;
            }
        }
        for number in running.values() {
            if let Some(step) = self.steps.get_mut(*number) {
                step.is_on_gpu = true;
            }
        }
        self.gpu_processes = running;
    }

    /// The task of a process, which may have ended since the sample.
    fn step_on_gpu(&self, process: &GpuProcess) -> Option<StepNumber> {
        let before = self.gpu_processes.get(&process.pid).copied();
        match self.processes.owner_since_scan(process.pid) {
            // Another process may have its id by now.
            _ if process.has_ended => before,
            Some(ProcessOwner::Step(number)) => Some(number),
            Some(ProcessOwner::Background(_)) => None,
            None => before,
        }
    }
}

/// The sum if both values are known, otherwise `None`.
fn add<T>(a: Option<T>, b: Option<T>, plus: impl FnOnce(T, T) -> T) -> Option<T> {
    Some(plus(a?, b?))
}

fn part(time: Duration, share: Share) -> Duration {
    time.mul_f64(share.as_f64())
}
