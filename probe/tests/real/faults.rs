//! Faults of real machines: a full disk, a cgroup that is removed while it is read, and events without
//! end.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use ebb_probe::cgroup::reading::{self, Wanted};
use ebb_probe::cgroup::{Hierarchy, Paths};
use ebb_probe::kernel::{Extent, KernelHalf};
use ebb_probe::spool::Spool;
use ebb_telemetry::units::Bytes;
use ebb_test_support::skip;

use crate::SECOND;
use crate::machine::needs_ebpf;
use crate::probe::{Probe, Sink};

/// A small separate disk.
struct Disk(tempfile::TempDir);

impl Disk {
    fn new(kib: u32) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let options = format!("size={kib}k");
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(folder.path())
            .output()
            .map_err(|error| error.to_string())?;
        match done.status.success() {
            true => Ok(Self(folder)),
            false => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn mount_again(&self, mode: &str) -> Result<(), String> {
        let options = format!("remount,{mode}");
        let done = Command::new("mount")
            .args(["-o", &options])
            .arg(self.path())
            .output()
            .map_err(|error| error.to_string())?;
        match done.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

pub(crate) fn on_a_full_disk_the_oldest_give_way_and_every_loss_is_counted() {
    let disk =
        Disk::new(256).unwrap_or_else(|reason| skip(format_args!("no disk of its own: {reason}")));
    // The spool's limit is larger than the disk, and memory takes more.
    let mut spool = Spool::open(disk.path().join("spool"), Bytes::mib(8));
    let record = |n: u8| vec![n; 40_000];
    let contents = |spool: &mut Spool| -> Vec<u8> {
        let held = spool.oldest(usize::MAX);
        held.iter().map(|(_, bytes)| bytes[0]).collect()
    };
    for n in 0..=200 {
        spool.push(record(n));
    }
    let newest = contents(&mut spool);
    let first = 201 - u8::try_from(newest.len()).expect("a few");
    assert_eq!(newest, (first..=200).collect::<Vec<_>>());
    // Five records fit on the disk, and 2 MiB of records in memory.
    assert!((55..=58).contains(&newest.len()), "{}", newest.len());
    assert_eq!(spool.dropped(), u64::from(first));

    // Removed records make room. No record is written in part.
    for (number, _) in spool.oldest(usize::MAX) {
        spool.remove(number);
    }
    let other = disk.path().join("other");
    let _ = fs::write(&other, vec![0; 1 << 20]);
    spool.push(record(201));
    assert_eq!((contents(&mut spool), files_in(&disk)), (vec![201], 0));
    // Once there is room, records move from memory to the disk.
    fs::remove_file(&other).expect("removed");
    spool.push(record(202));
    assert_eq!((contents(&mut spool), files_in(&disk)), (vec![201, 202], 2));
}

fn files_in(disk: &Disk) -> usize {
    let listed = fs::read_dir(disk.path().join("spool")).expect("listed");
    listed.count()
}

pub(crate) fn on_a_read_only_disk_records_wait_in_memory_and_those_of_the_disk_are_sent_once() {
    let disk = Disk::new(1_024)
        .unwrap_or_else(|reason| skip(format_args!("no disk of its own: {reason}")));
    let open = || Spool::open(disk.path().join("spool"), Bytes::mib(8));
    open().push(b"earlier".to_vec());
    disk.mount_again("ro").expect("root may");
    let mut spool = open();
    spool.push(b"now".to_vec());
    let held = spool.oldest(usize::MAX);
    let texts: Vec<&[u8]> = held.iter().map(|(_, bytes)| bytes.as_slice()).collect();
    assert_eq!(texts, [b"earlier".as_slice(), b"now"]);
    for (number, _) in held {
        spool.remove(number);
    }
    assert!(spool.oldest(usize::MAX).is_empty(), "what went goes once");
    assert_eq!(spool.dropped(), 0);
    disk.mount_again("rw").expect("root may");
    spool.push(b"later".to_vec());
    assert_eq!(files_in(&disk), 2, "one could not be deleted");
}

/// A probe whose disk is full or read-only keeps running and loses nothing.
pub(crate) fn a_probe_without_a_disk_sends_every_heartbeat_and_says_so() {
    needs_ebpf();
    for read_only in [false, true] {
        let disk = Disk::new(256).expect("root mounts");
        fs::create_dir(disk.path().join("spool")).expect("made");
        match read_only {
            true => disk.mount_again("ro").expect("root may"),
            false => drop(fs::write(disk.path().join("other"), vec![0; 1 << 20])),
        }
        let sink = Sink::new();
        let config = sink.folder().join("probe.toml");
        let text = format!(
            "place = '{}'\nspool_dir = '{}'\ninterval_seconds = 1\nsample_seconds = 1\n",
            sink.folder().display(),
            disk.path().join("spool").display(),
        );
        fs::write(&config, text).expect("a file");
        let mut command = Command::new(crate::program());
        command.args(["run", "--config"]).arg(&config);
        let probe = Probe::spawn(command);
        std::thread::sleep(2 * SECOND);
        sink.break_it();
        std::thread::sleep(3 * SECOND);
        sink.mend();
        let log = probe.log();
        assert!(log.contains("kept in memory"), "{log}");
        probe.stop();
        let records = sink.read();
        let sequences: Vec<u64> = records.heartbeats.iter().map(|h| h.sequence).collect();
        assert_eq!(sequences, (0..sequences.len() as u64).collect::<Vec<_>>());
        assert!(sequences.len() >= 5, "{sequences:?}");
        let last = records.heartbeats.last().expect("some");
        assert_eq!(last.probe.records_dropped, 0);
    }
}

pub(crate) fn every_file_of_the_probe_is_readable_by_its_owner_only() {
    needs_ebpf();
    let sink = Sink::new();
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "umask 000; exec \"$0\" run --interval 1 --sink \"$1\"",
        ])
        .arg(crate::program())
        .arg(sink.folder().join("place"));
    let probe = Probe::spawn(command);
    std::thread::sleep(3 * SECOND);
    probe.kill();
    let place = sink.folder().join("place");
    let found = everything_below(&place);
    assert!(found.len() > 8, "{found:?}");
    for path in found {
        let mode = fs::symlink_metadata(&path).expect("it is there").mode();
        assert_eq!(mode & 0o077, 0, "{} has {mode:o}", path.display());
    }
}

fn everything_below(folder: &Path) -> Vec<PathBuf> {
    let mut all = vec![folder.to_owned()];
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path().is_dir() {
            true => all.extend(everything_below(&entry.path())),
            false => all.push(entry.path()),
        }
    }
    all
}

pub(crate) fn a_cgroup_that_goes_while_it_is_read_is_unknown_and_no_error() {
    needs_ebpf();
    let hierarchy = Hierarchy::find().expect("asked before");
    let name = format!("ebb-goes-{}", std::process::id());
    let folder = hierarchy.mount.join(&name);
    let path = format!("/{name}");
    assert_eq!(
        reading::read(&hierarchy, &path, Wanted::All),
        reading::Reading::default()
    );
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let _ = fs::create_dir(&folder);
                let _ = fs::remove_dir(&folder);
            }
        });
        for _ in 0..2_000 {
            let reading = reading::read(&hierarchy, &path, Wanted::All);
            // A new cgroup uses almost no memory.
            let held = reading.memory_used.unwrap_or_default();
            assert!(held < Bytes::mib(1), "{reading:?}");
        }
        drop(Paths::scan(&hierarchy));
        stop.store(true, Ordering::Relaxed);
    });
    let _ = fs::remove_dir(&folder);
}

/// Each event causes another one, as many processes that start processes do together.
pub(crate) fn a_drain_ends_although_events_come_without_end() {
    needs_ebpf();
    let hierarchy = Hierarchy::find().expect("asked before");
    let folder = (hierarchy.mount).join(format!("ebb-events-{}", std::process::id()));
    let cause_event = || {
        fs::create_dir(&folder).expect("root may");
        fs::remove_dir(&folder).expect("it is empty");
    };
    let mut kernel = KernelHalf::load(hierarchy.memory_hierarchy()).expect("it loads");
    cause_event();
    for _ in 0..2 {
        let mut events = 0;
        let extent = kernel.drain(|_| {
            cause_event();
            events += 1;
        });
        assert_eq!(extent, Extent::Truncated);
        // Records take 64 to 392 bytes of one MiB.
        assert!((2_500..17_000).contains(&events), "{events}");
    }
    let rest = kernel.drain(|_| {});
    assert_eq!(rest, Extent::Complete);
}
