//! Single tasks and explanations, written by each sweep next to its report and read by the API.
//! Each run has documents of its own; see [`run_tasks`](crate::documents::run_tasks). Nodes, steps and
//! explanations share documents: `details/nodes/N.json.zst`, with `N` from the digest of the name. The
//! index `details/index.json` contains the number of shared documents.
//!
//! Documents are data from outside: their size, schema and name are checked.

use std::collections::BTreeMap;

use ebb_telemetry::safe_text::one_line;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::documents::inflate::inflate;
use crate::ports::{CloudError, Object, Objects, PutOptions};

/// The key of the index.
pub const INDEX: &str = "details/index.json";

/// Maximum size of a document as text. A reader needs about three times as much memory.
pub const MAX_DOCUMENT_BYTES: u64 = 32 << 20;

/// Maximum size of a compressed document; text of tasks becomes ten times smaller.
pub(super) const MAX_PACKED_BYTES: u64 = 16 << 20;

/// Maximum size of the index: 2,000 runs with names of 256 bytes.
const MAX_INDEX_BYTES: u64 = 4 << 20;

const ZSTD_LEVEL: i32 = 3;

/// Maximum number of shared documents of one kind, so that a sweep writes few objects.
pub const MAX_SHARDS: u32 = 64;

/// Why a document could not be read.
#[derive(Debug, Error)]
pub enum DetailError {
    /// The bucket failed.
    #[error("failed to read {key}")]
    Cloud {
        /// The key of the document.
        key: String,
        /// The cause.
        source: CloudError,
    },
    /// The document is not valid.
    #[error("{key} is not valid: {reason}")]
    Document {
        /// The key of the document.
        key: String,
        /// The cause, on one line.
        reason: String,
    },
    /// A newer sweep replaced a part of a run since the head was read.
    #[error("{0} was replaced by a newer sweep")]
    Replaced(String),
}

/// The documents of the last sweep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetailIndex {
    /// [`DetailIndex::SCHEMA`].
    pub schema: String,
    /// The sweep.
    pub at: Timestamp,
    /// Number of documents of nodes.
    pub nodes: ShardCount,
    /// Number of documents of steps.
    pub steps: ShardCount,
    /// Number of documents of explanations.
    pub explanations: ShardCount,
    /// Number of resources whose explanation a limit left out.
    pub explanations_left_out: usize,
    /// The documents of runs, by the name of the run.
    pub runs: BTreeMap<String, RunEntry>,
    /// Number of runs that are not written, because a limit left them out or because a later sweep
    /// writes them.
    pub runs_left_out: usize,
}

impl DetailIndex {
    /// The value of [`DetailIndex::schema`].
    pub const SCHEMA: &'static str = "ebb.details/1";
}

/// Number of shared documents, from 1 to [`MAX_SHARDS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct ShardCount(u32);

impl ShardCount {
    /// The number of documents for so many names with so many entries: 50 names or 2,000 entries a
    /// document.
    pub fn from_counts(names: usize, entries: usize) -> Self {
        let wanted = names.div_ceil(50).max(entries.div_ceil(2_000));
        Self(
            u32::try_from(wanted)
                .unwrap_or(MAX_SHARDS)
                .clamp(1, MAX_SHARDS),
        )
    }

    /// The number of the document that contains a name.
    pub fn number_of(self, name: &str) -> u32 {
        let [a, b, c, d, ..] = digest(name.as_bytes());
        u32::from_be_bytes([a, b, c, d]) % self.0
    }

    /// The numbers of all documents.
    pub fn numbers(self) -> impl Iterator<Item = u32> {
        0..self.0
    }
}

impl TryFrom<u32> for ShardCount {
    type Error = String;

    fn try_from(count: u32) -> Result<Self, String> {
        match (1..=MAX_SHARDS).contains(&count) {
            true => Ok(Self(count)),
            false => Err(format!("{count} is not from 1 to {MAX_SHARDS}")),
        }
    }
}

impl From<ShardCount> for u32 {
    fn from(count: ShardCount) -> Self {
        count.0
    }
}

/// The document of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEntry {
    /// When a task of the run was last observed.
    pub newest: Timestamp,
    /// Number of its tasks.
    pub tasks: usize,
    /// Number of its tasks that a limit left out.
    pub left_out: usize,
}

/// A kind of shared documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DetailFolder {
    /// Tasks by node.
    Nodes,
    /// Tasks by step.
    Steps,
    /// Explanations by resource.
    Explanations,
}

impl DetailFolder {
    /// The key of one of its documents.
    pub fn key(self, number: u32) -> String {
        let folder = match self {
            Self::Nodes => "nodes",
            Self::Steps => "steps",
            Self::Explanations => "explain",
        };
        format!("details/{folder}/{number}.json.zst")
    }

    /// The number of its documents.
    pub fn count(self, index: &DetailIndex) -> ShardCount {
        match self {
            Self::Nodes => index.nodes,
            Self::Steps => index.steps,
            Self::Explanations => index.explanations,
        }
    }
}

/// A document that several names share. `T` is a map by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SharedDocument<T> {
    /// [`SHARED_SCHEMA`].
    pub schema: String,
    /// The sweep that wrote it.
    pub at: Timestamp,
    /// The entries by name.
    pub entries: T,
}

/// The value of [`SharedDocument::schema`].
pub const SHARED_SCHEMA: &str = "ebb.shared/1";

/// A document with its size as text.
#[derive(Debug, Clone, PartialEq)]
pub struct SizedDocument<T> {
    /// The content.
    pub content: T,
    /// The size in bytes.
    pub bytes: usize,
    /// When it was written, by the clock of the bucket.
    pub modified_at: Timestamp,
}

impl<T> SizedDocument<T> {
    /// The same document with its content converted.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> SizedDocument<U> {
        SizedDocument {
            content: convert(self.content),
            bytes: self.bytes,
            modified_at: self.modified_at,
        }
    }
}

/// Reads the index; `None` if no sweep wrote one.
///
/// # Errors
/// If the bucket fails, or the index is not valid.
pub async fn read_index(
    objects: &dyn Objects,
) -> Result<Option<SizedDocument<DetailIndex>>, DetailError> {
    let Some(object) = get(objects, INDEX, MAX_INDEX_BYTES).await? else {
        return Ok(None);
    };
    let index: DetailIndex = parse(INDEX, &object.bytes)?;
    check_schema(INDEX, &index.schema, DetailIndex::SCHEMA)?;
    Ok(Some(SizedDocument {
        content: index,
        bytes: object.bytes.len(),
        modified_at: object.modified_at,
    }))
}

/// Reads a shared document; `None` if no sweep wrote it.
///
/// # Errors
/// If the bucket fails, or the document is not valid.
pub async fn read_shared<T: DeserializeOwned>(
    objects: &dyn Objects,
    (folder, number): (DetailFolder, u32),
) -> Result<Option<SizedDocument<BTreeMap<String, T>>>, DetailError> {
    let key = folder.key(number);
    let Some(object) = get_packed(objects, &key).await? else {
        return Ok(None);
    };
    let text = unpack(&key, (&object.bytes, MAX_DOCUMENT_BYTES))?;
    let document: SharedDocument<BTreeMap<String, T>> = parse(&key, &text)?;
    check_schema(&key, &document.schema, SHARED_SCHEMA)?;
    Ok(Some(SizedDocument {
        content: document.entries,
        bytes: text.len(),
        modified_at: object.modified_at,
    }))
}

/// The compressed document of a value; `None` if it is larger than a reader accepts.
///
/// # Errors
/// If the value cannot be encoded.
pub fn encode(value: &impl Serialize) -> Result<Option<Vec<u8>>, std::io::Error> {
    encode_within(value, MAX_DOCUMENT_BYTES)
}

/// The same with another limit on the text.
///
/// # Errors
/// If the value cannot be encoded.
pub fn encode_within(
    value: &impl Serialize,
    max_bytes: u64,
) -> Result<Option<Vec<u8>>, std::io::Error> {
    let text = serde_json::to_vec(value)?;
    if text.len() as u64 > max_bytes {
        return Ok(None);
    }
    let packed = zstd::bulk::compress(&text, ZSTD_LEVEL)?;
    Ok((packed.len() as u64 <= MAX_PACKED_BYTES).then_some(packed))
}

/// Writes a compressed document.
///
/// # Errors
/// If the bucket fails.
pub async fn write_packed(
    objects: &dyn Objects,
    key: String,
    packed: Vec<u8>,
) -> Result<(), DetailError> {
    put(objects, &key, (packed, "application/zstd")).await
}

/// Writes the index.
///
/// # Errors
/// If the bucket fails, or the index is too large.
pub async fn write_index(objects: &dyn Objects, index: &DetailIndex) -> Result<(), DetailError> {
    let text = serde_json::to_vec(index).map_err(|error| invalid(INDEX, &error.to_string()))?;
    if text.len() as u64 > MAX_INDEX_BYTES {
        return Err(invalid(INDEX, "it is too large"));
    }
    put(objects, INDEX, (text, "application/json")).await
}

async fn put(
    objects: &dyn Objects,
    key: &str,
    (bytes, content_type): (Vec<u8>, &'static str),
) -> Result<(), DetailError> {
    let options = PutOptions {
        content_type: Some(content_type),
        ..PutOptions::default()
    };
    let written = objects.put(key, bytes, options).await;
    written.map(drop).map_err(|source| DetailError::Cloud {
        key: key.to_owned(),
        source,
    })
}

/// A compressed document; `None` if no sweep wrote it.
pub(super) async fn get_packed(
    objects: &dyn Objects,
    key: &str,
) -> Result<Option<Object>, DetailError> {
    get(objects, key, MAX_PACKED_BYTES).await
}

/// The text of a compressed document of at most `max_bytes`.
pub(super) fn unpack(key: &str, (packed, max_bytes): (&[u8], u64)) -> Result<Vec<u8>, DetailError> {
    inflate(packed, max_bytes).map_err(|reason| invalid(key, &reason))
}

async fn get(
    objects: &dyn Objects,
    key: &str,
    max_bytes: u64,
) -> Result<Option<Object>, DetailError> {
    match objects.get(key, max_bytes).await {
        Ok(object) => Ok(Some(object)),
        Err(CloudError::Missing { .. }) => Ok(None),
        Err(source) => Err(DetailError::Cloud {
            key: key.to_owned(),
            source,
        }),
    }
}

pub(super) fn parse<T: DeserializeOwned>(key: &str, text: &[u8]) -> Result<T, DetailError> {
    serde_json::from_slice(text).map_err(|error| invalid(key, &error.to_string()))
}

pub(super) fn check_schema(key: &str, schema: &str, expected: &str) -> Result<(), DetailError> {
    match schema == expected {
        true => Ok(()),
        false => {
            let schema: String = schema.chars().take(40).collect();
            Err(invalid(
                key,
                &format!("its schema is {schema}, not {expected}"),
            ))
        }
    }
}

pub(super) fn invalid(key: &str, reason: &str) -> DetailError {
    DetailError::Document {
        key: key.to_owned(),
        reason: one_line(reason),
    }
}

pub(super) fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::fake::clock::FakeClock;
    use crate::fake::objects::FakeObjects;

    use super::*;

    fn bucket() -> FakeObjects {
        FakeObjects::new(FakeClock::at(Timestamp::UNIX_EPOCH))
    }

    #[test]
    fn every_name_has_a_document_and_a_small_deployment_has_one() {
        let check = |names, entries, expect| {
            let count = ShardCount::from_counts(names, entries);
            assert_eq!(u32::from(count), expect, "{names} {entries}");
            for n in 0..1_000 {
                assert!(count.number_of(&format!("i-{n}")) < expect);
            }
        };
        check(0, 0, 1);
        check(50, 2_000, 1);
        check(51, 0, 2);
        check(1, 4_001, 3);
        check(10_000, 0, 64);
        check(usize::MAX, usize::MAX, 64);
    }

    #[tokio::test]
    async fn the_index_is_read_back() {
        let bucket = bucket();
        assert_eq!(read_index(&bucket).await.expect("no error"), None);
        let index = DetailIndex {
            schema: DetailIndex::SCHEMA.to_owned(),
            at: Timestamp::UNIX_EPOCH,
            nodes: ShardCount::from_counts(51, 0),
            steps: ShardCount::from_counts(0, 0),
            explanations: ShardCount::from_counts(0, 0),
            explanations_left_out: 0,
            runs: BTreeMap::new(),
            runs_left_out: 0,
        };
        write_index(&bucket, &index).await.expect("written");
        let read = read_index(&bucket).await.expect("no error");
        assert_eq!(read.expect("an index").content, index);
    }

    #[tokio::test]
    async fn an_index_that_no_sweep_wrote_is_refused() {
        let bucket = bucket();
        let index = json!({
            "schema": DetailIndex::SCHEMA, "at": Timestamp::UNIX_EPOCH, "nodes": 0, "steps": 1,
            "explanations": 1, "explanations_left_out": 0, "runs": {}, "runs_left_out": 0,
        });
        bucket.insert(INDEX, index.to_string());
        let error = read_index(&bucket).await.expect_err("no documents");
        assert!(error.to_string().contains("not from 1 to 64"), "{error}");
    }
}
