//! The fallback for kernels that do not load eBPF programs: samples processes from procfs. A
//! process that starts and ends between two scans is missed. The end of other processes is noticed
//! late and without a status. The results have the same types as those of the eBPF programs.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, CpuTime};

use crate::cgroup::Hierarchy;
use crate::kernel::{
    CgroupId, Comm, DiskBytes, Process, ProcessEvent, ProcessKey, Resident, Start, TaskKind,
    TaskSample, Totals,
};
use crate::kernel_file;
use crate::node;
use crate::proc_stat::{ProcessStat, tick_ns};

/// The flag of a kernel thread.
///
/// Source: `include/linux/sched.h`.
const PF_KTHREAD: u64 = 0x0020_0000;

/// Samples processes.
#[derive(Debug)]
pub struct Sampler {
    root: PathBuf,
    hierarchy: Hierarchy,
    programs: HashMap<ProcessKey, Comm>,
    busy: Option<CpuTime>,
}

/// The result of one scan.
#[derive(Debug, Default)]
pub struct ProcessScan {
    /// Events that must have happened since the last scan, parents first.
    pub events: Vec<ProcessEvent>,
    /// All processes.
    pub samples: Vec<TaskSample>,
}

impl Sampler {
    /// Starts to sample; `root` is the directory of `proc`.
    pub fn new(root: impl Into<PathBuf>, hierarchy: Hierarchy) -> Self {
        let root = root.into();
        Self {
            busy: busy(&root),
            root,
            hierarchy,
            programs: HashMap::new(),
        }
    }

    /// Reads every process once. A process that ends meanwhile is left out.
    pub fn scan(&mut self) -> ProcessScan {
        let mut scan = ProcessScan::default();
        let mut programs = HashMap::with_capacity(self.programs.len());
        for folder in fs::read_dir(self.root.join("proc")).into_iter().flatten() {
            let Some((sample, cgroup)) = folder.ok().and_then(|f| self.sample(&f.path())) else {
                continue;
            };
            let process = sample.process;
            if self.programs.get(&process.key) != Some(&process.comm)
                && sample.kind == TaskKind::User
            {
                let learnt = process.cgroup.zip(cgroup);
                let learnt = learnt.map(|(id, path)| ProcessEvent::CgroupMade { id, path });
                scan.events.extend(learnt);
                scan.events.push(ProcessEvent::Executed {
                    process,
                    maxrss_before: Bytes(0),
                    start: Start {
                        user: sample.user,
                        ..node::start_of(&process)
                    },
                });
            }
            programs.insert(process.key, process.comm);
            scan.samples.push(sample);
        }
        self.programs = programs;
        scan.events.sort_by_key(|event| match event {
            ProcessEvent::Executed { process, .. } => Some((process.key.start, process.key.pid)),
            _ => None,
        });
        scan
    }

    /// The CPU time of all tasks since the last call, including tasks that no scan contained;
    /// `None` if it cannot be read.
    pub fn busy_since_last(&mut self) -> Option<CpuTime> {
        let before = std::mem::replace(&mut self.busy, busy(&self.root));
        self.busy?.0.checked_sub(before?.0).map(CpuTime)
    }

    fn sample(&self, folder: &Path) -> Option<(TaskSample, Option<String>)> {
        let pid: u32 = folder.file_name()?.to_str()?.parse().ok()?;
        let read = |name: &str| kernel_file::read(folder.join(name)).ok();
        let stat = ProcessStat::parse(&read("stat")?)?;
        let kernel = stat.flags & PF_KTHREAD != 0;
        let cgroup = read("cgroup").and_then(|text| path_of(&text, &self.hierarchy));
        let id = |path: &String| {
            let folder = self.hierarchy.mount.join(path.trim_start_matches('/'));
            fs::metadata(folder).ok().map(|about| CgroupId(about.ino()))
        };
        let process = Process {
            key: ProcessKey {
                pid,
                start: BootClock::from_nanos(stat.start_ticks.saturating_mul(tick_ns())),
            },
            parent: stat.parent,
            cgroup: cgroup.as_ref().and_then(id),
            comm: Comm::new(&stat.comm),
        };
        let status = read("status").filter(|_| !kernel);
        let sample = TaskSample {
            process,
            kind: if kernel {
                TaskKind::Kernel
            } else {
                TaskKind::User
            },
            totals: Totals {
                cpu: CpuTime(stat.cpu_ticks.saturating_mul(tick_ns())),
                disk: disk(folder),
            },
            resident: status.as_deref().and_then(resident_of),
            counters: None,
            state: None,
            threads: stat.threads,
            user: status.as_deref().and_then(user_of),
            namespaces: None,
        };
        // A zombie is left out: its end is reported as an event.
        (stat.state != 'Z' && stat.state != 'X').then_some((sample, cgroup))
    }
}

/// The sum over the threads, because the file of the process also includes its ended children.
/// `None` if it may not be read.
fn disk(folder: &Path) -> Option<DiskBytes> {
    let mut sum = DiskBytes::default();
    for thread in fs::read_dir(folder.join("task")).ok()?.flatten() {
        let text = kernel_file::read(thread.path().join("io")).ok()?;
        let field = |name: &str| -> Option<u64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().parse().ok()
        };
        sum.read = sum.read.saturating_add(Bytes(field("read_bytes:")?));
        sum.written = sum.written.saturating_add(Bytes(field("write_bytes:")?));
    }
    Some(sum)
}

/// `None` for a process without memory of its own.
fn resident_of(status: &str) -> Option<Resident> {
    let kib = |name: &str| -> Option<Bytes> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(Bytes(kib.saturating_mul(1_024)))
    };
    Some(Resident {
        anon: kib("RssAnon:")?,
        file: kib("RssFile:")?,
        shmem: kib("RssShmem:")?,
        high_water: kib("VmHWM:")?,
    })
}

/// The real user id, which is the first of the four ids.
fn user_of(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The path of a process in the relevant cgroup tree: `4:memory:/ecs/…` in v1, or
/// `0::/system.slice/…` in v2.
fn path_of(cgroup: &str, hierarchy: &Hierarchy) -> Option<String> {
    let number = hierarchy.memory_hierarchy().to_string();
    cgroup.lines().find_map(|line| {
        let (tree, rest) = line.split_once(':')?;
        let (_, path) = rest.split_once(':')?;
        (tree == number).then(|| path.to_owned())
    })
}

/// CPU time of all tasks since boot: the sum of the first three numbers, in ticks.
fn busy(root: &Path) -> Option<CpuTime> {
    let stat = kernel_file::read(root.join("proc/stat")).ok()?;
    let numbers = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: u64 = numbers
        .split_whitespace()
        .take(3)
        .map(|number| number.parse::<u64>().ok())
        .sum::<Option<u64>>()?;
    Some(CpuTime(ticks.saturating_mul(tick_ns())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::Version;

    fn machine(root: &Path, processes: &[(u32, &str, u64)]) {
        let proc = root.join("proc");
        let _ = fs::remove_dir_all(&proc);
        for (pid, comm, ticks) in processes {
            let folder = proc.join(pid.to_string());
            fs::create_dir_all(folder.join(format!("task/{pid}"))).expect("a folder");
            let write =
                |name: &str, text: &str| fs::write(folder.join(name), text).expect("a file");
            let stat = format!(
                "{pid} ({comm}) S 1 0 0 0 -1 4194560 0 0 0 0 {ticks} 3 9 9 20 0 1 0 500 0 0"
            );
            write("stat", &stat);
            write("cgroup", "1:cpu:/\n0::/ecs/t\n");
            let rss = "RssAnon:\t 10 kB\nRssFile:\t 4 kB\nRssShmem:\t 2 kB\nVmHWM:\t 99 kB\nUid:\t1000\t0\t0\t0\n";
            write("status", rss);
            let io = "rchar: 9\nread_bytes: 7\nwrite_bytes: 5\n";
            write(&format!("task/{pid}/io"), io);
        }
        fs::create_dir_all(&proc).expect("a folder");
        fs::write(proc.join("stat"), "cpu  10 20 30 40 50\ncpu0 1 2 3 4 5\n").expect("a file");
    }

    fn sampler(root: &Path) -> Sampler {
        fs::create_dir_all(root.join("cgroup/ecs/t")).expect("a folder");
        let hierarchy = Hierarchy {
            mount: root.join("cgroup"),
            version: Version::V2,
        };
        Sampler::new(root, hierarchy)
    }

    #[test]
    fn a_pass_tells_processes_and_the_programs_that_are_new() {
        let root = tempfile::tempdir().expect("a folder");
        let mut sampler = sampler(root.path());
        let mut check = |processes: &[(u32, &str, u64)], begun: &[&str], cpu_ms: &[u64]| {
            machine(root.path(), processes);
            let scan = sampler.scan();
            let mut programs = Vec::new();
            for event in &scan.events {
                if let ProcessEvent::Executed { process, start, .. } = event {
                    assert_eq!(start.user, Some(1_000));
                    programs.push(process.comm.to_string());
                }
            }
            assert_eq!(programs, begun);
            let mut cpu: Vec<u64> = scan.samples.iter().map(|s| s.totals.cpu.0).collect();
            cpu.sort_unstable();
            let expect: Vec<u64> = cpu_ms.iter().map(|ms| ms * 1_000_000).collect();
            assert_eq!(cpu, expect);
        };
        check(&[(7, "a) (b", 2)], &["a) (b"], &[50]);
        check(&[(7, "a) (b", 9)], &[], &[120]);
        check(&[(7, "other", 9), (8, "x", 0)], &["other", "x"], &[30, 120]);
        check(&[], &[], &[]);
    }

    #[test]
    fn a_process_has_the_cgroup_memory_and_disk_bytes_that_procfs_tells() {
        let root = tempfile::tempdir().expect("a folder");
        let mut sampler = sampler(root.path());
        machine(root.path(), &[(7, "a", 2)]);
        let scan = sampler.scan();
        let sample = scan.samples[0];
        let folder = fs::metadata(root.path().join("cgroup/ecs/t")).expect("made");
        let id = CgroupId(folder.ino());
        assert_eq!(sample.process.cgroup, Some(id));
        let path = "/ecs/t".to_owned();
        assert_eq!(scan.events[0], ProcessEvent::CgroupMade { id, path });
        assert_eq!(
            sample.process.key.start,
            BootClock::from_nanos(5_000_000_000)
        );
        assert_eq!((sample.threads, sample.user), (1, Some(1_000)));
        let resident = sample.resident.expect("it has memory");
        assert_eq!(resident.sum(), Bytes(16 << 10));
        assert_eq!(resident.peak(), Bytes(99 << 10));
        let disk = DiskBytes {
            read: Bytes(7),
            written: Bytes(5),
        };
        assert_eq!(sample.totals.disk, Some(disk));
    }

    #[test]
    fn what_all_tasks_used_is_told_since_the_last_look() {
        let root = tempfile::tempdir().expect("a folder");
        machine(root.path(), &[]);
        let mut sampler = sampler(root.path());
        let stat = root.path().join("proc/stat");
        fs::write(&stat, "cpu  15 20 31 99 99\n").expect("a file");
        assert_eq!(sampler.busy_since_last(), Some(CpuTime::from_millis(60)));
        fs::remove_file(&stat).expect("gone");
        assert_eq!(sampler.busy_since_last(), None);
    }
}
