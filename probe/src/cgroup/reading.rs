//! Memory use and limits of a cgroup, from the files of v1 and v2.

use std::fs;
use std::path::Path;

use ebb_telemetry::step::{Reclaim, Requested};
use ebb_telemetry::units::{Bytes, MilliCores};

use super::{Hierarchy, Version, below, pod_request};
use crate::kernel_file;
use crate::node::{PROCESSORS, processors};

/// The values of one cgroup at one instant; `None` means unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reading {
    /// Memory that counts against the limit and cannot be reclaimed: anonymous, shared and kernel
    /// memory.
    pub memory_used: Option<Bytes>,
    /// Its limits, including those of its ancestors; of a pod, its CPU request and its memory limit.
    pub limits: Requested,
    /// Processes that the kernel killed in it because of an out-of-memory condition.
    pub oom_kills: Option<u64>,
    /// How the kernel kept it within its memory limit.
    pub reclaim: Option<Reclaim>,
}

/// The values to read from a cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Memory use.
    MemoryUsed,
    /// Memory use and limits. Limits take several times as long to read and rarely change.
    All,
}

impl Wanted {
    /// Number of scans from one read of the limits to the next.
    const LIMITS_EVERY: u32 = 6;

    /// The values to read at the nth scan that contains a cgroup, counted from 1. `None` if nothing
    /// ran in it since the previous scan, because its memory use is unchanged.
    pub const fn for_scan(scan: u32, ran: bool) -> Option<Self> {
        match (scan % Self::LIMITS_EVERY, ran) {
            (1, _) => Some(Self::All),
            (_, true) => Some(Self::MemoryUsed),
            (_, false) => None,
        }
    }
}

/// Reads the cgroup at `path`; all values are unknown if it was removed.
pub fn read(hierarchy: &Hierarchy, path: &str, wanted: Wanted) -> Reading {
    let folder = hierarchy.folder(path);
    let file = |name: &str| text(&folder.join(name));
    let number = |name: &str| file(name)?.trim().parse().ok();
    let stat = file("memory.stat").unwrap_or_default();
    let (memory_used, oom_kills, pages_reclaimed, limit_hits) = match &hierarchy.version {
        Version::V1 { .. } => (
            memory_used_v1(&stat, number("memory.kmem.usage_in_bytes").unwrap_or(0)),
            file("memory.oom_control").and_then(|text| field(&text, "oom_kill")),
            None,
            number("memory.failcnt"),
        ),
        Version::V2 => {
            let events = file("memory.events").unwrap_or_default();
            let (kills, hits) = (field(&events, "oom_kill"), field(&events, "max"));
            (memory_used_v2(&stat), kills, reclaimed_v2(&stat), hits)
        }
    };
    Reading {
        memory_used,
        reclaim: limit_hits.map(|limit_hits| Reclaim {
            pages_reclaimed,
            limit_hits,
        }),
        oom_kills,
        limits: match wanted {
            Wanted::MemoryUsed => Requested::default(),
            Wanted::All => limits(hierarchy, path),
        },
    }
}

fn limits(hierarchy: &Hierarchy, path: &str) -> Requested {
    let mount = &hierarchy.mount;
    if pod_request::is_of_pod(path) {
        return of_pod(hierarchy, path);
    }
    let (cores, memory) = match &hierarchy.version {
        Version::V1 { cpu_mount, .. } => (
            cpu_mount
                .as_ref()
                .and_then(|mount| effective_limit(mount, path, quota_v1)),
            effective_limit(mount, path, limit_v1),
        ),
        Version::V2 => (
            effective_limit(mount, path, quota_v2),
            effective_limit(mount, path, limit_v2),
        ),
    };
    Requested {
        cores: cores.map(MilliCores),
        memory: memory.map(Bytes),
    }
}

/// The CPU request and the memory limit of a pod. Its cgroup contains no request of memory, and its limit
/// of CPU time is no request.
fn of_pod(hierarchy: &Hierarchy, path: &str) -> Requested {
    let mount = &hierarchy.mount;
    let (cores, memory) = match &hierarchy.version {
        Version::V1 { cpu_mount, .. } => (
            cpu_mount
                .as_ref()
                .and_then(|mount| pod_request::of_shares(mount, path)),
            effective_limit(mount, path, limit_v1),
        ),
        Version::V2 => {
            let cores = text(Path::new(PROCESSORS)).and_then(|text| processors(&text));
            let of_weight = |cores: u32| pod_request::of_weight(mount, path, cores.into());
            (
                cores.and_then(of_weight),
                effective_limit(mount, path, limit_v2),
            )
        }
    };
    Requested {
        cores: cores.map(MilliCores),
        memory: memory.map(Bytes),
    }
}

fn text(path: &Path) -> Option<String> {
    kernel_file::read(path).ok()
}

/// The effective limit of a cgroup: the least of its own limit, its ancestors' limits, and the sum
/// of its children's limits. ECS and Kubernetes can limit the containers without limiting the task
/// or pod.
fn effective_limit(mount: &Path, path: &str, limit: impl Fn(&Path) -> Option<u64>) -> Option<u64> {
    let within = children(&below(mount, path), &limit);
    let limits = [lowest_limit(mount, path, limit), within];
    limits.into_iter().flatten().min()
}

/// The sum of the children's limits; `None` if a child has no limit.
fn children(folder: &Path, limit: impl Fn(&Path) -> Option<u64>) -> Option<u64> {
    let mut folders = fs::read_dir(folder)
        .ok()?
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .peekable();
    folders.peek()?;
    folders.map(|child| limit(&child.path())).sum()
}

/// The least limit from the cgroup up to the root, without the root.
fn lowest_limit(mount: &Path, path: &str, limit: impl Fn(&Path) -> Option<u64>) -> Option<u64> {
    let mut least: Option<u64> = None;
    let mut path = path.trim_end_matches('/');
    while !path.is_empty() {
        let here = limit(&below(mount, path));
        least = match (least, here) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        path = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    }
    least
}

fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(' ')?;
        (key == name).then(|| value.trim().parse().ok())?
    })
}

fn memory_used_v1(stat: &str, kernel: u64) -> Option<Bytes> {
    let anon = field(stat, "total_rss")?;
    // Linux before 4.19 has no line for shared memory.
    let shared = field(stat, "total_shmem").unwrap_or(0);
    Some(Bytes(anon + shared + kernel))
}

/// Linux before 5.18 has no sum of kernel memory.
fn memory_used_v2(stat: &str) -> Option<Bytes> {
    let anon = field(stat, "anon")?;
    let shared = field(stat, "shmem")?;
    let kernel = match field(stat, "kernel") {
        Some(all) => all.saturating_sub(field(stat, "slab_reclaimable").unwrap_or(0)),
        None => [
            "kernel_stack",
            "pagetables",
            "percpu",
            "sock",
            "slab_unreclaimable",
        ]
        .iter()
        .filter_map(|name| field(stat, name))
        .sum(),
    };
    Some(Bytes(anon + shared + kernel))
}

/// Linux reports the value in pages since 4.20.
fn reclaimed_v2(stat: &str) -> Option<Bytes> {
    let pages = field(stat, "pgsteal")?;
    Some(Bytes(
        pages.saturating_mul(rustix::param::page_size() as u64),
    ))
}

/// In v1, the greatest multiple of the page size means "no limit".
fn limit_v1(folder: &Path) -> Option<u64> {
    const UNLIMITED_FROM: u64 = 1 << 62;
    let limit = text(&folder.join("memory.limit_in_bytes"))?;
    limit
        .trim()
        .parse()
        .ok()
        .filter(|bytes| *bytes < UNLIMITED_FROM)
}

/// In v2, a word means "no limit".
fn limit_v2(folder: &Path) -> Option<u64> {
    text(&folder.join("memory.max"))?.trim().parse().ok()
}

fn quota_v1(folder: &Path) -> Option<u64> {
    let period = text(&folder.join("cpu.cfs_period_us"))?;
    millicores(&text(&folder.join("cpu.cfs_quota_us"))?, &period)
}

fn quota_v2(folder: &Path) -> Option<u64> {
    let both = text(&folder.join("cpu.max"))?;
    let (quota, period) = both.split_once(' ')?;
    millicores(quota, period)
}

/// "No limit" is -1 or a word, so it does not parse as a number.
fn millicores(quota_us: &str, period_us: &str) -> Option<u64> {
    let quota: u64 = quota_us.trim().parse().ok()?;
    let period: u64 = period_us.trim().parse().ok()?;
    quota.checked_mul(1000)?.checked_div(period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_unknown_when_there_is_none() {
        type Limit = fn(&Path) -> Option<u64>;
        let check = |limit: Limit, files: &[(&str, &str)], expect: Option<u64>| {
            let folder = tempfile::tempdir().expect("a folder");
            for (name, text) in files {
                fs::write(folder.path().join(name), text).expect("a file");
            }
            assert_eq!(limit(folder.path()), expect, "{files:?}");
        };
        let memory_v1 = |text| [("memory.limit_in_bytes", text)];
        check(limit_v1, &memory_v1("9223372036854771712\n"), None);
        check(limit_v1, &memory_v1("1073741824\n"), Some(1 << 30));
        check(limit_v2, &[("memory.max", "max\n")], None);
        check(limit_v2, &[("memory.max", "1073741824\n")], Some(1 << 30));
        let cpu_v1 = |quota| {
            [
                ("cpu.cfs_quota_us", quota),
                ("cpu.cfs_period_us", "100000\n"),
            ]
        };
        check(quota_v1, &cpu_v1("-1\n"), None);
        check(quota_v1, &cpu_v1("150000\n"), Some(1500));
        check(quota_v2, &[("cpu.max", "max 100000\n")], None);
        check(quota_v2, &[("cpu.max", "50000 100000\n")], Some(500));
        check(quota_v2, &[], None);
    }

    #[test]
    fn held_memory_is_what_cannot_be_reclaimed() {
        let check = |got: Option<Bytes>, expect: Option<u64>| assert_eq!(got, expect.map(Bytes));
        check(
            memory_used_v2("anon 100\nfile 999\nkernel 30\nshmem 5\nslab_reclaimable 10\n"),
            Some(125),
        );
        check(
            memory_used_v2("anon 100\nfile 999\nkernel_stack 2\npagetables 3\nshmem 5\n"),
            Some(110),
        );
        check(memory_used_v2("file 999\n"), None);
        check(
            memory_used_v1("rss 1\ntotal_cache 999\ntotal_rss 100\ntotal_shmem 5\n", 7),
            Some(112),
        );
        check(memory_used_v1("cache 1\n", 7), None);
    }

    #[test]
    fn what_keeps_a_cgroup_within_its_memory_is_told_by_v2_whole_and_by_v1_in_part() {
        let check = |version: Version, files: &[(&str, &str)], expect: Option<Reclaim>| {
            let mount = tempfile::tempdir().expect("a folder");
            let folder = mount.path().join("task");
            fs::create_dir(&folder).expect("a folder");
            for (name, text) in files {
                fs::write(folder.join(name), text).expect("a file");
            }
            let hierarchy = Hierarchy {
                mount: mount.path().to_owned(),
                version,
            };
            let got = read(&hierarchy, "/task", Wanted::MemoryUsed).reclaim;
            assert_eq!(got, expect, "{files:?}");
        };
        let v1 = || Version::V1 {
            memory_hierarchy: 4,
            cpu_mount: None,
        };
        let page = rustix::param::page_size() as u64;
        let (stat, events) = (
            ("memory.stat", "anon 1\nshmem 0\npgscan 9\npgsteal 3\n"),
            (
                "memory.events",
                "low 0\nhigh 7\nmax 12\noom 1\noom_kill 1\n",
            ),
        );
        let reclaim = |pages_reclaimed, limit_hits| {
            Some(Reclaim {
                pages_reclaimed,
                limit_hits,
            })
        };
        check(
            Version::V2,
            &[stat, events],
            reclaim(Some(Bytes(3 * page)), 12),
        );
        check(Version::V2, &[events], reclaim(None, 12));
        check(Version::V2, &[stat], None);
        check(v1(), &[("memory.failcnt", "5\n")], reclaim(None, 5));
        check(v1(), &[], None);
    }

    #[test]
    fn the_least_limit_of_a_cgroup_and_its_ancestors_holds() {
        let mount = tempfile::tempdir().expect("a folder");
        let deep = mount.path().join("ecs/task/container");
        fs::create_dir_all(&deep).expect("folders");
        fs::write(mount.path().join("ecs/task/memory.max"), "100\n").expect("a file");
        fs::write(deep.join("memory.max"), "max\n").expect("a file");
        assert_eq!(
            lowest_limit(mount.path(), "/ecs/task/container", limit_v2),
            Some(100)
        );
        assert_eq!(lowest_limit(mount.path(), "/ecs", limit_v2), None);
        assert_eq!(lowest_limit(mount.path(), "/", limit_v2), None);
    }

    #[test]
    fn containers_limit_the_task_that_holds_them_if_each_is_limited() {
        let check = |task: &str, containers: &[&str], expect: Option<u64>| {
            let mount = tempfile::tempdir().expect("a folder");
            let folder = mount.path().join("ecs/task");
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(folder.join("memory.max"), task).expect("a file");
            for (n, limit) in containers.iter().enumerate() {
                let container = folder.join(n.to_string());
                fs::create_dir(&container).expect("a folder");
                fs::write(container.join("memory.max"), limit).expect("a file");
            }
            let got = effective_limit(mount.path(), "/ecs/task", limit_v2);
            assert_eq!(got, expect, "{task} {containers:?}");
        };
        check("max", &[], None);
        check("100", &[], Some(100));
        check("max", &["30"], Some(30));
        check("max", &["30", "40"], Some(70));
        check("max", &["30", "max"], None);
        check("50", &["30", "40"], Some(50));
        check("100", &["30"], Some(30));
    }
}
