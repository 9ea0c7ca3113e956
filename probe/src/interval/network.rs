//! Assigns the traffic of sockets to the task of the owning process, and to workload or background.

use crate::attribute::path;
use crate::interval::aggregator::IntervalAggregator;
use crate::interval::processes::ProcessOwner;
use crate::interval::processes::side;
use crate::interval::sockets::TrafficDelta;
use crate::kernel::{CgroupId, ProcessKey, Socket};

impl IntervalAggregator {
    /// Enables socket accounting. `open` contains the sockets with traffic from before; `None` if
    /// they cannot be listed.
    pub fn watch_sockets(&mut self, open: Option<&[Socket]>) {
        self.interval_totals.traffic.watched = true;
        self.sockets.begin_pass();
        for socket in open.into_iter().flatten() {
            self.sockets.add_listed(socket);
        }
        self.sockets.end_pass();
    }

    /// Adds a list of the open sockets.
    pub fn sockets(&mut self, open: &[Socket]) {
        self.sockets.begin_pass();
        for step in self.steps.iter_mut() {
            step.network.begin_listing();
        }
        let mut connections = 0_u64;
        for socket in open.iter().filter(|socket| !socket.loopback) {
            let Some((owner, delta)) = self.sockets.add_listed(socket) else {
                continue;
            };
            connections += 1;
            let owner = self.owner_of(owner, socket.cgroup);
            self.credit(owner, socket, &delta);
            if let Some(ProcessOwner::Step(number)) = owner
                && let Some(step) = self.steps.get_mut(number)
            {
                step.network.connected(socket);
            }
        }
        self.sockets.end_pass();
        self.interval_totals.traffic.connections = Some(connections);
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
