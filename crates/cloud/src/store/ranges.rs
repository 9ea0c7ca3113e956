//! Parts of an object. A large object is read in blocks, so that memory does not grow with it.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use object_store::ObjectStoreExt;
use tokio::runtime::Handle;

use super::objects::{StoreObjects, failed};
use crate::ports::{CloudError, CloudResult, bounded};

/// A request for two mebibytes takes hardly longer than one for a few bytes.
const BLOCK_BYTES: u64 = 2 << 20;

/// Blocks that are kept: one for each column of a file that is read at several places, 64 MiB.
const BLOCKS: usize = 32;

impl StoreObjects {
    /// Reads a part of an object.
    ///
    /// # Errors
    /// Also if the object ends before the part does.
    pub(crate) async fn get_range(&self, key: &str, range: Range<u64>) -> CloudResult<Bytes> {
        if let Some(folder) = self.folder() {
            let read = || -> io::Result<Bytes> {
                let file = folder.open(key)?;
                let length = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, range.start)?;
                Ok(bytes.into())
            };
            return read().map_err(|error| CloudError::Failed {
                operation: "get".to_owned(),
                message: bounded(&format!("{key}: {error}")),
            });
        }
        let path = self.path("get", key)?;
        let part = self.store().get_range(&path, range).await;
        part.map_err(|error| failed("get", key, &error))
    }
}

/// An object that is read at any place, from a thread that may block.
#[derive(Debug, Clone)]
pub(crate) struct BlockFile(Arc<OpenObject>);

#[derive(Debug)]
struct OpenObject {
    objects: StoreObjects,
    key: String,
    length: u64,
    runtime: Handle,
    /// The blocks that were read last, with their numbers; the newest one is the last.
    blocks: Mutex<VecDeque<(u64, Bytes)>>,
}

impl BlockFile {
    /// An object of a known length. Its reads wait for `runtime`, so they must not run on it.
    pub(crate) fn new(objects: StoreObjects, key: &str, length: u64, runtime: Handle) -> Self {
        Self(Arc::new(OpenObject {
            objects,
            key: key.to_owned(),
            length,
            runtime,
            blocks: Mutex::default(),
        }))
    }

    /// The key of the object.
    pub(crate) fn key(&self) -> &str {
        &self.0.key
    }

    /// The length of the object in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.0.length
    }

    /// The object from a place to its end.
    pub(crate) fn reader(&self, start: u64) -> BlockReader {
        BlockReader {
            file: self.clone(),
            at: start,
        }
    }

    fn block(&self, number: u64) -> io::Result<Bytes> {
        let mut blocks = self.0.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = blocks.iter().position(|(found, _)| *found == number)
            && let Some(found) = blocks.remove(at)
        {
            blocks.push_back(found.clone());
            return Ok(found.1);
        }
        let start = number * BLOCK_BYTES;
        let end = (start + BLOCK_BYTES).min(self.0.length);
        let part = self.0.objects.get_range(&self.0.key, start..end);
        let bytes = self.0.runtime.block_on(part).map_err(io::Error::other)?;
        if blocks.len() >= BLOCKS {
            blocks.pop_front();
        }
        blocks.push_back((number, bytes.clone()));
        Ok(bytes)
    }
}

/// Reads an object from a place to its end.
#[derive(Debug)]
pub(crate) struct BlockReader {
    file: BlockFile,
    at: u64,
}

impl Read for BlockReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.file.length() || buffer.is_empty() {
            return Ok(0);
        }
        let block = self.file.block(self.at / BLOCK_BYTES)?;
        let within = usize::try_from(self.at % BLOCK_BYTES).map_err(io::Error::other)?;
        // The object was replaced by a shorter one.
        let rest = block.get(within..).filter(|rest| !rest.is_empty());
        let rest = rest.ok_or(io::ErrorKind::UnexpectedEof)?;
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        self.at += length as u64;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::{Objects, PutOptions};

    async fn check(objects: StoreObjects) {
        let length = BLOCK_BYTES * 2 + 5;
        let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let put = objects.put("a/b", bytes.clone(), PutOptions::default());
        put.await.expect("stored");
        let file = BlockFile::new(objects, "a/b", length, Handle::current());
        let read = tokio::task::spawn_blocking(move || {
            let mut whole = Vec::new();
            file.reader(0).read_to_end(&mut whole).expect("it is read");
            let mut end = Vec::new();
            let start = BLOCK_BYTES - 3;
            file.reader(start)
                .read_to_end(&mut end)
                .expect("it is read");
            assert_eq!(end, whole[usize::try_from(start).expect("small")..]);
            assert_eq!(file.reader(length + 1).read(&mut [0]).expect("the end"), 0);
            whole
        });
        assert!(read.await.expect("it ends") == bytes);
    }

    #[tokio::test]
    async fn an_object_is_read_in_blocks_from_a_bucket_and_from_a_folder() {
        check(StoreObjects::in_memory()).await;
        let folder = tempfile::tempdir().expect("a folder");
        let objects = StoreObjects::open(folder.path().to_str().expect("text")).expect("it opens");
        check(objects).await;
    }

    #[tokio::test]
    async fn an_object_that_became_shorter_is_an_error() {
        let objects = StoreObjects::in_memory();
        let put = objects.put("a", vec![1; 10], PutOptions::default());
        put.await.expect("stored");
        let file = BlockFile::new(objects, "a", 20, Handle::current());
        let read = tokio::task::spawn_blocking(move || {
            let mut whole = Vec::new();
            file.reader(0).read_to_end(&mut whole).is_err()
        });
        assert!(read.await.expect("it ends"));
    }
}
