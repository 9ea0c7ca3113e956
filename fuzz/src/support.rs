//! Functions of several targets.

use std::cell::RefCell;
use std::future::Future;
use std::io::Write;
use std::path::Path;

use tempfile::NamedTempFile;
use tokio::runtime::Runtime;

/// Waits for a future on this thread's runtime.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: Runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
    }
    RUNTIME.with(|runtime| runtime.block_on(future))
}

/// Gives the input to a reader of files.
pub(crate) fn with_file<T>(input: &[u8], reader: impl FnOnce(&Path) -> T) -> T {
    thread_local! {
        static FILE: RefCell<NamedTempFile> =
            RefCell::new(NamedTempFile::new().expect("a temporary file"));
    }
    FILE.with_borrow_mut(|file| {
        let path = file.path().to_owned();
        let written = std::fs::File::create(&path).and_then(|mut file| file.write_all(input));
        written.expect("a temporary file is writable");
        reader(&path)
    })
}

/// The first line of an input, and the rest.
pub(crate) fn first_line(input: &[u8]) -> (String, &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n');
    let (line, rest) = input.split_at(end.unwrap_or(input.len()));
    let line = String::from_utf8_lossy(line).into_owned();
    (line, rest.get(1..).unwrap_or_default())
}

pub(crate) fn zstd(plain: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(plain, 1).expect("memory to compress")
}
