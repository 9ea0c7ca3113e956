//! Converts eBPF records to the types of the probe.

#[cfg(test)]
mod tests;

use std::time::Duration;

use bytemuck::Pod;
use ebb_telemetry::step::{Namespaces, PeerScope, SyscallIo};
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, CpuTime};

use super::bindings::{
    CGROUP, EXEC, EXIT, FORK, HAS_CGROUP, HAS_DISK_DELAY, HAS_IO, HAS_MM, HAS_NAMESPACES,
    HAS_RUN_QUEUE, LINK_LOCAL, LOOPBACK, NEXTFLOW, OOM, OWN_NAMESPACE, PRIVATE, PUBLIC, REAP,
    RawCgroup, RawExec, RawExit, RawHead, RawReap, RawSocket, RawTask, RawTaskCounters,
    RawUnchanged, SNAKEMAKE, SOCKET, UNCHANGED,
};
use super::snakemake::Snakemake;
use super::{
    CgroupId, Comm, DiskBytes, ExitStatus, Process, ProcessEvent, ProcessKey, Socket, SocketId,
    Start, TaskCounters, Totals, WorkFolder,
};

impl From<RawSocket> for Socket {
    fn from(raw: RawSocket) -> Self {
        let Process { key, cgroup, .. } = raw.head.process();
        Self {
            id: SocketId(raw.socket),
            owner: (key.pid != 0).then_some(key),
            cgroup,
            loopback: raw.head.flags & LOOPBACK != 0,
            received: Bytes(raw.received_bytes),
            sent: Bytes(raw.sent_bytes),
            retransmits: raw.retransmits,
            peer_port: raw.peer_port as u16,
            own_port: raw.own_port as u16,
            scope: match raw.peer_scope {
                LINK_LOCAL => PeerScope::LinkLocal,
                PRIVATE => PeerScope::Private,
                scope => {
                    debug_assert_eq!(scope, PUBLIC);
                    PeerScope::Public
                }
            },
        }
    }
}

impl RawHead {
    pub(super) fn process(&self) -> Process {
        Process {
            key: ProcessKey {
                pid: self.tgid,
                start: BootClock::from_nanos(self.start_ns),
            },
            parent: self.ppid,
            cgroup: (self.flags & HAS_CGROUP != 0).then_some(CgroupId(self.cgroup_id)),
            comm: Comm::from_kernel(self.comm),
        }
    }

    pub(super) fn namespaces(&self) -> Option<Namespaces> {
        let has_namespaces = self.flags & HAS_NAMESPACES != 0;
        has_namespaces.then_some(Namespaces::from_bits(self.flags / OWN_NAMESPACE))
    }
}

/// `flags` are those of the record.
pub(super) fn totals(flags: u32, cpu_ns: u64, read_bytes: u64, write_bytes: u64) -> Totals {
    Totals {
        cpu: CpuTime(cpu_ns),
        disk: (flags & HAS_IO != 0).then_some(DiskBytes {
            read: Bytes(read_bytes),
            written: Bytes(write_bytes),
        }),
    }
}

/// `flags` are those of the record.
pub(super) fn counters(flags: u32, raw: &RawTaskCounters) -> TaskCounters {
    let counted = |flag: u32, ns: u64| (flags & flag != 0).then(|| Duration::from_nanos(ns));
    TaskCounters {
        user_ticks: CpuTime(raw.user_ns),
        system_ticks: CpuTime(raw.system_ns),
        voluntary: raw.voluntary,
        involuntary: raw.involuntary,
        minor_faults: raw.minor_faults,
        major_faults: raw.major_faults,
        run_queue: counted(HAS_RUN_QUEUE, raw.run_queue_ns),
        disk_delay: counted(HAS_DISK_DELAY, raw.disk_delay_ns),
        syscall_io: (flags & HAS_IO != 0).then_some(SyscallIo {
            read: Bytes(raw.syscall_read_bytes),
            written: Bytes(raw.syscall_write_bytes),
            read_calls: raw.read_calls,
            write_calls: raw.write_calls,
        }),
    }
}

pub(super) fn pages(count: u64) -> Bytes {
    Bytes(count.saturating_mul(rustix::param::page_size() as u64))
}

/// The text up to the first zero byte.
pub(super) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn read<T: Pod>(bytes: &[u8]) -> Option<T> {
    bytemuck::try_pod_read_unaligned(bytes.get(..size_of::<T>())?).ok()
}

/// One record of the ring buffer; `None` if its kind or size is unknown, which does not happen with
/// the matching eBPF object.
pub(super) fn event(bytes: &[u8]) -> Option<ProcessEvent> {
    // Each record begins with its kind.
    if read::<u32>(bytes)? == REAP {
        return Some(reaped(&read(bytes)?));
    }
    let head: RawHead = read(bytes)?;
    Some(match head.kind {
        FORK => ProcessEvent::Forked(head.process()),
        EXEC => {
            let exec: RawExec = read(bytes)?;
            ProcessEvent::Executed {
                process: head.process(),
                maxrss_before: pages(exec.maxrss_pages),
                start: Start {
                    work_folder: (head.flags & NEXTFLOW != 0).then(|| WorkFolder {
                        parent: text(&exec.work_parent),
                        leaf: text(&exec.work_leaf),
                    }),
                    script: None,
                    engine_task: None,
                    // The arguments are read from procfs while the process lives.
                    snakemake: (head.flags & SNAKEMAKE != 0).then_some(Snakemake::UnnamedJobs),
                    task_header: None,
                    user: Some(exec.uid),
                    namespaces: head.namespaces(),
                },
            }
        }
        EXIT => ended(&head, &read(bytes)?),
        OOM => ProcessEvent::OutOfMemory { pid: head.tgid },
        SOCKET => ProcessEvent::SocketEnded(read::<RawSocket>(bytes)?.into()),
        CGROUP => ProcessEvent::CgroupMade {
            id: CgroupId(head.cgroup_id),
            path: text(&read::<RawCgroup>(bytes)?.path),
        },
        _ => return None,
    })
}

fn ended(head: &RawHead, exit: &RawExit) -> ProcessEvent {
    ProcessEvent::Ended {
        process: head.process(),
        at: BootClock::from_nanos(head.at_ns),
        status: ExitStatus::from_kernel(exit.exit_code),
        totals: totals(head.flags, exit.cpu_ns, exit.read_bytes, exit.write_bytes),
        peak: (head.flags & HAS_MM != 0).then(|| pages(exit.rss_pages.max(exit.hiwater_pages))),
        maxrss: pages(exit.maxrss_pages),
    }
}

fn reaped(reap: &RawReap) -> ProcessEvent {
    ProcessEvent::Reaped {
        key: ProcessKey {
            pid: reap.tgid,
            start: BootClock::from_nanos(reap.start_ns),
        },
        totals: totals(reap.flags, reap.cpu_ns, reap.read_bytes, reap.write_bytes),
        maxrss: pages(reap.maxrss_pages),
        counters: counters(reap.flags, &reap.counters),
    }
}

/// The tasks in one scan, and the numbers of unchanged tasks; an incomplete last record is dropped.
/// If `before`, which is sorted, contains an unchanged task, the task is returned with its previous
/// values.
pub(super) fn tasks(mut bytes: &[u8], before: &[RawTask]) -> (Vec<RawTask>, Vec<u32>) {
    let (mut tasks, mut unchanged) = (Vec::new(), Vec::new());
    let (mut at, mut last) = (0, 0);
    while let Some(next) = read::<RawUnchanged>(bytes) {
        let size = if next.kind == UNCHANGED {
            // They are ordered by number too, except in a PID namespace with its own numbers.
            if next.tid < last {
                at = before.partition_point(|task| task.tid < next.tid);
            }
            last = next.tid;
            at += before[at..]
                .iter()
                .take_while(|task| task.tid < last)
                .count();
            match before.get(at).filter(|task| task.tid == last) {
                Some(task) => tasks.push(*task),
                None => unchanged.push(last),
            }
            size_of::<RawUnchanged>()
        } else {
            tasks.extend(read::<RawTask>(bytes));
            size_of::<RawTask>()
        };
        bytes = bytes.get(size..).unwrap_or_default();
    }
    (tasks, unchanged)
}

/// The open sockets in one read of the iterator.
pub(super) fn sockets(bytes: &[u8]) -> Vec<Socket> {
    bytes
        .chunks_exact(size_of::<RawSocket>())
        .filter_map(read::<RawSocket>)
        .map(Socket::from)
        .collect()
}
