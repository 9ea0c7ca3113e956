//! Tasks in the cgroups that ECS would create on this machine, in every hierarchy with a
//! controller.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};

use ebb_probe::cgroup::{Hierarchy, Version};
use ebb_telemetry::units::{Bytes, CpuTime};
use ebb_test_support::skip;

const V1: &str = "/sys/fs/cgroup";

/// Skips the test if this machine loads no eBPF.
pub(crate) fn needs_ebpf() {
    if !rustix::process::geteuid().is_root() {
        skip("not root");
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        skip("this kernel has no type information (/sys/kernel/btf/vmlinux)");
    }
    if let Err(error) = Hierarchy::find() {
        skip(error);
    }
}

/// The hierarchy of cgroup v2, which a machine can have in addition to cgroup v1.
pub(crate) fn version_two() -> Option<Hierarchy> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let line = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
    Some(Hierarchy {
        mount: line.split(' ').nth(4)?.into(),
        version: Version::V2,
    })
}

/// The limit of a task.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) memory: Bytes,
}

impl Limit {
    /// Whether a new cgroup can have a memory limit.
    pub(crate) fn holds_here(self) -> Result<(), String> {
        let task = Task::new(None);
        let file = task.memory_limit_file();
        fs::write(&file, self.memory.0.to_string())
            .map_err(|error| format!("{} cannot be set: {error}", file.display()))
    }
}

/// The kernel's counters of a task; `None` if the kernel does not count.
pub(crate) struct Counted {
    pub(crate) cpu: Option<CpuTime>,
    pub(crate) disk: Option<Bytes>,
}

/// The cgroups of a task, which are removed on drop.
pub(crate) struct Task {
    pub(crate) id: String,
    path: String,
    hierarchy: Hierarchy,
    trees: Vec<PathBuf>,
}

impl Task {
    pub(crate) fn new(limit: Option<Limit>) -> Self {
        Self::under(Hierarchy::find().expect("asked before"), limit)
    }

    /// A task whose cgroup is in this hierarchy.
    pub(crate) fn under(hierarchy: Hierarchy, limit: Option<Limit>) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let id = format!("{:024x}{count:08x}", std::process::id());
        let path = format!("ecs/{id}/{id}{id}");
        let trees = match hierarchy.version {
            Version::V2 => vec![hierarchy.mount.clone()],
            Version::V1 { .. } => ["cpuacct", "blkio"]
                .iter()
                .map(|name| Path::new(V1).join(name))
                .filter(|tree| tree.is_dir())
                .chain([hierarchy.mount.clone()])
                .collect(),
        };
        let task = Self {
            id,
            path,
            hierarchy,
            trees,
        };
        task.make();
        if let Some(limit) = limit {
            let file = task.memory_limit_file();
            fs::write(file, limit.memory.0.to_string()).expect("tried before");
        }
        task
    }

    fn make(&self) {
        for tree in &self.trees {
            let mut folder = tree.clone();
            for name in self.path.split('/') {
                // In cgroup v2 the parent must enable a controller; some machines refuse.
                for controller in ["+memory", "+io", "+cpu"] {
                    let _ = fs::write(folder.join("cgroup.subtree_control"), controller);
                }
                folder.push(name);
                fs::create_dir_all(&folder).expect("root makes cgroups");
            }
        }
    }

    pub(crate) fn folders(&self) -> impl Iterator<Item = PathBuf> {
        self.trees.iter().map(|tree| tree.join(&self.path))
    }

    pub(crate) fn memory_limit_file(&self) -> PathBuf {
        let name = match self.hierarchy.version {
            Version::V1 { .. } => "memory.limit_in_bytes",
            Version::V2 => "memory.max",
        };
        self.hierarchy.mount.join(&self.path).join(name)
    }

    /// Starts a shell in the task. It enters the cgroup before its program begins, as a container
    /// runtime does.
    pub(crate) fn start(&self, script: &str) -> Child {
        let [program, arguments @ ..] = self.command(script);
        let mut command = Command::new(program);
        command.args(arguments).spawn().expect("there is a shell")
    }

    /// The arguments of this command.
    pub(crate) fn command(&self, script: &str) -> [String; 5] {
        let enter = self
            .folders()
            .map(|f| format!("echo $$ >{}/cgroup.procs", f.display()));
        let enter: Vec<String> = enter.collect();
        let enter = format!("{} && exec sh -c \"$1\"", enter.join(" && "));
        ["sh", "-c", &enter, "sh", script].map(str::to_owned)
    }

    pub(crate) fn counted(&self) -> Counted {
        let read = |tree: &str, name: &str| {
            fs::read_to_string(Path::new(V1).join(tree).join(&self.path).join(name)).ok()
        };
        let here =
            |name: &str| fs::read_to_string(self.hierarchy.mount.join(&self.path).join(name)).ok();
        match self.hierarchy.version {
            Version::V1 { .. } => Counted {
                cpu: read("cpuacct", "cpuacct.usage")
                    .and_then(|text| text.trim().parse().ok())
                    .map(CpuTime),
                disk: read("blkio", "blkio.throttle.io_service_bytes")
                    .and_then(|text| field(&text, "Total"))
                    .map(Bytes),
            },
            Version::V2 => Counted {
                cpu: here("cpu.stat")
                    .and_then(|text| field(&text, "usage_usec"))
                    .map(|us| CpuTime(us * 1_000)),
                disk: here("io.stat").map(|text| Bytes(bytes_of_all(&text))),
            },
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        for folder in self.folders() {
            let _ = fs::remove_dir(&folder);
            if let Some(task) = folder.parent() {
                let _ = fs::remove_dir(task);
            }
        }
    }
}

fn field(text: &str, name: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

fn bytes_of_all(io_stat: &str) -> u64 {
    io_stat
        .split_whitespace()
        .filter_map(|word| {
            word.strip_prefix("rbytes=")
                .or(word.strip_prefix("wbytes="))
        })
        .filter_map(|number| number.parse::<u64>().ok())
        .sum()
}
