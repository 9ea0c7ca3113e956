//! Probes of the simulated nodes, and the real work of these nodes.

use std::collections::VecDeque;

use ebb_telemetry::arrival::{Placed, Sent};
use ebb_telemetry::heartbeat::{Coverage, Hardware, Heartbeat, ProbeCost, Usage};
use ebb_telemetry::identity::{BootId, NodeId, ProbeStart};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::resource_usage::StepDetail;
use ebb_telemetry::step::{Requested, StepBatch, StepEnd, StepId, StepKind, StepUsage};
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores, Share};
use ebb_wire::MAX_HEARTBEATS;
use ebb_wire::{encode_heartbeats, encode_steps, encode_steps_message};
use jiff::{SignedDuration, Timestamp};

/// The start of every simulated week.
pub(crate) const BEGIN_SECOND: i64 = 1_795_000_000;

const HOUR_NS: u64 = 3_600_000_000_000;

/// Heartbeats that the spool holds; beyond them the oldest is lost and counted.
const SPOOL: usize = 40;

/// Hours between two objects of finished steps.
const HOURS_A_STEP: u32 = 16;

/// Identifies a heartbeat or an object of finished tasks in the protocol.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) node: NodeId,
    pub(crate) boot: BootId,
    pub(crate) probe_start: ProbeStart,
    pub(crate) sequence: u64,
}

impl Key {
    pub(crate) fn new(node: &NodeId, heartbeat: &Heartbeat) -> Self {
        Self {
            node: node.clone(),
            boot: heartbeat.boot.clone(),
            probe_start: heartbeat.probe_start.clone(),
            sequence: heartbeat.sequence,
        }
    }
}

/// A batch of finished steps, as an object and as a message.
#[derive(Debug, Clone)]
pub(crate) struct StepObject {
    pub(crate) key: Key,
    pub(crate) path: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) message: String,
}

/// A node with its probe.
#[derive(Debug, Clone)]
pub(crate) struct Probe {
    pub(crate) node: NodeId,
    boots: u32,
    booted_at: Timestamp,
    probe_starts: u32,
    sequence: u64,
    step_sequence: u64,
    /// Seconds by which the wall clock is ahead.
    wall_ahead: i64,
    spool: VecDeque<Heartbeat>,
    steps: VecDeque<StepUsage>,
    /// Heartbeats that the probe dropped and counted.
    pub(crate) dropped: u64,
}

pub(crate) fn node_name(number: u32) -> NodeId {
    NodeId::new(format!("i-{number:017x}")).expect("a name")
}

impl Probe {
    pub(crate) fn new(number: u32) -> Self {
        Self {
            node: node_name(number),
            boots: 0,
            booted_at: at_hour(0)
                .saturating_sub(SignedDuration::from_hours(30))
                .expect("a time"),
            probe_starts: 0,
            sequence: 0,
            step_sequence: 0,
            wall_ahead: 0,
            spool: VecDeque::new(),
            steps: VecDeque::new(),
            dropped: 0,
        }
    }

    /// Role and session as the cloud attests them.
    pub(crate) fn sender(&self) -> String {
        format!("AROAEXAMPLE:{}", self.node)
    }

    fn boot(&self) -> BootId {
        BootId::new(format!("boot-{}", self.boots)).expect("a name")
    }

    fn probe_start(&self) -> ProbeStart {
        ProbeStart::new(format!("start-{}", self.probe_starts)).expect("a name")
    }

    fn clock(&self, at: Timestamp) -> BootClock {
        let nanos = at.as_nanosecond() - self.booted_at.as_nanosecond();
        BootClock::from_nanos(u64::try_from(nanos).unwrap_or_default())
    }

    fn wall(&self, at: Timestamp) -> Timestamp {
        at.saturating_add(SignedDuration::from_secs(self.wall_ahead))
            .expect("a time")
    }

    fn sent(&self, at: Timestamp) -> Sent {
        Sent {
            boot: self.boot(),
            clock: self.clock(at),
            wall: self.wall(at),
        }
    }

    pub(crate) fn restart(&mut self) {
        self.probe_starts += 1;
        (self.sequence, self.step_sequence) = (0, 0);
    }

    pub(crate) fn reboot(&mut self, up_at: Timestamp) {
        self.boots += 1;
        self.booted_at = up_at;
        // The probe stores the clocks with its tasks. This model does not, so their time is unknown.
        self.steps.clear();
        self.restart();
    }

    pub(crate) fn jump(&mut self, seconds: i64) {
        self.wall_ahead += seconds;
    }

    /// Ends the interval of `hour`.
    pub(crate) fn measure(&mut self, hour: u32, works: bool) {
        let (start, end) = (at_hour(hour), at_hour(hour + 1));
        let heartbeat = Heartbeat {
            node: self.node.clone(),
            boot: self.boot(),
            probe_start: self.probe_start(),
            sequence: self.sequence,
            start: self.clock(start),
            end: self.clock(end),
            wall_at_end: self.wall(end),
            ..blank(&self.node, works)
        };
        self.sequence += 1;
        self.spool.push_back(heartbeat);
        if self.spool.len() > SPOOL {
            self.spool.pop_front();
            self.dropped += 1;
        }
        if works && hour.is_multiple_of(HOURS_A_STEP) {
            let usage = self.step(hour);
            self.steps.push_back(usage);
        }
    }

    fn step(&self, hour: u32) -> StepUsage {
        let end = self.clock(at_hour(hour + 1));
        StepUsage {
            id: StepId {
                kind: StepKind::EcsTask,
                key: format!("task-{hour}"),
            },
            name: "align".to_owned(),
            started: BootClock::from_nanos(end.as_nanos().saturating_sub(HOUR_NS / 2)),
            observed: end,
            end: StepEnd::Exited(0),
            processes: 3,
            cpu: CpuTime::from_millis(500),
            peak_memory: None,
            disk_read: None,
            disk_written: None,
            requested: Requested::default(),
            peak_cores: None,
            last_progress: end,
            tools: Vec::new(),
            detail: StepDetail::default(),
        }
    }

    /// The next message and what it holds; `None` when nothing waits.
    pub(crate) fn message(&self, at: Timestamp) -> Option<(Vec<Key>, String)> {
        let next: Vec<Heartbeat> = self.spool.iter().take(MAX_HEARTBEATS).cloned().collect();
        if next.is_empty() {
            return None;
        }
        let keys = next.iter().map(|h| Key::new(&self.node, h)).collect();
        let body = encode_heartbeats(&self.sent(at), &next).expect("it fits");
        Some((keys, body))
    }

    /// The queue accepted this number of heartbeats.
    pub(crate) fn acknowledged(&mut self, count: usize) {
        self.spool.drain(..count.min(self.spool.len()));
    }

    /// All finished tasks that wait, as one object.
    pub(crate) fn step_object(&mut self, at: Timestamp) -> Option<StepObject> {
        if self.steps.is_empty() {
            return None;
        }
        let batch = StepBatch {
            node: self.node.clone(),
            boot: self.boot(),
            probe_start: self.probe_start(),
            sequence: self.step_sequence,
            origin: Origin::Simulated,
            steps: self.steps.drain(..).collect(),
        };
        self.step_sequence += 1;
        let path = format!(
            "ingest/v1/{}/{}/{}/{}.steps.zst",
            self.sender(),
            batch.boot,
            batch.probe_start,
            batch.sequence
        );
        Some(StepObject {
            bytes: encode_steps(&self.sent(at), &batch).expect("it fits"),
            message: encode_steps_message(&self.sent(at), &batch).expect("it fits"),
            path,
            key: Key {
                node: batch.node,
                boot: batch.boot,
                probe_start: batch.probe_start,
                sequence: batch.sequence,
            },
        })
    }
}

/// The time after this number of hours of the week.
pub(crate) fn at_hour(hour: u32) -> Timestamp {
    Timestamp::from_second(BEGIN_SECOND + i64::from(hour) * 3_600).expect("a time")
}

/// A heartbeat whose clocks and numbers are not set.
fn blank(node: &NodeId, works: bool) -> Heartbeat {
    let all = Some(Share::from_ppm(1_000_000));
    let used = |cpu_ms| Usage {
        cpu: Some(CpuTime::from_millis(cpu_ms)),
        disk: Some(Bytes(0)),
        network: Some(Bytes(0)),
        gpu: None,
        processes_started: 0,
    };
    Heartbeat {
        node: node.clone(),
        boot: BootId::new("boot").expect("a name"),
        probe_start: ProbeStart::new("start").expect("a name"),
        sequence: 0,
        start: BootClock::default(),
        end: BootClock::default(),
        wall_at_end: Timestamp::UNIX_EPOCH,
        origin: Origin::Simulated,
        coverage: Coverage {
            cpu: all,
            memory: all,
            disk: all,
            network: all,
            gpu: None,
            short_processes: all,
        },
        hardware: Hardware {
            cores: MilliCores::cores(4),
            memory: Bytes::gib(16),
            gpus: Some(0),
        },
        workload: used(if works { 3_600_000 } else { 0 }),
        background: used(100),
        typed_ago: None,
        detail: Default::default(),
        steps: Vec::new(),
        probe: ProbeCost::default(),
    }
}

/// Rows of one commit, for the comparison of the stand-in with the real lake.
pub(crate) fn placed_rows(number: u64) -> Vec<Placed> {
    (0..=number % 3)
        .map(|row| {
            let node = node_name(u32::try_from(row).expect("a small number"));
            let heartbeat = Heartbeat {
                sequence: number,
                end: BootClock::from_nanos(HOUR_NS),
                ..blank(&node, row == 0)
            };
            Placed {
                node,
                end: at_hour(1),
                heartbeat,
            }
        })
        .collect()
}
