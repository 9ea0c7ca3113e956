//! Two tasks that communicate over a virtual cable, and the traffic of each socket.

use std::process::{Command, Stdio};

use ebb_telemetry::step::{NetworkPeer, PeerScope, StepNetwork};
use ebb_telemetry::units::Bytes;
use ebb_test_support::skip;

use crate::exact::run;
use crate::machine::needs_ebpf;

const REQUEST_BYTES: u64 = 40_000_000;
const RESPONSE_BYTES: u64 = 10_000_000;

/// Accepts one connection, reads to its end, and answers.
const SERVER: &str = "\
import socket
with socket.create_server(('10.199.7.2', 7007)) as listener:
    peer, _ = listener.accept()
    while peer.recv(1 << 16): pass
    peer.sendall(bytes(RESPONSE_BYTES))
    peer.close()";

/// Has an open connection during several scans. It also sends over loopback, which does not count.
const CLIENT: &str = "\
import socket, time
for attempt in range(100):
    try: peer = socket.create_connection(('10.199.7.2', 7007)); break
    except OSError: time.sleep(0.1)
peer.sendall(bytes(REQUEST_BYTES // 2))
time.sleep(2.5)
peer.sendall(bytes(REQUEST_BYTES // 2))
peer.shutdown(socket.SHUT_WR)
while peer.recv(1 << 16): pass
with socket.create_server(('127.0.0.1', 0)) as listener:
    here = socket.create_connection(listener.getsockname()); there, _ = listener.accept()
    here.sendall(bytes(100000)); here.close()
    while there.recv(1 << 16): pass";

/// A network namespace with one end of a cable; the other end is this machine's.
struct Cable;

impl Cable {
    const NAMESPACE: &str = "ebb-probe-test";

    fn lay() -> Result<Self, String> {
        let namespace = Self::NAMESPACE;
        let commands = [
            format!("netns add {namespace}"),
            format!("link add ebbtest0 type veth peer name ebbtest1 netns {namespace}"),
            "addr add 10.199.7.1/24 dev ebbtest0".into(),
            "link set ebbtest0 up".into(),
            format!("-n {namespace} addr add 10.199.7.2/24 dev ebbtest1"),
            format!("-n {namespace} link set ebbtest1 up"),
        ];
        let cable = Self;
        for words in commands {
            let done = Command::new("ip").args(words.split(' ')).output();
            let done = done.map_err(|error| format!("no ip: {error}"))?;
            if !done.status.success() {
                let stderr = String::from_utf8_lossy(&done.stderr);
                return Err(format!("ip {words}: {stderr}"));
            }
        }
        Ok(cable)
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        let quietly = |words: &[&str]| {
            let _ = Command::new("ip")
                .args(words)
                .stderr(Stdio::null())
                .status();
        };
        quietly(&["link", "del", "ebbtest0"]);
        quietly(&["netns", "del", Self::NAMESPACE]);
    }
}

pub(crate) fn tcp_payload_is_that_of_the_sockets_of_each_step() {
    needs_ebpf();
    let _cable = Cable::lay().unwrap_or_else(|reason| skip(reason));
    let numbers = |script: &str| {
        let script = script.replace("REQUEST_BYTES", &REQUEST_BYTES.to_string());
        script.replace("RESPONSE_BYTES", &RESPONSE_BYTES.to_string())
    };
    let server = format!(
        "exec ip netns exec {} python3 -c \"{}\"",
        Cable::NAMESPACE,
        numbers(SERVER)
    );
    let client = format!("exec python3 -c \"{}\"", numbers(CLIENT));
    let (steps, lost) = run(&[(None, &server), (None, &client)]);
    assert_eq!(lost, 0);
    let check = |at: usize, received: u64, sent: u64| {
        let step: &ebb_telemetry::step::StepUsage = &steps[at].0;
        let network: StepNetwork = step.detail.network.expect("its sockets were seen");
        let near = |got: Bytes, expect: u64| got.0.abs_diff(expect) * 100 <= expect;
        assert!(
            near(network.received, received) && near(network.sent, sent),
            "{at}: {network:?}, not {received} and {sent}"
        );
    };
    check(0, REQUEST_BYTES, RESPONSE_BYTES);
    check(1, RESPONSE_BYTES, REQUEST_BYTES);
    for (at, is_server) in [(0, true), (1, false)] {
        let detail = &steps[at].0.detail;
        let network = detail.network.expect("its sockets were seen");
        let expect = NetworkPeer {
            port: Some(7_007),
            scope: PeerScope::Private,
            is_server,
            received: network.received,
            sent: network.sent,
            connections: network.connections,
        };
        assert_eq!(detail.network_peers, [expect]);
    }
}
