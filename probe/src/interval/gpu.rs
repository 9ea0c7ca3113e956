//! Assigns GPU use to the tasks of the processes.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_telemetry::gpu_sample::GpuSample;
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
    /// Adds one GPU sample that represents the time `stands_for`.
    pub fn add_gpu_sample(&mut self, sample: &GpuSample, stands_for: Duration) {
        let mut now: BTreeMap<StepNumber, StepGpuSample> = BTreeMap::new();
        for device in &sample.devices {
            let mut here: BTreeMap<StepNumber, StepGpuSample> = BTreeMap::new();
            for process in device.processes.iter().flatten() {
                let Some(ProcessOwner::Step(number)) =
                    self.processes.get(process.pid).map(|p| p.owner)
                else {
                    continue;
                };
                let busy = process.busy.map(|share| part(stands_for, share));
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
            sum.held = sum.held.saturating_add(stands_for * now.devices);
            sum.busy = add(sum.busy, now.busy, Duration::saturating_add);
            sum.peak_memory = sum.peak_memory.max(now.memory);
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
