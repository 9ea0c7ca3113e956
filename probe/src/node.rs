//! Properties and clocks of this machine. [`crate::connect`] determines its node id in the cloud.

mod hardware;
mod metadata;

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ebb_cloud::store::open_beneath;
use ebb_telemetry::arrival::Sent;
use ebb_telemetry::heartbeat::{Hardware, ProbeCost};
use ebb_telemetry::identity::{BootId, IdentityError, NodeId, ProbeStart};
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, CpuTime};
use jiff::Timestamp;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::time::{ClockId, Timespec, clock_gettime};
use thiserror::Error;

use self::hardware::{Devices, hardware};
pub(crate) use self::hardware::{PROCESSORS, processors};
use self::metadata::CloudVendor;
use crate::kernel::engine_task::{self, EngineTask};
use crate::kernel::script::{self, Script};
use crate::kernel::snakemake::{self, Snakemake};
use crate::kernel::task_header::{self, TaskHeader};
use crate::kernel::{Comm, Process, ProcessKey, Start, WorkFolder};
use crate::kernel_file;
use crate::proc_stat::{ProcessStat, tick_ns};

/// Why a property of the machine could not be read.
#[derive(Debug, Error)]
pub enum NodeError {
    /// A kernel file could not be read.
    #[error("failed to read {path}; mount /proc")]
    Read {
        /// The file.
        path: &'static str,
        /// The cause.
        source: std::io::Error,
    },
    /// A kernel file has unexpected content.
    #[error("unexpected content of {path}: '{content}'")]
    Content {
        /// The file.
        path: &'static str,
        /// The content.
        content: String,
    },
    /// The name is not a valid node id.
    #[error(transparent)]
    Name(#[from] IdentityError),
    /// The kernel gave no random bytes.
    #[error("failed to get random bytes from the kernel")]
    Random(#[source] rustix::io::Errno),
}

fn text(path: &'static str) -> Result<String, NodeError> {
    let text = kernel_file::read(path).map_err(|source| NodeError::Read { path, source })?;
    Ok(text.trim().to_owned())
}

/// The current boot-time clock.
pub fn clock() -> BootClock {
    BootClock::from_nanos(nanos(clock_gettime(ClockId::Boottime)))
}

/// The CPU time of this program since its start.
fn own_cpu() -> CpuTime {
    CpuTime(nanos(clock_gettime(ClockId::ProcessCPUTime)))
}

/// Both clocks start at zero and are never negative.
fn nanos(time: Timespec) -> u64 {
    let part = |n: i64| u64::try_from(n).unwrap_or(0);
    part(time.tv_sec).saturating_mul(1_000_000_000) + part(time.tv_nsec)
}

/// The resident memory of the process whose folder in procfs this is.
pub(crate) fn resident(folder: &str) -> Option<Bytes> {
    let statm = kernel_file::read(format!("{folder}/statm")).ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(Bytes(pages * rustix::param::page_size() as u64))
}

/// Properties of the machine for a heartbeat.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    /// The hardware.
    pub hardware: Hardware,
    /// Time since the last key press; `None` if there is no terminal.
    pub typed_ago: Option<Duration>,
    /// Resource use of the probe, without the counters of lost data.
    pub probe: ProbeCost,
    /// The wall clock.
    pub wall: Timestamp,
}

/// State between two samples of the machine.
#[derive(Debug)]
pub struct MachineSampler {
    cost_until: CpuTime,
    devices: Devices,
    hardware: Hardware,
}

impl MachineSampler {
    /// Starts to sample: the probe's resource use counts from now on.
    ///
    /// # Errors
    /// If the kernel's files about the hardware cannot be read.
    pub fn begin() -> Result<Self, NodeError> {
        let mut devices = Devices::default();
        Ok(Self {
            cost_until: own_cpu(),
            hardware: hardware(&mut devices)?,
            devices,
        })
    }

    /// The last known hardware.
    pub const fn hardware(&self) -> Hardware {
        self.hardware
    }

    /// The present machine, with the probe's resource use since the last sample. If the hardware
    /// cannot be read, for example because too many files are open, the last known hardware is
    /// used.
    pub fn now(&mut self) -> Machine {
        let cpu = own_cpu();
        let before = std::mem::replace(&mut self.cost_until, cpu);
        match hardware(&mut self.devices) {
            Ok(hardware) => self.hardware = hardware,
            Err(error) => {
                tracing::warn!(%error, "failed to read the hardware; the last known is used")
            }
        }
        Machine {
            hardware: self.hardware,
            typed_ago: typed_ago(),
            probe: ProbeCost {
                cpu: CpuTime(cpu.0.saturating_sub(before.0)),
                resident: resident("/proc/self"),
                ..ProbeCost::default()
            },
            wall: Timestamp::now(),
        }
    }
}

/// The clocks at the time of sending.
pub fn sent(boot: &BootId) -> Sent {
    Sent {
        boot: boot.clone(),
        clock: clock(),
        wall: Timestamp::now(),
    }
}

/// The kernel's random id of this boot.
pub fn boot_id() -> Result<BootId, NodeError> {
    Ok(BootId::new(text("/proc/sys/kernel/random/boot_id")?)?)
}

/// A new random id for this start of the probe.
pub fn probe_start() -> Result<ProbeStart, NodeError> {
    let mut bytes = [0_u8; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(NodeError::Random)?;
    Ok(ProbeStart::new(format!(
        "{:032x}",
        u128::from_le_bytes(bytes)
    ))?)
}

/// The name of the machine if no cloud attests it: the instance id in the inventory, or else the
/// host name. If the host name is not specific, it is the machine id.
pub fn own_identity() -> Result<NodeId, NodeError> {
    if let Some(cloud) = CloudVendor::of_machine(Path::new("/")) {
        match cloud.instance(metadata::SERVER) {
            Ok(node) => return Ok(node),
            Err(error) => {
                tracing::warn!(%error, "failed to get the instance id; the host name is used")
            }
        }
    }
    let name = host_name()?;
    match name.as_str() {
        "localhost" | "localhost.localdomain" => Ok(NodeId::new(text("/etc/machine-id")?)?),
        _ => Ok(name),
    }
}

/// The host name, for data that does not leave the machine.
pub fn host_name() -> Result<NodeId, NodeError> {
    Ok(NodeId::new(text("/proc/sys/kernel/hostname")?)?)
}

/// Time since the last key press on any terminal. The kernel stores it as the access time, with a
/// resolution of about eight seconds. `None` if there is no terminal.
fn typed_ago() -> Option<Duration> {
    typed_in(Path::new("/dev/pts"), &[""])
        .into_iter()
        .chain(typed_in(Path::new("/dev"), &CONSOLES))
        .min()
}

/// Prefixes of the machine's own terminals: screens, serial lines and hypervisor consoles. Input
/// from a device on a serial line also keeps a node from being idle, which is the safe error.
const CONSOLES: [&str; 4] = ["tty", "ttyS", "ttyAMA", "hvc"];

fn typed_in(folder: &Path, kinds: &[&str]) -> Option<Duration> {
    let now = SystemTime::now();
    let ago = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_str()?;
        let numbers = kinds.iter().filter_map(|kind| name.strip_prefix(kind));
        numbers.filter_map(|n| n.parse::<u32>().ok()).next()?;
        let seconds = u64::try_from(entry.metadata().ok()?.atime()).ok()?;
        now.duration_since(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
            .ok()
    };
    fs::read_dir(folder).ok()?.flatten().filter_map(ago).min()
}

/// The data that the start event of a running process would contain.
pub fn start_of(process: &Process) -> Start {
    let Some((folder, arguments)) = arguments(process.key) else {
        return Start::default();
    };
    let start = Start {
        work_folder: work_folder(&folder, &arguments),
        script: script_in(process, &arguments),
        snakemake: snakemake_in(process, &arguments),
        engine_task: engine_task_in(process, &folder, &arguments),
        task_header: None,
        // The scan that calls this provides it.
        user: None,
        namespaces: None,
    };
    // Most processes have neither and need no second check.
    let (key, program) = (process.key, process.comm);
    if start == Start::default() || is_of(key, program, &folder) == Some(true) {
        start
    } else {
        Start::default()
    }
}

/// The script of an interpreter, and the task that the arguments name in the form of an engine. None
/// for any other program and for an ended process.
pub fn script_and_task_of(process: &Process) -> (Option<Script>, Option<Box<EngineTask>>) {
    let Some((folder, arguments)) = arguments(process.key) else {
        return (None, None);
    };
    let script = script_in(process, &arguments);
    let task = engine_task_in(process, &folder, &arguments);
    let is_found = script.is_some() || task.is_some();
    match is_found && is_of(process.key, process.comm, &folder) == Some(true) {
        true => (script, task),
        false => (None, None),
    }
}

/// The task that the arguments or the title of a process name in the form of an engine; `None` for any
/// other process and for an ended one.
pub fn engine_task_of(process: &Process) -> Option<Box<EngineTask>> {
    script_and_task_of(process).1
}

/// The work of a process of Snakemake; `None` for any other program and for an ended process.
pub fn snakemake_of(process: &Process) -> Option<Snakemake> {
    let (folder, arguments) = arguments(process.key)?;
    let snakemake = snakemake_in(process, &arguments)?;
    is_of(process.key, process.comm, &folder)?.then_some(snakemake)
}

/// The name of a task of Nextflow, from the script that the process runs; `None` for any other
/// program, for an ended process and for a file that is not safe to read.
pub fn task_header_of(process: &Process) -> Option<TaskHeader> {
    let (folder, arguments) = arguments(process.key)?;
    let script = first_bytes(&folder, script_in_arguments(&arguments)?)?;
    let header = TaskHeader::parse(&script)?;
    is_of(process.key, process.comm, &folder)?.then_some(header)
}

/// The first bytes of a script of a process, as the process itself finds the path. `folder` is the
/// procfs directory of the process. The script must be a regular file of the user of the process. A
/// symbolic link inside of the path cannot lead out of the root directory of the process. Where
/// systemd denies `openat2` to the probe, a path with a link is not read.
fn first_bytes(folder: &Path, path: &str) -> Option<Vec<u8>> {
    let (base, below) = match path.strip_prefix('/') {
        Some(below) => ("root", below),
        None => ("cwd", path),
    };
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let base = rustix::fs::open(folder.join(base), directory, Mode::empty()).ok()?;
    // A pipe must not block the probe, and a terminal must not become its own.
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let file = match rustix::fs::openat2(&base, below, flags, Mode::empty(), resolve) {
        Ok(file) => fs::File::from(file),
        Err(Errno::NOSYS) => open_beneath(base, Path::new(below), flags).ok()?,
        Err(_) => return None,
    };
    let (found, process) = (file.metadata().ok()?, fs::metadata(folder).ok()?);
    if !found.is_file() || found.uid() != process.uid() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(task_header::MAX_BYTES)
        .read_to_end(&mut bytes)
        .ok()?;
    Some(bytes)
}

/// The arguments of a process, separated by NUL; `None` if it has ended.
pub fn arguments_of(key: ProcessKey, program: Comm) -> Option<Vec<u8>> {
    let (folder, arguments) = arguments(key)?;
    is_of(key, program, &folder)?.then_some(arguments)
}

/// The result of `find` for the path of the work directory of a process, as the process sees it; `None`
/// without a result, or if the process has ended. Only a process with a result is read further.
pub fn in_work_directory<T>(key: ProcessKey, find: impl Fn(&Path) -> Option<T>) -> Option<T> {
    let folder = Path::new("/proc").join(key.pid.to_string());
    let found = find(&fs::read_link(folder.join("cwd")).ok()?)?;
    let stat = ProcessStat::parse(&kernel_file::read(folder.join("stat")).ok()?)?;
    (key.start.as_nanos() / tick_ns() == stat.start_ticks).then_some(found)
}

/// The paths of a process's open files, at most `room`, which is reduced by their number. Empty for
/// an ended process. Devices and files that the kernel generates are left out.
pub fn files_of(key: ProcessKey, program: Comm, room: &mut usize) -> Vec<String> {
    let folder = Path::new("/proc").join(key.pid.to_string());
    let made_up = ["/dev/", "/proc/", "/sys/", "/memfd:"];
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder.join("fd")).into_iter().flatten() {
        if *room == 0 {
            break;
        }
        *room -= 1;
        let target = entry.and_then(|entry| fs::read_link(entry.path()));
        let path = target
            .ok()
            .and_then(|path| path.into_os_string().into_string().ok());
        let is_file = |path: &String| {
            let plain = path.starts_with('/') && !path.chars().any(char::is_control);
            plain && !made_up.iter().any(|start| path.starts_with(start))
        };
        paths.extend(path.filter(is_file));
    }
    match is_of(key, program, &folder) {
        Some(true) => paths,
        _ => Vec::new(),
    }
}

/// The names of the directories in which the kubelet stores pod logs; empty if there is no kubelet
/// or it stores them elsewhere (`podLogsDir`).
pub fn pod_folders() -> Vec<String> {
    // By default a node has 110 pods, and there are logs of deleted pods.
    const MOST_FOLDERS: usize = 4_096;
    let found = fs::read_dir("/var/log/pods")
        .into_iter()
        .flatten()
        .flatten();
    let names = found.filter_map(|entry| entry.file_name().into_string().ok());
    names.take(MOST_FOLDERS).collect()
}

fn script_in(process: &Process, arguments: &[u8]) -> Option<Script> {
    script::parse(&process.comm.to_string(), texts(arguments))
}

fn snakemake_in(process: &Process, arguments: &[u8]) -> Option<Snakemake> {
    let is_python = process.comm.to_string().starts_with("py");
    is_python.then(|| snakemake::parse(texts(arguments)))?
}

fn engine_task_in(process: &Process, folder: &Path, arguments: &[u8]) -> Option<Box<EngineTask>> {
    if !engine_task::can_name_a_task(&process.comm.to_string()) {
        return None;
    }
    let named = engine_task::parse(texts(arguments));
    let task = named
        .or_else(|| engine_task::is_miniwdl(texts(arguments)).then(|| miniwdl_task(folder))?);
    task.map(Box::new)
}

/// The task of a container of miniwdl, from the folder on the node that is mounted as its work
/// folder. The folder itself does not leave the node.
fn miniwdl_task(folder: &Path) -> Option<EngineTask> {
    const MOST_BYTES: u64 = 256 << 10;
    let work = fs::read_link(folder.join("cwd")).ok()?;
    let mut mounts = String::new();
    let file = fs::File::open(folder.join("mountinfo")).ok()?;
    file.take(MOST_BYTES).read_to_string(&mut mounts).ok()?;
    engine_task::miniwdl(Path::new(mounted(&mounts, work.to_str()?)?))
}

/// The root of the mount at `point`: its path in its own file system.
///
/// Source: `proc_pid_mountinfo(5)`.
fn mounted<'a>(mounts: &'a str, point: &str) -> Option<&'a str> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(3);
        let root = fields.next()?;
        (fields.next()? == point).then_some(root)
    })
}

/// The arguments up to the first one that is not text.
fn texts(arguments: &[u8]) -> impl Iterator<Item = &str> {
    let arguments = arguments.strip_suffix(b"\0").unwrap_or(arguments);
    arguments
        .split(|b| *b == 0)
        .map_while(|argument| str::from_utf8(argument).ok())
}

/// The procfs directory of the process that has this number now, and the first bytes of its
/// arguments. Arguments leave the node only if the configuration enables it. A later process can
/// have the same number: the caller must check [`is_of`] before it uses the result.
fn arguments(key: ProcessKey) -> Option<(PathBuf, Vec<u8>)> {
    const MOST_BYTES: u64 = 16 << 10;
    let folder = Path::new("/proc").join(key.pid.to_string());
    let mut arguments = Vec::new();
    let file = fs::File::open(folder.join("cmdline")).ok()?;
    file.take(MOST_BYTES).read_to_end(&mut arguments).ok()?;
    Some((folder, arguments))
}

/// Whether a procfs directory belongs to this process and program. The start time is compared with
/// the resolution of a clock tick.
fn is_of(key: ProcessKey, program: Comm, folder: &Path) -> Option<bool> {
    let stat = ProcessStat::parse(&kernel_file::read(folder.join("stat")).ok()?)?;
    let ticks = key.start.as_nanos() / tick_ns();
    Some(ticks == stat.start_ticks && stat.comm == program.to_string())
}

fn script_in_arguments(arguments: &[u8]) -> Option<&str> {
    task_header::script_path(arguments.strip_suffix(b"\0")?.split(|b| *b == 0))
}

/// The work directory, if a process is the start of a Nextflow task. Only the name of the script is
/// used, as in the eBPF programs for later starts.
fn work_folder(folder: &Path, arguments: &[u8]) -> Option<WorkFolder> {
    script_in_arguments(arguments)?;
    let work = fs::read_link(folder.join("cwd")).ok()?;
    let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
    Some(WorkFolder {
        leaf: name(&work)?,
        parent: name(work.parent()?)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_regular_file_of_the_task_s_user_is_read_for_a_header() {
        let folder = tempfile::tempdir().expect("a folder");
        let in_folder = |name: &str| folder.path().join(name);
        let text = b"# NEXTFLOW TASK: QC (S1)\n";
        fs::write(in_folder(".command.run"), text).expect("a file");
        fs::create_dir(in_folder("link")).expect("a folder");
        std::os::unix::fs::symlink(in_folder(".command.run"), in_folder("link/.command.run"))
            .expect("a link");
        fs::create_dir(in_folder("pipe")).expect("a folder");
        let fifo = rustix::fs::FileType::Fifo;
        let mode = Mode::from_raw_mode(0o600);
        let pipe = in_folder("pipe/.command.run");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, fifo, mode, 0).expect("a pipe");
        fs::create_dir(in_folder("large")).expect("a folder");
        fs::write(in_folder("large/.command.run"), vec![b'#'; 1 << 20]).expect("a file");
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .current_dir(folder.path())
            .spawn()
            .expect("a process");
        let process = Path::new("/proc").join(child.id().to_string());
        let read = |path: &str| first_bytes(&process, path);
        let absolute = |name: &str| read(in_folder(name).to_str().expect("a path"));
        let got = [
            read(".command.run"),
            absolute(".command.run"),
            absolute("link/.command.run"),
            absolute("pipe/.command.run"),
            absolute("none/.command.run"),
        ];
        let large = absolute("large/.command.run");
        child.kill().expect("it ran");
        child.wait().expect("it ended");
        let whole = Some(text.to_vec());
        assert_eq!(got, [whole.clone(), whole, None, None, None]);
        assert_eq!(large.map(|bytes| bytes.len()), Some(4_096));
        assert_eq!(read(".command.run"), None);
    }

    #[test]
    fn clocks_go_forward_and_each_run_has_another_name() {
        let (before, after) = (clock(), clock());
        assert!(after.since(before).is_some());
        assert_ne!(
            probe_start().expect("random"),
            probe_start().expect("random")
        );
    }

    #[test]
    fn what_the_probe_cost_is_told_once() {
        let mut sampler = MachineSampler::begin().expect("readable");
        let began = sampler.cost_until;
        let spin = (0..2_000_000_u64).fold(0, |a, b| a ^ b.rotate_left(7));
        assert_ne!(spin, 1);
        let machine = sampler.now();
        assert_eq!(machine.probe.cpu.0, sampler.cost_until.0 - began.0);
        assert!(sampler.cost_until > began);
        assert!(
            machine
                .probe
                .resident
                .is_some_and(|held| held > Bytes::mib(1))
        );
        assert!(machine.hardware.memory > Bytes::mib(64), "{machine:?}");
    }

    #[test]
    fn a_mount_has_the_root_that_mountinfo_contains() {
        let mounts = "22 1 0:21 / / rw - ext4 /dev/a rw\n\
                      40 22 0:21 /d/run/call-a/work /mnt/t/work rw shared:1 - ext4 /dev/a rw\n";
        assert_eq!(mounted(mounts, "/mnt/t/work"), Some("/d/run/call-a/work"));
        assert_eq!(mounted(mounts, "/mnt/t"), None);
        assert_eq!(mounted("broken", "/"), None);
    }

    #[test]
    fn the_last_key_press_is_the_newest_access_to_a_terminal() {
        let check = |kinds: &[&str], names: &[&str], expect: bool| {
            let folder = tempfile::tempdir().expect("a folder");
            for name in names {
                fs::write(folder.path().join(name), "").expect("a file");
            }
            let ago = typed_in(folder.path(), kinds);
            assert_eq!(ago.is_some(), expect, "{names:?}");
            assert!(ago.is_none_or(|ago| ago < Duration::from_secs(60)));
        };
        check(&[""], &[], false);
        check(&[""], &["ptmx"], false);
        check(&[""], &["ptmx", "3"], true);
        check(&CONSOLES, &["null", "tty", "ttyprintk", "hvcs", "3"], false);
        for console in ["tty1", "ttyS0", "ttyAMA0", "hvc0"] {
            check(&CONSOLES, &["null", console], true);
        }
    }
}
