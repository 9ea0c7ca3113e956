//! The programs that the demo starts, and the folders that it writes to.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tokio::process::Command;

/// Marks a folder that the demo created.
const MARKER: &str = ".ebb-demo";

/// Folders and programs.
#[derive(Debug, Clone)]
pub(super) struct Places {
    /// The repository.
    pub(super) repository: PathBuf,
    /// The folder with the workspace's programs.
    pub(super) programs: PathBuf,
    /// Python with the simulators.
    pub(super) python: PathBuf,
    /// The folder of this run.
    pub(super) work: PathBuf,
}

impl Places {
    /// Finds the programs; `work` is next to them unless it is given.
    ///
    /// # Errors
    /// Names a missing program and how to install it.
    pub(super) fn find(work: Option<PathBuf>, seed: u64) -> Result<Self> {
        let programs = env::current_exe().context("finding this program")?;
        let mut programs = programs
            .parent()
            .context("a program lies in a folder")?
            .to_owned();
        // Test programs are one folder below the programs that they test.
        if programs.ends_with("deps") {
            programs.pop();
        }
        let python = crate::python().context("HOME is not set")?;
        if !python.exists() {
            bail!(
                "there is no {}: scripts/setup demo makes it",
                python.display()
            );
        }
        let work = work.unwrap_or_else(|| programs.join(format!("demo/seed-{seed}")));
        Ok(Self {
            repository: Path::new(env!("CARGO_MANIFEST_DIR")).join(".."),
            programs,
            python,
            work: std::path::absolute(&work)?,
        })
    }

    /// Deletes and creates the run's folder.
    ///
    /// # Errors
    /// If it contains anything but an earlier run.
    pub(super) fn clear_work(&self) -> Result<()> {
        let marker = self.work.join(MARKER);
        let is_empty = fs::read_dir(&self.work).map_or(true, |mut inside| inside.next().is_none());
        if !is_empty && !marker.exists() {
            bail!(
                "{} is not empty; name another by --work",
                self.work.display()
            );
        }
        if self.work.exists() {
            fs::remove_dir_all(&self.work)
                .with_context(|| format!("clearing {}", self.work.display()))?;
        }
        fs::create_dir_all(&self.work)
            .and_then(|()| fs::write(&marker, ""))
            .with_context(|| format!("making {}", self.work.display()))
    }

    /// A program of the workspace.
    ///
    /// # Errors
    /// If it is not built.
    pub(super) fn program(&self, name: &str) -> Result<PathBuf> {
        let path = self.programs.join(name);
        if !path.exists() {
            bail!(
                "{} is not built: cargo build --workspace --all-features",
                path.display()
            );
        }
        Ok(path)
    }

    /// A script of the repository.
    pub(super) fn script(&self, name: &str) -> Command {
        Command::new(self.repository.join("scripts").join(name))
    }

    /// A Python program of the simulated account.
    pub(super) fn python(&self, script: &str) -> Command {
        let mut command = Command::new(&self.python);
        command
            .arg(self.repository.join("tests/sim").join(script))
            .env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    /// A file of the demo: policy or pipeline.
    pub(super) fn demo(&self, name: &str) -> PathBuf {
        self.repository.join("tests/demo").join(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_folder_of_the_demos_own_is_cleared() {
        let folder = tempfile::tempdir().expect("a folder");
        let places = Places {
            repository: PathBuf::new(),
            programs: PathBuf::new(),
            python: PathBuf::new(),
            work: folder.path().join("run"),
        };
        let stale = places.work.join("stale");
        places.clear_work().expect("nothing was there");
        fs::write(&stale, "").expect("it is written");
        places.clear_work().expect("it is the demo's own");
        assert!(!stale.exists());
        fs::write(&stale, "").expect("it is written");
        fs::remove_file(places.work.join(MARKER)).expect("it is there");
        assert!(places.clear_work().is_err());
        assert!(stale.exists());
    }
}
