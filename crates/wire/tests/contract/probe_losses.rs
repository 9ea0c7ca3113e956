//! The fields that version 1.6 added.

use super::*;

const GOLDEN_HEARTBEATS_1_6: &str = include_str!("../golden/heartbeat-1.6.txt");

fn heartbeat_of_one_six() -> Heartbeat {
    let mut heartbeat = heartbeat();
    heartbeat.probe.records_dropped = 9;
    heartbeat.probe.records_unreadable = Some(2);
    heartbeat.probe.steps_left_out = Some(300);
    heartbeat.probe.steps_shortened = Some(128);
    heartbeat.probe.unclean_stops = Some(4);
    heartbeat.probe.power_losses = Some(0);
    heartbeat.detail.masked_because = Some("failed to read the rules".to_owned());
    heartbeat
}

#[test]
fn version_one_six_heartbeats_written_long_ago_are_still_read() {
    let message = decode_heartbeats(GOLDEN_HEARTBEATS_1_6.trim_end()).expect("the golden message");
    assert_eq!(message.heartbeats, vec![heartbeat_of_one_six()]);
}

#[test]
fn what_one_six_added_is_read_back_whole_and_none_is_not_zero() {
    let check = |change: fn(&mut Heartbeat)| {
        let mut heartbeat = heartbeat_of_one_six();
        change(&mut heartbeat);
        let body = encode_heartbeats(&sent(), std::slice::from_ref(&heartbeat)).expect("it fits");
        let read = decode_heartbeats(&body).expect("it reads");
        assert_eq!(read.heartbeats, vec![heartbeat]);
    };
    check(|_| {});
    check(|h| h.probe.records_unreadable = None);
    check(|h| h.probe.steps_left_out = Some(0));
    check(|h| h.probe.steps_shortened = None);
    check(|h| h.probe.unclean_stops = None);
    check(|h| h.probe.power_losses = None);
    check(|h| h.probe.power_losses = Some(i64::MAX.cast_unsigned()));
    check(|h| h.detail.masked_because = None);
}

/// The lake refuses a heartbeat with a number that it cannot store.
#[test]
fn counters_are_written_as_at_most_the_largest_number_of_the_lake() {
    let largest = i64::MAX.cast_unsigned();
    let mut at_its_end = heartbeat_of_one_six();
    at_its_end.probe.events_lost = u64::MAX;
    at_its_end.workload.cpu = Some(CpuTime(u64::MAX));
    at_its_end.hardware.memory = Bytes(u64::MAX);
    at_its_end.typed_ago = Some(Duration::MAX);
    at_its_end.steps[0].disk_read = Some(Bytes(u64::MAX));
    at_its_end.steps[0].tools[0].processes = u64::MAX;
    at_its_end.steps[0].detail.disk_delay = Some(Duration::MAX);
    let body = encode_heartbeats(&sent(), &[at_its_end]).expect("it fits");
    let read = decode_heartbeats(&body)
        .expect("it reads")
        .heartbeats
        .remove(0);
    assert_eq!(read.probe.events_lost, largest);
    assert_eq!(read.workload.cpu, Some(CpuTime(largest)));
    assert_eq!(read.hardware.memory, Bytes(largest));
    assert!(
        read.typed_ago
            .is_some_and(|ago| ago.as_nanos() <= largest.into())
    );
    assert_eq!(read.steps[0].disk_read, Some(Bytes(largest)));
    assert_eq!(read.steps[0].tools[0].processes, largest);
    assert_eq!(
        read.steps[0].detail.disk_delay,
        Some(Duration::from_nanos(largest))
    );
}
