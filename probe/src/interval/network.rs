//! Assigns the traffic of sockets to the task of the owning process, and to workload or background.

use crate::attribute::path;
use crate::interval::aggregator::IntervalAggregator;
use crate::interval::processes::ProcessOwner;
use crate::interval::processes::side;
use crate::interval::sockets::TrafficDelta;
use crate::kernel::{CgroupId, Extent, ProcessKey, Socket, SocketList};

impl IntervalAggregator {
    /// Enables socket accounting. `open` contains the sockets with traffic from before; `None` if
    /// they cannot be listed.
    pub fn watch_sockets(&mut self, open: Option<&SocketList>) {
        self.interval_totals.traffic.watched = true;
        let Some(list) = open else {
            return;
        };
        self.sockets.begin_pass();
        for socket in &list.open {
            self.sockets.add_listed(socket);
        }
        self.end_list(list.extent);
    }

    /// Adds a list of the open sockets. An incomplete list counts traffic, but no connections.
    pub fn sockets(&mut self, list: &SocketList) {
        let is_complete = list.extent == Extent::Complete;
        self.sockets.begin_pass();
        if is_complete {
            for step in self.steps.iter_mut() {
                step.network.begin_listing();
            }
        }
        let mut connections = 0_u64;
        for socket in list.open.iter().filter(|socket| !socket.loopback) {
            let Some((owner, delta)) = self.sockets.add_listed(socket) else {
                continue;
            };
            connections += 1;
            let owner = self.owner_of(owner, socket.cgroup);
            self.credit(owner, socket, &delta);
            if is_complete
                && let Some(ProcessOwner::Step(number)) = owner
                && let Some(step) = self.steps.get_mut(number)
            {
                step.network.connected(socket);
            }
        }
        self.end_list(list.extent);
        self.interval_totals.traffic.connections = is_complete.then_some(connections);
    }

    fn end_list(&mut self, extent: Extent) {
        self.sockets.end_pass(extent);
        if extent == Extent::Truncated {
            self.left_out = self.left_out.saturating_add(1);
        }
    }

    pub(super) fn socket_ended(&mut self, socket: &Socket) {
        let (owner, delta) = self.sockets.ended(socket);
        if !socket.loopback {
            let owner = self.owner_of(owner, socket.cgroup);
            self.credit(owner, socket, &delta);
        }
    }

    fn credit(&mut self, owner: Option<ProcessOwner>, socket: &Socket, delta: &TrafficDelta) {
        self.interval_totals.traffic.add(owner.map(side), delta);
        if let Some(ProcessOwner::Step(number)) = owner
            && let Some(step) = self.steps.get_mut(number)
        {
            step.network.add(socket, delta);
        }
    }

    /// The class of the process that owns or owned a socket; otherwise the task of its cgroup.
    fn owner_of(
        &mut self,
        owner: Option<ProcessKey>,
        cgroup: Option<CgroupId>,
    ) -> Option<ProcessOwner> {
        let by_process = owner.and_then(|key| {
            let lives = self.processes.exact(key).map(|entry| entry.owner);
            lives.or_else(|| self.sockets.owner_of_ended(key))
        });
        by_process.or_else(|| {
            let step = path::job(self.paths.get(cgroup?)?)?;
            self.steps.number(&step.id).map(ProcessOwner::Step)
        })
    }
}
