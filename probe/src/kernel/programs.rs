//! Loads the eBPF programs, attaches them, and reads their data. There is no retry and no fallback:
//! an error names the program that does not load.

mod kernel_symbols;

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};

use aya::maps::{Array, MapData, MapError, RingBuf};
use aya::programs::links::LinkError;
use aya::programs::{BtfTracePoint, Iter, ProgramError, RawTracePoint};
use aya::{Btf, BtfError, Ebpf, EbpfError, EbpfLoader};
use rustix::process::{Resource, Rlimit, setrlimit};
use thiserror::Error;

use self::kernel_symbols::KernelSymbols;
use super::bindings::{KINDS, RawTask};
use super::record;
use super::wait_classifier::WaitClassifier;
use super::{Extent, ProcessEvent, Samples, SocketList, threads};

/// The compiled eBPF object.
const OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/ebb.bpf.o"));

/// Typed tracepoints that are required.
const TRACEPOINTS: [(&str, &str); 5] = [
    ("on_fork", "sched_process_fork"),
    ("on_exec", "sched_process_exec"),
    ("on_exit", "sched_process_exit"),
    ("on_free", "sched_process_free"),
    ("on_cgroup", "cgroup_mkdir"),
];

/// Tracepoints of TCP sockets, which are optional.
const SOCKET_TRACEPOINTS: [(&str, &str); 2] = [
    ("on_socket_state", "inet_sock_set_state"),
    ("on_socket_end", "tcp_destroy_sock"),
];
/// Limit on the requests for names in one scan.
const MAX_REQUESTS: usize = 16;

const SOCKET_ITERATOR: &str = "each_socket";
const CONNECTION_ITERATOR: &str = "each_connection";

/// Why the eBPF programs do not run.
#[derive(Debug, Error)]
pub enum KernelError {
    /// The kernel has no BTF type information.
    #[error(
        "failed to read the kernel's type information in /sys/kernel/btf/vmlinux; boot a kernel with CONFIG_DEBUG_INFO_BTF"
    )]
    NoBtf(#[source] BtfError),
    /// The object was refused.
    #[error("failed to load the eBPF object")]
    Object(#[source] EbpfError),
    /// A program was refused or does not attach.
    #[error("failed to load or attach the eBPF program {name}")]
    Program {
        /// Its name in `ebpf/ebb.bpf.c`.
        name: &'static str,
        /// The error from the kernel.
        source: ProgramError,
    },
    /// A map could not be opened.
    #[error("failed to open the eBPF map {name}")]
    Map {
        /// Its name in `ebpf/ebb.bpf.c`.
        name: &'static str,
        /// The error from the kernel.
        source: MapError,
    },
    /// The object lacks a map or program that this code expects.
    #[error("the eBPF object lacks {0}")]
    Missing(&'static str),
    /// The iterator could not be opened.
    #[error("failed to open the task iterator")]
    Link(#[source] LinkError),
    /// The iterator could not be read.
    #[error("failed to read the task iterator")]
    Iterate(#[source] std::io::Error),
}

/// Whether the kernel reports victims of the out-of-memory killer.
#[derive(Debug)]
pub enum OomEvents {
    /// It does.
    Attached,
    /// It does not, with the reason.
    Missing(ProgramError),
}

/// Which TCP sockets the kernel reports.
#[derive(Debug)]
pub enum SocketEvents {
    /// Open sockets, and sockets that end.
    Whole,
    /// Sockets that end, and open sockets of the probe's own network namespace that were connected,
    /// not accepted. The kernel cannot list sockets by process (before 5.11).
    OwnNamespace(KernelError),
    /// Only sockets that end.
    AtEnd(KernelError),
    /// None.
    Missing(KernelError),
}

/// The running eBPF programs, which are detached on drop.
pub struct KernelHalf {
    ebpf: Ebpf,
    events: RingBuf<MapData>,
    lost: Array<MapData, u64>,
    oom: OomEvents,
    sockets: SocketEvents,
    buffer: Vec<u8>,
    /// Tasks of the last scan, ordered by their numbers.
    last_tasks: Vec<RawTask>,
    iterator: &'static str,
    classifier: WaitClassifier,
    symbols: KernelSymbols,
}

impl KernelHalf {
    /// Loads and attaches the programs. `memory_hierarchy` is the number of the v1 hierarchy with
    /// the memory controller, or 0 with cgroup v2.
    pub fn load(memory_hierarchy: u32) -> Result<Self, KernelError> {
        // Kernels before 5.11 charge maps to this limit; later ones ignore it.
        let unlimited = Rlimit {
            current: None,
            maximum: None,
        };
        if let Err(error) = setrlimit(Resource::Memlock, unlimited) {
            tracing::debug!(%error, "failed to raise the limit of locked memory");
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
        let (iterator, reports_stacks) = load_iterators(&mut ebpf, &btf)?;
        let symbols = KernelSymbols::new(
            take_map(&mut ebpf, "addresses", Array::try_from)?,
            reports_stacks,
        );
        let oom = attach_oom(&mut ebpf)?;
        let sockets = attach_sockets(&mut ebpf, &btf);
        let events = take_map(&mut ebpf, "events", RingBuf::try_from)?;
        let lost = take_map(&mut ebpf, "lost", Array::try_from)?;
        Ok(Self {
            ebpf,
            events,
            lost,
            oom,
            sockets,
            buffer: Vec::new(),
            last_tasks: Vec::new(),
            iterator,
            classifier: WaitClassifier::default(),
            symbols,
        })
    }

    /// Whether victims of the out-of-memory killer are reported.
    pub const fn oom_events(&self) -> &OomEvents {
        &self.oom
    }

    /// Which TCP sockets are reported.
    pub const fn socket_events(&self) -> &SocketEvents {
        &self.sockets
    }

    /// The open TCP sockets; `None` if the kernel does not list them.
    pub fn sockets(&mut self) -> Result<Option<SocketList>, KernelError> {
        let iterator = match self.sockets {
            SocketEvents::Whole => SOCKET_ITERATOR,
            SocketEvents::OwnNamespace(_) => CONNECTION_ITERATOR,
            SocketEvents::AtEnd(_) | SocketEvents::Missing(_) => return Ok(None),
        };
        let mut bytes = Vec::new();
        let extent = iterate(&mut self.ebpf, iterator, &mut bytes)?;
        let open = record::sockets(&bytes);
        Ok(Some(SocketList { open, extent }))
    }

    /// Passes on every event that waits now, oldest first. Under overload new events come without
    /// end, so those beyond one ring buffer wait for the next drain.
    pub fn drain(&mut self, mut each: impl FnMut(ProcessEvent)) -> Extent {
        let mut taken = 0;
        while let Some(item) = self.events.next() {
            match record::event(&item) {
                Some(event) => each(event),
                None => tracing::warn!(
                    bytes = item.len(),
                    "failed to read an event of an unknown kind"
                ),
            }
            taken += bytes_in_ring(item.len());
            if taken >= RING_BYTES {
                return Extent::Truncated;
            }
        }
        Extent::Complete
    }

    /// Requests the missing names of addresses. One request names as many addresses as there are
    /// tasks, and a small machine has more addresses than tasks.
    fn name_addresses(&mut self, tasks: &[RawTask]) {
        let mut missing = usize::MAX;
        for _ in 0..MAX_REQUESTS {
            let addresses = threads::unnamed_addresses(tasks, &self.classifier);
            if addresses.is_empty() || addresses.len() >= missing {
                return;
            }
            missing = addresses.len();
            match self.symbols.resolve(&mut self.ebpf, &addresses) {
                Ok(names) => self.classifier.learn(&names),
                Err(error) => {
                    tracing::debug!(%error, "failed to resolve kernel addresses; wait reasons stay unknown");
                    return;
                }
            }
        }
    }

    /// Scans every task once and sums them by process.
    pub fn sample(&mut self) -> Result<Samples, KernelError> {
        let extent = iterate(&mut self.ebpf, self.iterator, &mut self.buffer)?;
        let (tasks, unchanged) = record::tasks(&self.buffer, &self.last_tasks);
        self.buffer.clear();
        // Only the first scan needs more memory.
        self.buffer.shrink_to(USUAL_BYTES);
        let (mut changed, mut unnamed) = threads::by_process(&tasks, &self.classifier);
        if !unnamed.is_empty() && self.symbols.is_due() {
            self.name_addresses(&tasks);
            (changed, unnamed) = threads::by_process(&tasks, &self.classifier);
        }
        if self.symbols.is_unavailable() {
            unnamed.clear();
        }
        self.last_tasks = threads::to_keep(&tasks, &unnamed);
        Ok(Samples {
            changed,
            unchanged,
            zombies: threads::zombies(&tasks),
            extent,
        })
    }

    /// Events lost because the ring buffer was full, since the start.
    pub fn events_lost(&self) -> Result<u64, KernelError> {
        let named = |source| KernelError::Map {
            name: "lost",
            source,
        };
        (0..KINDS)
            .map(|kind| self.lost.get(&kind, 0).map_err(named))
            .sum()
    }
}

impl AsFd for KernelHalf {
    /// Readable when the ring buffer fills faster than it is drained.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

impl std::os::fd::AsRawFd for KernelHalf {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.events.as_raw_fd()
    }
}

/// The usual size of a scan.
const USUAL_BYTES: usize = 64 << 10;

const ITERATOR: &str = "each_task";
const ITERATOR_WITHOUT_STACKS: &str = "each_task_plain";

/// Limit of one scan: 20,000 tasks that all changed, and many more if most are idle. It is also that
/// of a list, of 80,000 sockets. Any user can have more, and the unit limits the probe to 64 MB.
const MAX_BYTES: u64 = 8 << 20;

/// Bytes of the ring buffer `events` in `ebpf/ring.h`. A drain that takes fewer could leave an event
/// until a scan after the next one. The process would be gone then, and counted again.
const RING_BYTES: usize = 1 << 20;

/// Bytes that a record takes in the ring buffer.
///
/// Source: `BPF_RINGBUF_HDR_SZ` and `__bpf_ringbuf_reserve` in `kernel/bpf/ringbuf.c`.
const fn bytes_in_ring(record: usize) -> usize {
    const HEADER: usize = 8;
    (HEADER + record).next_multiple_of(8)
}

/// Runs an iterator once. Reading consumes the link, so each call attaches it again.
fn iterate(ebpf: &mut Ebpf, name: &'static str, into: &mut Vec<u8>) -> Result<Extent, KernelError> {
    into.clear();
    let named = |source| KernelError::Program { name, source };
    let program = iterator(ebpf, name)?;
    let link = program.attach().map_err(named)?;
    let link = program.take_link(link).map_err(named)?;
    let file = link.into_file().map_err(KernelError::Link)?;
    let read = file.take(MAX_BYTES).read_to_end(into);
    match read.map_err(KernelError::Iterate)? as u64 >= MAX_BYTES {
        true => Ok(Extent::Truncated),
        false => Ok(Extent::Complete),
    }
}

fn iterator<'a>(ebpf: &'a mut Ebpf, name: &'static str) -> Result<&'a mut Iter, KernelError> {
    ebpf.program_mut(name)
        .ok_or(KernelError::Missing(name))?
        .try_into()
        .map_err(|source| KernelError::Program { name, source })
}

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

/// Loads the task iterator. The flag is true if it reports kernel stacks, which some kernels do not
/// allow.
fn load_iterators(ebpf: &mut Ebpf, btf: &Btf) -> Result<(&'static str, bool), KernelError> {
    let mut load = |name| {
        let loaded = iterator(ebpf, name)?.load("task", btf);
        loaded.map_err(|source| KernelError::Program { name, source })
    };
    let refused = match load(ITERATOR).and_then(|()| load(kernel_symbols::PROGRAM)) {
        Ok(()) => return Ok((ITERATOR, true)),
        Err(error) => error,
    };
    tracing::warn!(error = %refused, "failed to load the iterator that reads kernel stacks; wait reasons are unknown");
    load(ITERATOR_WITHOUT_STACKS)?;
    Ok((ITERATOR_WITHOUT_STACKS, false))
}

/// Attaches the socket programs. They are optional, so a kernel that refuses them is observed
/// without them.
fn attach_sockets(ebpf: &mut Ebpf, btf: &Btf) -> SocketEvents {
    for (name, tracepoint) in SOCKET_TRACEPOINTS {
        if let Err(error) = attach_typed(ebpf, name, tracepoint, btf) {
            return SocketEvents::Missing(error);
        }
    }
    let mut load = |name, target: &str| {
        let loaded = iterator(ebpf, name)?.load(target, btf);
        loaded.map_err(|source| KernelError::Program { name, source })
    };
    match load(SOCKET_ITERATOR, "task_file") {
        Ok(()) => SocketEvents::Whole,
        Err(error) => match load(CONNECTION_ITERATOR, "tcp") {
            Ok(()) => SocketEvents::OwnNamespace(error),
            Err(_) => SocketEvents::AtEnd(error),
        },
    }
}

/// Attaches the tracepoint of out-of-memory kills; everything else works without it.
fn attach_oom(ebpf: &mut Ebpf) -> Result<OomEvents, KernelError> {
    const NAME: &str = "on_oom";
    let named = |source| KernelError::Program { name: NAME, source };
    let program: &mut RawTracePoint = ebpf
        .program_mut(NAME)
        .ok_or(KernelError::Missing(NAME))?
        .try_into()
        .map_err(named)?;
    program.load().map_err(named)?;
    Ok(match program.attach("mark_victim") {
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
