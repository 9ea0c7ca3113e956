//! Reads whole text files of the user, up to a limit.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// The content of a text file; `-` is standard input.
///
/// # Errors
/// If the file cannot be read, has more than `max_bytes` bytes, or is not UTF-8.
pub(crate) fn read(path: &Path, max_bytes: u64) -> Result<String> {
    let failed = || format!("failed to read {}", path.display());
    let mut bytes = Vec::new();
    let is_input = path == Path::new("-");
    let opened = if is_input {
        Path::new("/dev/stdin")
    } else {
        path
    };
    let file = File::open(opened).with_context(failed)?;
    file.take(max_bytes + 1)
        .read_to_end(&mut bytes)
        .with_context(failed)?;
    ensure!(
        bytes.len() as u64 <= max_bytes,
        "failed to read {}: more than {} MiB",
        path.display(),
        max_bytes >> 20
    );
    String::from_utf8(bytes).with_context(|| format!("{} is not UTF-8 text", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_too_large_or_no_text_is_an_error() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let check = |bytes: &[u8], expect: Result<&str, &str>| {
            std::fs::write(file.path(), bytes).expect("it is written");
            match (read(file.path(), 1 << 20), expect) {
                (Ok(text), Ok(expect)) => assert_eq!(text, expect),
                (Err(error), Err(expect)) => {
                    assert!(error.to_string().ends_with(expect), "{error}");
                }
                (got, _) => panic!("{got:?}"),
            }
        };
        check(b"a", Ok("a"));
        check(&vec![b'x'; 1 << 20 | 1], Err(": more than 1 MiB"));
        check(b"\xff", Err("is not UTF-8 text"));
        let endless = read(Path::new("/dev/zero"), 1 << 20).expect_err("it never ends");
        assert_eq!(
            endless.to_string(),
            "failed to read /dev/zero: more than 1 MiB"
        );
    }
}
