//! Assigns the traffic of sockets to the task of the owning process, and to workload or background.

use crate::attribute::path;
use crate::interval::aggregator::Fold;
use crate::interval::processes::ProcessOwner;
use crate::interval::processes::side;
use crate::interval::sockets::Carried;
use crate::kernel::{CgroupId, ProcessKey, Socket};

impl Fold {
    /// Enables socket accounting. `open` contains the sockets with traffic from before; `None` if
    /// they cannot be listed.
    pub fn watch_sockets(&mut self, open: Option<&[Socket]>) {
        self.tally.traffic.watched = true;
        self.sockets.begin_pass();
        for socket in open.into_iter().flatten() {
            self.sockets.seen(socket);
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
            let Some((owner, carried)) = self.sockets.seen(socket) else {
                continue;
            };
            connections += 1;
            let place = self.place_of(owner, socket.cgroup);
            self.credit(place, &carried);
            if let Some(ProcessOwner::Step(number)) = place
                && let Some(step) = self.steps.get_mut(number)
            {
                step.network.connected();
            }
        }
        self.sockets.end_pass();
        self.tally.traffic.connections = Some(connections);
    }

    pub(super) fn socket_ended(&mut self, socket: &Socket) {
        let (owner, carried) = self.sockets.ended(socket);
        if !socket.loopback {
            let place = self.place_of(owner, socket.cgroup);
            self.credit(place, &carried);
        }
    }

    fn credit(&mut self, place: Option<ProcessOwner>, carried: &Carried) {
        self.tally.traffic.add(place.map(side), carried);
        if let Some(ProcessOwner::Step(number)) = place
            && let Some(step) = self.steps.get_mut(number)
        {
            step.network.add(carried);
        }
    }

    /// The class of the process that owns or owned a socket; otherwise the task of its cgroup.
    fn place_of(
        &mut self,
        owner: Option<ProcessKey>,
        cgroup: Option<CgroupId>,
    ) -> Option<ProcessOwner> {
        let by_process = owner.and_then(|key| {
            let lives = self.processes.exact(key).map(|entry| entry.place);
            lives.or_else(|| self.sockets.place_of_gone(key))
        });
        by_process.or_else(|| {
            let step = path::job(self.paths.get(cgroup?)?)?;
            self.steps.number(&step.id).map(ProcessOwner::Step)
        })
    }
}
