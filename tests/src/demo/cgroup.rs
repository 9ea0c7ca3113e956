//! Cgroups as ECS makes them for a task's container: `/ecs/<task>/<container>`
//! below the mount. Made for the pipeline, and removed with it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use ebb_probe::cgroup::{Hierarchy, Version};

/// The cgroup of one container.
#[derive(Debug)]
pub(super) struct Container {
    /// Below `ecs`, the innermost first: the container's, then the task's.
    folders: [PathBuf; 2],
}

impl Container {
    /// Makes the cgroup of a task's only container.
    ///
    /// # Errors
    /// When this is no cgroup tree that may be written to.
    pub(super) fn make(task: &str) -> Result<Self> {
        let tree = Hierarchy::find()?;
        let ecs = tree.mount.join("ecs");
        let task = ecs.join(task);
        let container = task.join("c".repeat(64));
        fs::create_dir_all(&container)
            .with_context(|| format!("making the cgroup {}", container.display()))?;
        if tree.version == Version::V2 {
            // Where that is refused the probe sums up processes instead.
            for folder in [&tree.mount, &ecs, &task] {
                let _ = fs::write(folder.join("cgroup.subtree_control"), "+memory");
            }
        }
        Ok(Self {
            folders: [container, task],
        })
    }

    /// The file that a process writes its id to in order to move here.
    pub(super) fn door(&self) -> PathBuf {
        self.folders[0].join("cgroup.procs")
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        for folder in &self.folders {
            if let Err(error) = remove(folder) {
                eprintln!("the cgroup {} stays: {error}", folder.display());
            }
        }
        // Another task's may still be in it.
        let _ = self.folders[1].parent().map(fs::remove_dir);
    }
}

/// What was killed leaves its cgroup a moment later.
fn remove(folder: &Path) -> std::io::Result<()> {
    for _ in 0..100 {
        match fs::remove_dir(folder) {
            Err(error) if error.kind() == ErrorKind::ResourceBusy => {
                thread::sleep(Duration::from_millis(20));
            }
            ended => return ended,
        }
    }
    fs::remove_dir(folder)
}

/// Why no cgroup can be made here; `None` when one can.
pub(super) fn obstacle() -> Option<String> {
    match Container::make(&"0".repeat(32)) {
        Ok(container) => {
            let writable = may_write(&container.door());
            (!writable).then(|| "cgroups cannot be written to".to_owned())
        }
        Err(error) => Some(format!("{error:#}")),
    }
}

fn may_write(path: &Path) -> bool {
    fs::OpenOptions::new().write(true).open(path).is_ok()
}
