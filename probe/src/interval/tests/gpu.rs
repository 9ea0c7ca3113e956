//! Tests of GPU samples.

use ebb_telemetry::gpu_sample::{GpuDevice, GpuProcess, GpuSample};
use ebb_telemetry::step::StepGpu;

use super::*;

fn gpu_sample(processes: &[(u32, u32, bool)]) -> GpuSample {
    let one = |(pid, percent, has_ended): &(u32, u32, bool)| GpuProcess {
        pid: *pid,
        memory: (!has_ended).then_some(Bytes::gib(2)),
        busy: Some(Share::from_ppm(percent * 10_000)),
        has_ended: *has_ended,
    };
    let device = GpuDevice {
        number: 0,
        model: "H200".to_owned(),
        busy: None,
        memory_held: None,
        memory: None,
        processes: Some(processes.iter().map(one).collect()),
    };
    GpuSample {
        covers: Duration::from_secs(2),
        devices: vec![device],
    }
}

fn end(aggregator: &mut IntervalAggregator, process: Process, at_ms: u64) {
    let status = ExitStatus::Code(0);
    aggregator.event(ended(process, at_ms, status, totals(10, 0)));
    aggregator.event(reaped(process, totals(10, 0)));
}

fn check_gpu(step: &StepUsage, held: u64, busy_ms: u64) {
    let expect = StepGpu {
        devices: 1,
        held: Duration::from_secs(held),
        busy: Some(Duration::from_millis(busy_ms)),
        peak_memory: Some(Bytes::gib(2)),
    };
    assert_eq!(step.detail.gpu, Some(expect));
}

#[test]
fn a_task_that_ended_between_two_scans_keeps_its_gpu_use() {
    let mut aggregator = aggregator();
    aggregator.add_gpu_samples(&[]);
    let bwa = run_in_task(&mut aggregator, 60, 2_000);
    end(&mut aggregator, bwa, 8_000);
    let samples = [
        gpu_sample(&[(60, 50, false)]),
        gpu_sample(&[(60, 50, false)]),
        gpu_sample(&[(60, 20, true)]),
    ];
    aggregator.add_gpu_samples(&samples);
    scan(&mut aggregator, 11_000, &[sample(daemon(), 500, 1)]);
    let steps = aggregator.take_ended();
    assert_eq!(steps.len(), 1);
    check_gpu(&steps[0], 6, 2_400);
}

#[test]
fn a_task_waits_for_the_gpu_sample_after_its_end() {
    let mut aggregator = aggregator();
    aggregator.add_gpu_samples(&[]);
    let bwa = run_in_task(&mut aggregator, 60, 2_000);
    end(&mut aggregator, bwa, 10_500);
    aggregator.add_gpu_samples(&[gpu_sample(&[(60, 50, false)])]);
    scan(&mut aggregator, 11_000, &[sample(daemon(), 500, 1)]);
    assert_eq!(aggregator.take_ended(), []);
    // Another task has its process id by now.
    run_in_task(&mut aggregator, 60, 15_000);
    aggregator.add_gpu_samples(&[gpu_sample(&[(60, 30, true)])]);
    scan(&mut aggregator, 21_000, &[sample(daemon(), 500, 1)]);
    let interval = aggregator.close(at(21_000), 0, None);
    check_gpu(&interval.running[0], 4, 1_600);
}
