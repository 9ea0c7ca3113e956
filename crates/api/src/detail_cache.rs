//! A few documents of single tasks and explanations in memory. Those that were used last stay. A
//! document is read again only if it was written again, because reading one takes long.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ebb_cloud::documents::task_lists::{DetailError, MAX_DOCUMENT_BYTES, SizedDocument};
use ebb_cloud::ports::{CloudResult, Objects};
use jiff::Timestamp;
use tokio::sync::Mutex;

/// Maximum number of documents in memory.
const MAX_DOCUMENTS: usize = 8;

/// Maximum size of all documents in memory, as text.
const MAX_BYTES: usize = 2 * MAX_DOCUMENT_BYTES as usize;

/// The documents, in the order in which they were last used.
#[derive(Default)]
pub(crate) struct DetailCache {
    entries: Mutex<Vec<Entry>>,
}

struct Entry {
    name: String,
    /// An `Option` of the content; `None` for a missing document.
    content: Arc<dyn Any + Send + Sync>,
    bytes: usize,
    /// When the document was written; `None` for a missing one.
    modified_at: Option<Timestamp>,
    checked_at: Instant,
}

/// Where a document is, and how long it is used without a request to the bucket.
#[derive(Clone, Copy)]
pub(crate) struct DocumentPlace<'a> {
    pub(crate) objects: &'a dyn Objects,
    pub(crate) key: &'a str,
    pub(crate) now: Instant,
    pub(crate) trusted: Duration,
}

impl Entry {
    /// Whether the document is still the one that was read. A missing one may have been written.
    async fn is_current(&mut self, place: DocumentPlace<'_>) -> bool {
        if place.now.saturating_duration_since(self.checked_at) < place.trusted {
            return true;
        }
        let Some(modified_at) = self.modified_at else {
            return false;
        };
        self.checked_at = place.now;
        // The read after a failed check has the error.
        let unchanged = is_unchanged(place.objects, place.key, modified_at).await;
        unchanged.unwrap_or(false)
    }
}

/// Whether an object is still the one that was read and had this time.
pub(crate) async fn is_unchanged(
    objects: &dyn Objects,
    key: &str,
    modified_at: Timestamp,
) -> CloudResult<bool> {
    let listed = objects.list(key, None, 1).await?;
    let found = listed.iter().find(|object| object.key == key);
    Ok(found.is_some_and(|object| is_same_time(object.modified_at, modified_at)))
}

/// The header of an object has whole seconds; the listing of some stores has fractions.
fn is_same_time(listed: Timestamp, read: Timestamp) -> bool {
    let is_rounded = read.subsec_nanosecond() == 0;
    listed == read || (is_rounded && listed.as_second() == read.as_second())
}

impl DetailCache {
    /// The document `name`, which `read` reads if it is not in memory or not current. All callers
    /// use the same type for the same name.
    pub(crate) async fn document<T: Send + Sync + 'static>(
        &self,
        name: &str,
        place: DocumentPlace<'_>,
        read: impl Future<Output = Result<Option<SizedDocument<T>>, DetailError>>,
    ) -> Result<Arc<Option<T>>, DetailError> {
        let mut entries = self.entries.lock().await;
        if let Some(at) = entries.iter().position(|entry| entry.name == name) {
            let mut entry = entries.remove(at);
            let is_current = entry.is_current(place).await;
            let content = Arc::clone(&entry.content).downcast::<Option<T>>();
            if let (true, Ok(content)) = (is_current, content) {
                entries.push(entry);
                return Ok(content);
            }
        }
        let (content, bytes, modified_at) = match read.await? {
            Some(read) => (Some(read.content), read.bytes, Some(read.modified_at)),
            None => (None, 0, None),
        };
        let content = Arc::new(content);
        entries.push(Entry {
            name: name.to_owned(),
            content: Arc::clone(&content) as Arc<dyn Any + Send + Sync>,
            bytes,
            modified_at,
            checked_at: place.now,
        });
        make_room(&mut entries);
        Ok(content)
    }
}

/// Drops the documents that were not used for the longest time. The last one stays.
fn make_room(entries: &mut Vec<Entry>) {
    let is_too_much = |entries: &[Entry]| {
        let bytes: usize = entries.iter().map(|entry| entry.bytes).sum();
        entries.len() > MAX_DOCUMENTS || (bytes > MAX_BYTES && entries.len() > 1)
    };
    while is_too_much(entries) {
        entries.remove(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_with_fractions_of_a_second_has_the_time_of_the_header() {
        let check = |listed: &str, read: &str, expect: bool| {
            let at = |clock: &str| format!("2026-03-04T{clock}Z").parse().expect("a time");
            assert_eq!(
                is_same_time(at(listed), at(read)),
                expect,
                "{listed} {read}"
            );
        };
        check("08:00:00", "08:00:00", true);
        check("08:00:00.25", "08:00:00.25", true);
        check("08:00:00.25", "08:00:00", true);
        check("08:00:01.25", "08:00:00", false);
        check("08:00:00.25", "08:00:00.5", false);
        check("08:00:00", "08:00:00.25", false);
    }
}
