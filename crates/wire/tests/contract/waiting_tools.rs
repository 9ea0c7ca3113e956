//! The executables that wait, which version 1.7 added.

use ebb_telemetry::step::{StepDetail, WaitingTool};

use super::*;

const GOLDEN_HEARTBEATS_1_7: &str = include_str!("../golden/heartbeat-1.7.txt");

fn heartbeat_with(tools: usize) -> Heartbeat {
    let mut heartbeat = heartbeat();
    let waiting = [
        (TaskState::Network, "aws", 290),
        (TaskState::Disk, "samtools", 31),
        (TaskState::Pipe, "bwa-α", u64::MAX >> 1),
    ];
    let waiting = waiting.map(|(state, tool, samples)| WaitingTool {
        state,
        tool: tool.to_owned(),
        samples,
    });
    heartbeat.steps[0].detail.waiting_tools = waiting.into_iter().cycle().take(tools).collect();
    heartbeat
}

#[test]
fn a_heartbeat_of_version_1_7_is_read() {
    let message = decode_heartbeats(GOLDEN_HEARTBEATS_1_7.trim_end()).expect("the golden message");
    assert_eq!(message.heartbeats, vec![heartbeat_with(3)]);
}

#[test]
fn waiting_tools_are_read_back_and_have_a_limit() {
    let most = StepDetail::MAX_WAITING_TOOLS;
    for tools in [0, 1, most, most + 1] {
        let written = heartbeat_with(tools);
        let body = encode_heartbeats(&sent(), std::slice::from_ref(&written)).expect("it fits");
        let read = decode_heartbeats(&body).expect("it reads");
        match tools > most {
            true => assert_eq!(read.refused_steps, 1, "{tools}"),
            false => assert_eq!(read.heartbeats, vec![written], "{tools}"),
        }
    }
}
