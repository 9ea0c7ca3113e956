//! The `Objects` port over any store. A directory has no conditional replacement and no metadata,
//! so this module adds them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Metadata, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, Error, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutPayload,
    PutResult, UpdateVersion,
};

use super::folder::{Folder, lock_file, not_in_the_future};
use super::{StoreError, open};
use crate::ports::{
    CloudError, CloudResult, Etag, Listed, MAX_DENIED_KEYS, Object, Objects, PutIf, PutOptions,
    Unread, bounded, too_large,
};

/// The suffix of the file with the metadata of an object in a directory.
const METADATA: &str = ".metadata.json";

/// Maximum number of attempts to take the lock of a directory: two seconds. A writer holds it for the
/// time of one small file.
const LOCK_ATTEMPTS: u32 = 200;

/// The time between two attempts to take the lock.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// The objects of a store.
#[derive(Debug, Clone)]
pub struct StoreObjects {
    store: Arc<dyn ObjectStore>,
    base: Path,
    /// The directory; `None` for a bucket.
    folder: Option<Folder>,
    /// Shared by all clones.
    unread: Arc<Mutex<UnreadKeys>>,
}

/// Contents of a directory that could not be read or deleted.
#[derive(Debug, Default)]
struct UnreadKeys {
    denied: BTreeSet<String>,
    /// The newest number for each prefix, because a prefix is listed again and again.
    skipped: BTreeMap<String, u64>,
}

/// Maximum number of prefixes in [`UnreadKeys::skipped`]. Ebb lists fewer.
const MAX_SKIPPED_PREFIXES: usize = 100;

impl UnreadKeys {
    fn deny(&mut self, key: String) {
        if self.denied.len() < MAX_DENIED_KEYS {
            self.denied.insert(key);
        }
    }

    fn skip(&mut self, prefix: &str, count: u64) {
        if self.skipped.len() < MAX_SKIPPED_PREFIXES || self.skipped.contains_key(prefix) {
            self.skipped.insert(prefix.to_owned(), count);
        }
    }
}

impl StoreObjects {
    /// The objects at a URL; see [`open`].
    ///
    /// # Errors
    /// As for [`open`].
    pub fn open(url: &str) -> Result<Self, StoreError> {
        let place = open(url)?;
        let base = Path::from_url_path(place.base.path()).map_err(|error| StoreError::Client {
            url: place.base.to_string(),
            source: Box::new(error.into()),
        })?;
        let folder = match place.base.scheme() {
            "file" => place.base.to_file_path().ok().map(Folder::new),
            _ => None,
        };
        Ok(Self {
            store: place.store,
            base,
            folder,
            unread: Arc::default(),
        })
    }

    /// An empty store in memory, which ends with the program.
    pub fn in_memory() -> Self {
        Self {
            store: Arc::new(InMemory::new()),
            base: Path::default(),
            folder: None,
            unread: Arc::default(),
        }
    }

    fn unread_keys(&self) -> MutexGuard<'_, UnreadKeys> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(feature = "cost-exports")]
    pub(super) fn store(&self) -> &dyn ObjectStore {
        self.store.as_ref()
    }

    /// The directory; `None` for a bucket.
    #[cfg(feature = "cost-exports")]
    pub(crate) fn folder(&self) -> Option<&Folder> {
        self.folder.as_ref()
    }

    pub(super) fn path(&self, operation: &str, key: &str) -> CloudResult<Path> {
        let whole = match self.base.as_ref() {
            "" => key.to_owned(),
            base => format!("{base}/{key}"),
        };
        Path::parse(whole).map_err(|error| failed(operation, key, &error.into()))
    }

    fn key<'a>(&self, path: &'a Path) -> Option<&'a str> {
        let rest = path.as_ref().strip_prefix(self.base.as_ref())?;
        Some(rest.trim_start_matches('/'))
    }

    /// Compares and writes under a lock, which all Ebb processes use.
    async fn replace_in_folder(
        &self,
        (folder, key): (&Folder, &str),
        (path, payload): (&Path, PutPayload),
        expected: &UpdateVersion,
    ) -> CloudResult<PutResult> {
        let conflict = || CloudError::Conflict {
            operation: "put".to_owned(),
            what: key.to_owned(),
        };
        let io = |error: io::Error| CloudError::Failed {
            operation: "put".to_owned(),
            message: bounded(&format!(
                "failed to lock {}: {error}",
                folder.root().display()
            )),
        };
        let lock = wait_for_lock(folder).await.map_err(io)?;
        let there = match folder.open(key).and_then(|file| file.metadata()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(conflict()),
            there => there.map_err(folder_error("put", key))?,
        };
        if Some(e_tag_of_file(&there)) != expected.e_tag {
            return Err(conflict());
        }
        let done = self.store.put(path, payload).await;
        let done = done.map_err(|error| failed("put", key, &error))?;
        self.give_to_owner(key)?;
        drop(lock);
        Ok(done)
    }

    async fn get_in_folder(
        &self,
        folder: &Folder,
        key: &str,
        max_bytes: u64,
    ) -> CloudResult<Object> {
        let missing = || CloudError::Missing {
            operation: "get".to_owned(),
            what: key.to_owned(),
        };
        let io = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => missing(),
            io::ErrorKind::PermissionDenied => {
                self.unread_keys().deny(key.to_owned());
                denied_in_folder("get", key, &error)
            }
            _ => folder_error("get", key)(error),
        };
        self.path("get", key)?;
        // The store would wait for the writer of a FIFO, also to read its version.
        let file = folder.open(key).map_err(io)?;
        let meta = file.metadata().map_err(io)?;
        let mut bytes = Vec::new();
        let limited = file
            .take(max_bytes.saturating_add(1))
            .read_to_end(&mut bytes);
        let read = limited.map_err(io)?;
        if read as u64 > max_bytes {
            return Err(too_large("get", key, max_bytes));
        }
        let modified_at = meta.modified().ok();
        let modified_at = modified_at.and_then(|at| Timestamp::try_from(at).ok());
        Ok(Object {
            bytes,
            etag: Etag(e_tag_of_file(&meta)),
            modified_at: not_in_the_future(modified_at.unwrap_or(Timestamp::UNIX_EPOCH)),
        })
    }

    /// A directory is not ordered, so all of it is read and the first keys are kept.
    fn list_folder(
        &self,
        folder: &Folder,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> CloudResult<Vec<Listed>> {
        let listing = folder.list(prefix).map_err(|error| CloudError::Failed {
            operation: "list".to_owned(),
            message: bounded(&format!(
                "{prefix}: {error}; make the user of the sweep the owner of {}",
                folder.root().display()
            )),
        })?;
        let mut unread = self.unread_keys();
        unread.skip(prefix, listing.skipped);
        listing.denied.into_iter().for_each(|key| unread.deny(key));
        drop(unread);
        let mut files = listing.files;
        files.retain(|listed| Some(listed.key.as_str()) > after);
        files.sort_by(|a, b| a.key.cmp(&b.key));
        files.truncate(limit);
        Ok(files)
    }

    /// Deletes what this user may delete, because the files of one user must not keep those of the
    /// others. Returns the first error.
    async fn delete_in_folder(&self, keys: &[String]) -> CloudResult<()> {
        let mut first = Ok(());
        for key in keys {
            let deleted = self.delete_file(key).await;
            if deleted.is_err() {
                self.unread_keys().deny(key.clone());
            }
            first = first.and(deleted);
        }
        first
    }

    async fn delete_file(&self, key: &str) -> CloudResult<()> {
        let path = self.path("delete", key)?;
        let parent = key.rsplit_once('/').map_or("", |(parent, _)| parent);
        if let Some(folder) = &self.folder {
            let links = folder.refuse_links(parent);
            links.map_err(|error| denied_in_folder("delete", key, &error))?;
        }
        let deleted = missing_is_deleted(self.store.delete(&path).await);
        deleted.map_err(|error| failed("delete", key, &error))
    }

    /// Refuses a key that leads through a symbolic link in a directory.
    fn refuse_links(&self, operation: &str, key: &str) -> CloudResult<()> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        folder
            .refuse_links(key)
            .map_err(folder_error(operation, key))
    }

    async fn keep_metadata(&self, key: &str, options: &PutOptions) -> CloudResult<()> {
        let metadata = options.plain_metadata();
        if self.folder.is_none() || metadata.is_empty() {
            return Ok(());
        }
        let metadata_key = format!("{key}{METADATA}");
        let path = self.path("put", &metadata_key)?;
        let json = serde_json::json!(metadata).to_string();
        let done = self.store.put(&path, json.into()).await;
        done.map_err(|error| failed("put", &metadata_key, &error))?;
        self.give_to_owner(&metadata_key)
    }

    /// Gives a file that root wrote in a directory to the owner of the directory.
    fn give_to_owner(&self, key: &str) -> CloudResult<()> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        folder.give_to_owner(key).map_err(folder_error("put", key))
    }
}

#[async_trait]
impl Objects for StoreObjects {
    async fn get(&self, key: &str, max_bytes: u64) -> CloudResult<Object> {
        if let Some(folder) = &self.folder {
            return self.get_in_folder(folder, key, max_bytes).await;
        }
        let path = self.path("get", key)?;
        let failed = |error: Error| failed("get", key, &error);
        let found = self.store.get(&path).await.map_err(failed)?;
        if found.meta.size > max_bytes {
            return Err(too_large("get", key, max_bytes));
        }
        let (etag, modified_at) = (etag(version(&found.meta)), modified_at(&found.meta));
        Ok(Object {
            bytes: found.bytes().await.map_err(failed)?.to_vec(),
            etag,
            modified_at,
        })
    }

    async fn put(&self, key: &str, bytes: Vec<u8>, options: PutOptions) -> CloudResult<Etag> {
        let path = self.path("put", key)?;
        self.refuse_links("put", key)?;
        self.keep_metadata(key, &options).await?;
        let mode = match &options.condition {
            PutIf::Always => PutMode::Overwrite,
            PutIf::Absent => PutMode::Create,
            PutIf::Matches(etag) => PutMode::Update(of_etag(etag)),
        };
        let payload = PutPayload::from(bytes);
        if let (PutMode::Update(expected), Some(folder)) = (&mode, &self.folder) {
            let done = self.replace_in_folder((folder, key), (&path, payload), expected);
            return done.await.map(|done| etag(done.into()));
        }
        let attributes = match self.folder {
            Some(_) => Attributes::default(),
            None => attributes(&options),
        };
        let options = object_store::PutOptions {
            mode,
            attributes,
            ..Default::default()
        };
        let done = self.store.put_opts(&path, payload, options).await;
        let done = done.map_err(|error| failed("put", key, &error))?;
        self.give_to_owner(key)?;
        Ok(etag(done.into()))
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> CloudResult<Vec<Listed>> {
        if let Some(folder) = &self.folder {
            return self.list_folder(folder, prefix, after, limit);
        }
        // A store lists whole folders; a prefix may end within a name.
        let folder = prefix.rsplit_once('/').map_or("", |(folder, _)| folder);
        let path = self.path("list", folder)?;
        let offset = after.map(|after| self.path("list", after)).transpose()?;
        let mut found = match &offset {
            Some(offset) => self.store.list_with_offset(Some(&path), offset),
            None => self.store.list(Some(&path)),
        };
        // Buckets list objects in the order of their keys.
        let mut first: BTreeMap<String, Listed> = BTreeMap::new();
        while let Some(meta) = found.next().await {
            let meta = meta.map_err(|error| failed("list", prefix, &error))?;
            let is_wanted = |key: &&str| key.starts_with(prefix) && Some(*key) > after;
            let Some(key) = self.key(&meta.location).filter(is_wanted) else {
                continue;
            };
            let listed = Listed {
                key: key.to_owned(),
                bytes: meta.size,
                modified_at: modified_at(&meta),
            };
            first.insert(key.to_owned(), listed);
            if first.len() >= limit {
                break;
            }
        }
        Ok(first.into_values().collect())
    }

    async fn delete(&self, keys: &[String]) -> CloudResult<()> {
        if self.folder.is_some() {
            return self.delete_in_folder(keys).await;
        }
        let paths: Vec<Path> = keys
            .iter()
            .map(|key| self.path("delete", key))
            .collect::<CloudResult<_>>()?;
        let paths = stream::iter(paths.into_iter().map(Ok)).boxed();
        let deleted = self.store.delete_stream(paths);
        let deleted = deleted.then(|deleted| async { missing_is_deleted(deleted.map(drop)) });
        let all = deleted.try_collect::<Vec<()>>().await;
        all.map(drop)
            .map_err(|error| failed("delete", "objects", &error))
    }

    fn unread(&self) -> Unread {
        let keys = self.unread_keys();
        Unread {
            denied: keys.denied.clone(),
            skipped: keys.skipped.values().sum(),
        }
    }
}

/// Takes the lock of a directory. It blocks no thread while it waits.
///
/// # Errors
/// Also if another process holds the lock for two seconds.
async fn wait_for_lock(folder: &Folder) -> io::Result<File> {
    let lock = lock_file(folder.root())?;
    for _ in 0..LOCK_ATTEMPTS {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(LOCK_PAUSE).await,
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(io::Error::new(
        io::ErrorKind::TimedOut,
        "another process holds the lock",
    ))
}

fn folder_error(operation: &str, key: &str) -> impl Fn(io::Error) -> CloudError {
    move |error| CloudError::Failed {
        operation: operation.to_owned(),
        message: bounded(&format!("{key}: {error}")),
    }
}

fn denied_in_folder(operation: &str, key: &str, error: &io::Error) -> CloudError {
    CloudError::Denied {
        operation: operation.to_owned(),
        message: bounded(&format!("{key}: {error}")),
    }
}

fn missing_is_deleted(deleted: object_store::Result<()>) -> object_store::Result<()> {
    match deleted {
        Err(Error::NotFound { .. }) => Ok(()),
        other => other,
    }
}

fn attributes(options: &PutOptions) -> Attributes {
    let mut attributes = Attributes::new();
    if let Some(kind) = options.content_type {
        attributes.insert(Attribute::ContentType, kind.into());
    }
    for (name, value) in options.plain_metadata() {
        attributes.insert(Attribute::Metadata(name.into()), value.into());
    }
    attributes
}

fn version(meta: &ObjectMeta) -> UpdateVersion {
    UpdateVersion {
        e_tag: meta.e_tag.clone(),
        version: meta.version.clone(),
    }
}

/// The entity tag that the store gives a file that it wrote.
///
/// Source: `get_etag` in `src/local.rs` of `object_store`.
fn e_tag_of_file(meta: &Metadata) -> String {
    let modified = meta.modified().ok();
    let since = modified.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    let micros = since.unwrap_or_default().as_micros();
    format!("{:x}-{micros:x}-{:x}", meta.ino(), meta.len())
}

/// Google's conditional writes use the version, S3's the entity tag. Neither contains an `@`, which
/// is valid in a header.
fn etag(version: UpdateVersion) -> Etag {
    let e_tag = version.e_tag.unwrap_or_default();
    Etag(match version.version {
        Some(version) => format!("{e_tag}@{version}"),
        None => e_tag,
    })
}

fn of_etag(etag: &Etag) -> UpdateVersion {
    let (e_tag, version) = etag.0.split_once('@').unwrap_or((etag.0.as_str(), ""));
    let part = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    UpdateVersion {
        e_tag: part(e_tag),
        version: part(version),
    }
}

/// The write time; 1970-01-01 if it is outside the range of a timestamp.
fn modified_at(meta: &ObjectMeta) -> Timestamp {
    let at = meta.last_modified;
    let nanos = at.timestamp_subsec_nanos().min(999_999_999);
    Timestamp::new(at.timestamp(), nanos.cast_signed()).unwrap_or(Timestamp::UNIX_EPOCH)
}

pub(super) fn failed(operation: &str, key: &str, error: &Error) -> CloudError {
    let operation = operation.to_owned();
    match error {
        Error::NotFound { .. } => CloudError::Missing {
            operation,
            what: key.to_owned(),
        },
        Error::AlreadyExists { .. } | Error::Precondition { .. } => CloudError::Conflict {
            operation,
            what: key.to_owned(),
        },
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => CloudError::Denied {
            operation,
            message: words(key, error),
        },
        _ if is_denied_by_system(error) => CloudError::Denied {
            operation,
            message: words(key, error),
        },
        _ => CloudError::Failed {
            operation,
            message: words(key, error),
        },
    }
}

/// Whether the operating system denied it, such as the deletion of another user's file.
fn is_denied_by_system(error: &Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<io::Error>();
        if io.is_some_and(|io| io.kind() == io::ErrorKind::PermissionDenied) {
            return true;
        }
        cause = error.source();
    }
    false
}

fn words(key: &str, error: &Error) -> String {
    bounded(&format!("{key}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_folder() -> (tempfile::TempDir, StoreObjects) {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("file://{}/ebb", folder.path().display());
        let objects = StoreObjects::open(&url).expect("a place");
        (folder, objects)
    }

    fn put_if(condition: PutIf) -> PutOptions {
        PutOptions {
            condition,
            ..PutOptions::default()
        }
    }

    #[tokio::test]
    async fn a_folder_and_memory_replace_on_condition_as_a_bucket_does() {
        let (_folder, objects) = in_folder();
        replaces_on_condition(&objects).await;
        replaces_on_condition(&StoreObjects::in_memory()).await;
    }

    async fn replaces_on_condition(objects: &StoreObjects) {
        let put = async |bytes: &[u8], condition| {
            objects
                .put("state/v1/0", bytes.to_vec(), put_if(condition))
                .await
        };
        let first = put(b"1", PutIf::Absent).await.expect("nothing is there");
        let again = put(b"2", PutIf::Absent).await;
        assert!(
            matches!(again, Err(CloudError::Conflict { .. })),
            "{again:?}"
        );
        let read = objects.get("state/v1/0", 10).await.expect("it is there");
        assert_eq!((read.bytes.as_slice(), &read.etag), (&b"1"[..], &first));
        let listed = objects.list("state/v1/0", None, 1).await;
        let keys: Vec<_> = listed.iter().flatten().map(|l| l.key.as_str()).collect();
        assert_eq!(keys, ["state/v1/0"]);
        let second = put(b"22", PutIf::Matches(first.clone()))
            .await
            .expect("as expected");
        let stale = put(b"3", PutIf::Matches(first)).await;
        assert!(
            matches!(stale, Err(CloudError::Conflict { .. })),
            "{stale:?}"
        );
        objects
            .delete(&["state/v1/0".to_owned()])
            .await
            .expect("deleted");
        let nowhere = put(b"3", PutIf::Matches(second)).await;
        assert!(
            matches!(nowhere, Err(CloudError::Conflict { .. })),
            "{nowhere:?}"
        );
    }

    #[tokio::test]
    async fn a_replacement_waits_for_the_lock_of_another_writer() {
        let (folder, objects) = in_folder();
        let written = objects.put("a/1", b"1".to_vec(), put_if(PutIf::Absent));
        let first = written.await.expect("written");
        let lock = lock_file(&folder.path().join("ebb")).expect("a lock");
        lock.lock().expect("free");
        let replaced = objects.put("a/1", b"2".to_vec(), put_if(PutIf::Matches(first)));
        let other = async move {
            tokio::time::sleep(LOCK_PAUSE * 3).await;
            drop(lock);
        };
        let (replaced, ()) = tokio::join!(replaced, other);
        replaced.expect("the other writer ended");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lock_that_stays_taken_is_an_error_and_no_conflict() {
        let (_folder, objects) = in_folder();
        let folder = objects.folder.as_ref().expect("a folder");
        let lock = lock_file(folder.root()).expect("a lock");
        lock.lock().expect("free");
        let error = wait_for_lock(folder).await.expect_err("taken");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn files_that_root_writes_or_replaces_belong_to_the_owner_of_the_folder() {
        const NOBODY: u32 = 65_534;
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can give files away");
            return;
        }
        let (folder, objects) = in_folder();
        let root = folder.path().join("ebb");
        std::os::unix::fs::chown(&root, Some(NOBODY), Some(NOBODY)).expect("given");
        let put = async |condition| {
            let options = PutOptions {
                metadata: BTreeMap::from([("reason".to_owned(), "no message".to_owned())]),
                ..put_if(condition)
            };
            objects.put("dead/v1/1", b"1".to_vec(), options).await
        };
        let first = put(PutIf::Absent).await.expect("written");
        put(PutIf::Matches(first)).await.expect("replaced");
        for key in ["dead", "dead/v1", "dead/v1/1", "dead/v1/1.metadata.json"] {
            let found = std::fs::metadata(root.join(key)).expect("there");
            assert_eq!((found.uid(), found.gid()), (NOBODY, NOBODY), "{key}");
        }
    }

    #[tokio::test]
    async fn a_folder_lists_in_order_reads_within_bounds_and_keeps_metadata() {
        let (folder, objects) = in_folder();
        let nothing = objects.list("in/", None, 2).await;
        assert_eq!(nothing, Ok(Vec::new()));
        for key in ["in/b:1/x", "in/a", "in/c", "inn/a"] {
            let done = objects.put(key, b"1234".to_vec(), PutOptions::default());
            done.await.expect("written");
        }
        let keys = async |limit| -> Vec<String> {
            let listed = objects.list("in/", None, limit).await.expect("listed");
            listed.into_iter().map(|l| l.key).collect()
        };
        assert_eq!(keys(9).await, ["in/a", "in/b:1/x", "in/c"]);
        assert_eq!(keys(2).await, ["in/a", "in/b:1/x"]);
        let large = objects.get("in/a", 3).await;
        assert!(matches!(large, Err(CloudError::Failed { .. })), "{large:?}");
        let missing = objects.get("in/z", 3).await;
        assert!(
            matches!(missing, Err(CloudError::Missing { .. })),
            "{missing:?}"
        );
        objects
            .delete(&["in/a".to_owned(), "in/gone".to_owned()])
            .await
            .expect("what is gone counts as deleted");
        assert_eq!(keys(9).await, ["in/b:1/x", "in/c"]);

        let options = PutOptions {
            content_type: Some("text/html"),
            metadata: BTreeMap::from([("reason".to_owned(), "no message".to_owned())]),
            ..PutOptions::default()
        };
        objects
            .put("dead/1", vec![1], options)
            .await
            .expect("written");
        let metadata = std::fs::read_to_string(folder.path().join("ebb/dead/1.metadata.json"));
        assert_eq!(metadata.expect("kept"), r#"{"reason":"no message"}"#);
    }

    #[tokio::test]
    async fn a_file_of_a_folder_is_not_from_the_future() {
        let (folder, objects) = in_folder();
        let put = objects.put("in/a", b"1".to_vec(), PutOptions::default());
        put.await.expect("written");
        let path = folder.path().join("ebb/in/a");
        let set = |at: std::time::SystemTime| {
            let file = std::fs::File::options().write(true).open(&path);
            file.and_then(|file| file.set_modified(at)).expect("set");
        };
        let times = async || {
            let listed = objects.list("in/", None, 1).await.expect("listed");
            let read = objects.get("in/a", 10).await.expect("read");
            [listed[0].modified_at, read.modified_at]
        };
        set(std::time::UNIX_EPOCH + std::time::Duration::from_secs(4_000_000_000));
        let now = Timestamp::now();
        for at in times().await {
            assert!(now <= at && at <= Timestamp::now(), "{at}");
        }
        let past = 1_700_000_000;
        set(std::time::UNIX_EPOCH + std::time::Duration::from_secs(past));
        let past = Timestamp::from_second(past.cast_signed()).expect("a time");
        assert_eq!(times().await, [past, past]);
    }

    #[tokio::test]
    async fn a_fifo_in_a_folder_is_an_error_and_nothing_waits_for_it() {
        let (folder, objects) = in_folder();
        let written = objects.put("a/1", b"1".to_vec(), PutOptions::default());
        let etag = written.await.expect("written");
        // The tag of a file is that of the store.
        let read = objects.get("a/1", 10).await.expect("read");
        assert_eq!(read.etag, etag);
        let path = folder.path().join("ebb/a/1");
        std::fs::remove_file(&path).expect("removed");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, mode, 0).expect("made");
        let error = objects.get("a/1", 10).await.expect_err("no file");
        assert!(error.to_string().contains("not a regular file"), "{error}");
        let options = PutOptions {
            condition: PutIf::Matches(etag),
            ..PutOptions::default()
        };
        let error = objects.put("a/1", b"2".to_vec(), options).await;
        let error = error.expect_err("no file").to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }

    #[tokio::test]
    async fn a_url_that_names_no_store_is_refused() {
        let check = |url: &str, expect: &str| {
            let error = StoreObjects::open(url).expect_err(url).to_string();
            assert!(error.contains(expect), "{error}");
        };
        check("srv/ebb", "is not a URL such as file:///srv/ebb");
        check("ftp://x/y", "does not begin with file://, s3:// or gs://");
        check("s3:///ebb", "has no bucket");
    }
}
