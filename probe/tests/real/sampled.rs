//! A machine that loads no eBPF, because the capabilities are missing.

use std::process::Command;
use std::time::Duration;

use ebb_telemetry::step::{StepEnd, StepUsage};
use ebb_telemetry::units::CpuTime;

use crate::machine::{Task, needs_ebpf};
use crate::probe::{Probe, Sink};
use crate::program;

pub(crate) fn without_ebpf_procfs_is_sampled_and_every_heartbeat_says_so() {
    needs_ebpf();
    let sink = Sink::new();
    let mut command = Command::new("setpriv");
    command
        .args(["--bounding-set", "-bpf,-perfmon,-sys_admin"])
        .args([program(), "run".into(), "--sink".into()])
        .arg(sink.folder())
        .args(["--interval", "1"]);
    let probe = Probe::spawn(command);
    let task = Task::new(None);
    let id = task.id.clone();
    let busy = "timeout 3 sh -c 'while :; do :; done'; sleep 1";
    task.start(busy).wait().expect("the shell ends");
    let counted = task.counted();
    drop(task);
    std::thread::sleep(Duration::from_secs(4));
    probe.stop();

    let records = sink.read();
    for heartbeat in &records.heartbeats {
        let because = heartbeat.detail.sampled_because.as_deref();
        assert!(
            because.is_some_and(|words| !words.is_empty()),
            "{heartbeat:?}"
        );
        assert_eq!(heartbeat.coverage.short_processes, None);
    }
    let cpu = records.heartbeats.iter().filter_map(|h| h.workload.cpu);
    let cpu = cpu.fold(CpuTime::default(), CpuTime::saturating_add);
    let used = counted.cpu.expect("its cgroup counts");
    // Its last sample is at most one scan before its end. All CPU time of the node counts.
    assert!(
        cpu.as_secs_f64() > 0.9 * used.as_secs_f64(),
        "{cpu} of {used}"
    );
    let ended: Option<&StepUsage> = records.ended.iter().find(|step| step.id.key == id);
    let step = ended.expect("the task was seen");
    assert_eq!(step.end, StepEnd::Unknown);
    assert!(
        step.cpu.as_secs_f64() > 0.3 * used.as_secs_f64(),
        "{step:?}"
    );
}
