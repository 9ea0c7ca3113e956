//! Additions of version 1.7: the executables that wait, connections by port, and starts and ends of
//! the processes of each executable.

use ebb_telemetry::step::{NetworkPeer, PeerScope, StepDetail, ToolEvents, WaitingTool};

use super::*;

const GOLDEN_HEARTBEATS_1_7: &str = include_str!("../golden/heartbeat-1.7.txt");

fn heartbeat_with(tools: usize, peers: usize) -> Heartbeat {
    let mut heartbeat = heartbeat();
    let step = &mut heartbeat.steps[0];
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
    step.detail.waiting_tools = waiting.into_iter().cycle().take(tools).collect();
    let connected = [
        (Some(443), PeerScope::Public, false),
        (Some(0), PeerScope::LinkLocal, true),
        (None, PeerScope::Private, false),
        (Some(u16::MAX), PeerScope::Private, true),
    ];
    let connected = connected.map(|(port, scope, is_server)| NetworkPeer {
        port,
        scope,
        is_server,
        received: Bytes(u64::MAX >> 1),
        sent: Bytes(0),
        connections: 7,
    });
    step.detail.network_peers = connected.into_iter().cycle().take(peers).collect();
    step.tools[0].events = Some(ToolEvents {
        started_after: Duration::from_nanos(5),
        ended_after: Some(Duration::ZERO),
        failed: 3,
        oom_kills: 2,
    });
    heartbeat
}

#[test]
fn a_heartbeat_of_version_1_7_is_read() {
    let message = decode_heartbeats(GOLDEN_HEARTBEATS_1_7.trim_end()).expect("the golden message");
    assert_eq!(message.heartbeats, vec![heartbeat_with(3, 4)]);
}

#[test]
fn the_version_of_a_probe_is_read_back() {
    let mut written = heartbeat();
    written.detail.version = Some("1.20.3".parse().expect("a version"));
    let body = encode_heartbeats(&sent(), std::slice::from_ref(&written)).expect("it fits");
    let read = decode_heartbeats(&body).expect("it reads");
    assert_eq!(read.heartbeats, vec![written]);
}

#[test]
fn lists_are_read_back_and_have_a_limit() {
    let most_tools = StepDetail::MAX_WAITING_TOOLS;
    let most_peers = StepDetail::MAX_NETWORK_PEERS;
    for tools in [0, 1, most_tools, most_tools + 1] {
        for peers in [0, 1, most_peers, most_peers + 1] {
            let written = heartbeat_with(tools, peers);
            let body = encode_heartbeats(&sent(), std::slice::from_ref(&written)).expect("it fits");
            let read = decode_heartbeats(&body).expect("it reads");
            match tools > most_tools || peers > most_peers {
                true => assert_eq!(read.refused_steps, 1, "{tools} {peers}"),
                false => assert_eq!(read.heartbeats, vec![written], "{tools} {peers}"),
            }
        }
    }
}
