//! What goes wrong on real machines: a disk that is full, a cgroup that goes while it
//! is read.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use ebb_domain::units::Bytes;
use ebb_probe::cgroup::reading::{self, Wanted};
use ebb_probe::cgroup::{Hierarchy, Paths};
use ebb_probe::spool::Spool;

use crate::machine::skipped;

/// A small disk of its own.
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
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn on_a_full_disk_the_oldest_give_way_and_every_loss_is_counted() {
    let disk = match Disk::new(256) {
        Ok(disk) => disk,
        Err(reason) => {
            eprintln!("skipped: no disk of its own: {reason}");
            return;
        }
    };
    // The spool may hold more than the disk has.
    let mut spool = Spool::open(disk.path().join("spool"), Bytes::mib(1)).expect("a spool");
    let record = |n: u8| vec![n; 20_000];
    for n in 0..40 {
        spool.push(&record(n)).expect("the oldest give way");
    }
    let held = spool.oldest(usize::MAX).expect("readable");
    let newest: Vec<u8> = held.iter().map(|(_, bytes)| bytes[0]).collect();
    let first = 40 - u8::try_from(held.len()).expect("a few");
    assert_eq!(newest, (first..40).collect::<Vec<_>>());
    assert!(held.len() >= 8, "{newest:?}");
    assert_eq!(spool.dropped() + spool.len() as u64, 40);

    // Somebody else takes the rest, and there is nothing to give.
    for (number, _) in held {
        spool.remove(number).expect("removed");
    }
    let _ = fs::write(disk.path().join("other"), vec![0; 1 << 20]);
    let dropped = spool.dropped();
    spool.push(&record(9)).expect_err("no room at all");
    assert_eq!((spool.dropped(), spool.len()), (dropped + 1, 0));
    let left = fs::read_dir(disk.path().join("spool")).expect("listed");
    assert_eq!(left.count(), 0, "half a record was left");
    // Room comes back, and the spool with it.
    fs::remove_file(disk.path().join("other")).expect("removed");
    spool.push(&record(1)).expect("there is room");
    assert_eq!(spool.len(), 1);
}

#[test]
fn a_cgroup_that_goes_while_it_is_read_is_unknown_and_no_error() {
    if skipped() {
        return;
    }
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
            // A new cgroup holds next to nothing, whatever of it was still there.
            let held = reading.held.unwrap_or_default();
            assert!(held < Bytes::mib(1), "{reading:?}");
        }
        drop(Paths::scan(&hierarchy));
        stop.store(true, Ordering::Relaxed);
    });
    let _ = fs::remove_dir(&folder);
}
