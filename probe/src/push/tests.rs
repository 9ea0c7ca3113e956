//! Tests of sending to a sink that can fail.

use std::cell::Cell;
use std::fs;
use std::time::Duration;

use ebb_telemetry::heartbeat::{Coverage, Hardware, Heartbeat, ProbeCost, Usage};
use ebb_telemetry::identity::{BootId, NodeId, ProbeStart};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, MilliCores};
use jiff::Timestamp;

use super::*;
use crate::spool::Spool;

/// Fails a given number of times, or hangs, and then accepts everything.
#[derive(Default)]
struct TestSink {
    hangs: Cell<bool>,
    refuses_steps: Cell<bool>,
    failures: Cell<u32>,
    sequences: RefCell<Vec<Vec<u64>>>,
    keys: RefCell<Vec<String>>,
    takes_step_messages: Cell<bool>,
    step_messages: RefCell<Vec<StepBatch>>,
}

impl TestSink {
    fn fail(&self) -> Result<(), SinkError> {
        let left = self.failures.get();
        self.failures.set(left.saturating_sub(1));
        if left == 0 {
            return Ok(());
        }
        Err(SinkError::Cloud(ebb_cloud::ports::CloudError::Failed {
            operation: "sqs:SendMessage".into(),
            message: "out of reach".into(),
        }))
    }
}

#[async_trait::async_trait(?Send)]
impl Sink for TestSink {
    fn step_route(&self) -> StepRoute {
        match self.takes_step_messages.get() {
            true => StepRoute::Queue,
            false => StepRoute::Objects,
        }
    }

    async fn message(&self, body: &str) -> Result<(), SinkError> {
        if self.hangs.get() {
            std::future::pending::<()>().await;
        }
        self.fail()?;
        if ebb_wire::is_steps_message(body) {
            let message = ebb_wire::decode_steps_message(body).expect("readable");
            self.step_messages.borrow_mut().push(message.batch);
            return Ok(());
        }
        let message = ebb_wire::decode_heartbeats(body).expect("readable");
        let sequences = message.heartbeats.iter().map(|h| h.sequence).collect();
        self.sequences.borrow_mut().push(sequences);
        Ok(())
    }

    async fn steps(&self, key: &str, _: Vec<u8>) -> Result<(), SinkError> {
        if self.refuses_steps.get() {
            self.failures.set(1);
        }
        self.fail()?;
        self.keys.borrow_mut().push(key.to_owned());
        Ok(())
    }
}

fn node(name: &str) -> NodeId {
    NodeId::new(name).expect("valid")
}

fn boot() -> BootId {
    BootId::new("boot").expect("valid")
}

fn run_id() -> ProbeStart {
    ProbeStart::new("run").expect("valid")
}

pub(super) fn sent() -> Sent {
    Sent {
        boot: boot(),
        clock: BootClock::from_nanos(9_000_000_000),
        wall: Timestamp::UNIX_EPOCH,
    }
}

pub(super) fn heartbeat(from: &str, sequence: u64) -> Heartbeat {
    Heartbeat {
        node: node(from),
        boot: boot(),
        probe_start: run_id(),
        sequence,
        start: BootClock::from_nanos(1),
        end: BootClock::from_nanos(2),
        wall_at_end: Timestamp::UNIX_EPOCH,
        origin: Origin::Measured,
        coverage: Coverage {
            cpu: None,
            memory: None,
            disk: None,
            network: None,
            gpu: None,
            short_processes: None,
        },
        hardware: Hardware {
            cores: MilliCores::cores(2),
            memory: Bytes::gib(1),
            gpus: None,
        },
        workload: Usage::default(),
        background: Usage::default(),
        typed_ago: None,
        detail: Default::default(),
        steps: Vec::new(),
        probe: ProbeCost::default(),
    }
}

pub(super) fn batch(from: &str) -> StepBatch {
    StepBatch {
        node: node(from),
        boot: boot(),
        probe_start: run_id(),
        sequence: 3,
        origin: Origin::Measured,
        steps: Vec::new(),
    }
}

fn stored(batch: StepBatch) -> StoredBatch {
    let stored = Some(sent());
    StoredBatch { batch, stored }
}

fn outbox(folder: &std::path::Path) -> RefCell<Outbox> {
    let open = |name: &str| Spool::open(folder.join(name), Bytes::mib(1));
    let sender = "AROAX:i-1".to_owned();
    let mut outbox = Outbox::new(open("heartbeats"), open("steps"), node("i-1"), sender);
    // No records of an earlier run are left.
    assert_eq!(outbox.next_message(&sent()), None);
    RefCell::new(outbox)
}

async fn drain(outbox: &RefCell<Outbox>, sink: &TestSink) {
    for lane in [Lane::Heartbeats, Lane::Steps] {
        let next = || attempt(lane, outbox, sink, &sent);
        while next().await == Attempt::Sent {}
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_message_waits_for_five_heartbeats_unless_one_is_urgent() {
    let check = async |urgencies: &[Urgency], expect: &[&[u64]]| {
        let folder = tempfile::tempdir().expect("a folder");
        let (outbox, sink) = (outbox(folder.path()), TestSink::default());
        for (n, urgency) in urgencies.iter().enumerate() {
            outbox
                .borrow_mut()
                .add_heartbeat(&heartbeat("i-1", n as u64), *urgency);
            drain(&outbox, &sink).await;
        }
        assert_eq!(*sink.sequences.borrow(), expect);
    };
    use Urgency::{CanWait, Now};
    check(&[CanWait; 4], &[]).await;
    check(&[CanWait; 6], &[&[0, 1, 2, 3, 4]]).await;
    check(&[CanWait, CanWait, Now, CanWait], &[&[0, 1, 2]]).await;
    check(&[Now, Now], &[&[0], &[1]]).await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_message_has_as_many_heartbeats_as_configured() {
    let folder = tempfile::tempdir().expect("a folder");
    let outbox = outbox(folder.path()).into_inner();
    let outbox = RefCell::new(outbox.with_heartbeats_per_message(1));
    let sink = TestSink::default();
    for n in 0..2 {
        outbox
            .borrow_mut()
            .add_heartbeat(&heartbeat("i-1", n), Urgency::CanWait);
        drain(&outbox, &sink).await;
    }
    assert_eq!(*sink.sequences.borrow(), [[0], [1]]);
}

#[tokio::test(flavor = "current_thread")]
async fn what_failed_waits_and_goes_in_order_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (outbox, sink) = (outbox(folder.path()), TestSink::default());
    sink.failures.set(2);
    for n in 0..7 {
        outbox
            .borrow_mut()
            .add_heartbeat(&heartbeat("i-1", n), Urgency::CanWait);
        drain(&outbox, &sink).await;
    }
    assert_eq!(*sink.sequences.borrow(), [[0, 1, 2, 3, 4]]);
    outbox.borrow_mut().close();
    drain(&outbox, &sink).await;
    assert_eq!(sink.sequences.borrow().last(), Some(&vec![5, 6]));
    assert_eq!(outbox.borrow().held(), Bytes(0));
}

#[tokio::test(flavor = "current_thread")]
async fn finished_steps_go_under_the_attested_name_and_another_nodes_spool_does_not_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let (outbox, sink) = (outbox(folder.path()), TestSink::default());
    for name in ["i-2", "i-1"] {
        outbox.borrow_mut().add_steps(&stored(batch(name)));
    }
    outbox
        .borrow_mut()
        .add_heartbeat(&heartbeat("i-2", 0), Urgency::Now);
    drain(&outbox, &sink).await;
    assert_eq!(
        *sink.keys.borrow(),
        ["ingest/v1/AROAX:i-1/boot/run/3.steps.zst"]
    );
    assert!(sink.sequences.borrow().is_empty());
    assert_eq!(outbox.borrow().dropped(), 2);
}

#[tokio::test(flavor = "current_thread")]
async fn finished_steps_of_an_earlier_boot_are_sent_or_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let (outbox, sink) = (outbox(folder.path()), TestSink::default());
    let before = BootId::new("before").expect("valid");
    let batch_of = |sequence| StepBatch {
        boot: before.clone(),
        sequence,
        ..batch("i-1")
    };
    let clocks = Sent {
        boot: before.clone(),
        ..sent()
    };
    for (sequence, stored) in [(0, Some(clocks)), (1, None)] {
        let batch = batch_of(sequence);
        let stored = StoredBatch { batch, stored };
        outbox.borrow_mut().add_steps(&stored);
    }
    drain(&outbox, &sink).await;
    let expect = ["ingest/v1/AROAX:i-1/before/run/0.steps.zst"];
    assert_eq!(*sink.keys.borrow(), expect);
    assert_eq!(outbox.borrow().dropped(), 1);
}

#[tokio::test(flavor = "current_thread")]
async fn finished_steps_go_to_the_queue_if_they_fit_a_message_and_otherwise_to_the_bucket() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = |name: &str| Spool::open(folder.path().join(name), Bytes::mib(16));
    let sender = "AROAX:i-1".to_owned();
    let outbox = Outbox::new(open("heartbeats"), open("steps"), node("i-1"), sender);
    let (outbox, sink) = (RefCell::new(outbox), TestSink::default());
    sink.takes_step_messages.set(true);
    let batch_of = |sequence, count| StepBatch {
        sequence,
        steps: (0..count).map(step).collect(),
        ..batch("i-1")
    };
    // A message may have 64 KiB, which SQS bills as one request.
    let (small, large) = (batch_of(7, 200), batch_of(8, 1_500));
    for batch in [&small, &large] {
        outbox.borrow_mut().add_steps(&stored(batch.clone()));
    }
    drain(&outbox, &sink).await;
    assert_eq!(*sink.step_messages.borrow(), [small]);
    let expect = ["ingest/v1/AROAX:i-1/boot/run/8.steps.zst"];
    assert_eq!(*sink.keys.borrow(), expect);
    assert_eq!(outbox.borrow().held(), Bytes(0));
    assert_eq!(outbox.borrow().left_out(), OmittedSteps::default());
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_closed_outbox_is_flushed_even_while_it_backs_off() {
    let folder = tempfile::tempdir().expect("a folder");
    let (outbox, sink) = (outbox(folder.path()), TestSink::default());
    let changed = Notify::new();
    sink.failures.set(1);
    outbox
        .borrow_mut()
        .add_heartbeat(&heartbeat("i-1", 0), Urgency::Now);
    let close = async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        outbox.borrow_mut().close();
        changed.notify_waiters();
    };
    let began = tokio::time::Instant::now();
    tokio::join!(run(&outbox, &changed, &sink, sent), close);
    assert_eq!(*sink.sequences.borrow(), [[0]]);
    assert!(began.elapsed() < Duration::from_secs(1));
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_sink_that_hangs_keeps_the_records_and_not_the_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let (outbox, sink) = (outbox(folder.path()), TestSink::default());
    let changed = Notify::new();
    sink.hangs.set(true);
    outbox
        .borrow_mut()
        .add_heartbeat(&heartbeat("i-1", 0), Urgency::Now);
    let close = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        outbox.borrow_mut().close();
        changed.notify_waiters();
    };
    let began = tokio::time::Instant::now();
    tokio::join!(run(&outbox, &changed, &sink, sent), close);
    assert!(began.elapsed() < Duration::from_secs(65));
    assert!(outbox.borrow().held() > Bytes(0));
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_bucket_that_refuses_does_not_hold_up_heartbeats() {
    let folder = tempfile::tempdir().expect("a folder");
    let (outbox, sink) = (outbox(folder.path()), TestSink::default());
    let changed = Notify::new();
    sink.refuses_steps.set(true);
    outbox.borrow_mut().add_steps(&stored(batch("i-1")));
    let minutes = async {
        for n in 0..3 {
            tokio::time::sleep(Duration::from_secs(60)).await;
            outbox
                .borrow_mut()
                .add_heartbeat(&heartbeat("i-1", n), Urgency::Now);
            changed.notify_waiters();
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(sink.sequences.borrow().len() as u64, n + 1);
        }
        outbox.borrow_mut().close();
        changed.notify_waiters();
    };
    tokio::join!(run(&outbox, &changed, &sink, sent), minutes);
    assert!(outbox.borrow().held() > Bytes(0));
}

/// Two hours of heartbeats, a minute apart; in the first hour all attempts fail.
async fn an_hour_without(refuse: impl Fn(&TestSink, bool)) {
    let folder = tempfile::tempdir().expect("a folder");
    let (outbox, sink) = (outbox(folder.path()), TestSink::default());
    let changed = Notify::new();
    let hours = async {
        refuse(&sink, true);
        for n in 0..120 {
            if n == 60 {
                assert!(sink.sequences.borrow().is_empty());
                refuse(&sink, false);
            }
            let beat = heartbeat("i-1", n);
            outbox.borrow_mut().add_heartbeat(&beat, Urgency::CanWait);
            changed.notify_waiters();
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        outbox.borrow_mut().close();
        changed.notify_waiters();
    };
    tokio::join!(run(&outbox, &changed, &sink, sent), hours);
    let arrived: Vec<u64> = sink.sequences.borrow().concat();
    assert_eq!(arrived, (0..120).collect::<Vec<_>>());
    assert_eq!(
        (outbox.borrow().dropped(), outbox.borrow().held()),
        (0, Bytes(0))
    );
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn an_hour_without_the_sink_loses_and_doubles_nothing() {
    an_hour_without(|sink, down| sink.failures.set(if down { u32::MAX } else { 0 })).await;
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_network_that_swallows_all_for_an_hour_loses_and_doubles_nothing() {
    an_hour_without(|sink, down| sink.hangs.set(down)).await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_wall_clock_that_is_set_back_moves_no_interval() {
    use ebb_telemetry::arrival::{Arrival, Placed};
    let minute = |n: u64| BootClock::from_nanos(n * 60_000_000_000);
    let wall = |seconds| Timestamp::from_second(seconds).expect("a time of this century");
    // Between the two intervals the wall clock went back by a day.
    let beat = |n, wall_at_end| Heartbeat {
        start: minute(n),
        end: minute(n + 1),
        wall_at_end,
        ..heartbeat("i-1", n)
    };
    let beats = [beat(0, wall(1_790_000_000)), beat(1, wall(1_789_913_660))];
    let sent = Sent {
        clock: minute(2),
        wall: wall(1_789_913_660),
        ..sent()
    };
    let body = ebb_wire::encode_heartbeats(&sent, &beats).expect("it fits");
    let message = ebb_wire::decode_heartbeats(&body).expect("it reads");
    let arrived = wall(1_790_000_100);
    let ends = message.heartbeats.into_iter().map(|beat| {
        let arrival = Arrival {
            attested: &node("i-1"),
            at: arrived,
            sent: &message.sent,
        };
        Placed::new(arrival, beat).expect("placed").end
    });
    let expect = [wall(1_790_000_040), wall(1_790_000_100)];
    assert_eq!(ends.collect::<Vec<_>>(), expect);
}

/// Each of these records once ended the probe, at this start and every later one.
#[tokio::test(flavor = "current_thread")]
async fn a_record_that_cannot_be_read_holds_up_no_other_and_is_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    {
        let outbox = outbox(folder.path());
        for n in 0..4 {
            let beat = heartbeat("i-1", n);
            outbox.borrow_mut().add_heartbeat(&beat, Urgency::CanWait);
            outbox.borrow_mut().add_steps(&stored(batch("i-1")));
        }
    }
    for lane in ["heartbeats", "steps"] {
        let record = |n: u64| folder.path().join(lane).join(format!("{n:020}.rec"));
        fs::remove_file(record(0)).expect("removed");
        fs::create_dir(record(0)).expect("made");
        fs::write(record(1), "nonsense").expect("written");
        // Intact, but in a format that this program does not know.
        let mut other = Spool::open(folder.path().join("other"), Bytes::mib(1));
        other.push(b"{\"version\":2}".to_vec());
        let from = folder.path().join("other").join(format!("{:020}.rec", 0));
        fs::rename(from, record(2)).expect("moved");
    }
    let open = |name: &str| Spool::open(folder.path().join(name), Bytes::mib(1));
    let sender = "AROAX:i-1".to_owned();
    let outbox = Outbox::new(open("heartbeats"), open("steps"), node("i-1"), sender);
    let (outbox, sink) = (RefCell::new(outbox), TestSink::default());
    drain(&outbox, &sink).await;
    assert_eq!(*sink.sequences.borrow(), [[3]]);
    assert_eq!(sink.keys.borrow().len(), 1);
    let outbox = outbox.borrow();
    assert_eq!((outbox.dropped(), outbox.unreadable()), (6, 6));
}

/// Nothing can be written, but the records that fit into memory are sent.
#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn without_a_disk_an_hour_without_the_sink_loses_nothing_either() {
    let nowhere = || Spool::open("/proc/nowhere", Bytes::mib(1));
    let outbox = Outbox::new(nowhere(), nowhere(), node("i-1"), "AROAX:i-1".to_owned());
    let (outbox, sink) = (RefCell::new(outbox), TestSink::default());
    outbox.borrow_mut().next_message(&sent());
    let changed = Notify::new();
    sink.failures.set(u32::MAX);
    let hour = async {
        for n in 0..60 {
            let beat = heartbeat("i-1", n);
            outbox.borrow_mut().add_heartbeat(&beat, Urgency::CanWait);
            changed.notify_waiters();
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        sink.failures.set(0);
        outbox.borrow_mut().close();
        changed.notify_waiters();
    };
    tokio::join!(run(&outbox, &changed, &sink, sent), hour);
    let arrived: Vec<u64> = sink.sequences.borrow().concat();
    assert_eq!(arrived, (0..60).collect::<Vec<_>>());
    assert_eq!(outbox.borrow().dropped(), 0);
}

#[tokio::test(flavor = "current_thread")]
async fn what_a_message_had_no_room_for_is_counted_once_it_is_sent() {
    let folder = tempfile::tempdir().expect("a folder");
    let (outbox, sink) = (outbox(folder.path()), TestSink::default());
    let mut large = heartbeat("i-1", 0);
    large.detail.gpus = vec![Default::default(); 1_000];
    large.steps = (0..200).map(step).collect();
    sink.failures.set(1);
    outbox.borrow_mut().add_heartbeat(&large, Urgency::Now);
    drain(&outbox, &sink).await;
    assert_eq!(outbox.borrow().left_out(), OmittedSteps::default());
    drain(&outbox, &sink).await;
    assert_eq!(*sink.sequences.borrow(), [[0]]);
    let expect = OmittedSteps {
        steps: 72,
        shortened: 0,
    };
    assert_eq!(outbox.borrow().left_out(), expect);
}

fn step(n: u64) -> ebb_telemetry::step::StepUsage {
    use ebb_telemetry::step::{Requested, StepDetail, StepEnd, StepId, StepKind, StepUsage};
    use ebb_telemetry::units::CpuTime;

    StepUsage {
        id: StepId {
            kind: StepKind::Tree,
            key: n.to_string(),
        },
        name: "x".to_owned(),
        started: BootClock::from_nanos(0),
        observed: BootClock::from_nanos(1),
        end: StepEnd::Running,
        processes: 1,
        cpu: CpuTime(n),
        peak_memory: None,
        disk_read: None,
        disk_written: None,
        requested: Requested::default(),
        peak_cores: None,
        last_progress: BootClock::from_nanos(1),
        tools: Vec::new(),
        detail: StepDetail::default(),
    }
}
