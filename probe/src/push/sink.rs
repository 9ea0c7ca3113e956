//! Where records go: the cloud's queue and bucket, or a local folder.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use ebb_cloud::ports::{CloudError, Objects, PutOptions, Queue};
use thiserror::Error;

/// Why a record did not go.
#[derive(Debug, Error)]
pub enum SinkError {
    /// The cloud did not take it.
    #[error(transparent)]
    Cloud(#[from] CloudError),
    /// Nobody said whether it went.
    #[error("there was no answer in time; is the network a black hole?")]
    NoAnswer,
    /// The folder did not take it.
    #[error("{path} could not be written: {source}")]
    Folder {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Takes encoded records.
#[async_trait::async_trait(?Send)]
pub trait Sink {
    /// Takes one message of heartbeats.
    async fn heartbeats(&self, body: &str) -> Result<(), SinkError>;

    /// Takes one object of finished steps; the same key again replaces it.
    async fn steps(&self, key: &str, object: Vec<u8>) -> Result<(), SinkError>;
}

/// A queue and a bucket.
pub struct CloudSink {
    /// Takes heartbeats.
    pub queue: Box<dyn Queue>,
    /// Takes finished steps.
    pub objects: Box<dyn Objects>,
}

#[async_trait::async_trait(?Send)]
impl Sink for CloudSink {
    async fn heartbeats(&self, body: &str) -> Result<(), SinkError> {
        Ok(self.queue.send(body).await?)
    }

    async fn steps(&self, key: &str, object: Vec<u8>) -> Result<(), SinkError> {
        let options = PutOptions::default();
        self.objects.put(key, object, options).await?;
        Ok(())
    }
}

/// A folder: messages as `heartbeats/<n>.msg` in the order of their arrival,
/// objects under their keys.
#[derive(Debug)]
pub struct FolderSink {
    folder: PathBuf,
    next: AtomicU64,
}

impl FolderSink {
    /// A sink that goes on where an earlier one stopped.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, SinkError> {
        let folder = folder.into();
        let messages = folder.join("heartbeats");
        std::fs::create_dir_all(&messages).map_err(failed(&messages))?;
        let number = |entry: io::Result<std::fs::DirEntry>| -> Option<u64> {
            entry.ok()?.path().file_stem()?.to_str()?.parse().ok()
        };
        let listed = std::fs::read_dir(&messages).map_err(failed(&messages))?;
        let next = listed.filter_map(number).max().map_or(0, |last| last + 1);
        Ok(Self {
            folder,
            next: AtomicU64::new(next),
        })
    }
}

#[async_trait::async_trait(?Send)]
impl Sink for FolderSink {
    async fn heartbeats(&self, body: &str) -> Result<(), SinkError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join(format!("heartbeats/{number:010}.msg"));
        write(&path, body.as_bytes())
    }

    async fn steps(&self, key: &str, object: Vec<u8>) -> Result<(), SinkError> {
        write(&self.folder.join(key), &object)
    }
}

/// A reader never sees half a file.
fn write(path: &Path, bytes: &[u8]) -> Result<(), SinkError> {
    let unfinished = path.with_extension("tmp");
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(failed(parent))?;
    }
    std::fs::write(&unfinished, bytes).map_err(failed(&unfinished))?;
    std::fs::rename(&unfinished, path).map_err(failed(path))
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> SinkError {
    let path = path.to_owned();
    move |source| SinkError::Folder { path, source }
}
