//! Opens a file below a directory without symbolic links.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags, openat};

/// Opens the file at `path` below `directory`. No part of the path may be a symbolic link or `..`.
///
/// `openat2` would need one call. systemd denies that call to each service with `DynamicUser=` or
/// `RestrictSUIDSGID=`, because it cannot see the mode of a new file in it.
///
/// # Errors
/// Also for a path without a name, and for a path with a link or `..`.
pub fn open_beneath(directory: OwnedFd, path: &Path, flags: OFlags) -> io::Result<File> {
    let mut parts = path.components().peekable();
    let mut at = directory;
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else {
            break;
        };
        let kind = match parts.peek() {
            Some(_) => OFlags::PATH | OFlags::DIRECTORY,
            None => flags,
        };
        at = openat(
            &at,
            name,
            kind | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        if parts.peek().is_none() {
            return Ok(File::from(at));
        }
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        "not the path of a file below the folder",
    ))
}
