//! The byte layout of eBPF records: counterparts of the structs in `ebpf/event.h`, and their
//! conversion. No other module uses these layouts.

#[cfg(test)]
mod tests;

use std::time::Duration;

use bytemuck::{Pod, Zeroable};
use ebb_telemetry::step::{Asked, Namespaces};
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, CpuTime};

use super::{
    CgroupId, Comm, DiskBytes, ExitStatus, Finer, Process, ProcessEvent, ProcessKey, Socket,
    SocketId, Start, Totals, WorkFolder,
};

const FORK: u32 = 1;
const EXEC: u32 = 2;
const EXIT: u32 = 3;
const REAP: u32 = 4;
const OOM: u32 = 5;
const CGROUP: u32 = 6;
const SOCKET: u32 = 7;
const RESTED: u32 = 8;
/// Number of counters of lost records.
pub(super) const KINDS: u32 = 9;

const HAS_CGROUP: u32 = 1;
pub(super) const HAS_MM: u32 = 2;
const HAS_IO: u32 = 4;
pub(super) const THREAD: u32 = 8;
pub(super) const KERNEL_THREAD: u32 = 16;
pub(super) const ZOMBIE: u32 = 32;
const NEXTFLOW: u32 = 64;
pub(super) const ON_CPU: u32 = 128;
pub(super) const RUNNABLE: u32 = 256;
pub(super) const IO_WAIT: u32 = 512;
pub(super) const HAS_STACK: u32 = 1024;
const HAS_RUN_QUEUE: u32 = 2048;
const HAS_DISK_DELAY: u32 = 4096;
const LOOPBACK: u32 = 8192;
const HAS_APART: u32 = 16384;
const APART: u32 = 65536;

const FRAMES: usize = 6;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Head {
    pub(super) kind: u32,
    pub(super) flags: u32,
    pub(super) at_ns: u64,
    pub(super) start_ns: u64,
    pub(super) cgroup_id: u64,
    pub(super) tgid: u32,
    pub(super) ppid: u32,
    pub(super) comm: [u8; 16],
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Exec {
    head: Head,
    maxrss_pages: u64,
    work_parent: [u8; 16],
    work_leaf: [u8; 48],
    uid: u32,
    unused: u32,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Exit {
    head: Head,
    cpu_ns: u64,
    read_bytes: u64,
    write_bytes: u64,
    rss_pages: u64,
    hiwater_pages: u64,
    maxrss_pages: u64,
    exit_code: u32,
    unused: u32,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct RawFiner {
    user_ns: u64,
    system_ns: u64,
    voluntary: u64,
    involuntary: u64,
    minor_faults: u64,
    major_faults: u64,
    run_queue_ns: u64,
    disk_delay_ns: u64,
    asked_read_bytes: u64,
    asked_write_bytes: u64,
    read_calls: u64,
    write_calls: u64,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Reap {
    end: Exit,
    finer: RawFiner,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RawSocket {
    head: Head,
    socket: u64,
    received_bytes: u64,
    sent_bytes: u64,
    retransmits: u64,
}

impl RawSocket {
    fn told(&self) -> Socket {
        let Process { key, cgroup, .. } = self.head.process();
        Socket {
            id: SocketId(self.socket),
            owner: (key.pid != 0).then_some(key),
            cgroup,
            loopback: self.head.flags & LOOPBACK != 0,
            received: Bytes(self.received_bytes),
            sent: Bytes(self.sent_bytes),
            retransmits: self.retransmits,
        }
    }
}

const PATH_BYTES: usize = 328;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Task {
    pub(super) head: Head,
    pub(super) cpu_ns: u64,
    pub(super) read_bytes: u64,
    pub(super) write_bytes: u64,
    pub(super) ended_cpu_ns: u64,
    pub(super) ended_read_bytes: u64,
    pub(super) ended_write_bytes: u64,
    pub(super) anon_pages: u64,
    pub(super) file_pages: u64,
    pub(super) shmem_pages: u64,
    pub(super) hiwater_pages: u64,
    pub(super) maxrss_pages: u64,
    pub(super) finer: RawFiner,
    pub(super) stack: [u64; FRAMES],
    pub(super) tid: u32,
    pub(super) uid: u32,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Rested {
    kind: u32,
    tid: u32,
}

impl Head {
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
        let seen = self.flags & HAS_APART != 0;
        seen.then_some(Namespaces::from_bits(self.flags / APART))
    }

    pub(super) fn totals(&self, cpu_ns: u64, read_bytes: u64, write_bytes: u64) -> Totals {
        Totals {
            cpu: CpuTime(cpu_ns),
            disk: (self.flags & HAS_IO != 0).then_some(DiskBytes {
                read: Bytes(read_bytes),
                written: Bytes(write_bytes),
            }),
        }
    }

    pub(super) fn finer(&self, raw: &RawFiner) -> Finer {
        let told = |flag: u32, ns: u64| (self.flags & flag != 0).then(|| Duration::from_nanos(ns));
        Finer {
            user_ticks: CpuTime(raw.user_ns),
            system_ticks: CpuTime(raw.system_ns),
            voluntary: raw.voluntary,
            involuntary: raw.involuntary,
            minor_faults: raw.minor_faults,
            major_faults: raw.major_faults,
            run_queue: told(HAS_RUN_QUEUE, raw.run_queue_ns),
            disk_delay: told(HAS_DISK_DELAY, raw.disk_delay_ns),
            asked: (self.flags & HAS_IO != 0).then_some(Asked {
                read: Bytes(raw.asked_read_bytes),
                written: Bytes(raw.asked_write_bytes),
                read_calls: raw.read_calls,
                write_calls: raw.write_calls,
            }),
        }
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
    let head: Head = read(bytes)?;
    Some(match head.kind {
        FORK => ProcessEvent::Forked(head.process()),
        EXEC => {
            let exec: Exec = read(bytes)?;
            ProcessEvent::Executed {
                process: head.process(),
                maxrss_before: pages(exec.maxrss_pages),
                start: Start {
                    work_folder: (head.flags & NEXTFLOW != 0).then(|| WorkFolder {
                        parent: text(&exec.work_parent),
                        leaf: text(&exec.work_leaf),
                    }),
                    script: None,
                    user: Some(exec.uid),
                    namespaces: head.namespaces(),
                },
            }
        }
        EXIT => ended(&head, &read(bytes)?),
        REAP => {
            let Reap { end: exit, finer } = read(bytes)?;
            ProcessEvent::Reaped {
                key: head.process().key,
                at: BootClock::from_nanos(head.at_ns),
                totals: head.totals(exit.cpu_ns, exit.read_bytes, exit.write_bytes),
                maxrss: pages(exit.maxrss_pages),
                finer: head.finer(&finer),
            }
        }
        OOM => ProcessEvent::OutOfMemory { pid: head.tgid },
        SOCKET => ProcessEvent::SocketEnded(read::<RawSocket>(bytes)?.told()),
        CGROUP => ProcessEvent::CgroupMade {
            id: CgroupId(head.cgroup_id),
            path: text(bytes.get(size_of::<Head>()..size_of::<Head>() + PATH_BYTES)?),
        },
        _ => return None,
    })
}

fn ended(head: &Head, exit: &Exit) -> ProcessEvent {
    ProcessEvent::Ended {
        process: head.process(),
        at: BootClock::from_nanos(head.at_ns),
        status: ExitStatus::from_kernel(exit.exit_code),
        totals: head.totals(exit.cpu_ns, exit.read_bytes, exit.write_bytes),
        peak: (head.flags & HAS_MM != 0).then(|| pages(exit.rss_pages.max(exit.hiwater_pages))),
        maxrss: pages(exit.maxrss_pages),
    }
}

/// The tasks in one scan, and the numbers of unchanged tasks; an incomplete last record is dropped.
/// If `before`, which is sorted, contains an unchanged task, the task is returned with its previous
/// values.
pub(super) fn tasks(mut bytes: &[u8], before: &[Task]) -> (Vec<Task>, Vec<u32>) {
    let (mut tasks, mut rested) = (Vec::new(), Vec::new());
    let (mut at, mut last) = (0, 0);
    while let Some(next) = read::<Rested>(bytes) {
        let size = if next.kind == RESTED {
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
                None => rested.push(last),
            }
            size_of::<Rested>()
        } else {
            tasks.extend(read::<Task>(bytes));
            size_of::<Task>()
        };
        bytes = bytes.get(size..).unwrap_or_default();
    }
    (tasks, rested)
}

/// The open sockets in one read of the iterator.
pub(super) fn sockets(bytes: &[u8]) -> Vec<Socket> {
    bytes
        .chunks_exact(size_of::<RawSocket>())
        .filter_map(read::<RawSocket>)
        .map(|socket| socket.told())
        .collect()
}
