//! Sockets of the probe on its own machine, to which every user may connect.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use tokio::net::{UnixListener, UnixStream};

/// Listens at `path`. The caller decides what each user may do.
pub(crate) fn listen(path: &Path) -> io::Result<UnixListener> {
    // Removes the socket of an earlier run; any other file is kept.
    if fs::symlink_metadata(path).is_ok_and(|there| there.file_type().is_socket()) {
        fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o666))?;
    Ok(listener)
}

/// Writes all bytes.
pub(crate) async fn write(stream: &UnixStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.writable().await?;
        match stream.try_write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => (),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
