//! A directory that other users can write to. Symbolic links are not followed, only regular files
//! are read, and an invalid name does not stop the listing.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use ebb_telemetry::stable_hash::stable_hash;
use jiff::Timestamp;
use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Uid, chownat, openat};

use crate::ports::Listed;
use crate::store::beneath::open_beneath;

/// Maximum nesting of directories; Ebb's own keys have at most eight levels.
const MAX_DEPTH: usize = 16;

/// A directory with untrusted contents.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    root: PathBuf,
}

/// The contents of a directory.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) files: Vec<Listed>,
    /// Number of links, devices, invalid names, and entries beyond the maximum depth.
    pub(super) skipped: u64,
    /// Folders that this user may not list.
    pub(super) denied: Vec<String>,
}

impl Folder {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// Also if the key leads through a symbolic link or does not lead to a regular file.
    pub(super) fn open(&self, key: &str) -> io::Result<File> {
        // Non-blocking, because a FIFO would wait for its writer.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let root = openat(
            CWD,
            &self.root,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let file = open_beneath(root, Path::new(key), flags)?;
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::other("not a regular file")),
        }
    }

    /// Gives a file that root wrote to the owner of the folder, who must read and delete it. The same
    /// for the directories that root made for it. Does nothing for other users. Files with a second
    /// name stay as they are: another user could have made it.
    pub(super) fn give_to_owner(&self, key: &str) -> io::Result<()> {
        let owner = fs::metadata(&self.root)?;
        if !rustix::process::geteuid().is_root() || owner.uid() == 0 {
            return Ok(());
        }
        let (user, group) = (
            Some(Uid::from_raw(owner.uid())),
            Some(Gid::from_raw(owner.gid())),
        );
        let ends = key
            .match_indices('/')
            .map(|(end, _)| end)
            .chain([key.len()]);
        for end in ends {
            let root = openat(
                CWD,
                &self.root,
                OFlags::PATH | OFlags::CLOEXEC,
                Mode::empty(),
            )?;
            let part = open_beneath(root, Path::new(&key[..end]), OFlags::PATH)?;
            let meta = part.metadata()?;
            let is_single = meta.is_dir() || meta.is_file() && meta.nlink() == 1;
            if meta.uid() == 0 && is_single {
                chownat(part, "", user, group, AtFlags::EMPTY_PATH)?;
            }
        }
        Ok(())
    }

    /// Refuses a key that leads through a symbolic link.
    ///
    /// # Errors
    /// Names the link.
    pub(super) fn refuse_links(&self, key: &str) -> io::Result<()> {
        let mut path = self.root.clone();
        for part in key.split('/') {
            path.push(part);
            match fs::symlink_metadata(&path) {
                Ok(found) if found.is_symlink() => {
                    let link = path.display();
                    return Err(io::Error::other(format!("{link} is a symbolic link")));
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// All files with keys that begin with `prefix`. A folder that this user may not list hides its
    /// own files only.
    ///
    /// # Errors
    /// If the first directory, or a directory for another reason, cannot be read.
    pub(super) fn list(&self, prefix: &str) -> io::Result<Listing> {
        let mut listing = Listing::default();
        let start = prefix.rsplit_once('/').map_or("", |(folder, _)| folder);
        if self.refuse_links(start).is_err() {
            listing.skipped += 1;
            return Ok(listing);
        }
        let mut open = vec![(self.root.join(start), start.to_owned())];
        while let Some((folder, key)) = open.pop() {
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) => match error.kind() {
                    // Removed or replaced since it was listed.
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => continue,
                    io::ErrorKind::PermissionDenied if key != start => {
                        listing.denied.push(format!("{key}/"));
                        continue;
                    }
                    _ => return Err(error),
                },
            };
            for entry in entries {
                let entry = entry?;
                let Some(key) = entry
                    .file_name()
                    .to_str()
                    .and_then(|name| joined(&key, name))
                else {
                    listing.skipped += 1;
                    continue;
                };
                let kind = entry.file_type()?;
                if kind.is_dir() && key.split('/').count() <= MAX_DEPTH {
                    open.push((entry.path(), key));
                } else if kind.is_file() {
                    if key.starts_with(prefix)
                        && let Some(listed) = listed(&entry, key)
                    {
                        listing.files.push(listed);
                    }
                } else {
                    listing.skipped += 1;
                }
            }
        }
        Ok(listing)
    }
}

/// A key below another; `None` for a name that is not valid for an object.
fn joined(key: &str, name: &str) -> Option<String> {
    let is_legal = |b: u8| b.is_ascii_alphanumeric() || b"._:=@+-,#".contains(&b);
    if !name.bytes().all(is_legal) {
        return None;
    }
    Some(match key {
        "" => name.to_owned(),
        key => format!("{key}/{name}"),
    })
}

/// `None` for a file that was removed meanwhile.
fn listed(entry: &fs::DirEntry, key: String) -> Option<Listed> {
    let metadata = entry.metadata().ok()?;
    let nanos = i32::try_from(metadata.mtime_nsec()).unwrap_or(0);
    let modified_at = Timestamp::new(metadata.mtime(), nanos).unwrap_or(Timestamp::UNIX_EPOCH);
    Some(Listed {
        key,
        bytes: metadata.len(),
        modified_at: not_in_the_future(modified_at),
    })
}

/// The write time of a file, which its owner can set. It is the time of arrival of a message, and a
/// message from the future would make all other nodes old enough to be forgotten.
pub(super) fn not_in_the_future(modified_at: Timestamp) -> Timestamp {
    modified_at.min(Timestamp::now())
}

/// The file that is locked while an object of a directory is conditionally replaced. It is outside
/// the directory, where other writers could lock or replace it. It is in the runtime directory of
/// the service or user, or else in the user's own directory for temporary files.
///
/// # Errors
/// Also if that directory belongs to another user.
pub(super) fn lock_file(folder: &Path) -> io::Result<File> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let user = rustix::process::geteuid().as_raw();
    let directory = match set("RUNTIME_DIRECTORY").or_else(|| set("XDG_RUNTIME_DIR")) {
        Some(directory) => PathBuf::from(directory),
        None => std::env::temp_dir().join(format!("ebb-{user}")),
    };
    match DirBuilder::new().mode(0o700).create(&directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(&directory)?;
    if !found.is_dir() || found.uid() != user {
        let directory = directory.display();
        return Err(io::Error::other(format!(
            "{directory} is not owned by this user"
        )));
    }
    let folder = fs::canonicalize(folder)?;
    let path = folder.as_os_str().as_encoded_bytes();
    let number = stable_hash(path.iter().copied());
    let options = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let path = directory.join(format!("ebb-{number:016x}.lock"));
    let mode = Mode::RUSR | Mode::WUSR;
    Ok(File::from(openat(CWD, &path, options, mode)?))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_devices_and_illegal_names_are_skipped_and_counted() {
        let folder = tempfile::tempdir().expect("a folder");
        let outside = tempfile::NamedTempFile::new().expect("a file");
        fs::write(outside.path(), "secret").expect("written");
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("in/a")).expect("made");
        fs::write(at("in/a/1.msg"), "1").expect("written");
        fs::write(at("in/b"), "2").expect("written");
        fs::write(at("in/a/two words"), "3").expect("written");
        fs::write(at("in").join(OsStr::from_bytes(b"\xff.msg")), "4").expect("written");
        symlink(outside.path(), at("in/link.msg")).expect("made");
        symlink("/", at("in/root")).expect("made");
        symlink("nowhere", at("in/broken")).expect("made");
        rustix::fs::mknodat(
            CWD,
            at("in/fifo"),
            rustix::fs::FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .expect("made");

        let shared = Folder::new(folder.path().to_owned());
        let listing = shared.list("in/").expect("listed");
        let mut keys: Vec<String> = listing.files.into_iter().map(|file| file.key).collect();
        keys.sort();
        assert_eq!(keys, ["in/a/1.msg", "in/b"]);
        assert_eq!(listing.skipped, 6);
        assert_eq!(shared.list("nothing/").expect("listed").skipped, 0);
        assert_eq!(shared.list("in/root/etc/").expect("listed").skipped, 1);

        assert!(shared.open("in/b").is_ok());
        for key in [
            "in/link.msg",
            "in/root/etc/passwd",
            "in/fifo",
            "in/a",
            "../x",
            "in/../in/b",
            "in/c",
            "",
        ] {
            assert!(shared.open(key).is_err(), "{key}");
        }
        assert!(shared.refuse_links("in/root/etc/passwd").is_err());
        assert!(shared.refuse_links("in/new/1").is_ok());
    }

    #[test]
    fn the_lock_lies_outside_the_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let (one, other) = (lock_file(folder.path()), lock_file(folder.path()));
        let (one, other) = (one.expect("a lock"), other.expect("a lock"));
        one.try_lock().expect("free");
        assert!(other.try_lock().is_err());
        let inside = fs::read_dir(folder.path()).expect("listed").count();
        assert_eq!(inside, 0);
    }
}
