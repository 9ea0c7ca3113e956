//! The fields that version 1.5 added.

use ebb_telemetry::step::Namespaces;

use super::syscall_io::{heartbeat_of_one_four, with_storable_numbers};
use super::*;

const GOLDEN_HEARTBEATS_1_5: &str = include_str!("../golden/heartbeat-1.5.txt");

fn apart(bits: Option<u32>) -> Heartbeat {
    let mut heartbeat = heartbeat_of_one_four();
    heartbeat.steps[0].detail.namespaces = bits.map(Namespaces::from_bits);
    heartbeat
}

#[test]
fn version_one_five_heartbeats_written_long_ago_are_still_read() {
    let message = decode_heartbeats(GOLDEN_HEARTBEATS_1_5.trim_end()).expect("the golden message");
    assert_eq!(message.heartbeats, vec![apart(Some(0b000_1011))]);
}

#[test]
fn what_one_five_added_is_read_back_whole() {
    let check = |bits: Option<u32>| {
        let written = with_storable_numbers(apart(bits));
        let body = encode_heartbeats(&sent(), std::slice::from_ref(&written)).expect("it fits");
        let read = decode_heartbeats(&body).expect("it reads");
        assert_eq!(read.heartbeats, vec![written]);
    };
    check(None);
    check(Some(0));
    check(Some(0b111_1111));
}
