//! A probe that is killed repeatedly: every finished task and every heartbeat in the spool arrives.
//! A sweep that remembers a limited number of starts accepts none of them twice.

use std::collections::{BTreeMap, BTreeSet};

use ebb_node_state::fleet_state::FleetState;
use ebb_telemetry::activity::ActivityPolicy;
use ebb_telemetry::arrival::{Arrival, Placed};
use ebb_wire::HeartbeatMessage;

use crate::SECOND;
use crate::machine::{Task, needs_ebpf};
use crate::probe::{Probe, Sink};

/// More than the 64 starts that a node's state remembers.
const STARTS: u32 = 70;

/// The results of a sweep: rows that it writes, and heartbeats that it refuses.
#[derive(Default)]
struct Swept {
    fleet: FleetState,
    rows: BTreeMap<(String, u64), u64>,
    refused: BTreeSet<(String, u64)>,
    repeats: u64,
}

impl Swept {
    fn take(&mut self, message: &HeartbeatMessage) {
        let policy = ActivityPolicy::default();
        for heartbeat in &message.heartbeats {
            let arrival = Arrival {
                attested: &heartbeat.node,
                at: message.sent.wall,
                sent: &message.sent,
            };
            let placed = Placed::new(arrival, heartbeat.clone()).expect("it has a time");
            let key = (heartbeat.probe_start.to_string(), heartbeat.sequence);
            if self.fleet.accepted_heartbeat(&placed) {
                self.repeats += 1;
            } else if self.fleet.check_age(&placed.node, placed.end).is_err() {
                self.refused.insert(key);
            } else {
                self.fleet.fold_heartbeat(&placed, &policy);
                *self.rows.entry(key).or_default() += 1;
            }
        }
    }
}

pub(crate) fn after_seventy_kills_every_heartbeat_is_one_row_or_counted_as_refused() {
    needs_ebpf();
    let sink = Sink::new();
    for start in 0..STARTS {
        let probe = Probe::start(&sink, &["--interval", "1"]);
        // In some runs nothing can be sent before the kill.
        if start % 7 == 3 {
            sink.break_it();
        }
        std::thread::sleep(SECOND + SECOND * (start % 5) / 8);
        probe.kill();
        if start % 7 == 3 {
            sink.mend();
        }
    }
    Probe::start(&sink, &["--interval", "1"]).stop();
    let messages = sink.messages();
    let heartbeats = messages.iter().flat_map(|message| &message.heartbeats);
    let mut sent: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    for heartbeat in heartbeats.clone() {
        assert_eq!(heartbeat.probe.records_dropped, 0);
        let of_start = sent.entry(heartbeat.probe_start.to_string()).or_default();
        of_start.insert(heartbeat.sequence);
    }
    // The heartbeats of each start have no gap: only unwritten ones at its end can be missing.
    for sequences in sent.values() {
        let expect: BTreeSet<u64> = (0..sequences.len() as u64).collect();
        assert_eq!(*sequences, expect);
    }
    assert!(
        sent.len() as u32 > STARTS * 3 / 4,
        "{} starts sent any",
        sent.len()
    );
    let last = heartbeats.last().expect("some");
    let past = (last.probe.unclean_stops, last.probe.power_losses);
    assert_eq!(past, (Some(STARTS.into()), Some(0)));

    // All messages arrive twice, as a queue may deliver them.
    let mut swept = Swept::default();
    for _ in 0..2 {
        messages.iter().for_each(|message| swept.take(message));
    }
    let distinct = sent.values().map(BTreeSet::len).sum::<usize>();
    assert!(
        swept.rows.values().all(|rows| *rows == 1),
        "{:?}",
        swept.rows
    );
    // A heartbeat that was accepted and is refused when it is repeated is not lost.
    let lost = swept
        .refused
        .iter()
        .filter(|key| !swept.rows.contains_key(*key));
    assert_eq!(swept.rows.len() + lost.count(), distinct);
    assert!(swept.repeats > 0, "repeats are recognised");
}

pub(crate) fn a_killed_probe_loses_no_finished_task_and_sends_none_twice() {
    needs_ebpf();
    let sink = Sink::new();
    let mut ids = Vec::new();
    for _ in 0..3 {
        let probe = Probe::start(&sink, &["--interval", "1"]);
        let task = Task::new(None);
        task.start("exit 0").wait().expect("the shell ends");
        ids.push(task.id.clone());
        // The task waits for others, so nothing of it is sent yet.
        std::thread::sleep(3 * SECOND);
        probe.kill();
    }
    Probe::start(&sink, &["--interval", "1"]).stop();
    let ended = sink.read().ended;
    for id in ids {
        let of_task = ended.iter().filter(|step| step.id.key == id);
        assert_eq!(of_task.count(), 1, "{id}");
    }
}
