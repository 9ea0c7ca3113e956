//! The user of a client on loopback, as the kernel reports it. Every local user can connect to a port,
//! so the server answers only its own user and root.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ebb_api::problem::OtherUser;
use tokio::net::TcpStream;
use tokio::time::sleep;

/// The sockets of this network namespace. A client on loopback has its socket in the same namespace,
/// and a socket of IPv6 can connect to an address of IPv4.
const TABLES: [&str; 2] = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];

/// The most bytes that are read of a table: about 200,000 sockets.
const MAX_TABLE_BYTES: u64 = 32 << 20;

/// Time until the second attempt. A row can be missing while the kernel changes the table.
const RETRY: Duration = Duration::from_millis(5);

const ROOT: u32 = 0;

/// The user of a client that must not be answered; `None` for the own user and for root. Only Linux
/// has the tables, so other systems refuse nobody.
pub(super) async fn refused(stream: &TcpStream) -> Option<OtherUser> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let server = rustix::process::geteuid().as_raw();
    let mut client = user_of(stream);
    if client.is_none() {
        sleep(RETRY).await;
        client = user_of(stream);
    }
    let is_allowed = client.is_some_and(|user| user == server || user == ROOT);
    (!is_allowed).then_some(OtherUser { server, client })
}

/// The id of the user whose process opened the other end; `None` if no process has it open.
fn user_of(stream: &TcpStream) -> Option<u32> {
    let (server, client) = (stream.local_addr().ok()?, stream.peer_addr().ok()?);
    let user = TABLES
        .iter()
        .find_map(|path| find_user(File::open(path).ok()?, client, server))?;
    // After a reset, another process can have the same port. Then this end has no peer.
    stream.peer_addr().is_ok().then_some(user)
}

/// The user of the socket with this local address that is connected to the address of the server.
fn find_user(table: impl Read, client: SocketAddr, server: SocketAddr) -> Option<u32> {
    let (client, server) = (canonical(client), canonical(server));
    let rows = BufReader::new(table.take(MAX_TABLE_BYTES)).split(b'\n');
    rows.map_while(Result::ok).find_map(|row| {
        let row = SocketRow::parse(std::str::from_utf8(&row).ok()?)?;
        // A socket that its process closed has no inode, and its user is shown as root.
        let is_open = row.inode != 0;
        (is_open && row.local == client && row.remote == server).then_some(row.user)
    })
}

/// A row of a table.
struct SocketRow {
    local: SocketAddr,
    remote: SocketAddr,
    user: u32,
    inode: u64,
}

impl SocketRow {
    /// Source: `get_tcp4_sock` and `get_tcp6_sock` of Linux. `None` for the head of the table and for
    /// everything else that is no row.
    fn parse(row: &str) -> Option<Self> {
        let mut fields = row.split_ascii_whitespace().skip(1);
        let (local, remote) = (address(fields.next()?)?, address(fields.next()?)?);
        // State, queues, timer and retransmits are before the user, and the timeout is after it.
        let mut fields = fields.skip(4);
        let user = fields.next()?.parse().ok()?;
        let inode = fields.nth(1)?.parse().ok()?;
        Some(Self {
            local,
            remote,
            user,
            inode,
        })
    }
}

/// Each word of 32 bits of an address is shown as a number of this machine.
fn address(text: &str) -> Option<SocketAddr> {
    let (words, port) = text.split_once(':')?;
    let word = |at: usize| {
        let number = u32::from_str_radix(words.get(at..at + 8)?, 16).ok()?;
        Some(number.to_ne_bytes())
    };
    let ip = match words.len() {
        8 => IpAddr::from(word(0)?),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            IpAddr::from(<[u8; 16]>::try_from(words.as_flattened()).ok()?)
        }
        _ => return None,
    };
    let port = u16::from_str_radix(port, 16).ok()?;
    Some(canonical(SocketAddr::new(ip, port)))
}

/// An address of IPv4 also if a socket of IPv6 has it.
fn canonical(at: SocketAddr) -> SocketAddr {
    SocketAddr::new(at.ip().to_canonical(), at.port())
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    const HEAD: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   \
        uid  timeout inode\n";

    /// A row of a socket on this port that is connected to port 8080 of the same host.
    fn row(host: &str, port: u16, user: u32, inode: u64) -> String {
        format!(
            "   7: {host}:{port:04X} {host}:1F90 01 00000000:00000000 00:00000000 00000000  {user}        \
             0 {inode} 1 00000000f2928499 100 0 0 10 0\n"
        )
    }

    const V4: &str = "0100007F";
    const V6: &str = "00000000000000000000000001000000";
    const MAPPED: &str = "0000000000000000FFFF00000100007F";

    fn find_owner(table: impl Read, host: &str) -> Option<u32> {
        let at = |port: u16| SocketAddr::new(host.parse().expect("an address"), port);
        find_user(table, at(50_000), at(8080))
    }

    #[test]
    fn the_row_with_both_addresses_has_the_user() {
        let check = |rows: &[String], host: &str, expect: Option<u32>| {
            let table = format!("{HEAD}{}", rows.concat());
            assert_eq!(find_owner(table.as_bytes(), host), expect, "{table}");
        };
        let other = row(V4, 50_001, 7, 11);
        check(&[], "127.0.0.1", None);
        check(std::slice::from_ref(&other), "127.0.0.1", None);
        check(
            &[other, row(V4, 50_000, 1_000, 12)],
            "127.0.0.1",
            Some(1_000),
        );
        check(&[row(V4, 50_000, 1_000, 12)], "127.0.0.2", None);
        check(&[row(V6, 50_000, 1_001, 12)], "::1", Some(1_001));
        check(&[row(V6, 50_000, 1_001, 12)], "127.0.0.1", None);
        check(&[row(MAPPED, 50_000, 1_002, 12)], "127.0.0.1", Some(1_002));
        check(
            &[row(V4, 50_000, 1_003, 12)],
            "::ffff:127.0.0.1",
            Some(1_003),
        );
        // The end of the server, and a listening socket.
        let swapped = row(V4, 50_000, 1_000, 12).replace("C350", "1F91");
        let swapped = swapped.replace("1F90", "C350").replace("1F91", "1F90");
        check(&[swapped], "127.0.0.1", None);
    }

    #[test]
    fn a_socket_that_its_process_closed_is_not_of_root() {
        let closed = row(V4, 50_000, 0, 0);
        assert_eq!(find_owner(closed.as_bytes(), "127.0.0.1"), None);
        let open = row(V4, 50_000, 0, 12);
        assert_eq!(find_owner(open.as_bytes(), "127.0.0.1"), Some(0));
    }

    #[test]
    fn a_malformed_row_hides_no_other() {
        let good = row(V4, 50_000, 1_000, 12);
        let mut table = b"\n:\n 1:\n\xff\xfe 1 2\n".to_vec();
        for (part, instead) in [
            ("0100007F", "0100007G"),
            ("0100007F", "0100007F00"),
            ("0100007F", "é000007"),
            ("C350", "1C350"),
            (":C350", ""),
            ("1000 ", "4294967296 "),
            ("1000 ", "-1 "),
            (" 12 ", " x "),
        ] {
            assert!(good.contains(part), "{part}");
            let bad = good.replace(part, instead);
            assert_eq!(find_owner(bad.as_bytes(), "127.0.0.1"), None, "{bad}");
            table.extend_from_slice(bad.as_bytes());
        }
        table.extend_from_slice(&good.as_bytes()[..60]);
        table.push(b'\n');
        assert_eq!(find_owner(table.as_slice(), "127.0.0.1"), None);
        table.extend_from_slice(good.as_bytes());
        assert_eq!(find_owner(table.as_slice(), "127.0.0.1"), Some(1_000));
    }

    #[test]
    fn a_huge_table_is_read_up_to_the_limit() {
        let good = format!("\n{}", row(V4, 50_000, 1_000, 12));
        let after = |bytes: u64| {
            let table = io::repeat(b'x').take(bytes).chain(good.as_bytes());
            find_owner(table, "127.0.0.1")
        };
        assert_eq!(after(MAX_TABLE_BYTES / 2), Some(1_000));
        assert_eq!(after(MAX_TABLE_BYTES), None);
        assert_eq!(find_owner(io::repeat(b'x'), "127.0.0.1"), None);
    }
}
