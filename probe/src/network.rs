//! Bytes over the node's physical network interfaces. Loopback and virtual interfaces are left out,
//! because container traffic also crosses a physical one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ebb_telemetry::units::Bytes;

use crate::kernel_file;

/// Bytes received and bytes sent since each physical interface appeared, by its name.
type Counters = BTreeMap<String, [u64; 2]>;

/// Measures network traffic between calls.
#[derive(Debug)]
pub struct NetworkCounter {
    root: PathBuf,
    last: Option<Counters>,
}

impl NetworkCounter {
    /// Starts to count; `root` is the directory of `proc` and `sys`.
    pub fn watch(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        let last = read(&root);
        Self { root, last }
    }

    /// The names of the counted interfaces; empty if the network cannot be read.
    pub fn interfaces(&self) -> impl Iterator<Item = &str> {
        self.last.iter().flatten().map(|(name, _)| name.as_str())
    }

    /// Bytes received and bytes sent since the interfaces appeared; `None` if no physical interface is
    /// visible.
    pub fn totals(&self) -> Option<[Bytes; 2]> {
        let counters = read(&self.root)?;
        let sum = |n: usize| {
            let counts = counters.values().map(|counts| counts[n]);
            Bytes(counts.fold(0, u64::saturating_add))
        };
        Some([sum(0), sum(1)])
    }

    /// Bytes since the last call. `None` if no physical interface is visible, an interface was
    /// removed, or a counter decreased.
    pub fn used(&mut self) -> Option<Bytes> {
        let now = read(&self.root);
        let before = std::mem::replace(&mut self.last, now);
        since(&before?, self.last.as_ref()?)
    }
}

/// A new interface began at zero. The last bytes of a removed interface are lost.
fn since(before: &Counters, now: &Counters) -> Option<Bytes> {
    if before.keys().any(|name| !now.contains_key(name)) {
        return None;
    }
    let mut used = 0_u64;
    for (name, counters) in now {
        let counted = before.get(name).unwrap_or(&[0; 2]);
        for (now, before) in counters.iter().zip(counted) {
            used = used.saturating_add(now.checked_sub(*before)?);
        }
    }
    Some(Bytes(used))
}

/// Reads the counters of physical interfaces, which have a device link in sysfs; this includes
/// interfaces of virtual machines. `None` if no interface has one, as in the network namespace of a
/// container. A guess would report a busy node as idle.
fn read(root: &Path) -> Option<Counters> {
    let table = kernel_file::read(root.join("proc/net/dev")).ok()?;
    let devices = root.join("sys/class/net");
    let physical = |name: &str| devices.join(name).join("device").exists();
    let counters: Counters = table
        .lines()
        .filter_map(counted)
        .filter(|(name, _)| physical(name))
        .map(|(name, counters)| (name.to_owned(), counters))
        .collect();
    (!counters.is_empty()).then_some(counters)
}

/// One line of `/proc/net/dev`: eight counters of received data, bytes first, then eight of sent
/// data. `None` for the two header lines.
fn counted(line: &str) -> Option<(&str, [u64; 2])> {
    const SENT_BYTES: usize = 8;
    let (name, numbers) = line.split_once(':')?;
    let mut numbers = numbers.split_whitespace();
    let received = numbers.next()?.parse().ok()?;
    let sent = numbers.nth(SENT_BYTES - 1)?.parse().ok()?;
    Some((name.trim(), [received, sent]))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const HEAD: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets\n";

    /// A machine with these interfaces: name, whether it has a device link, and counters.
    fn machine(root: &Path, interfaces: &[(&str, bool, u64, u64)]) {
        let _ = fs::remove_dir_all(root.join("sys"));
        fs::create_dir_all(root.join("proc/net")).expect("a folder");
        let mut table = HEAD.to_owned();
        for (name, physical, received, sent) in interfaces {
            let inside = if *physical { "device" } else { "queues" };
            fs::create_dir_all(root.join("sys/class/net").join(name).join(inside)).expect("made");
            table += &format!("{name:>6}: {received} 9 0 0 0 0 0 0 {sent} 9 0 0 0 0 0 0\n");
        }
        fs::write(root.join("proc/net/dev"), table).expect("a file");
    }

    #[test]
    fn bytes_are_those_of_physical_interfaces_since_the_last_look() {
        type Interfaces<'a> = &'a [(&'a str, bool, u64, u64)];
        let check = |before: Interfaces<'_>, now: Interfaces<'_>, expect: Option<u64>| {
            let root = tempfile::tempdir().expect("a folder");
            machine(root.path(), before);
            let mut network = NetworkCounter::watch(root.path());
            machine(root.path(), now);
            assert_eq!(network.used(), expect.map(Bytes), "{before:?} {now:?}");
        };
        let eth0 = |received, sent| ("eth0", true, received, sent);
        check(&[eth0(100, 10)], &[eth0(100, 10)], Some(0));
        check(&[eth0(100, 10)], &[eth0(150, 13)], Some(53));
        // Traffic of loopback, bridges and container interfaces is not node traffic.
        let virtual_ones = |bytes| [("lo", false, bytes, 0), ("docker0", false, bytes, bytes)];
        let with_eth0 = |bytes, received| {
            let [lo, docker0] = virtual_ones(bytes);
            [lo, docker0, eth0(received, 0)]
        };
        check(&with_eth0(0, 5), &with_eth0(999, 8), Some(3));
        // Without a physical interface the traffic is unknown, which differs from zero.
        check(&virtual_ones(0), &virtual_ones(9), None);
        check(&[], &[], None);
        // With a decreased counter or a removed interface the traffic is unknown.
        check(&[eth0(100, 10)], &[eth0(99, 20)], None);
        check(&[eth0(1, 1), ("eth1", true, 1, 1)], &[eth0(1, 1)], None);
        // A new interface began at zero.
        check(
            &[eth0(1, 1)],
            &[eth0(1, 1), ("eth1", true, 40, 2)],
            Some(42),
        );
    }

    #[test]
    fn after_an_unknown_interval_counting_goes_on() {
        let root = tempfile::tempdir().expect("a folder");
        machine(root.path(), &[("eth0", true, 500, 0)]);
        let mut network = NetworkCounter::watch(root.path());
        assert_eq!(network.interfaces().collect::<Vec<_>>(), ["eth0"]);
        machine(root.path(), &[("eth0", true, 7, 0)]);
        assert_eq!(network.used(), None);
        machine(root.path(), &[("eth0", true, 9, 0)]);
        assert_eq!(network.used(), Some(Bytes(2)));
    }

    #[test]
    fn a_machine_that_shows_no_table_is_unknown() {
        let root = tempfile::tempdir().expect("a folder");
        let mut network = NetworkCounter::watch(root.path());
        assert_eq!(network.used(), None);
        assert_eq!(network.interfaces().count(), 0);
    }
}
