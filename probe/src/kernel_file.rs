//! Files that the kernel generates on each read, in procfs, sysfs and cgroupfs.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The usual maximum size.
const USUAL_BYTES: usize = 8 << 10;

/// Reads a whole file. Such files report no size, and each read call can make the kernel compute
/// the content again. So the buffer is large from the start. Names of processes, directories and
/// mounts can contain any bytes. Invalid UTF-8 is replaced, so that one name does not hide the
/// rest.
pub(crate) fn read(path: impl AsRef<Path>) -> io::Result<String> {
    let file = File::open(path)?;
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    // `take` avoids a call for the file size.
    file.take(u64::MAX).read_to_end(&mut bytes)?;
    let text = String::from_utf8(bytes);
    Ok(text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// A line of a kernel file that is read repeatedly. The file stays open, so that a read takes one
/// system call.
#[derive(Debug)]
pub(crate) struct KernelLine(File);

impl KernelLine {
    pub(crate) fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        File::open(path).map(Self)
    }

    /// The current line, up to 256 bytes.
    pub(crate) fn now(&self) -> io::Result<String> {
        let mut bytes = [0; 256];
        let length = self.0.read_at(&mut bytes, 0)?;
        Ok(String::from_utf8_lossy(&bytes[..length]).trim().to_owned())
    }
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
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), b"7 (\xff\xfea) S").expect("written");
        let read_text = read(file.path()).expect("readable");
        assert_eq!(read_text, "7 (\u{fffd}\u{fffd}a) S");
        assert!(read("/nowhere/at/all").is_err());
    }

    #[test]
    fn a_line_is_told_as_it_is_at_each_look() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let line = KernelLine::open(file.path()).expect("it is there");
        for text in ["0-1\n", "0-3\n"] {
            std::fs::write(file.path(), text).expect("written");
            assert_eq!(line.now().expect("readable"), text.trim());
        }
        let uptime = KernelLine::open("/proc/uptime").expect("it is there");
        let seconds = || {
            let text = uptime.now().expect("readable");
            let first = text.split(' ').next().map(str::parse::<f64>);
            first.expect("a word").expect("a number")
        };
        let before = seconds();
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert!(seconds() > before);
    }
}
