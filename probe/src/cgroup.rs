//! The cgroup tree that identifies tasks: its mount point, and the path of each id. [`reading`]
//! reads the usage and limits of a cgroup.

mod pod_request;
pub mod reading;

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::kernel::CgroupId;
use crate::kernel_file;

/// Why no cgroup tree was found.
#[derive(Debug, Error)]
pub enum CgroupError {
    /// A kernel file could not be read.
    #[error("failed to read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The hierarchy with the memory controller is not mounted.
    #[error("no cgroup hierarchy with the memory controller is mounted")]
    NotMounted,
}

/// The cgroup interface of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Version {
    /// One tree for each controller.
    V1 {
        /// The number of the memory controller's hierarchy.
        memory_hierarchy: u32,
        /// The mount point of the CPU controller; `None` if it is not mounted.
        cpu_mount: Option<PathBuf>,
    },
    /// One tree for all controllers.
    V2,
}

/// The tree with the memory controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// The mount point.
    pub mount: PathBuf,
    /// The interface version.
    pub version: Version,
}

impl Hierarchy {
    /// Finds the tree on this machine.
    pub fn find() -> Result<Self, CgroupError> {
        let read = |path: &str| {
            kernel_file::read(path).map_err(|source| CgroupError::Read {
                path: path.into(),
                source,
            })
        };
        Self::from_texts(&read("/proc/cgroups")?, &read("/proc/self/mountinfo")?)
    }

    fn from_texts(cgroups: &str, mounts: &str) -> Result<Self, CgroupError> {
        // Linux 6.12 and later omit controllers without a v1 tree from the table.
        let memory_hierarchy = cgroups
            .lines()
            .find_map(|line| line.strip_prefix("memory")?.split_whitespace().next())
            .and_then(|number| number.parse().ok())
            .unwrap_or(0);
        let mounts: Vec<Mount<'_>> = mounts.lines().filter_map(Mount::parse).collect();
        let of_v1 = |controller: &str| {
            mounts
                .iter()
                .find(|m| m.kind == "cgroup" && m.options.split(',').any(|o| o == controller))
                .map(|m| PathBuf::from(m.point))
        };
        let of_v2 = || {
            mounts
                .iter()
                .find(|m| m.kind == "cgroup2")
                .map(|m| PathBuf::from(m.point))
        };
        let (mount, version) = if memory_hierarchy == 0 {
            (of_v2(), Version::V2)
        } else {
            let cpu_mount = of_v1("cpu");
            (
                of_v1("memory"),
                Version::V1 {
                    memory_hierarchy,
                    cpu_mount,
                },
            )
        };
        let mount = mount.ok_or(CgroupError::NotMounted)?;
        Ok(Self { mount, version })
    }

    /// The hierarchy number for the eBPF programs: 0 for v2.
    pub const fn memory_hierarchy(&self) -> u32 {
        match self.version {
            Version::V1 {
                memory_hierarchy, ..
            } => memory_hierarchy,
            Version::V2 => 0,
        }
    }

    fn folder(&self, path: &str) -> PathBuf {
        below(&self.mount, path)
    }
}

fn below(mount: &Path, path: &str) -> PathBuf {
    mount.join(path.trim_start_matches('/'))
}

struct Mount<'a> {
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    /// One line of `mountinfo`: `… root point options … - kind source options`.
    fn parse(line: &'a str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        Some(Self {
            point: before.split(' ').nth(4)?,
            kind: after.next()?,
            options: after.nth(1)?,
        })
    }
}

/// Number of paths above which the paths of removed cgroups are dropped.
const KEPT_PATHS: usize = 8_192;
/// The same number for the paths below the slices of users.
const KEPT_PATHS_OF_USERS: usize = MAX_PATHS_OF_USERS / 4;
/// Limit of known paths, about 5 MB: a user who can create cgroups can create 100,000 a minute.
/// Processes of an unknown cgroup stay with the task of their parent.
const MAX_PATHS: usize = 32_768;
/// Limit of known paths below the slices of users.
const MAX_PATHS_OF_USERS: usize = MAX_PATHS / 4;
/// Limit of the bytes of a path. A container in the cgroups of another container has about 300.
const MAX_PATH_BYTES: usize = 1_024;

/// The path of each cgroup id: paths found at the start, and paths that the kernel reported since.
/// So a path is known even after its cgroup was removed.
#[derive(Debug, Default)]
pub struct Paths {
    by_id: HashMap<CgroupId, String>,
    /// Number of paths below the slices of all users.
    of_users: usize,
    /// The same number for each slice.
    by_slice: HashMap<String, usize>,
    left_out: u64,
}

impl Paths {
    /// Reads the tree up to the limits, the slices of users last. A cgroup that is left out counts
    /// once, without those below it.
    pub fn scan(hierarchy: &Hierarchy) -> Self {
        let mut paths = Self::default();
        let root = fs::metadata(&hierarchy.mount).map(|about| CgroupId(about.ino()));
        let mut waiting: Vec<CgroupId> = root.into_iter().collect();
        for id in &waiting {
            paths.learn(*id, "/".to_owned());
        }
        let mut of_users = Vec::new();
        while let Some(id) = waiting.pop().or_else(|| of_users.pop()) {
            let folder = paths.get(id).unwrap_or_default().to_owned();
            for (id, path) in folders_in(hierarchy, &folder) {
                let next = match slice_of_user(&path) {
                    Some(_) => &mut of_users,
                    None => &mut waiting,
                };
                if paths.insert(id, path) {
                    next.push(id);
                }
            }
        }
        paths
    }

    /// Adds a new cgroup that the kernel reported.
    pub fn learn(&mut self, id: CgroupId, path: String) {
        self.insert(id, path);
    }

    /// Whether the cgroup is new and has room.
    fn insert(&mut self, id: CgroupId, path: String) -> bool {
        if let Some(known) = self.by_id.get_mut(&id) {
            *known = path;
            return false;
        }
        if !self.has_room(&path) {
            self.left_out = self.left_out.saturating_add(1);
            return false;
        }
        self.count_of_user(&path);
        self.by_id.insert(id, path);
        true
    }

    /// A user has at most half of the places that other users leave, so each of them has some.
    fn has_room(&self, path: &str) -> bool {
        let of_user = slice_of_user(path).map(|slice| self.by_slice.get(slice));
        let left_by_all = MAX_PATHS_OF_USERS.saturating_sub(self.of_users);
        self.by_id.len() < MAX_PATHS
            && path.len() <= MAX_PATH_BYTES
            && of_user.is_none_or(|count| count.copied().unwrap_or_default() < left_by_all)
    }

    fn count_of_user(&mut self, path: &str) {
        if let Some(slice) = slice_of_user(path) {
            self.of_users += 1;
            *self.by_slice.entry(slice.to_owned()).or_default() += 1;
        }
    }

    /// Cgroups that were left out for lack of room, since the start.
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The path; `None` if the id was never reported.
    pub fn get(&self, id: CgroupId) -> Option<&str> {
        self.by_id.get(&id).map(String::as_str)
    }

    /// If many paths are stored, drops those of removed cgroups that are not in use.
    pub fn trim(&mut self, hierarchy: &Hierarchy, in_use: &BTreeSet<CgroupId>) {
        if self.by_id.len() <= KEPT_PATHS && self.of_users <= KEPT_PATHS_OF_USERS {
            return;
        }
        let mut kept = Self {
            left_out: self.left_out,
            ..Self::default()
        };
        for (id, path) in std::mem::take(&mut self.by_id) {
            if in_use.contains(&id) || hierarchy.folder(&path).is_dir() {
                kept.count_of_user(&path);
                kept.by_id.insert(id, path);
            }
        }
        *self = kept;
    }
}

/// The first slice of a user in a path. systemd lets the user make cgroups below it.
///
/// Source: `user@.service(5)`, "Delegate".
fn slice_of_user(path: &str) -> Option<&str> {
    path.split('/')
        .find(|name| name.starts_with("user-") && name.ends_with(".slice"))
}

/// The cgroups in a folder, with their paths. A removed folder has none.
fn folders_in(hierarchy: &Hierarchy, folder: &str) -> impl Iterator<Item = (CgroupId, String)> {
    let inside = fs::read_dir(hierarchy.folder(folder));
    let above = folder.trim_end_matches('/').to_owned();
    let folders = inside.into_iter().flatten().flatten();
    folders
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(move |entry| {
            let path = format!("{above}/{}", entry.file_name().display());
            (CgroupId(entry.ino()), path)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1_MOUNTS: &str = "\
30 24 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/unified rw shared:4 - cgroup2 cgroup rw,nsdelegate
32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
33 30 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory";
    const V2_MOUNTS: &str =
        "30 24 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate";

    #[test]
    fn paths_are_bounded_and_removed_cgroups_make_room() {
        let root = tempfile::tempdir().expect("a folder");
        let hierarchy = Hierarchy {
            mount: root.path().into(),
            version: Version::V2,
        };
        fs::create_dir(root.path().join("kept")).expect("made");
        let mut paths = Paths::default();
        paths.learn(CgroupId(0), "/kept".into());
        for id in 1..50_000 {
            paths.learn(CgroupId(id), format!("/{id}"));
        }
        assert_eq!(paths.by_id.len(), MAX_PATHS);
        assert_eq!(paths.left_out(), 50_000 - MAX_PATHS as u64);
        paths.learn(CgroupId(1), "/again".into());
        assert_eq!(paths.get(CgroupId(1)), Some("/again"));
        paths.trim(&hierarchy, &BTreeSet::new());
        assert_eq!(
            (paths.by_id.len(), paths.get(CgroupId(0))),
            (1, Some("/kept"))
        );
    }

    #[test]
    fn cgroups_of_a_user_take_no_place_of_others() {
        let root = tempfile::tempdir().expect("a folder");
        let hierarchy = Hierarchy {
            mount: root.path().into(),
            version: Version::V2,
        };
        let service = "/user.slice/user-7.slice/user@7.service";
        for n in 0..5_000 {
            fs::create_dir_all(hierarchy.folder(&format!("{service}/{n}"))).expect("made");
        }
        let others = [
            "/docker/1",
            "/user.slice/user-8.slice/session-1.scope",
            "/zz",
        ];
        for path in others {
            fs::create_dir_all(hierarchy.folder(path)).expect("made");
        }
        let mut paths = Paths::scan(&hierarchy);
        let knows = |paths: &Paths, path: &str| paths.by_id.values().any(|known| known == path);
        for path in others.into_iter().chain(["/", "/docker", service]) {
            assert!(knows(&paths, path), "{path}");
        }
        // Half of the places less those of the other user, without the two folders above.
        let left_out = paths.left_out();
        assert!((906..=907).contains(&left_out), "{left_out}");
        for id in 0..20_000 {
            paths.learn(CgroupId(u64::MAX - id), format!("{service}/new{id}"));
        }
        paths.learn(CgroupId(0), "/docker/2".to_owned());
        assert_eq!(paths.left_out(), left_out + 20_000);
        assert_eq!(paths.get(CgroupId(0)), Some("/docker/2"));
        fs::remove_dir_all(hierarchy.folder(service)).expect("removed");
        paths.trim(&hierarchy, &BTreeSet::new());
        paths.learn(CgroupId(0), service.to_owned());
        assert!(knows(&paths, service) && paths.by_id.len() < 20);
    }

    #[test]
    fn the_tree_is_the_one_that_holds_the_memory_controller() {
        let check = |cgroups: &str, mounts: &str, expect: Option<(&str, Version)>| {
            let got = Hierarchy::from_texts(cgroups, mounts).ok();
            let expect = expect.map(|(mount, version)| Hierarchy {
                mount: mount.into(),
                version,
            });
            assert_eq!(got, expect, "{cgroups}");
        };
        let v1 = Version::V1 {
            memory_hierarchy: 4,
            cpu_mount: Some("/sys/fs/cgroup/cpu,cpuacct".into()),
        };
        check(
            "cpu\t2\t9\t1\nmemory\t4\t88\t1",
            V1_MOUNTS,
            Some(("/sys/fs/cgroup/memory", v1)),
        );
        // A hybrid host with the memory controller in v2.
        check(
            "cpu\t2\t9\t1\nmemory\t0\t88\t1",
            V1_MOUNTS,
            Some(("/sys/fs/cgroup/unified", Version::V2)),
        );
        check(
            "cpu\t0\t9\t1\nmemory\t0\t88\t1",
            V2_MOUNTS,
            Some(("/sys/fs/cgroup", Version::V2)),
        );
        check(
            "cpu\t0\t9\t1",
            V2_MOUNTS,
            Some(("/sys/fs/cgroup", Version::V2)),
        );
        check("memory\t4\t88\t1", V2_MOUNTS, None);
        check("", "", None);
    }
}
