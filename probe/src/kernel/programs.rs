//! Loads the kernel half, attaches it, and reads what it gives. No retry and no
//! fallback: what does not load is said with the program's name.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};

use aya::maps::{Array, MapData, MapError, RingBuf};
use aya::programs::links::LinkError;
use aya::programs::{BtfTracePoint, Iter, ProgramError, TracePoint};
use aya::{Btf, BtfError, Ebpf, EbpfError, EbpfLoader};
use rustix::process::{Resource, Rlimit, setrlimit};
use thiserror::Error;

use super::{ProcessEvent, TaskSample, record, threads};

/// The compiled kernel half.
const OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/ebb.bpf.o"));

/// Typed tracepoints without which there is nothing to tell.
const TRACEPOINTS: [(&str, &str); 5] = [
    ("on_fork", "sched_process_fork"),
    ("on_exec", "sched_process_exec"),
    ("on_exit", "sched_process_exit"),
    ("on_free", "sched_process_free"),
    ("on_cgroup", "cgroup_mkdir"),
];

/// Why the kernel half does not run.
#[derive(Debug, Error)]
pub enum KernelError {
    /// The kernel does not describe its types.
    #[error(
        "this kernel has no type information (/sys/kernel/btf/vmlinux): it was built without CONFIG_DEBUG_INFO_BTF"
    )]
    NoBtf(#[source] BtfError),
    /// The object was refused.
    #[error("the kernel half does not load")]
    Object(#[source] EbpfError),
    /// A program was refused or does not attach.
    #[error("the kernel program {name} does not load or attach")]
    Program {
        /// Its name in `ebpf/ebb.bpf.c`.
        name: &'static str,
        /// What the kernel said.
        source: ProgramError,
    },
    /// A map could not be opened.
    #[error("the kernel map {name} does not open")]
    Map {
        /// Its name in `ebpf/ebb.bpf.c`.
        name: &'static str,
        /// What the kernel said.
        source: MapError,
    },
    /// The object lacks what this program was built with.
    #[error("the kernel half has no {0}")]
    Missing(&'static str),
    /// The iterator could not be opened.
    #[error("the task iterator could not be opened")]
    Link(#[source] LinkError),
    /// The iterator could not be read.
    #[error("the task iterator could not be read")]
    Iterate(#[source] std::io::Error),
}

/// Whether the kernel tells of victims of its memory killer.
#[derive(Debug)]
pub enum OomEvents {
    /// It does.
    Attached,
    /// It does not, and why.
    Missing(ProgramError),
}

/// The running kernel half. Dropping it detaches everything.
pub struct KernelHalf {
    ebpf: Ebpf,
    events: RingBuf<MapData>,
    lost: Array<MapData, u64>,
    oom: OomEvents,
    buffer: Vec<u8>,
}

impl KernelHalf {
    /// Loads and attaches. `memory_hierarchy` is the number of the v1 hierarchy
    /// that holds the memory controller, 0 where cgroup v2 holds it.
    pub fn load(memory_hierarchy: u32) -> Result<Self, KernelError> {
        // Kernels before 5.11 charge maps to this limit; later ones ignore it.
        let unlimited = Rlimit {
            current: None,
            maximum: None,
        };
        if let Err(error) = setrlimit(Resource::Memlock, unlimited) {
            tracing::debug!(%error, "the limit of locked memory stays as it is");
        }
        let btf = Btf::from_sys_fs().map_err(KernelError::NoBtf)?;
        let mut ebpf = EbpfLoader::new()
            .btf(Some(&btf))
            .override_global("memory_hierarchy", &memory_hierarchy, true)
            .load(OBJECT)
            .map_err(KernelError::Object)?;
        for (name, tracepoint) in TRACEPOINTS {
            attach_typed(&mut ebpf, name, tracepoint, &btf)?;
        }
        load_iterator(&mut ebpf, &btf)?;
        let oom = attach_oom(&mut ebpf)?;
        let events = take_map(&mut ebpf, "events", RingBuf::try_from)?;
        let lost = take_map(&mut ebpf, "lost", Array::try_from)?;
        Ok(Self {
            ebpf,
            events,
            lost,
            oom,
            buffer: Vec::new(),
        })
    }

    /// Whether victims of the memory killer are told.
    pub const fn oom_events(&self) -> &OomEvents {
        &self.oom
    }

    /// Hands over every event that waits, oldest first.
    pub fn drain(&mut self, mut each: impl FnMut(ProcessEvent)) {
        while let Some(item) = self.events.next() {
            match record::event(&item) {
                Some(event) => each(event),
                None => tracing::warn!(bytes = item.len(), "an event of an unknown kind"),
            }
        }
    }

    /// Reads every task once, summed by process.
    pub fn sample(&mut self) -> Result<Vec<TaskSample>, KernelError> {
        self.buffer.clear();
        let named = |source| KernelError::Program {
            name: ITERATOR,
            source,
        };
        let program: &mut Iter = self
            .ebpf
            .program_mut(ITERATOR)
            .ok_or(KernelError::Missing(ITERATOR))?
            .try_into()
            .map_err(named)?;
        // Reading consumes the link, so each pass attaches anew.
        let link = program.attach().map_err(named)?;
        let link = program.take_link(link).map_err(named)?;
        let mut file = link.into_file().map_err(KernelError::Link)?;
        file.read_to_end(&mut self.buffer)
            .map_err(KernelError::Iterate)?;
        Ok(threads::by_process(record::tasks(&self.buffer)))
    }

    /// Events that found no room since the start.
    pub fn events_lost(&self) -> Result<u64, KernelError> {
        let named = |source| KernelError::Map {
            name: "lost",
            source,
        };
        (0..record::KINDS)
            .map(|kind| self.lost.get(&kind, 0).map_err(named))
            .sum()
    }
}

impl AsFd for KernelHalf {
    /// Becomes readable when the ring fills faster than it is drained.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

impl std::os::fd::AsRawFd for KernelHalf {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.events.as_raw_fd()
    }
}

const ITERATOR: &str = "each_task";

fn attach_typed(
    ebpf: &mut Ebpf,
    name: &'static str,
    tracepoint: &str,
    btf: &Btf,
) -> Result<(), KernelError> {
    let named = |source| KernelError::Program { name, source };
    let program: &mut BtfTracePoint = ebpf
        .program_mut(name)
        .ok_or(KernelError::Missing(name))?
        .try_into()
        .map_err(named)?;
    program.load(tracepoint, btf).map_err(named)?;
    program.attach().map_err(named)?;
    Ok(())
}

fn load_iterator(ebpf: &mut Ebpf, btf: &Btf) -> Result<(), KernelError> {
    let named = |source| KernelError::Program {
        name: ITERATOR,
        source,
    };
    let program: &mut Iter = ebpf
        .program_mut(ITERATOR)
        .ok_or(KernelError::Missing(ITERATOR))?
        .try_into()
        .map_err(named)?;
    program.load("task", btf).map_err(named)
}

/// The classic tracepoint needs tracefs, which a container or a small machine
/// may not have mounted; all else works without.
fn attach_oom(ebpf: &mut Ebpf) -> Result<OomEvents, KernelError> {
    const NAME: &str = "on_oom";
    let named = |source| KernelError::Program { name: NAME, source };
    let program: &mut TracePoint = ebpf
        .program_mut(NAME)
        .ok_or(KernelError::Missing(NAME))?
        .try_into()
        .map_err(named)?;
    program.load().map_err(named)?;
    Ok(match program.attach("oom", "mark_victim") {
        Ok(_) => OomEvents::Attached,
        Err(error) => OomEvents::Missing(error),
    })
}

fn take_map<T>(
    ebpf: &mut Ebpf,
    name: &'static str,
    open: impl FnOnce(aya::maps::Map) -> Result<T, MapError>,
) -> Result<T, KernelError> {
    let map = ebpf.take_map(name).ok_or(KernelError::Missing(name))?;
    open(map).map_err(|source| KernelError::Map { name, source })
}
