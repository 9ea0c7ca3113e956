//! A bounded queue of opaque records that wait to be sent and survive a restart, a crash and a
//! power loss. Each record is a file; while the disk takes none, the newest records stay in
//! memory. A file that cannot be read is set aside. Every loss is counted.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ebb_telemetry::units::Bytes;

use crate::durable::{self, DiskError, UNFINISHED_SUFFIX, failed};

const MAGIC: [u8; 4] = *b"ebb1";
const HEADER_BYTES: usize = 12;
const SUFFIX: &str = "rec";

/// Maximum size of a record. A batch of finished tasks takes about 2 MB; see `Report`.
const MAX_RECORD_BYTES: usize = 8 << 20;

/// Limit of all records in memory together, part of the probe's promised 15 MB. A heartbeat has
/// 2 KB on an idle node and 200 KB on a busy one.
const MAX_BYTES_IN_MEMORY: usize = 2 << 20;

/// Folder for records that cannot be read, so that the cause can be found.
const ASIDE: &str = "unreadable";
/// Limits of that folder; when it is full, a record is deleted.
const MAX_FILES_ASIDE: usize = 16;
const MAX_BYTES_ASIDE: u64 = 4 << 20;

/// A record's place in the order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordNumber(u64);

/// Where a record is.
#[derive(Debug)]
enum Slot {
    OnDisk { bytes: u64 },
    InMemory(Vec<u8>),
}

/// Result of the last write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disk {
    Works,
    /// No space is left.
    Full,
    /// The disk is read-only or broken, or the folder is not this user's.
    Fails,
}

/// Records in one folder, oldest first.
#[derive(Debug)]
pub struct Spool {
    folder: PathBuf,
    limit: Bytes,
    /// False until all records of the folder are in `waiting`.
    is_open: bool,
    disk: Disk,
    waiting: BTreeMap<RecordNumber, Slot>,
    bytes_on_disk: u64,
    bytes_in_memory: usize,
    next: u64,
    dropped: u64,
    unreadable: u64,
}

impl Spool {
    /// Opens or creates the folder and reads which records an earlier run left. At most `limit`
    /// bytes are on the disk. Without a disk, records stay in memory.
    pub fn open(folder: impl Into<PathBuf>, limit: Bytes) -> Self {
        let mut spool = Self {
            folder: folder.into(),
            limit,
            is_open: false,
            disk: Disk::Works,
            waiting: BTreeMap::new(),
            bytes_on_disk: 0,
            bytes_in_memory: 0,
            next: 0,
            dropped: 0,
            unreadable: 0,
        };
        let opened = spool.open_folder();
        spool.note(opened);
        spool.make_room();
        spool
    }

    /// Reads which records are in the folder. Records in memory can have the same numbers as
    /// those in the folder; then only an empty folder is used, and the next run sends the rest.
    fn open_folder(&mut self) -> Result<(), DiskError> {
        durable::make_own_folder(&self.folder)?;
        let list = || fs::read_dir(&self.folder)?.collect::<io::Result<Vec<_>>>();
        let listed = list().map_err(failed(&self.folder, "list"))?;
        let is_record = |name: &Path| name.extension().is_some_and(|suffix| suffix == SUFFIX);
        if !self.waiting.is_empty() && listed.iter().any(|entry| is_record(&entry.path())) {
            let error = io::Error::other("the folder has records that could not be listed before");
            return Err(failed(&self.folder, "use")(error));
        }
        for entry in listed {
            self.take_in(&entry);
        }
        self.is_open = true;
        Ok(())
    }

    fn take_in(&mut self, entry: &fs::DirEntry) {
        let path = entry.path();
        if path
            .extension()
            .is_some_and(|suffix| suffix == UNFINISHED_SUFFIX)
        {
            let _ = fs::remove_file(&path);
            return;
        }
        let number = path.file_stem().and_then(|s| s.to_str()?.parse().ok());
        let number = number.map(RecordNumber);
        // Other files are not records. The largest number has no successor.
        let Some(number) = number.filter(|n| n.0 < u64::MAX && self.path(*n) == path) else {
            return;
        };
        self.next = self.next.max(number.0 + 1);
        // A file that is too large would displace all other records.
        let most = (HEADER_BYTES + MAX_RECORD_BYTES) as u64;
        let is_record = |about: &fs::Metadata| about.is_file() && about.len() <= most;
        match entry.metadata().ok().filter(is_record) {
            Some(about) => {
                let bytes = about.len();
                self.waiting.insert(number, Slot::OnDisk { bytes });
                self.bytes_on_disk = self.bytes_on_disk.saturating_add(bytes);
            }
            None => self.set_file_aside(number, None),
        }
    }

    /// Adds a record. It is on the disk when this returns, unless the disk fails. The oldest
    /// records make room for it. A record that is too large is dropped and counted.
    pub fn push(&mut self, record: Vec<u8>) {
        let size = (HEADER_BYTES + record.len()) as u64;
        if record.len() > MAX_RECORD_BYTES || size > self.limit.0 {
            self.dropped += 1;
            return;
        }
        let number = RecordNumber(self.next);
        self.next += 1;
        self.bytes_in_memory += record.len();
        self.waiting.insert(number, Slot::InMemory(record));
        let written = self.write_all();
        self.note(written);
        self.bound_memory();
    }

    /// Writes what is in memory to the disk, oldest first.
    fn write_all(&mut self) -> Result<(), DiskError> {
        if !self.is_open {
            self.open_folder()?;
        }
        let in_memory = |(number, slot): (&RecordNumber, &Slot)| match slot {
            Slot::InMemory(_) => Some(*number),
            Slot::OnDisk { .. } => None,
        };
        // Records in memory are newer than records on the disk.
        while let Some(number) = self.waiting.iter().find_map(in_memory) {
            self.write(number)?;
        }
        Ok(())
    }

    /// Writes one record that is in memory to the disk.
    fn write(&mut self, number: RecordNumber) -> Result<(), DiskError> {
        let Some(Slot::InMemory(record)) = self.waiting.get(&number) else {
            return Ok(());
        };
        let (frame, length) = (framed(record), record.len());
        let bytes = frame.len() as u64;
        durable::write_file(&self.path(number), &frame)?;
        self.waiting.insert(number, Slot::OnDisk { bytes });
        self.bytes_in_memory -= length;
        self.bytes_on_disk += bytes;
        // Only now: a record that the disk refuses must not displace others.
        self.make_room();
        Ok(())
    }

    /// Notes the result of a write, and logs a change.
    fn note(&mut self, done: Result<(), DiskError>) {
        let now = match &done {
            Ok(()) => Disk::Works,
            Err(error) if is_full(&error.source) => Disk::Full,
            Err(_) => Disk::Fails,
        };
        let before = std::mem::replace(&mut self.disk, now);
        match done {
            Err(error) if before != now => tracing::error!(
                error = %error.source,
                "{error}; unsent records are kept in memory, at most {MAX_BYTES_IN_MEMORY} bytes. \
                 Free space on the disk, or set another spool_dir"
            ),
            Ok(()) if before != now => {
                tracing::info!(folder = %self.folder.display(), "the spool writes to the disk again");
            }
            _ => {}
        }
    }

    /// Drops the oldest records while memory is over its limit. If the disk is full, its oldest
    /// records are dropped first.
    fn bound_memory(&mut self) {
        while self.bytes_in_memory > MAX_BYTES_IN_MEMORY {
            if self.disk != Disk::Full || !self.trade_for_disk_space() {
                self.drop_oldest(|slot| matches!(slot, Slot::InMemory(_)));
            }
        }
    }

    /// Drops the oldest records of a full disk to write the oldest record from memory. False if
    /// the record could not be written.
    fn trade_for_disk_space(&mut self) -> bool {
        let in_memory = |(number, slot): (&RecordNumber, &Slot)| match slot {
            Slot::InMemory(record) => Some((*number, (HEADER_BYTES + record.len()) as u64)),
            Slot::OnDisk { .. } => None,
        };
        let Some((number, needed)) = self.waiting.iter().find_map(in_memory) else {
            return false;
        };
        let mut freed = 0;
        while freed < needed {
            let before = self.bytes_on_disk;
            if !self.drop_oldest(|slot| matches!(slot, Slot::OnDisk { .. })) {
                return false;
            }
            freed += before - self.bytes_on_disk;
            if self.write(number).is_ok() {
                return true;
            }
        }
        false
    }

    /// Up to `limit` of the oldest readable records. Unreadable records are set aside and counted.
    pub fn oldest(&mut self, limit: usize) -> Vec<(RecordNumber, Vec<u8>)> {
        let mut records = Vec::new();
        let numbers: Vec<RecordNumber> = self.waiting.keys().copied().collect();
        for number in numbers {
            if records.len() == limit {
                break;
            }
            let record = match self.waiting.get(&number) {
                Some(Slot::InMemory(record)) => Ok(record.clone()),
                Some(Slot::OnDisk { .. }) => read(&self.path(number)),
                None => continue,
            };
            match record {
                Ok(record) => records.push((number, record)),
                Err(error) => self.set_aside(number, &error),
            }
        }
        records
    }

    /// The newest record; `None` if there is none, or it cannot be read.
    pub fn newest(&self) -> Option<Vec<u8>> {
        match self.waiting.last_key_value()? {
            (_, Slot::InMemory(record)) => Some(record.clone()),
            (number, Slot::OnDisk { .. }) => read(&self.path(*number)).ok(),
        }
    }

    /// Removes a record that was sent. If its file cannot be deleted, the next run sends it
    /// again, and the sweep recognises the repeat.
    pub fn remove(&mut self, number: RecordNumber) {
        match self.waiting.remove(&number) {
            Some(Slot::OnDisk { bytes }) => {
                self.bytes_on_disk = self.bytes_on_disk.saturating_sub(bytes);
                let path = self.path(number);
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        tracing::warn!(%error, path = %path.display(), "failed to delete a record");
                    }
                    _ => {}
                }
            }
            Some(Slot::InMemory(record)) => self.bytes_in_memory -= record.len(),
            None => {}
        }
    }

    /// Removes a record that was not sent, and counts it.
    pub fn drop_record(&mut self, number: RecordNumber) {
        self.dropped += 1;
        self.remove(number);
    }

    /// Takes a record that cannot be read out of the queue, and counts it.
    pub fn set_aside(&mut self, number: RecordNumber, error: &io::Error) {
        let slot = self.waiting.remove(&number);
        match slot {
            Some(Slot::InMemory(record)) => {
                self.bytes_in_memory -= record.len();
                self.count_unreadable(number, Some(error));
            }
            Some(Slot::OnDisk { bytes }) => {
                self.bytes_on_disk = self.bytes_on_disk.saturating_sub(bytes);
                self.set_file_aside(number, Some(error));
            }
            None => {}
        }
    }

    /// Renames a file into the folder of unreadable records, or deletes it if that folder is
    /// full. If both fail, the file stays, and the next run tries again.
    fn set_file_aside(&mut self, number: RecordNumber, error: Option<&io::Error>) {
        let (path, aside) = (self.path(number), self.folder.join(ASIDE));
        let to = aside.join(path.file_name().unwrap_or_default());
        let bytes = fs::symlink_metadata(&path).map_or(0, |about| about.len());
        let has_room = durable::make_own_folder(&aside).is_ok() && has_room(&aside, bytes);
        if !has_room || fs::rename(&path, &to).is_err() {
            let _ = fs::remove_file(&path);
        }
        self.count_unreadable(number, error);
    }

    fn count_unreadable(&mut self, RecordNumber(number): RecordNumber, error: Option<&io::Error>) {
        self.dropped += 1;
        self.unreadable += 1;
        let reason = error.map_or_else(
            || "not a file, or too large for a record".to_owned(),
            ToString::to_string,
        );
        tracing::warn!(number, reason, folder = %self.folder.display(), "failed to read a record; it is set aside");
    }

    /// Number of waiting records.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// True if no record waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Bytes of waiting records, on the disk and in memory.
    pub const fn held(&self) -> Bytes {
        Bytes(
            self.bytes_on_disk
                .saturating_add(self.bytes_in_memory as u64),
        )
    }

    /// Records lost since the start: dropped for lack of room, or unreadable.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Lost records that could not be read.
    pub const fn unreadable(&self) -> u64 {
        self.unreadable
    }

    fn make_room(&mut self) {
        let is_on_disk = |slot: &Slot| matches!(slot, Slot::OnDisk { .. });
        while self.bytes_on_disk > self.limit.0 && self.drop_oldest(is_on_disk) {}
    }

    /// Drops the oldest record for which `is_wanted` holds; false if there is none.
    fn drop_oldest(&mut self, is_wanted: impl Fn(&Slot) -> bool) -> bool {
        let oldest = self.waiting.iter().find(|(_, slot)| is_wanted(slot));
        let oldest = oldest.map(|(number, _)| *number);
        if let Some(number) = oldest {
            self.drop_record(number);
        }
        oldest.is_some()
    }

    fn path(&self, RecordNumber(number): RecordNumber) -> PathBuf {
        self.folder.join(format!("{number:020}.{SUFFIX}"))
    }
}

/// Whether the disk or this user's quota is full.
fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

fn has_room(aside: &Path, bytes: u64) -> bool {
    let (mut files, mut held) = (0, bytes);
    for entry in fs::read_dir(aside).into_iter().flatten().flatten() {
        files += 1;
        held = held.saturating_add(entry.metadata().map_or(0, |about| about.len()));
    }
    files < MAX_FILES_ASIDE && held <= MAX_BYTES_ASIDE
}

/// Reads a record's file: at most the size of a record, no link, and without waiting for the
/// writer of a pipe.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file: File = options.read(true).custom_flags(flags).open(path)?;
    let mut bytes = Vec::new();
    let most = HEADER_BYTES + MAX_RECORD_BYTES;
    file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    let record = unframed(&bytes).ok_or_else(|| io::Error::other("the record is damaged"))?;
    Ok(record.to_vec())
}

fn framed(record: &[u8]) -> Vec<u8> {
    let length = u32::try_from(record.len()).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(HEADER_BYTES + record.len());
    bytes.extend(MAGIC);
    bytes.extend(length.to_le_bytes());
    bytes.extend(crc32fast::hash(record).to_le_bytes());
    bytes.extend(record);
    bytes
}

fn unframed(bytes: &[u8]) -> Option<&[u8]> {
    let number = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let record = bytes.get(HEADER_BYTES..)?;
    let sound = bytes.get(..4)? == MAGIC
        && number(4)? as usize == record.len()
        && number(8)? == crc32fast::hash(record);
    sound.then_some(record)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn open(folder: &Path, limit: u64) -> Spool {
        Spool::open(folder, Bytes(limit))
    }

    fn contents(spool: &mut Spool) -> Vec<Vec<u8>> {
        let records = spool.oldest(usize::MAX);
        records.into_iter().map(|(_, record)| record).collect()
    }

    #[test]
    fn records_come_back_in_order_after_a_restart_until_they_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut spool = open(folder.path(), 1 << 20);
        for record in [b"one".as_slice(), b"two", b"three"] {
            spool.push(record.to_vec());
        }
        let first = spool.oldest(1);
        assert_eq!(first[0].1, b"one");
        spool.remove(first[0].0);
        let mut again = open(folder.path(), 1 << 20);
        assert_eq!(contents(&mut again), [b"two".to_vec(), b"three".to_vec()]);
        again.push(b"four".to_vec());
        assert_eq!(contents(&mut again).last(), Some(&b"four".to_vec()));
        assert_eq!(again.dropped(), 0);
    }

    #[test]
    fn the_oldest_give_way_and_are_counted() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut spool = open(folder.path(), 2 * (HEADER_BYTES as u64 + 10));
        for n in 0..5_u8 {
            spool.push(vec![n; 10]);
        }
        assert_eq!(contents(&mut spool), [vec![3; 10], vec![4; 10]]);
        assert_eq!((spool.dropped(), spool.len()), (3, 2));
        // A record that can never fit does not displace others.
        spool.push(vec![9; 1000]);
        assert_eq!((spool.dropped(), spool.len()), (4, 2));
        // A smaller limit applies at the next start.
        assert_eq!(open(folder.path(), 30).len(), 1);
    }

    #[test]
    fn a_file_cut_at_any_byte_is_skipped_and_the_others_are_not() {
        let whole = framed(b"the second of three");
        for cut in 0..whole.len() {
            let folder = tempfile::tempdir().expect("a folder");
            let mut spool = open(folder.path(), 1 << 20);
            for record in [b"first".as_slice(), b"the second of three", b"third"] {
                spool.push(record.to_vec());
            }
            fs::write(spool.path(RecordNumber(1)), &whole[..cut]).expect("cut");
            let mut again = open(folder.path(), 1 << 20);
            assert_eq!(
                contents(&mut again),
                [b"first".to_vec(), b"third".to_vec()],
                "cut at {cut}"
            );
            assert_eq!((again.dropped(), again.len()), (1, 2), "cut at {cut}");
        }
    }

    #[test]
    fn a_write_that_a_crash_ended_at_any_byte_is_cleared_away() {
        let whole = framed(b"the second");
        for cut in 0..=whole.len() {
            let folder = tempfile::tempdir().expect("a folder");
            open(folder.path(), 1 << 20).push(b"first".to_vec());
            let unfinished = folder.path().join("00000000000000000001.tmp");
            fs::write(unfinished, &whole[..cut]).expect("a file");
            fs::write(folder.path().join("note.txt"), b"not ours").expect("a file");
            let mut spool = open(folder.path(), 1 << 20);
            assert_eq!(contents(&mut spool), [b"first".to_vec()], "cut at {cut}");
            let left: Vec<_> = fs::read_dir(folder.path()).expect("listed").collect();
            assert_eq!((left.len(), spool.dropped()), (2, 0), "cut at {cut}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_set_aside_and_the_others_are_not() {
        let check = |spoil: fn(&Path), set_aside: usize| {
            let folder = tempfile::tempdir().expect("a folder");
            let mut spool = open(folder.path(), 64 << 20);
            for record in [b"first".as_slice(), b"second", b"third"] {
                spool.push(record.to_vec());
            }
            let second = spool.path(RecordNumber(1));
            spoil(&second);
            // In the same run and after a restart.
            for mut spool in [spool, open(folder.path(), 64 << 20)] {
                let found = contents(&mut spool);
                assert_eq!(found, [b"first".to_vec(), b"third".to_vec()]);
            }
            let aside = fs::read_dir(folder.path().join(ASIDE));
            let aside = aside.into_iter().flatten();
            assert_eq!(aside.count(), set_aside);
            assert!(
                fs::symlink_metadata(&second).is_err(),
                "nothing is read twice"
            );
        };
        check(
            |path| fs::write(path, "ebb1 and nonsense").expect("written"),
            1,
        );
        check(|path| fs::remove_file(path).expect("removed"), 0);
        let is_no_file = |path: &Path| {
            fs::remove_file(path).expect("removed");
            fs::create_dir(path).expect("made");
        };
        check(is_no_file, 1);
        let is_a_link = |path: &Path| {
            fs::remove_file(path).expect("removed");
            std::os::unix::fs::symlink("/etc/passwd", path).expect("linked");
        };
        check(is_a_link, 1);
        let waits_for_ever = |path: &Path| {
            fs::remove_file(path).expect("removed");
            let mode = rustix::fs::Mode::RUSR;
            let fifo = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, path, fifo, mode, 0).expect("made");
        };
        check(waits_for_ever, 1);
        let is_vast = |path: &Path| {
            let file = File::create(path).expect("made");
            file.set_len(1 << 40).expect("a file with a hole");
        };
        check(is_vast, 0);
    }

    #[test]
    fn the_folder_of_unreadable_records_is_bounded() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut spool = open(folder.path(), 1 << 20);
        for n in 0..40_u8 {
            spool.push(vec![n; 10]);
            fs::write(spool.path(RecordNumber(n.into())), "nonsense").expect("written");
        }
        spool.push(b"good".to_vec());
        assert_eq!(contents(&mut spool), [b"good".to_vec()]);
        assert_eq!((spool.dropped(), spool.unreadable()), (40, 40));
        let aside = fs::read_dir(folder.path().join(ASIDE)).expect("listed");
        assert_eq!(aside.count(), MAX_FILES_ASIDE);
        let left = fs::read_dir(folder.path()).expect("listed");
        assert_eq!(left.count(), 2, "one record and one folder");
    }

    #[test]
    fn names_that_are_not_ours_are_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        open(folder.path(), 1 << 20).push(b"first".to_vec());
        for name in ["5.rec", "+7.rec", "18446744073709551615.rec", "x.rec", "y"] {
            fs::write(folder.path().join(name), framed(b"other")).expect("written");
        }
        let mut spool = open(folder.path(), 1 << 20);
        spool.push(b"second".to_vec());
        assert_eq!(
            contents(&mut spool),
            [b"first".to_vec(), b"second".to_vec()]
        );
        assert_eq!(spool.dropped(), 0);
    }

    #[test]
    fn without_a_disk_records_wait_in_memory_and_go_to_the_disk_once_it_is_there() {
        let root = tempfile::tempdir().expect("a folder");
        let (taken, folder) = (root.path().join("a"), root.path().join("a/b"));
        fs::write(&taken, "a file is there").expect("written");
        let mut spool = open(&folder, 64 << 20);
        let record = |n: u8| vec![n; 100_000];
        (0..30).for_each(|n| spool.push(record(n)));
        let kept = MAX_BYTES_IN_MEMORY / 100_000;
        let newest: Vec<u8> = contents(&mut spool)
            .iter()
            .map(|record| record[0])
            .collect();
        let first = 30 - u8::try_from(kept).expect("a few");
        assert_eq!(newest, (first..30).collect::<Vec<_>>());
        assert_eq!(spool.dropped(), u64::from(first));
        assert!(spool.held().0 <= MAX_BYTES_IN_MEMORY as u64);

        fs::remove_file(&taken).expect("removed");
        spool.push(record(30));
        assert_eq!(spool.bytes_in_memory, 0, "it is all on the disk");
        let mut again = open(&folder, 64 << 20);
        let newest: Vec<u8> = contents(&mut again)
            .iter()
            .map(|record| record[0])
            .collect();
        assert_eq!(newest, (first..=30).collect::<Vec<_>>());
    }

    #[test]
    fn records_that_could_not_be_listed_are_left_for_the_next_run() {
        let root = tempfile::tempdir().expect("a folder");
        let (folder, away) = (root.path().join("a"), root.path().join("away"));
        open(&folder, 1 << 20).push(b"first".to_vec());
        fs::rename(&folder, &away).expect("moved");
        fs::write(&folder, "a file is there").expect("written");
        let mut spool = open(&folder, 1 << 20);
        spool.push(b"second".to_vec());
        fs::remove_file(&folder).expect("removed");
        fs::rename(&away, &folder).expect("moved");
        spool.push(b"third".to_vec());
        assert_eq!(
            contents(&mut spool),
            [b"second".to_vec(), b"third".to_vec()]
        );
        assert_eq!(contents(&mut open(&folder, 1 << 20)), [b"first".to_vec()]);
    }

    #[test]
    fn a_record_that_cannot_be_deleted_is_not_sent_again_by_this_run() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut spool = open(folder.path(), 1 << 20);
        spool.push(b"first".to_vec());
        let path = spool.path(RecordNumber(0));
        fs::remove_file(&path).expect("removed");
        fs::create_dir(&path).expect("what is no file is not deleted");
        spool.remove(RecordNumber(0));
        assert!(contents(&mut spool).is_empty());
        assert_eq!((spool.dropped(), spool.held()), (0, Bytes(0)));
    }

    proptest! {
        #[test]
        fn a_flipped_bit_anywhere_is_found(record in proptest::collection::vec(any::<u8>(), 1..64), bit in any::<usize>()) {
            let mut bytes = framed(&record);
            let bit = bit % (bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(unframed(&bytes), None);
        }

        #[test]
        fn what_is_held_never_exceeds_the_bound(sizes in proptest::collection::vec(0_usize..200, 0..30)) {
            let folder = tempfile::tempdir().expect("a folder");
            let mut spool = open(folder.path(), 500);
            for size in &sizes {
                spool.push(vec![7; *size]);
                prop_assert!(spool.held().0 <= 500);
            }
            prop_assert_eq!(spool.len() as u64 + spool.dropped(), sizes.len() as u64);
        }
    }
}
