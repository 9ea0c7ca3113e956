//! Files that the kernel makes up as they are read: of procfs, sysfs and control groups.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// What most of them fit into.
const USUAL_BYTES: usize = 8 << 10;

/// What a file says. They tell no size, and a read that begins small is many calls, of
/// which each can make the kernel count anew what the file sums.
pub(crate) fn read(path: impl AsRef<Path>) -> io::Result<String> {
    let file = File::open(path)?;
    let mut text = String::with_capacity(USUAL_BYTES);
    // A file that is only to be taken from is not asked for its size.
    file.take(u64::MAX).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_to_its_end_whatever_its_size() {
        for size in [0, 1, USUAL_BYTES - 1, USUAL_BYTES, 100 * USUAL_BYTES + 1] {
            let file = tempfile::NamedTempFile::new().expect("a file");
            std::fs::write(file.path(), "x".repeat(size)).expect("written");
            assert_eq!(read(file.path()).expect("readable").len(), size);
        }
        assert!(read("/proc/self/stat").expect("readable").contains('('));
        assert!(read("/nowhere/at/all").is_err());
    }
}
