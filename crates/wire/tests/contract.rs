//! The contract: what v1 looks like on the wire, what is refused, and how.

#[path = "contract/hostile.rs"]
mod hostile;
#[path = "contract/namespaces.rs"]
mod namespaces;
#[path = "contract/probe_losses.rs"]
mod probe_losses;
#[path = "contract/scheduler_labels.rs"]
mod scheduler_labels;
#[path = "contract/syscall_io.rs"]
mod syscall_io;
#[path = "contract/tool_activity.rs"]
mod tool_activity;

use std::time::Duration;

use base64_simd::STANDARD;
use ebb_telemetry::arrival::Sent;
use ebb_telemetry::heartbeat::{
    Coverage, GpuUse, Hardware, Heartbeat, NetworkDetail, NodeDetail, Pressure, ProbeCost, Usage,
};
use ebb_telemetry::identity::{BootId, NodeId, ProbeStart};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::{
    MemorySource, Parallelism, PeakMemory, Requested, RunName, Sampled, StepBatch, StepDetail,
    StepEnd, StepGpu, StepId, StepKind, StepNetwork, StepUsage, TaskState, ToolUsage,
};
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores, Share};
use ebb_wire::MAX_GPUS;
use ebb_wire::{decode_heartbeats, decode_steps, encode_heartbeats, encode_steps};
use jiff::Timestamp;
use proptest::prelude::*;

const GOLDEN_HEARTBEATS: &str = include_str!("golden/heartbeat-1.0.txt");
const GOLDEN_HEARTBEATS_1_1: &str = include_str!("golden/heartbeat-1.1.txt");
const GOLDEN_HEARTBEATS_1_2: &str = include_str!("golden/heartbeat-1.2.txt");
const GOLDEN_STEPS: &str = include_str!("golden/steps-1.0.base64");

fn wall(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).expect("a time of this century")
}

fn boot() -> BootId {
    BootId::new("4f9d3c1e-7a52-4f0e-9a53-0c6d1f1f2b3a").expect("a boot id")
}

fn sent() -> Sent {
    Sent {
        boot: boot(),
        clock: BootClock::from_nanos(125_000_000_000),
        wall: wall(1_790_000_065),
    }
}

fn step() -> StepUsage {
    StepUsage {
        id: StepId {
            kind: StepKind::EcsTask,
            key: "0f3a9c".into(),
        },
        name: "align".into(),
        started: BootClock::from_nanos(10_000_000_000),
        observed: BootClock::from_nanos(120_000_000_000),
        end: StepEnd::Running,
        processes: 7,
        cpu: CpuTime::from_millis(215_000),
        peak_memory: Some(PeakMemory {
            bytes: Bytes::gib(3),
            source: MemorySource::CgroupSampled,
        }),
        disk_read: Some(Bytes(0)),
        disk_written: None,
        requested: Requested {
            cores: Some(MilliCores::cores(16)),
            memory: None,
        },
        peak_cores: Some(MilliCores(2_100)),
        last_progress: BootClock::from_nanos(119_000_000_000),
        tools: vec![ToolUsage {
            name: "bwa".into(),
            processes: 1,
            cpu: CpuTime::from_millis(200_000),
            peak_memory: Some(Bytes::gib(3)),
            disk: None,
            events: None,
        }],
        detail: StepDetail::default(),
    }
}

fn heartbeat() -> Heartbeat {
    let ninety_nine = Some(Share::from_ppm(990_000));
    Heartbeat {
        node: NodeId::new("i-0abc123").expect("a node id"),
        boot: boot(),
        probe_start: ProbeStart::new("9b1deb4d").expect("a probe start"),
        sequence: 41,
        start: BootClock::from_nanos(60_000_000_000),
        end: BootClock::from_nanos(120_000_000_000),
        wall_at_end: wall(1_790_000_060),
        origin: Origin::Measured,
        coverage: Coverage {
            cpu: ninety_nine,
            memory: ninety_nine,
            disk: ninety_nine,
            network: ninety_nine,
            gpu: None,
            short_processes: Some(Share::ALL),
        },
        hardware: Hardware {
            cores: MilliCores::cores(16),
            memory: Bytes::gib(64),
            gpus: Some(0),
        },
        workload: Usage {
            cpu: Some(CpuTime::from_millis(59_000)),
            disk: Some(Bytes(0)),
            network: None,
            gpu: None,
            processes_started: 3,
        },
        background: Usage::default(),
        typed_ago: Some(Duration::from_millis(1_500)),
        detail: Default::default(),
        steps: vec![step()],
        probe: ProbeCost {
            cpu: CpuTime::from_millis(3),
            resident: Some(Bytes::mib(9)),
            events_lost: 0,
            records_dropped: 0,
            spool_depth: Bytes(512),
            ..ProbeCost::default()
        },
    }
}

fn batch() -> StepBatch {
    let h = heartbeat();
    let ended = StepUsage {
        end: StepEnd::Signalled(9),
        ..step()
    };
    StepBatch {
        node: h.node,
        boot: h.boot,
        probe_start: h.probe_start,
        sequence: 2,
        origin: Origin::Simulated,
        steps: vec![
            ended,
            StepUsage {
                end: StepEnd::OutOfMemory,
                ..step()
            },
        ],
    }
}

#[test]
fn version_one_heartbeats_written_long_ago_are_still_read() {
    let message = decode_heartbeats(GOLDEN_HEARTBEATS.trim_end()).expect("the golden message");
    assert_eq!(message.sent, sent());
    assert_eq!(message.heartbeats, vec![heartbeat()]);
}

#[test]
fn version_one_steps_written_long_ago_are_still_read() {
    let bytes = STANDARD
        .decode_to_vec(GOLDEN_STEPS.trim_end())
        .expect("base64");
    let object = decode_steps(&bytes).expect("the golden object");
    assert_eq!((object.sent, object.batch), (sent(), batch()));
}

/// All that 1.1 added.
fn step_of_one_one() -> StepUsage {
    let mut parallelism = Parallelism::default();
    parallelism.add(Duration::from_secs(60), CpuTime::from_millis(200_000));
    parallelism.add(Duration::from_secs(10), CpuTime::from_millis(15_000));
    let network = Sampled {
        samples: 252,
        time: Duration::from_secs(2_520),
    };
    StepUsage {
        detail: StepDetail {
            user_cpu: Some(CpuTime::from_millis(200_000)),
            system_cpu: Some(CpuTime::from_millis(15_000)),
            run_queue: Some(Duration::ZERO),
            voluntary_switches: Some(3),
            involuntary_switches: None,
            minor_faults: Some(5),
            major_faults: Some(0),
            disk_delay: None,
            parallelism,
            states: [(TaskState::Network, network)].into(),
            ..StepDetail::default()
        },
        ..step()
    }
}

#[test]
fn version_one_one_heartbeats_written_long_ago_are_still_read() {
    let message = decode_heartbeats(GOLDEN_HEARTBEATS_1_1.trim_end()).expect("the golden message");
    let expect = Heartbeat {
        steps: vec![step_of_one_one()],
        ..heartbeat()
    };
    assert_eq!(message.heartbeats, vec![expect]);
}

#[test]
fn what_one_one_added_is_read_back_whole() {
    let batch = StepBatch {
        steps: vec![step_of_one_one(), step()],
        ..batch()
    };
    let object = encode_steps(&sent(), &batch).expect("it fits");
    assert_eq!(decode_steps(&object).expect("it reads").batch, batch);
}

/// All that 1.2 added.
fn heartbeat_of_one_two() -> Heartbeat {
    let step = StepUsage {
        detail: StepDetail {
            network: Some(StepNetwork {
                received: Bytes::gib(2),
                sent: Bytes(0),
                retransmits: 7,
                connections: 3,
            }),
            gpu: Some(StepGpu {
                devices: 2,
                held: Duration::from_secs(120),
                busy: Some(Duration::ZERO),
                peak_memory: Some(Bytes::gib(40)),
            }),
            run: Some(Box::new(RunName {
                launcher: "nextflow".into(),
                key: "1234@5".into(),
                pipeline: Some("nf-core/rnaseq".into()),
            })),
            ..step_of_one_one().detail
        },
        ..step()
    };
    let gpu = GpuUse {
        number: 1,
        model: "NVIDIA H200".into(),
        busy: Some(Share::from_ppm(250_000)),
        memory_held: Some(Bytes::gib(40)),
        memory: Some(Bytes::gib(141)),
        processes: Some(1),
    };
    let seconds = Duration::from_secs;
    Heartbeat {
        steps: vec![step],
        detail: NodeDetail {
            sampled_because: Some("no BTF".into()),
            gpus: vec![gpu, GpuUse::default()],
            gpu_restarts: 2,
            network: Some(NetworkDetail {
                owned: Bytes::gib(2),
                unowned: Bytes(0),
                retransmits: 7,
                connections: Some(3),
            }),
            pressure: Some(Pressure {
                cpu_some: seconds(1),
                memory_some: seconds(2),
                memory_full: seconds(3),
                disk_some: seconds(4),
                disk_full: seconds(5),
            }),
            reclaimed: Some(Bytes::mib(5)),
            ..NodeDetail::default()
        },
        ..heartbeat()
    }
}

#[test]
fn version_one_two_heartbeats_written_long_ago_are_still_read() {
    let message = decode_heartbeats(GOLDEN_HEARTBEATS_1_2.trim_end()).expect("the golden message");
    assert_eq!(message.heartbeats, vec![heartbeat_of_one_two()]);
}

#[test]
fn what_one_two_added_is_read_back_whole_and_bounded() {
    let body = encode_heartbeats(&sent(), &[heartbeat_of_one_two()]).expect("it fits");
    let read = decode_heartbeats(&body).expect("it reads");
    assert_eq!(read.heartbeats, vec![heartbeat_of_one_two()]);
    let mut many = heartbeat_of_one_two();
    many.detail.gpus = vec![GpuUse::default(); MAX_GPUS + 1];
    let error = encode_heartbeats(&sent(), &[many]).expect_err("too many GPUs");
    assert!(error.to_string().contains("GPUs"), "{error}");
}

#[test]
fn what_is_written_today_is_read_back_whole() {
    let body = encode_heartbeats(&sent(), &[heartbeat(), heartbeat()]).expect("it fits");
    assert_eq!(
        decode_heartbeats(&body).expect("it reads").heartbeats.len(),
        2
    );
    let mut batch = batch();
    batch.steps[0].detail = StepDetail::sample();
    let object = encode_steps(&sent(), &batch).expect("it fits");
    assert_eq!(decode_steps(&object).expect("it reads").batch, batch);
}

#[test]
fn a_later_minor_version_with_new_fields_is_accepted() {
    let body = encode_heartbeats(&sent(), &[heartbeat()]).expect("it fits");
    let packed = STANDARD
        .decode_to_vec(body.split_once('\n').expect("a header").1)
        .expect("base64");
    let mut plain = zstd::bulk::decompress(&packed, 1 << 20).expect("zstd");
    // Field 900, a varint: unknown to this reader.
    plain.extend([0xa0, 0x38, 0x01]);
    let packed = zstd::bulk::compress(&plain, 3).expect("zstd");
    let later = format!("ebb.heartbeat/1.7\n{}", STANDARD.encode_to_string(packed));
    assert_eq!(
        decode_heartbeats(&later).expect("it reads").heartbeats,
        vec![heartbeat()]
    );
}

#[test]
fn what_cannot_be_read_is_refused_in_words() {
    let check = |body: &str, expect: &str| {
        let error = decode_heartbeats(body).expect_err(expect).to_string();
        assert!(error.contains(expect), "{error} should say: {expect}");
    };
    let good = encode_heartbeats(&sent(), &[heartbeat()]).expect("it fits");
    let payload = good.split_once('\n').expect("a header").1;
    let packed =
        |plain: &[u8]| STANDARD.encode_to_string(zstd::bulk::compress(plain, 3).expect("zstd"));
    check("", "no schema line");
    check("{\"hello\": 1}", "no schema line");
    check(
        &format!("ebb.heartbeat/2.0\n{payload}"),
        "unknown schema 'ebb.heartbeat/2.0'",
    );
    check(
        &format!("ebb.steps/1.0\n{payload}"),
        "unknown schema 'ebb.steps/1.0'",
    );
    check(&format!("ebb.heartbeat/x.0\n{payload}"), "no schema line");
    check("ebb.heartbeat/1.0\n%%%", "not base64");
    check("ebb.heartbeat/1.0\naGVsbG8=", "not zstd");
    check(
        &format!("ebb.heartbeat/1.0\n{}", packed(&[0xff; 40])),
        "not a protobuf",
    );
    check(
        &format!("ebb.heartbeat/1.0\n{}", packed(&[])),
        "field sent: it is missing",
    );
    let bomb = packed(&vec![0; 64 << 20]);
    check(
        &format!("ebb.heartbeat/1.0\n{bomb}"),
        "unpacks to more than 1048576 bytes",
    );
    check(
        &format!("ebb.heartbeat/1.0\n{}", "A".repeat(70_000)),
        "more than 65536 bytes",
    );
}

#[test]
fn more_than_fits_is_refused_before_it_is_sent() {
    assert!(encode_heartbeats(&sent(), &vec![heartbeat(); 6]).is_err());
    let crowded = Heartbeat {
        steps: vec![step(); 129],
        ..heartbeat()
    };
    assert!(encode_heartbeats(&sent(), &[crowded]).is_err());
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let body = format!("ebb.heartbeat/1.0\n{}", STANDARD.encode_to_string(&bytes));
        prop_assert!(decode_heartbeats(&body).is_err());
        let mut object = b"ebb.steps/1.0\n".to_vec();
        object.extend(&bytes);
        prop_assert!(decode_steps(&object).is_err());
    }

    #[test]
    fn a_flipped_byte_is_read_or_refused_but_never_panics(at in 0usize..400, bit in 0u8..8) {
        let mut object = encode_steps(&sent(), &batch()).expect("it fits");
        let at = at % object.len();
        object[at] ^= 1 << bit;
        drop(decode_steps(&object));
    }
}
