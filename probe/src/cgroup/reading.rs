//! What a cgroup holds and what it is allowed, from the files of v1 and v2.

use std::fs;
use std::path::Path;

use ebb_domain::step::Requested;
use ebb_domain::units::{Bytes, MilliCores};

use super::{Hierarchy, Version, below};

/// What was read of one cgroup at one instant; `None` is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reading {
    /// What its limit is charged for and cannot be reclaimed: anonymous, shared
    /// and kernel memory.
    pub held: Option<Bytes>,
    /// Its own peak counter, page cache included.
    pub peak: Option<Bytes>,
    /// What it is allowed, its ancestors' limits counted.
    pub allowed: Requested,
    /// Processes that the kernel killed in it for want of memory.
    pub oom_kills: Option<u64>,
}

/// Reads the cgroup at `path`; all unknown once it is removed.
pub fn read(hierarchy: &Hierarchy, path: &str) -> Reading {
    let folder = hierarchy.folder(path);
    let number = |name: &str| read_number(&folder.join(name));
    match &hierarchy.version {
        Version::V1 { cpu_mount, .. } => Reading {
            held: text(&folder.join("memory.stat"))
                .and_then(|stat| held_v1(&stat, number("memory.kmem.usage_in_bytes").unwrap_or(0))),
            peak: number("memory.max_usage_in_bytes").map(Bytes),
            allowed: Requested {
                cores: cpu_mount.as_ref().and_then(|mount| {
                    least(mount, path, |folder| {
                        quota_v1(
                            &text(&folder.join("cpu.cfs_quota_us"))?,
                            &text(&folder.join("cpu.cfs_period_us"))?,
                        )
                    })
                }),
                memory: least(&hierarchy.mount, path, |folder| {
                    limit_v1(&text(&folder.join("memory.limit_in_bytes"))?)
                }),
            },
            oom_kills: text(&folder.join("memory.oom_control")).and_then(|t| field(&t, "oom_kill")),
        },
        Version::V2 => Reading {
            held: text(&folder.join("memory.stat")).and_then(|stat| held_v2(&stat)),
            peak: number("memory.peak").map(Bytes),
            allowed: Requested {
                cores: least(&hierarchy.mount, path, |folder| {
                    quota_v2(&text(&folder.join("cpu.max"))?)
                }),
                memory: least(&hierarchy.mount, path, |folder| {
                    limit_v2(&text(&folder.join("memory.max"))?)
                }),
            },
            oom_kills: text(&folder.join("memory.events")).and_then(|t| field(&t, "oom_kill")),
        },
    }
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

fn read_number(path: &Path) -> Option<u64> {
    text(path)?.trim().parse().ok()
}

/// The least limit from the cgroup up to, and without, the root.
fn least<T: Ord>(mount: &Path, path: &str, limit: impl Fn(&Path) -> Option<T>) -> Option<T> {
    let mut least: Option<T> = None;
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

fn held_v1(stat: &str, kernel: u64) -> Option<Bytes> {
    let anon = field(stat, "total_rss")?;
    // Before 4.19 there is no line for shared memory.
    let shared = field(stat, "total_shmem").unwrap_or(0);
    Some(Bytes(anon + shared + kernel))
}

/// Before 5.18 there is no sum of kernel memory.
fn held_v2(stat: &str) -> Option<Bytes> {
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

/// v1 says "no limit" by the greatest whole number of pages.
fn limit_v1(text: &str) -> Option<Bytes> {
    const UNLIMITED_FROM: u64 = 1 << 62;
    let bytes: u64 = text.trim().parse().ok()?;
    (bytes < UNLIMITED_FROM).then_some(Bytes(bytes))
}

fn limit_v2(text: &str) -> Option<Bytes> {
    text.trim().parse().ok().map(Bytes)
}

fn quota_v1(quota_us: &str, period_us: &str) -> Option<MilliCores> {
    cores(
        quota_us.trim().parse().ok()?,
        period_us.trim().parse().ok()?,
    )
}

fn quota_v2(text: &str) -> Option<MilliCores> {
    let (quota_us, period_us) = text.trim().split_once(' ')?;
    cores(quota_us.parse().ok()?, period_us.parse().ok()?)
}

fn cores(quota_us: u64, period_us: u64) -> Option<MilliCores> {
    quota_us
        .checked_mul(1000)?
        .checked_div(period_us)
        .map(MilliCores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_unknown_when_there_is_none() {
        assert_eq!(limit_v1("9223372036854771712\n"), None);
        assert_eq!(limit_v1("1073741824\n"), Some(Bytes::gib(1)));
        assert_eq!(limit_v2("max\n"), None);
        assert_eq!(limit_v2("1073741824\n"), Some(Bytes::gib(1)));
        assert_eq!(quota_v1("-1\n", "100000\n"), None);
        assert_eq!(quota_v1("150000\n", "100000\n"), Some(MilliCores(1500)));
        assert_eq!(quota_v2("max 100000\n"), None);
        assert_eq!(quota_v2("50000 100000\n"), Some(MilliCores(500)));
    }

    #[test]
    fn held_memory_is_what_cannot_be_reclaimed() {
        let check = |got: Option<Bytes>, expect: Option<u64>| assert_eq!(got, expect.map(Bytes));
        check(
            held_v2("anon 100\nfile 999\nkernel 30\nshmem 5\nslab_reclaimable 10\n"),
            Some(125),
        );
        check(
            held_v2("anon 100\nfile 999\nkernel_stack 2\npagetables 3\nshmem 5\n"),
            Some(110),
        );
        check(held_v2("file 999\n"), None);
        check(
            held_v1("rss 1\ntotal_cache 999\ntotal_rss 100\ntotal_shmem 5\n", 7),
            Some(112),
        );
        check(held_v1("cache 1\n", 7), None);
    }

    #[test]
    fn the_least_limit_of_a_cgroup_and_its_ancestors_holds() {
        let mount = tempfile::tempdir().expect("a folder");
        let deep = mount.path().join("ecs/task/container");
        fs::create_dir_all(&deep).expect("folders");
        fs::write(mount.path().join("ecs/task/memory.max"), "100\n").expect("a file");
        fs::write(deep.join("memory.max"), "max\n").expect("a file");
        let limit = |folder: &Path| limit_v2(&text(&folder.join("memory.max"))?);
        assert_eq!(
            least(mount.path(), "/ecs/task/container", limit),
            Some(Bytes(100))
        );
        assert_eq!(least(mount.path(), "/ecs", limit), None);
        assert_eq!(least(mount.path(), "/", limit), None);
    }
}
