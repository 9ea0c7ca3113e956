//! Folders and files that only the probe's user can read and that survive a power loss: a new
//! file gets a temporary name, is synced and renamed, and then its folder is synced.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use thiserror::Error;

/// Mode of the probe's folders.
const FOLDER_MODE: u32 = 0o700;
/// Mode of the probe's files.
const FILE_MODE: u32 = 0o600;

/// Extension of a file that is not complete.
pub(crate) const UNFINISHED_SUFFIX: &str = "tmp";

/// Why a file or folder could not be used.
#[derive(Debug, Error)]
#[error("failed to {action} {path}")]
pub struct DiskError {
    /// The file or folder.
    pub path: PathBuf,
    /// The operation, as a verb.
    pub action: &'static str,
    /// Why it failed.
    pub source: io::Error,
}

pub(crate) fn failed(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> DiskError {
    let path = path.to_owned();
    move |source| DiskError {
        path,
        action,
        source,
    }
}

/// Makes every file and folder that this program creates from now on readable by its owner only.
pub fn create_owner_only_files() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}

/// Creates a folder and its parents if they are missing, for the owner only. An existing folder
/// must belong to this user: another user could fill it with forged records.
///
/// # Errors
/// If the folder cannot be created, is a link, or belongs to another user.
pub(crate) fn make_own_folder(folder: &Path) -> Result<(), DiskError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(FOLDER_MODE);
    builder.create(folder).map_err(failed(folder, "create"))?;
    let about = fs::symlink_metadata(folder).map_err(failed(folder, "read"))?;
    let refuse = |why: &str| failed(folder, "use")(io::Error::other(why.to_owned()));
    let own = rustix::process::geteuid().as_raw();
    if !about.is_dir() {
        return Err(refuse("it is a link"));
    }
    if about.uid() != own {
        return Err(refuse("it belongs to another user"));
    }
    // The owner of the parent folder can replace this folder.
    let above = folder.parent().and_then(|above| fs::metadata(above).ok());
    if above.is_some_and(|above| above.uid() != own && above.uid() != 0) {
        return Err(refuse("its parent folder belongs to another user"));
    }
    if about.mode() & 0o777 != FOLDER_MODE {
        let mode = Permissions::from_mode(FOLDER_MODE);
        fs::set_permissions(folder, mode).map_err(failed(folder, "close to others"))?;
    }
    if let Some(parent) = folder.parent() {
        // After a power loss a missing folder is created again, so a failure is no error.
        let _ = sync_folder(parent);
    }
    Ok(())
}

/// Writes a file or replaces it. After a crash at any point either the old or the new content is
/// there, complete.
///
/// # Errors
/// If the file cannot be written; the old one stays.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    let unfinished = path.with_extension(UNFINISHED_SUFFIX);
    // A new file has our mode, and no other process has it open.
    let _ = fs::remove_file(&unfinished);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(FILE_MODE);
    let file = options.open(&unfinished);
    let mut file = file.map_err(failed(&unfinished, "create"))?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    let named = written.and_then(|()| fs::rename(&unfinished, path));
    if let Err(error) = named {
        // An incomplete file must not take the space that the next one needs.
        let _ = fs::remove_file(&unfinished);
        return Err(failed(path, "write")(error));
    }
    // The file is written; a power loss could still remove its name.
    if let Some(Err(error)) = path.parent().map(sync_folder) {
        tracing::warn!(%error, path = %path.display(), "failed to sync the folder of a file");
    }
    Ok(())
}

/// Creates an empty file to append to, instead of an existing one. It is not synced.
///
/// # Errors
/// If the file cannot be created.
pub(crate) fn create_file(path: &Path) -> Result<File, DiskError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(failed(path, "replace")(error));
        }
        _ => {}
    }
    let mut options = OpenOptions::new();
    let file = options.append(true).create_new(true).mode(FILE_MODE);
    file.open(path).map_err(failed(path, "create"))
}

/// Reads a small file; `None` if there is none.
///
/// # Errors
/// If it cannot be read, or is larger than `max_bytes`.
pub(crate) fn read_file(path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, DiskError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed(path, "read"))?,
    };
    let mut bytes = Vec::new();
    let read = file.take(max_bytes + 1).read_to_end(&mut bytes);
    if read.map_err(failed(path, "read"))? as u64 > max_bytes {
        let error = io::Error::other(format!("it has more than {max_bytes} bytes"));
        return Err(failed(path, "read")(error));
    }
    Ok(Some(bytes))
}

pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").mode() & 0o777
    }

    #[test]
    fn folders_and_files_are_for_their_owner_only_whatever_was_there() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("a/b");
        make_own_folder(&folder).expect("made");
        assert_eq!(
            (mode(&folder), mode(&root.path().join("a"))),
            (0o700, 0o700)
        );
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).expect("its owner");
        make_own_folder(&folder).expect("there");
        assert_eq!(mode(&folder), 0o700);

        let file = folder.join("file.toml");
        fs::write(&file, "old").expect("written");
        fs::set_permissions(&file, Permissions::from_mode(0o666)).expect("its owner");
        write_file(&file, b"new").expect("written");
        assert_eq!(
            (mode(&file), fs::read(&file).expect("read")),
            (0o600, b"new".to_vec())
        );
        let left = fs::read_dir(&folder).expect("listed");
        assert_eq!(left.count(), 1, "nothing unfinished is left");
    }

    #[test]
    fn a_link_and_a_folder_of_another_user_are_refused() {
        let root = tempfile::tempdir().expect("a folder");
        let (real, link) = (root.path().join("real"), root.path().join("link"));
        fs::create_dir(&real).expect("made");
        std::os::unix::fs::symlink(&real, &link).expect("linked");
        let check = |folder: &Path, expect: &str| {
            let error = make_own_folder(folder).expect_err("refused");
            assert_eq!(error.source.to_string(), expect);
        };
        check(&link, "it is a link");
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&real, Some(65_534), None).expect("root gives it away");
            check(&real, "it belongs to another user");
            check(&real.join("a"), "its parent folder belongs to another user");
        }
    }

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        let root = tempfile::tempdir().expect("a folder");
        let file = root.path().join("file");
        assert_eq!(read_file(&file, 4).expect("no error"), None);
        fs::write(&file, "four").expect("written");
        assert_eq!(read_file(&file, 4).expect("read"), Some(b"four".to_vec()));
        read_file(&file, 3).expect_err("larger");
        read_file(root.path(), 4).expect_err("a folder");
    }

    #[test]
    fn a_file_that_cannot_be_replaced_stays() {
        let root = tempfile::tempdir().expect("a folder");
        let taken = root.path().join("taken");
        fs::create_dir_all(taken.join("inside")).expect("made");
        write_file(&taken, b"new").expect_err("a folder is there");
        assert!(taken.join("inside").is_dir());
        let left = fs::read_dir(root.path()).expect("listed");
        assert_eq!(left.count(), 1, "nothing unfinished is left");
    }
}
