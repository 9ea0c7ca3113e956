//! The program on disk. Each step leaves a complete program at its path: files are written under
//! another name, synced, and renamed.

use std::ffi::OsString;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::manifest::MAX_PROGRAM_BYTES;
use crate::durable::{DiskError, failed, read_file, sync_folder};

/// Anybody may run the program; only root may change it.
const PROGRAM_MODE: u32 = 0o755;

/// The program and the files next to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProgramFiles {
    /// The program that the service runs.
    pub(super) program: PathBuf,
    /// The next program, until it is swapped in.
    pub(super) new: PathBuf,
    /// The program before the last update.
    pub(super) previous: PathBuf,
}

impl ProgramFiles {
    pub(super) fn new(program: PathBuf) -> Self {
        Self {
            new: with_suffix(&program, ".new"),
            previous: with_suffix(&program, ".previous"),
            program,
        }
    }

    /// Reads the program.
    pub(super) fn read(&self) -> Result<Vec<u8>, DiskError> {
        let missing = || failed(&self.program, "read")(ErrorKind::NotFound.into());
        read_file(&self.program, MAX_PROGRAM_BYTES)?.ok_or_else(missing)
    }

    /// Reads the program before the last update; `None` if there is none.
    pub(super) fn read_previous(&self) -> Result<Option<Vec<u8>>, DiskError> {
        read_file(&self.previous, MAX_PROGRAM_BYTES)
    }

    /// Writes the next program.
    pub(super) fn stage(&self, bytes: &[u8]) -> Result<(), DiskError> {
        write_program(&self.new, bytes)
    }

    /// Keeps a copy of the program.
    pub(super) fn keep(&self, bytes: &[u8]) -> Result<(), DiskError> {
        write_program(&self.previous, bytes)
    }

    /// Makes the next program the program.
    pub(super) fn swap(&self) -> Result<(), DiskError> {
        rename(&self.new, &self.program)
    }

    /// Makes the previous program the program again.
    pub(super) fn restore(&self) -> Result<(), DiskError> {
        rename(&self.previous, &self.program)
    }

    /// Removes the next program, if there is one.
    pub(super) fn discard(&self) -> Result<(), DiskError> {
        match fs::remove_file(&self.new) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(failed(&self.new, "remove")(error))
            }
            _ => Ok(()),
        }
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(OsString::from(suffix));
    name.into()
}

/// Writes a program under an unfinished name and renames it. Another process cannot have the new
/// file open for writing, which would keep it from running.
fn write_program(path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    let unfinished = with_suffix(path, ".tmp");
    let _ = fs::remove_file(&unfinished);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(PROGRAM_MODE);
    let file = options.open(&unfinished);
    let mut file = file.map_err(failed(&unfinished, "create"))?;
    // The umask may have removed permissions.
    let mode = Permissions::from_mode(PROGRAM_MODE);
    let written = file
        .set_permissions(mode)
        .and_then(|()| file.write_all(bytes))
        .and_then(|()| file.sync_all());
    drop(file);
    if let Err(error) = written {
        let _ = fs::remove_file(&unfinished);
        return Err(failed(path, "write")(error));
    }
    rename(&unfinished, path)
}

/// Renames a file durably.
fn rename(from: &Path, to: &Path) -> Result<(), DiskError> {
    fs::rename(from, to).map_err(failed(to, "replace"))?;
    match to.parent() {
        Some(folder) => sync_folder(folder).map_err(failed(folder, "sync")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn each_step_leaves_a_complete_program() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = ProgramFiles::new(folder.path().join("ebb-probe.x"));
        fs::write(&files.program, "old").expect("written");
        let content = || fs::read_to_string(&files.program).expect("a program");
        files.discard().expect("nothing to remove");
        // The rest of a run that was killed while it wrote.
        fs::write(folder.path().join("ebb-probe.x.new.tmp"), "ne").expect("written");
        files.stage(b"new").expect("staged");
        assert_eq!(content(), "old");
        files.keep(b"old").expect("kept");
        assert_eq!(content(), "old");
        files.swap().expect("swapped");
        assert_eq!((content(), files.new.exists()), ("new".to_owned(), false));
        let mode = fs::metadata(&files.program).expect("a program").mode();
        assert_eq!(mode & 0o777, PROGRAM_MODE);
        files.restore().expect("restored");
        assert_eq!(content(), "old");
        assert!(files.swap().is_err(), "there is no next program");
        assert!(files.restore().is_err(), "there is no previous program");
        assert_eq!(content(), "old");
        let names: Vec<_> = fs::read_dir(folder.path()).expect("a list").collect();
        assert_eq!(names.len(), 1, "{names:?}");
    }

    #[test]
    fn a_link_in_the_way_is_replaced_and_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = ProgramFiles::new(folder.path().join("p"));
        let other = folder.path().join("other");
        fs::write(&other, "untouched").expect("written");
        std::os::unix::fs::symlink(&other, with_suffix(&files.new, ".tmp")).expect("a link");
        std::os::unix::fs::symlink(&other, &files.new).expect("a link");
        files.stage(b"new").expect("staged");
        assert_eq!(fs::read_to_string(&other).expect("it"), "untouched");
        assert_eq!(fs::read_to_string(&files.new).expect("it"), "new");
    }
}
