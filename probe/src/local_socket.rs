//! Sockets of the probe on its own machine, to which every user may connect.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use tokio::net::{UnixListener, UnixStream};

/// Places that only root gets, so that other users together do not lock root out.
const PLACES_OF_ROOT: usize = 2;

const ROOT: u32 = 0;

/// Maximum number of simultaneous clients of a socket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientLimits {
    /// Clients of all users, with those places that only root gets.
    pub(crate) all: usize,
    /// Clients of one user other than root, so that one user leaves room for others.
    pub(crate) a_user: usize,
}

impl ClientLimits {
    /// Whether there is room for one more client of `user`. `open` has the user of each client.
    pub(crate) fn has_room(self, open: impl Iterator<Item = u32>, user: u32) -> bool {
        let (mut all, mut others, mut own) = (0, 0, 0);
        for one in open {
            all += 1;
            others += usize::from(one != ROOT);
            own += usize::from(one == user);
        }
        let of_others = self.all.saturating_sub(PLACES_OF_ROOT);
        all < self.all && (user == ROOT || (others < of_others && own < self.a_user))
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_share_the_places_that_are_not_of_root() {
        let limits = ClientLimits { all: 8, a_user: 4 };
        let check = |open: &[(u32, usize)], user: u32, expect: bool| {
            let users = open.iter().flat_map(|(user, n)| [*user].repeat(*n));
            assert_eq!(limits.has_room(users, user), expect, "{open:?} {user}");
        };
        check(&[], 1_001, true);
        check(&[(1_001, 3)], 1_001, true);
        check(&[(1_001, 4)], 1_001, false);
        check(&[(1_001, 4), (1_002, 1)], 1_002, true);
        check(&[(1_001, 4), (1_002, 2)], 1_002, false);
        check(&[(1_001, 4), (1_002, 2)], 1_003, false);
        check(&[(1_001, 4), (1_002, 2)], 0, true);
        check(&[(1_001, 4), (1_002, 2), (0, 1)], 0, true);
        check(&[(1_001, 4), (1_002, 2), (0, 2)], 0, false);
        check(&[(0, 7)], 0, true);
        check(&[(0, 7)], 1_001, true);
        check(&[(0, 8)], 1_001, false);
        check(&[(0, 2), (1_001, 4)], 1_002, true);
    }
}
