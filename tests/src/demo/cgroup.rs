//! Cgroups for a task's container in the layout of ECS: `/ecs/<task>/<container>` below the mount.
//! They are created for the pipeline and removed with it.

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
    /// Folders below `ecs`, the innermost first: the container's, then the task's.
    folders: [PathBuf; 2],
}

impl Container {
    /// Creates the cgroup of a task's only container.
    ///
    /// # Errors
    /// If there is no writable cgroup tree.
    pub(super) fn make(task: &str) -> Result<Self> {
        let tree = Hierarchy::find()?;
        let ecs = tree.mount.join("ecs");
        let task = ecs.join(task);
        let container = task.join("c".repeat(64));
        fs::create_dir_all(&container)
            .with_context(|| format!("making the cgroup {}", container.display()))?;
        if tree.version == Version::V2 {
            // If this is refused, the probe sums up processes instead.
            for folder in [&tree.mount, &ecs, &task] {
                let _ = fs::write(folder.join("cgroup.subtree_control"), "+memory");
            }
        }
        Ok(Self {
            folders: [container, task],
        })
    }

    /// The file to which a process writes its id to move here.
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
        // It may still contain the cgroup of another task.
        let _ = self.folders[1].parent().map(fs::remove_dir);
    }
}

/// Removes a cgroup with retries: a killed process leaves its cgroup a moment later.
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

/// Why no cgroup can be created here; `None` if it can.
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
