//! The fields that version 1.4 added.

use ebb_telemetry::step::{CpuWithoutProgress, Reclaim, SyscallIo};

use super::scheduler_labels::heartbeat_of_one_three;
use super::*;

const GOLDEN_HEARTBEATS_1_4: &str = include_str!("../golden/heartbeat-1.4.txt");

/// All that 1.4 added.
pub(super) fn heartbeat_of_one_four() -> Heartbeat {
    let mut heartbeat = heartbeat_of_one_three();
    let detail = &mut heartbeat.steps[0].detail;
    detail.syscall_io = Some(SyscallIo {
        read: Bytes::gib(7),
        written: Bytes(0),
        read_calls: 9,
        write_calls: u64::MAX,
    });
    detail.cpu_without_progress = Some(CpuWithoutProgress {
        now: Duration::ZERO,
        longest: Duration::from_secs(600),
    });
    detail.threads = Some(33);
    detail.user = Some(0);
    detail.memory_now = Some(Bytes::mib(900));
    detail.reclaim = Some(Reclaim {
        pages_reclaimed: Some(Bytes(0)),
        limit_hits: 12,
    });
    heartbeat.detail.memory_used = Some(Bytes::gib(3));
    heartbeat
}

/// The heartbeat as it is written today: counters end at the largest number of the lake.
pub(super) fn with_storable_numbers(mut heartbeat: Heartbeat) -> Heartbeat {
    if let Some(syscall_io) = &mut heartbeat.steps[0].detail.syscall_io {
        syscall_io.write_calls = syscall_io.write_calls.min(i64::MAX.cast_unsigned());
    }
    heartbeat
}

#[test]
fn version_one_four_heartbeats_written_long_ago_are_still_read() {
    let message = decode_heartbeats(GOLDEN_HEARTBEATS_1_4.trim_end()).expect("the golden message");
    assert_eq!(message.heartbeats, vec![heartbeat_of_one_four()]);
}

#[test]
fn what_one_four_added_is_read_back_whole() {
    let check = |change: fn(&mut StepDetail)| {
        let mut heartbeat = with_storable_numbers(heartbeat_of_one_four());
        change(&mut heartbeat.steps[0].detail);
        let body = encode_heartbeats(&sent(), &[heartbeat.clone()]).expect("it fits");
        let read = decode_heartbeats(&body).expect("it reads");
        assert_eq!(read.heartbeats, vec![heartbeat]);
    };
    check(|_| {});
    check(|d| (d.syscall_io, d.threads) = (None, None));
    check(|d| (d.cpu_without_progress, d.user) = (None, None));
    check(|d| (d.reclaim, d.memory_now) = (None, None));
    check(|d| {
        d.reclaim = Some(Reclaim {
            pages_reclaimed: None,
            limit_hits: 0,
        });
    });
}
