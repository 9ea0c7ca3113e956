//! Tests of the table of an interval, with made-up intervals.

use ebb_telemetry::heartbeat::{Coverage, Hardware, ProbeCost};
use ebb_telemetry::identity::{BootId, NodeId, ProbeStart};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::{Requested, Sampled, StepId, StepKind, TaskState};
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, MilliCores, Share};

use super::*;

fn step(name: &str, cpu_ms: u64, end: StepEnd) -> StepUsage {
    StepUsage {
        id: StepId {
            kind: StepKind::Tree,
            key: name.into(),
        },
        name: name.into(),
        started: BootClock::default(),
        observed: BootClock::default(),
        end,
        processes: 3,
        cpu: CpuTime::from_millis(cpu_ms),
        peak_memory: None,
        disk_read: Some(Bytes::mib(1)),
        disk_written: Some(Bytes::mib(2)),
        requested: Requested::default(),
        peak_cores: Some(MilliCores(500)),
        last_progress: BootClock::default(),
        tools: Vec::new(),
        detail: StepDetail::default(),
    }
}

fn snapshot(steps: Vec<StepUsage>, ended: Vec<StepUsage>) -> Snapshot {
    let heartbeat = Heartbeat {
        node: NodeId::new("host").expect("valid"),
        boot: BootId::new("boot").expect("valid"),
        probe_start: ProbeStart::new("run").expect("valid"),
        sequence: 0,
        start: BootClock::default(),
        end: BootClock::from_nanos(10_000_000_000),
        wall_at_end: jiff::Timestamp::UNIX_EPOCH,
        origin: Origin::Measured,
        coverage: Coverage {
            cpu: Some(Share::ALL),
            memory: None,
            disk: None,
            network: None,
            gpu: None,
            short_processes: Some(Share::from_ppm(500_000)),
        },
        hardware: Hardware {
            cores: MilliCores::cores(2),
            memory: Bytes::gib(4),
            gpus: None,
        },
        workload: Usage {
            cpu: Some(CpuTime::from_millis(2_500)),
            ..Usage::default()
        },
        background: Usage::default(),
        typed_ago: None,
        detail: Default::default(),
        steps,
        probe: ProbeCost {
            cpu: CpuTime::from_millis(10),
            ..ProbeCost::default()
        },
    };
    Snapshot { heartbeat, ended }
}

#[test]
fn a_table_says_what_was_seen_and_what_is_unknown() {
    let busy = step("busy", 2_000, StepEnd::Exited(3));
    let cunning = step("cunning\u{1b}[2J", 500, StepEnd::Running);
    let shown = table(&snapshot(vec![cunning], vec![busy]));
    let lines: Vec<&str> = shown.lines().collect();
    let check = |starts: &str, words: &[&str]| {
        let line = lines.iter().find(|line| line.starts_with(starts));
        let line = line.unwrap_or_else(|| panic!("no {starts}: {shown}"));
        assert_eq!(line.split_whitespace().collect::<Vec<_>>(), words);
    };
    check(
        "workload",
        &["workload", "2.50", "s", "unknown", "unknown", "0"],
    );
    check(
        "busy",
        &[
            "busy", "2.00", "s", "0.5", "unknown", "3.0", "MiB", "3", "exit", "3",
        ],
    );
    assert!(shown.contains("cunning?[2J "), "{shown}");
    assert!(
        shown.contains("2 cores, 4.0 GiB of memory (unknown in use), unknown GPUs"),
        "{shown}"
    );
    assert!(
        shown.contains("50 % of short processes, network no"),
        "{shown}"
    );
    assert!(shown.contains("the probe: 0.10 % of one core"), "{shown}");
    assert!(!shown.contains("STATES AT THE SAMPLES"), "{shown}");
    // The busiest task comes first.
    let place = |name: &str| shown.find(name);
    assert!(place("busy") < place("cunning"));
}

#[test]
fn what_a_step_waited_for_is_told_the_most_first() {
    let mut stuck = step("stuck", 10, StepEnd::Running);
    let sampled = |samples| Sampled {
        samples,
        time: Duration::from_secs(samples),
    };
    stuck.detail.states = [
        (TaskState::Running, sampled(1)),
        (TaskState::Network, sampled(9)),
    ]
    .into();
    stuck.detail.user_cpu = Some(CpuTime::from_millis(10));
    stuck.detail.namespaces = Some(Namespaces::from_bits(0b11));
    let shown = table(&snapshot(vec![stuck], vec![]));
    let expect = "waiting for network 9, running 1; user 0.01 s; own namespaces: mount, pid\n";
    assert!(shown.contains(expect), "{shown}");
}

#[test]
fn what_watched_the_node_and_its_gpus_are_told() {
    let mut empty = snapshot(vec![], vec![]);
    assert!(!table(&empty).contains("GPU 0"));
    empty.heartbeat.detail.sampled_because = Some("no right".into());
    empty.heartbeat.detail.gpus = vec![GpuUse {
        busy: Some(Share::from_ppm(250_000)),
        ..GpuUse::default()
    }];
    let shown = table(&empty);
    assert!(
        shown.contains("\nprocfs was sampled, because eBPF does not run: no right\n"),
        "{shown}"
    );
    assert!(
        shown.contains("GPU 0 (): 25 % busy, unknown held"),
        "{shown}"
    );
}

#[test]
fn no_step_and_many_are_said() {
    assert!(table(&snapshot(vec![], vec![])).contains("\nno steps\n"));
    let many = (0..25).map(|n| step("x", n, StepEnd::Unknown)).collect();
    assert!(table(&snapshot(vec![], many)).contains("\nand 5 more\n"));
}
