//! TCP sockets: the traffic since the last count, and its owner. An open socket is counted at each
//! scan, and once more when it ends.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};

use ebb_telemetry::heartbeat::NetworkDetail;
use ebb_telemetry::step::{NetworkPeer, StepDetail, StepNetwork};
use ebb_telemetry::units::Bytes;

use crate::interval::processes::ProcessOwner;
use crate::interval::processes::Side;
use crate::kernel::{Extent, ProcessKey, Socket, SocketId};

/// Maximum number of open sockets that are tracked; further sockets count when they end.
const MAX_FOLLOWED: usize = 16_384;
/// Number of lists for which a socket without a file stays tracked. The kernel can take minutes to
/// end it, and a forgotten socket would count twice.
const MAX_MISSED_LISTS: u8 = 20;
/// Number of ended processes that are kept, for sockets that end later.
const MAX_GONE: usize = 4_096;
/// Number of servers of a task that are counted by port; connections to others count without one.
const MAX_PEERS: usize = 16;

/// The traffic of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct TrafficDelta {
    pub(super) received: Bytes,
    pub(super) sent: Bytes,
    pub(super) retransmits: u64,
}

impl TrafficDelta {
    pub(super) fn bytes(&self) -> Bytes {
        self.received.saturating_add(self.sent)
    }

    fn from_socket(socket: &Socket) -> Self {
        Self {
            received: socket.received,
            sent: socket.sent,
            retransmits: socket.retransmits,
        }
    }

    /// The increase; a counter below the last value belongs to a new socket with the same id.
    fn since(&self, before: &Self) -> Self {
        let more = || {
            Some(Self {
                received: Bytes(self.received.0.checked_sub(before.received.0)?),
                sent: Bytes(self.sent.0.checked_sub(before.sent.0)?),
                retransmits: self.retransmits.checked_sub(before.retransmits)?,
            })
        };
        more().unwrap_or(*self)
    }
}

#[derive(Debug)]
struct OpenSocket {
    owner: Option<ProcessKey>,
    counted: TrafficDelta,
    missed_lists: u8,
}

/// The sockets of the node.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    open: HashMap<SocketId, OpenSocket>,
    gone: VecDeque<(ProcessKey, ProcessOwner)>,
}

impl Sockets {
    /// Stores the class of an ended process.
    pub(super) fn process_gone(&mut self, key: ProcessKey, owner: ProcessOwner) {
        if self.gone.len() >= MAX_GONE {
            self.gone.pop_front();
        }
        self.gone.push_back((key, owner));
    }

    /// The class of an ended process.
    pub(super) fn owner_of_ended(&self, key: ProcessKey) -> Option<ProcessOwner> {
        let found = self.gone.iter().rev().find(|(gone, _)| *gone == key);
        found.map(|(_, owner)| *owner)
    }

    /// The traffic of an ended socket since its last count, and its owner.
    pub(super) fn ended(&mut self, socket: &Socket) -> (Option<ProcessKey>, TrafficDelta) {
        match self.open.remove(&socket.id) {
            Some(open) => (
                socket.owner.or(open.owner),
                TrafficDelta::from_socket(socket).since(&open.counted),
            ),
            None => (socket.owner, TrafficDelta::from_socket(socket)),
        }
    }

    /// Starts a list: it misses each socket until it contains it.
    pub(super) fn begin_pass(&mut self) {
        for open in self.open.values_mut() {
            open.missed_lists = open.missed_lists.saturating_add(1);
        }
    }

    /// The traffic of an open socket since its last count, and its owner. `None` if the same list
    /// already contained the socket in another process, or if the limit is reached.
    pub(super) fn add_listed(
        &mut self,
        socket: &Socket,
    ) -> Option<(Option<ProcessKey>, TrafficDelta)> {
        let now = TrafficDelta::from_socket(socket);
        if let Some(open) = self.open.get_mut(&socket.id) {
            if open.missed_lists == 0 {
                return None;
            }
            open.missed_lists = 0;
            let more = now.since(&open.counted);
            open.counted = now;
            return Some((open.owner, more));
        }
        if self.open.len() >= MAX_FOLLOWED {
            return None;
        }
        let owner = socket.owner;
        self.open.insert(
            socket.id,
            OpenSocket {
                owner,
                counted: now,
                missed_lists: 0,
            },
        );
        Some((owner, now))
    }

    /// Ends a list. An incomplete one misses no socket.
    pub(super) fn end_pass(&mut self, extent: Extent) {
        match extent {
            Extent::Complete => self
                .open
                .retain(|_, open| open.missed_lists < MAX_MISSED_LISTS),
            Extent::Truncated => {
                for open in self.open.values_mut() {
                    open.missed_lists = open.missed_lists.saturating_sub(1);
                }
            }
        }
    }
}

/// The sockets of one task since its start.
#[derive(Debug, Default)]
pub(crate) struct TaskSockets {
    sum: Option<StepNetwork>,
    peers: Vec<NetworkPeer>,
    moved: bool,
}

impl TaskSockets {
    /// Adds the traffic of `socket`.
    pub(super) fn add(&mut self, socket: &Socket, delta: &TrafficDelta) {
        let sum = self.sum.get_or_insert_default();
        sum.received = sum.received.saturating_add(delta.received);
        sum.sent = sum.sent.saturating_add(delta.sent);
        sum.retransmits = sum.retransmits.saturating_add(delta.retransmits);
        self.moved |= delta.bytes() > Bytes(0);
        let peer = self.peer(socket);
        peer.received = peer.received.saturating_add(delta.received);
        peer.sent = peer.sent.saturating_add(delta.sent);
    }

    /// The entry that counts `socket`.
    fn peer(&mut self, socket: &Socket) -> &mut NetworkPeer {
        let mut new = new_peer(socket);
        if self.peers.len() >= MAX_PEERS && self.position(&new).is_none() {
            (new.port, new.is_server) = (None, false);
        }
        let at = self.position(&new).unwrap_or_else(|| {
            self.peers.push(new);
            self.peers.len() - 1
        });
        &mut self.peers[at]
    }

    fn position(&self, new: &NetworkPeer) -> Option<usize> {
        let id = |peer: &NetworkPeer| (peer.port, peer.scope, peer.is_server);
        self.peers.iter().position(|peer| id(peer) == id(new))
    }

    /// Resets the number of open connections before a list.
    pub(super) fn begin_listing(&mut self) {
        if let Some(sum) = &mut self.sum {
            sum.connections = 0;
        }
        for peer in &mut self.peers {
            peer.connections = 0;
        }
    }

    /// Counts an open connection of the task.
    pub(super) fn connected(&mut self, socket: &Socket) {
        self.sum.get_or_insert_default().connections += 1;
        self.peer(socket).connections += 1;
    }

    /// Whether there was traffic since the last call.
    pub(super) fn has_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// `None` if the task had no socket.
    pub(super) const fn step_network(&self) -> Option<StepNetwork> {
        self.sum
    }

    /// The servers and clients with the most open connections, then those with the most bytes.
    pub(super) fn network_peers(&self) -> Vec<NetworkPeer> {
        let mut peers = self.peers.clone();
        peers.sort_by_key(|peer| {
            let bytes = peer.received.saturating_add(peer.sent);
            (Reverse((peer.connections, bytes)), *peer)
        });
        peers.truncate(StepDetail::MAX_NETWORK_PEERS);
        peers
    }
}

/// The entry of a connection without traffic. The kernel does not report which end is the server;
/// the lower of the two ports is usually its port.
fn new_peer(socket: &Socket) -> NetworkPeer {
    let is_server = (1..socket.peer_port).contains(&socket.own_port);
    let port = if is_server {
        socket.own_port
    } else {
        socket.peer_port
    };
    let port = (1..NetworkPeer::FIRST_CLIENT_PORT)
        .contains(&port)
        .then_some(port);
    NetworkPeer {
        port,
        scope: socket.scope,
        is_server: is_server && port.is_some(),
        received: Bytes(0),
        sent: Bytes(0),
        connections: 0,
    }
}

/// TCP traffic in an interval.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    workload: Bytes,
    background: Bytes,
    unowned: Bytes,
    retransmits: u64,
    /// Number of open sockets at the last list; `None` before the first.
    pub(super) connections: Option<u64>,
    /// Whether the kernel reports sockets.
    pub(super) watched: bool,
}

impl Traffic {
    pub(super) fn add(&mut self, side: Option<Side>, delta: &TrafficDelta) {
        let sum = match side {
            Some(Side::Workload) => &mut self.workload,
            Some(Side::Background) => &mut self.background,
            None => &mut self.unowned,
        };
        *sum = sum.saturating_add(delta.bytes());
        self.retransmits = self.retransmits.saturating_add(delta.retransmits);
    }

    /// `None` if the kernel does not report sockets.
    pub(super) fn network_detail(&self) -> Option<NetworkDetail> {
        self.watched.then(|| NetworkDetail {
            owned: self.workload.saturating_add(self.background),
            unowned: self.unowned,
            retransmits: self.retransmits,
            connections: self.connections,
        })
    }

    /// Divides the node's bytes: known background traffic counts as background, the rest as
    /// workload. More background traffic than the node has in all was partly between containers,
    /// which is in no total of the node. Then the known traffic of the workload counts.
    pub(super) fn divided(&self, node: Option<Bytes>) -> (Option<Bytes>, Option<Bytes>) {
        let Some(node) = node.filter(|_| self.watched) else {
            return (node, None);
        };
        let workload = match node.0.checked_sub(self.background.0) {
            Some(rest) => rest,
            None => self.workload.0.min(node.0),
        };
        (Some(Bytes(workload)), Some(Bytes(node.0 - workload)))
    }
}

#[cfg(test)]
mod tests {
    use ebb_telemetry::step::PeerScope;
    use ebb_telemetry::time::BootClock;

    use super::*;

    fn socket(id: u64, owner: Option<u32>, received: u64, sent: u64) -> Socket {
        Socket {
            id: SocketId(id),
            owner: owner.map(|pid| ProcessKey {
                pid,
                start: BootClock::from_nanos(1),
            }),
            cgroup: None,
            loopback: false,
            received: Bytes(received),
            sent: Bytes(sent),
            retransmits: 0,
            peer_port: 443,
            own_port: 40_000,
            scope: PeerScope::Public,
        }
    }

    fn bytes(counted: Option<(Option<ProcessKey>, TrafficDelta)>) -> Option<(Option<u32>, u64)> {
        counted.map(|(owner, delta)| (owner.map(|key| key.pid), delta.bytes().0))
    }

    #[test]
    fn a_socket_counts_each_byte_once_whatever_shows_it() {
        let mut sockets = Sockets::default();
        sockets.begin_pass();
        assert_eq!(
            bytes(sockets.add_listed(&socket(1, Some(7), 10, 5))),
            Some((Some(7), 15))
        );
        // Another process has the same socket.
        assert_eq!(bytes(sockets.add_listed(&socket(1, Some(8), 10, 5))), None);
        sockets.end_pass(Extent::Complete);
        sockets.begin_pass();
        assert_eq!(
            bytes(sockets.add_listed(&socket(1, Some(8), 30, 5))),
            Some((Some(7), 20))
        );
        sockets.end_pass(Extent::Complete);
        // Its process closed it, and the kernel still sends.
        sockets.begin_pass();
        sockets.end_pass(Extent::Complete);
        assert_eq!(
            bytes(Some(sockets.ended(&socket(1, None, 30, 9)))),
            Some((Some(7), 4))
        );
        // The process that closed the socket takes precedence over the list.
        sockets.begin_pass();
        assert_eq!(
            bytes(sockets.add_listed(&socket(2, Some(7), 0, 5))),
            Some((Some(7), 5))
        );
        assert_eq!(
            bytes(Some(sockets.ended(&socket(2, Some(9), 0, 6)))),
            Some((Some(9), 1))
        );
        // A socket that no list contained counts in full.
        assert_eq!(
            bytes(Some(sockets.ended(&socket(3, None, 2, 2)))),
            Some((None, 4))
        );
    }

    #[test]
    fn a_socket_at_the_place_of_one_whose_end_was_lost_counts_from_its_start() {
        let mut sockets = Sockets::default();
        sockets.begin_pass();
        sockets.add_listed(&socket(1, Some(7), 100, 0));
        sockets.end_pass(Extent::Complete);
        sockets.begin_pass();
        assert_eq!(
            bytes(sockets.add_listed(&socket(1, Some(7), 40, 0))),
            Some((Some(7), 40))
        );
    }

    #[test]
    fn the_lower_port_is_the_servers_and_only_so_many_are_counted_by_port() {
        let between = |own_port, peer_port| Socket {
            own_port,
            peer_port,
            ..socket(1, None, 0, 0)
        };
        let check = |own, peer, expect: (Option<u16>, bool)| {
            let new = new_peer(&between(own, peer));
            assert_eq!((new.port, new.is_server), expect, "{own} {peer}");
        };
        check(40_000, 443, (Some(443), false));
        check(8_786, 40_000, (Some(8_786), true));
        check(20_000, 443, (Some(443), false));
        check(40_001, 40_000, (None, false));
        check(40_000, 40_001, (None, false));
        check(0, 443, (Some(443), false));
        check(0, 40_000, (None, false));
        let mut task = TaskSockets::default();
        let delta = |received| TrafficDelta {
            received: Bytes(received),
            ..TrafficDelta::default()
        };
        for port in 1..=MAX_PEERS as u16 + 5 {
            let to = between(40_000, port);
            task.add(&to, &delta(u64::from(port)));
            task.connected(&to);
        }
        task.connected(&between(40_000, 3));
        let peers = task.network_peers();
        let peers = peers
            .iter()
            .map(|peer| (peer.port, peer.connections, peer.received.0));
        let expect = [
            (None, 5, 17 + 18 + 19 + 20 + 21),
            (Some(3), 2, 3),
            (Some(16), 1, 16),
            (Some(15), 1, 15),
        ];
        assert!(peers.eq(expect), "{:?}", task.network_peers());
        task.begin_listing();
        assert!(
            task.network_peers()
                .iter()
                .all(|peer| peer.connections == 0)
        );
    }

    #[test]
    fn only_so_many_sockets_are_followed_and_forgotten_ones_make_room() {
        let mut sockets = Sockets::default();
        sockets.begin_pass();
        for id in 0..MAX_FOLLOWED as u64 {
            assert!(sockets.add_listed(&socket(id, None, 1, 0)).is_some());
        }
        assert_eq!(
            bytes(sockets.add_listed(&socket(u64::MAX, None, 1, 0))),
            None
        );
        for _ in 0..=MAX_MISSED_LISTS {
            sockets.begin_pass();
            sockets.end_pass(Extent::Complete);
        }
        assert!(sockets.open.is_empty());
    }

    #[test]
    fn an_incomplete_list_forgets_no_socket() {
        let mut sockets = Sockets::default();
        sockets.begin_pass();
        sockets.add_listed(&socket(1, Some(7), 10, 5));
        sockets.end_pass(Extent::Complete);
        for n in 0..=MAX_MISSED_LISTS {
            sockets.begin_pass();
            let again = sockets.add_listed(&socket(2, Some(8), u64::from(n), 0));
            assert!(again.is_some());
            sockets.end_pass(Extent::Truncated);
        }
        assert_eq!(
            bytes(Some(sockets.ended(&socket(1, None, 11, 5)))),
            Some((Some(7), 1))
        );
    }

    #[test]
    fn the_workload_has_what_is_not_known_to_be_background_or_its_known_traffic() {
        let divided = |workload, background, node: u64| {
            let traffic = Traffic {
                workload: Bytes(workload),
                background: Bytes(background),
                watched: true,
                ..Traffic::default()
            };
            let (workload, rest) = traffic.divided(Some(Bytes(node)));
            (workload.map(|b| b.0), rest.map(|b| b.0))
        };
        assert_eq!(divided(0, 4, 10), (Some(6), Some(4)));
        // Traffic between two containers of the node crosses no physical interface.
        assert_eq!(divided(0, 40, 10), (Some(0), Some(10)));
        assert_eq!(divided(7, 40, 10), (Some(7), Some(3)));
        assert_eq!(divided(40, 40, 10), (Some(10), Some(0)));
        // Probes of pods by the node cross no physical interface either.
        assert_eq!(divided(9, 4, 10), (Some(6), Some(4)));
    }

    #[test]
    fn traffic_without_a_total_or_without_sockets_is_not_divided() {
        let check = |watched, node: Option<u64>, expect: Option<u64>| {
            let traffic = Traffic {
                background: Bytes(4),
                watched,
                ..Traffic::default()
            };
            let expect = (expect.map(Bytes), None);
            assert_eq!(traffic.divided(node.map(Bytes)), expect, "{watched}");
        };
        check(false, Some(10), Some(10));
        check(true, None, None);
    }
}
