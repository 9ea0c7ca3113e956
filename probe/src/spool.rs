//! A bounded queue of opaque records on disk: what could not be sent yet
//! outlives a restart and a crash. One file a record; a file that a crash tore
//! is found by its length and checksum and skipped. Every loss is counted.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ebb_domain::units::Bytes;
use thiserror::Error;

const MAGIC: [u8; 4] = *b"ebb1";
const HEADER_BYTES: usize = 12;
const SUFFIX: &str = "rec";
const UNFINISHED_SUFFIX: &str = "tmp";

/// Why the spool could not be used.
#[derive(Debug, Error)]
#[error("the spool's {path} could not be {action}")]
pub struct SpoolError {
    /// Which file or folder.
    pub path: PathBuf,
    /// What was tried.
    pub action: &'static str,
    /// Why it failed.
    pub source: io::Error,
}

/// A record's place in the order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordNumber(u64);

/// Records in one folder, oldest first.
#[derive(Debug)]
pub struct Spool {
    folder: PathBuf,
    limit: Bytes,
    sizes: BTreeMap<RecordNumber, u64>,
    held: u64,
    next: u64,
    dropped: u64,
}

impl Spool {
    /// Opens the folder, makes it if needed, and takes in what an earlier run
    /// left. At most `limit` bytes are held.
    pub fn open(folder: impl Into<PathBuf>, limit: Bytes) -> Result<Self, SpoolError> {
        let folder = folder.into();
        fs::create_dir_all(&folder).map_err(failed(&folder, "made"))?;
        let mut spool = Self {
            folder,
            limit,
            sizes: BTreeMap::new(),
            held: 0,
            next: 0,
            dropped: 0,
        };
        for entry in fs::read_dir(&spool.folder).map_err(failed(&spool.folder, "listed"))? {
            let entry = entry.map_err(failed(&spool.folder, "listed"))?;
            spool.take_in(&entry.path())?;
        }
        spool.make_room(0)?;
        Ok(spool)
    }

    fn take_in(&mut self, path: &Path) -> Result<(), SpoolError> {
        let suffix = path.extension().and_then(|s| s.to_str());
        let number = path.file_stem().and_then(|s| s.to_str()?.parse().ok());
        match (suffix, number) {
            (Some(UNFINISHED_SUFFIX), _) => fs::remove_file(path).map_err(failed(path, "removed")),
            (Some(SUFFIX), Some(number)) => {
                let size = fs::metadata(path).map_err(failed(path, "read"))?.len();
                self.sizes.insert(RecordNumber(number), size);
                self.held += size;
                self.next = self.next.max(number + 1);
                Ok(())
            }
            // Nothing of ours.
            _ => Ok(()),
        }
    }

    /// Adds a record; it is on the disk when this returns. The oldest ones give
    /// way to it. One that is larger than the whole spool is dropped and counted.
    pub fn push(&mut self, record: &[u8]) -> Result<(), SpoolError> {
        let bytes = framed(record);
        let size = bytes.len() as u64;
        if size > self.limit.0 {
            self.dropped += 1;
            return Ok(());
        }
        self.make_room(size)?;
        let number = RecordNumber(self.next);
        self.next += 1;
        loop {
            match self.write(number, &bytes) {
                Ok(()) => break,
                // On a disk that is full for others' sake too the oldest give way.
                Err(error) if is_full(&error.source) && !self.is_empty() => self.drop_oldest()?,
                Err(error) => {
                    self.dropped += 1;
                    return Err(error);
                }
            }
        }
        self.sizes.insert(number, size);
        self.held += size;
        Ok(())
    }

    fn write(&self, number: RecordNumber, bytes: &[u8]) -> Result<(), SpoolError> {
        let path = self.path(number);
        let unfinished = path.with_extension(UNFINISHED_SUFFIX);
        let mut file = File::create(&unfinished).map_err(failed(&unfinished, "made"))?;
        let written = file.write_all(bytes).and_then(|()| file.sync_data());
        if let Err(error) = written {
            // Half a record must not keep the room that the next one needs.
            let _ = fs::remove_file(&unfinished);
            return Err(failed(&unfinished, "written")(error));
        }
        fs::rename(&unfinished, &path).map_err(failed(&path, "named"))
    }

    /// Up to `limit` of the oldest sound records. Damaged ones are removed and
    /// counted as dropped.
    pub fn oldest(&mut self, limit: usize) -> Result<Vec<(RecordNumber, Vec<u8>)>, SpoolError> {
        let mut records = Vec::new();
        let numbers: Vec<RecordNumber> = self.sizes.keys().copied().collect();
        for number in numbers {
            if records.len() == limit {
                break;
            }
            let path = self.path(number);
            let bytes = match fs::read(&path) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
                Err(error) => return Err(failed(&path, "read")(error)),
            };
            match unframed(&bytes) {
                Some(record) => records.push((number, record.to_vec())),
                None => self.drop_record(number)?,
            }
        }
        Ok(records)
    }

    /// Removes records that arrived where they were to go.
    pub fn remove(&mut self, number: RecordNumber) -> Result<(), SpoolError> {
        let path = self.path(number);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed(&path, "removed")(error));
            }
            _ => {}
        }
        if let Some(size) = self.sizes.remove(&number) {
            self.held -= size;
        }
        Ok(())
    }

    /// Removes a record that will never arrive, and counts it.
    pub fn drop_record(&mut self, number: RecordNumber) -> Result<(), SpoolError> {
        self.dropped += 1;
        self.remove(number)
    }

    /// Records that wait.
    pub fn len(&self) -> usize {
        self.sizes.len()
    }

    /// True when none waits.
    pub fn is_empty(&self) -> bool {
        self.sizes.is_empty()
    }

    /// Bytes that wait.
    pub const fn held(&self) -> Bytes {
        Bytes(self.held)
    }

    /// Records lost since the start: those that gave way, and damaged ones.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    fn make_room(&mut self, size: u64) -> Result<(), SpoolError> {
        while self.held + size > self.limit.0 && !self.is_empty() {
            self.drop_oldest()?;
        }
        Ok(())
    }

    fn drop_oldest(&mut self) -> Result<(), SpoolError> {
        match self.sizes.keys().next().copied() {
            Some(oldest) => self.drop_record(oldest),
            None => Ok(()),
        }
    }

    fn path(&self, RecordNumber(number): RecordNumber) -> PathBuf {
        self.folder.join(format!("{number:020}.{SUFFIX}"))
    }
}

fn failed(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> SpoolError {
    let path = path.to_owned();
    move |source| SpoolError {
        path,
        action,
        source,
    }
}

/// The disk, or this user's part of it.
fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
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
        Spool::open(folder, Bytes(limit)).expect("a spool")
    }

    fn contents(spool: &mut Spool) -> Vec<Vec<u8>> {
        let records = spool.oldest(usize::MAX).expect("readable");
        records.into_iter().map(|(_, record)| record).collect()
    }

    #[test]
    fn records_come_back_in_order_after_a_restart_until_they_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut spool = open(folder.path(), 1 << 20);
        for record in [b"one".as_slice(), b"two", b"three"] {
            spool.push(record).expect("pushed");
        }
        let first = spool.oldest(1).expect("readable");
        assert_eq!(first[0].1, b"one");
        spool.remove(first[0].0).expect("removed");
        let mut again = open(folder.path(), 1 << 20);
        assert_eq!(contents(&mut again), [b"two".to_vec(), b"three".to_vec()]);
        again.push(b"four").expect("pushed");
        assert_eq!(contents(&mut again).last(), Some(&b"four".to_vec()));
        assert_eq!(again.dropped(), 0);
    }

    #[test]
    fn the_oldest_give_way_and_are_counted() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut spool = open(folder.path(), 2 * (HEADER_BYTES as u64 + 10));
        for n in 0..5_u8 {
            spool.push(&[n; 10]).expect("pushed");
        }
        assert_eq!(contents(&mut spool), [vec![3; 10], vec![4; 10]]);
        assert_eq!((spool.dropped(), spool.len()), (3, 2));
        // One that can never fit takes nothing else with it.
        spool.push(&[9; 1000]).expect("counted");
        assert_eq!((spool.dropped(), spool.len()), (4, 2));
        // A smaller bound holds at the next start.
        assert_eq!(open(folder.path(), 30).len(), 1);
    }

    #[test]
    fn a_file_cut_at_any_byte_is_skipped_and_the_others_are_not() {
        let whole = framed(b"the second of three");
        for cut in 0..whole.len() {
            let folder = tempfile::tempdir().expect("a folder");
            let mut spool = open(folder.path(), 1 << 20);
            for record in [b"first".as_slice(), b"the second of three", b"third"] {
                spool.push(record).expect("pushed");
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
            open(folder.path(), 1 << 20).push(b"first").expect("pushed");
            let unfinished = folder.path().join("00000000000000000001.tmp");
            fs::write(unfinished, &whole[..cut]).expect("a file");
            fs::write(folder.path().join("note.txt"), b"not ours").expect("a file");
            let mut spool = open(folder.path(), 1 << 20);
            assert_eq!(contents(&mut spool), [b"first".to_vec()], "cut at {cut}");
            let left: Vec<_> = fs::read_dir(folder.path()).expect("listed").collect();
            assert_eq!((left.len(), spool.dropped()), (2, 0), "cut at {cut}");
        }
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
                spool.push(&vec![7; *size]).expect("pushed");
                prop_assert!(spool.held().0 <= 500);
            }
            prop_assert_eq!(spool.len() as u64 + spool.dropped(), sizes.len() as u64);
        }
    }
}
