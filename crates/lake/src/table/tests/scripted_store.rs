//! A store in a folder that counts its reads. It fails from some write on, like a program that is
//! killed, or lets another program act before a write.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};

/// An event at one of the writes, which are counted from 0.
pub(crate) enum Script {
    /// That write and everything after it fails.
    DieBefore(usize),
    /// That write is done, but it and everything after it fails.
    DieAfter(usize),
    /// Nothing happens.
    Nothing,
    /// Another program acts first.
    Act(usize, Mutex<Option<BoxFuture<'static, ()>>>),
}

pub(crate) struct ScriptedStore {
    inner: LocalFileSystem,
    script: Script,
    writes: AtomicUsize,
    pub(crate) reads: AtomicUsize,
    pub(crate) read_bytes: AtomicU64,
}

impl ScriptedStore {
    pub(crate) fn new(script: Script) -> Self {
        Self {
            inner: LocalFileSystem::new(),
            script,
            writes: AtomicUsize::new(0),
            reads: AtomicUsize::new(0),
            read_bytes: AtomicU64::new(0),
        }
    }

    fn check(&self, is_dead: bool) -> Result<()> {
        match is_dead {
            true => Err(object_store::Error::Generic {
                store: "scripted",
                source: "the program is dead".into(),
            }),
            false => Ok(()),
        }
    }

    fn is_dead(&self) -> bool {
        let writes = self.writes.load(Ordering::Relaxed);
        match self.script {
            Script::DieBefore(at) | Script::DieAfter(at) => writes > at,
            Script::Nothing | Script::Act(..) => false,
        }
    }

    async fn write<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.check(self.is_dead())?;
        let this = self.writes.fetch_add(1, Ordering::Relaxed);
        match &self.script {
            Script::Nothing => work.await,
            Script::DieBefore(at) => {
                self.check(this == *at)?;
                work.await
            }
            Script::DieAfter(at) => {
                let done = work.await;
                self.check(this == *at)?;
                done
            }
            Script::Act(at, act) => {
                let act = act
                    .lock()
                    .expect("no test panics in it")
                    .take_if(|_| this == *at);
                if let Some(act) = act {
                    act.await;
                }
                work.await
            }
        }
    }

    fn read<T: Send + 'static>(
        &self,
        items: BoxStream<'static, Result<T>>,
    ) -> BoxStream<'static, Result<T>> {
        match self.check(self.is_dead()) {
            Ok(()) => items,
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }
}

impl fmt::Debug for ScriptedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for ScriptedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scripted {}", self.inner)
    }
}

#[async_trait]
impl ObjectStore for ScriptedStore {
    async fn put_opts(&self, to: &Path, bytes: PutPayload, how: PutOptions) -> Result<PutResult> {
        self.write(self.inner.put_opts(to, bytes, how)).await
    }

    async fn put_multipart_opts(
        &self,
        to: &Path,
        how: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.write(self.inner.put_multipart_opts(to, how)).await
    }

    async fn get_opts(&self, from: &Path, how: GetOptions) -> Result<GetResult> {
        self.check(self.is_dead())?;
        let got = self.inner.get_opts(from, how).await?;
        self.reads.fetch_add(1, Ordering::Relaxed);
        let bytes = got.range.end - got.range.start;
        self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(got)
    }

    fn delete_stream(
        &self,
        files: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.read(self.inner.delete_stream(files))
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.read(self.inner.list(prefix))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.check(self.is_dead())?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, how: CopyOptions) -> Result<()> {
        self.write(self.inner.copy_opts(from, to, how)).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, how: RenameOptions) -> Result<()> {
        self.write(self.inner.rename_opts(from, to, how)).await
    }
}
