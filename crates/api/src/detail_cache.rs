//! A few documents of single tasks and explanations in memory. Those that were asked for last stay.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ebb_cloud::documents::task_lists::{DetailError, MAX_DOCUMENT_BYTES, SizedDocument};
use tokio::sync::Mutex;

/// Maximum number of documents in memory.
const MAX_DOCUMENTS: usize = 8;

/// Maximum size of all documents in memory, as text.
const MAX_BYTES: usize = 2 * MAX_DOCUMENT_BYTES as usize;

/// The documents, in the order in which they were last asked for.
#[derive(Default)]
pub(crate) struct DetailCache {
    entries: Mutex<Vec<Entry>>,
}

struct Entry {
    key: String,
    /// An `Option` of the content; `None` for a missing document.
    content: Arc<dyn Any + Send + Sync>,
    bytes: usize,
    looked_at: Instant,
}

impl DetailCache {
    /// The document, which `read` reads if it is not in memory or older than `trusted`. All
    /// callers use the same type for the same key.
    pub(crate) async fn document<T: Send + Sync + 'static>(
        &self,
        key: &str,
        (now, trusted): (Instant, Duration),
        read: impl Future<Output = Result<Option<SizedDocument<T>>, DetailError>>,
    ) -> Result<Arc<Option<T>>, DetailError> {
        let mut entries = self.entries.lock().await;
        if let Some(at) = entries.iter().position(|entry| entry.key == key) {
            let entry = entries.remove(at);
            let is_fresh = now.saturating_duration_since(entry.looked_at) < trusted;
            let content = Arc::clone(&entry.content).downcast::<Option<T>>();
            if let (true, Ok(content)) = (is_fresh, content) {
                entries.push(entry);
                return Ok(content);
            }
        }
        let (content, bytes) = match read.await? {
            Some(SizedDocument { content, bytes }) => (Some(content), bytes),
            None => (None, 0),
        };
        let content = Arc::new(content);
        entries.push(Entry {
            key: key.to_owned(),
            content: Arc::clone(&content) as Arc<dyn Any + Send + Sync>,
            bytes,
            looked_at: now,
        });
        make_room(&mut entries);
        Ok(content)
    }
}

/// Drops the documents that were not asked for longest. The last one stays.
fn make_room(entries: &mut Vec<Entry>) {
    let is_too_much = |entries: &[Entry]| {
        let bytes: usize = entries.iter().map(|entry| entry.bytes).sum();
        entries.len() > MAX_DOCUMENTS || (bytes > MAX_BYTES && entries.len() > 1)
    };
    while is_too_much(entries) {
        entries.remove(0);
    }
}
