//! The machines with a probe, and what they do in each hour.

use std::ops::Range;
use std::time::Duration;

use ebb_telemetry::arrival::Sent;
use ebb_telemetry::heartbeat::node_signals::{GpuUse, NodeDetail};
use ebb_telemetry::heartbeat::{Coverage, Hardware, Heartbeat, Usage};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::{StepBatch, StepUsage};
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores, Share};
use ebb_wire::{encode_heartbeats, encode_steps};
use jiff::Timestamp;

use crate::every_kind::tasks::{self, Task};
use crate::every_kind::{HOURS, account};
use crate::sample::{self, Work};
use crate::world::World;

/// Monday, 2026-10-26, at midnight.
const BEGIN: i64 = 1_792_972_800;

/// The time after so many hours.
pub(crate) fn at(hour: u64) -> Timestamp {
    let seconds = i64::try_from(hour * 3600).expect("two weeks");
    Timestamp::from_second(BEGIN + seconds).expect("a time")
}

/// A machine boots an hour before the begin.
pub(crate) fn clock(hours: f64) -> BootClock {
    BootClock::from_nanos(((hours + 1.0) * 3.6e12) as u64)
}

/// A machine with a probe.
pub(crate) struct Node {
    pub(crate) number: u32,
    pub(crate) name: &'static str,
    pub(crate) instance_type: &'static str,
    /// Busy cores in an hour.
    load: fn(u64) -> f64,
    gpu_memory: Option<Bytes>,
    tasks: Vec<Task>,
}

/// More than half of four cores.
fn busy(_: u64) -> f64 {
    2.6
}

pub(crate) fn nodes() -> Vec<Node> {
    let node = |number, name, load| Node {
        number,
        name,
        instance_type: "m5.xlarge",
        load,
        gpu_memory: None,
        tasks: Vec::new(),
    };
    let gpu = |number, name, memory| Node {
        instance_type: "g4dn.xlarge",
        gpu_memory: Some(memory),
        ..node(number, name, busy)
    };
    let office = |hour: u64| {
        if (8..19).contains(&(hour % 24)) {
            2.6
        } else {
            0.0
        }
    };
    let mut nodes = vec![
        node(1, "idle", |hour| if hour < HOURS - 8 { 2.6 } else { 0.0 }),
        node(2, "office", office),
        Node {
            instance_type: "m5.4xlarge",
            tasks: tasks::small_service(),
            ..node(3, "large", |_| 3.2)
        },
        node(7, "light", |_| 0.3),
        Node {
            instance_type: "m4.xlarge",
            ..node(4, "old", busy)
        },
        gpu(5, "gpu", Bytes(0)),
        gpu(6, "held", Bytes::gib(2)),
        Node {
            tasks: tasks::pipeline_jobs(),
            ..node(account::PAID, "paid", busy)
        },
        Node {
            instance_type: "c5.xlarge",
            tasks: tasks::batch_tasks(),
            ..node(account::WORKER, "worker", busy)
        },
    ];
    nodes.extend(
        tasks::of_steps()
            .into_iter()
            .zip(20..)
            .map(|(tasks, number)| Node {
                tasks,
                ..node(number, "steps", busy)
            }),
    );
    nodes
}

impl Node {
    /// Cores and memory of the type.
    fn hardware(&self) -> Hardware {
        let (cores, gib) = match self.instance_type {
            "m5.4xlarge" => (16, 64),
            "c5.xlarge" => (4, 8),
            _ => (4, 16),
        };
        Hardware {
            cores: MilliCores::cores(cores),
            memory: Bytes::gib(gib),
            gpus: Some(u32::from(self.gpu_memory.is_some())),
        }
    }

    /// Sends the heartbeats of these hours, and the tasks that ended in them.
    pub(crate) fn send(&self, world: &World, hours: Range<u64>) {
        let sent = Sent {
            boot: sample::boot(self.number),
            clock: clock(hours.end as f64),
            wall: Timestamp::UNIX_EPOCH,
        };
        let intervals = hours.clone().flat_map(|hour| {
            // In the last hours they are short, as those of a real probe.
            let parts = if hour + 4 >= HOURS { 12 } else { 1 };
            (0..parts).map(move |part| (hour, part, parts))
        });
        let heartbeats: Vec<Heartbeat> =
            intervals.map(|interval| self.heartbeat(interval)).collect();
        for part in heartbeats.chunks(5) {
            let body = encode_heartbeats(&sent, part).expect("it fits");
            world.send(self.number, &body);
        }
        let steps: Vec<StepUsage> = self
            .tasks
            .iter()
            .filter_map(|task| task.ended(&hours))
            .collect();
        if !steps.is_empty() {
            let batch = StepBatch {
                node: sample::node(self.number),
                boot: sample::boot(self.number),
                probe_start: sample::probe_start(),
                sequence: hours.start,
                origin: Origin::Simulated,
                steps,
            };
            let key = format!(
                "ingest/v1/{}/{}/{}/{}.steps.zst",
                sample::sender(self.number),
                batch.boot,
                batch.probe_start,
                batch.sequence
            );
            world
                .objects
                .insert(key, encode_steps(&sent, &batch).expect("it fits"));
        }
    }

    fn heartbeat(&self, (hour, part, parts): (u64, u64, u64)) -> Heartbeat {
        let [start, end] = [part, part + 1].map(|n| hour as f64 + n as f64 / parts as f64);
        let length = Duration::from_secs(3600 / parts);
        let cores = (self.load)(hour);
        let gpu = self.gpu_memory.map(|held| GpuUse {
            number: 0,
            model: "Tesla T4".to_owned(),
            busy: Some(Share::from_ppm(0)),
            memory_held: Some(held),
            memory: Some(Bytes::gib(16)),
            processes: Some(0),
        });
        let usual = sample::heartbeat(self.number, hour * 12 + part, Work::Busy);
        Heartbeat {
            start: clock(start),
            end: clock(end),
            coverage: Coverage {
                gpu: gpu.is_some().then_some(Share::ALL),
                ..usual.coverage
            },
            hardware: self.hardware(),
            workload: Usage {
                gpu: gpu.is_some().then_some(Share::from_ppm(0)),
                ..usage(cores, length)
            },
            background: usage(0.001, length),
            detail: NodeDetail {
                gpus: gpu.into_iter().collect(),
                ..NodeDetail::default()
            },
            steps: self
                .tasks
                .iter()
                .filter_map(|task| task.running(end))
                .collect(),
            ..usual
        }
    }
}

fn usage(cores: f64, length: Duration) -> Usage {
    Usage {
        cpu: Some(CpuTime((cores * length.as_secs_f64() * 1e9) as u64)),
        disk: Some(Bytes(0)),
        network: Some(Bytes(0)),
        gpu: None,
        processes_started: 0,
    }
}
