//! The cloud services that Ebb uses, as narrow traits over domain types. No trait depends on an
//! SDK, and no method changes a resource of the user.

#[cfg(feature = "account")]
mod account;
mod api;
#[cfg(feature = "account")]
pub mod metrics;

#[cfg(feature = "account")]
pub use account::{
    BillSource, BillVersion, InventorySource, MarketSource, NO_RESOURCE, PRICE_PER_BILL_REQUEST,
    PriceSource,
};
pub use api::{Api, ApiAnswer, ApiRequest};
#[cfg(feature = "account")]
pub use metrics::{
    METRICS_PER_FAMILY, METRICS_PER_NODE, MetricsSource, NodeMetrics, PRICE_PER_METRIC, Stream,
    Tells, period_seconds,
};

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use thiserror::Error;

/// Why a call to the cloud failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CloudError {
    /// The credentials lack a permission; `operation` is the permission to add.
    #[error("{operation} was denied: {message}")]
    Denied {
        /// The IAM name of the action, such as `ec2:DescribeInstances`.
        operation: String,
        /// The message of the cloud.
        message: String,
    },
    /// The resource does not exist.
    #[error("{operation}: {what} does not exist")]
    Missing {
        /// The IAM name of the action.
        operation: String,
        /// The key, URL or id.
        what: String,
    },
    /// A conditional write found another version than the expected one.
    #[error("{operation}: {what} was changed by another writer")]
    Conflict {
        /// The IAM name of the action.
        operation: String,
        /// The key.
        what: String,
    },
    /// Any other error: network, throttling after all retries, or an error of the service.
    #[error("{operation} failed: {message}")]
    Failed {
        /// The IAM name of the action.
        operation: String,
        /// The message of the cloud or the client.
        message: String,
    },
}

/// The result of a call to the cloud.
pub type CloudResult<T> = Result<T, CloudError>;

/// A received message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The queue's id of the message.
    pub id: String,
    /// The receipt for deleting the message.
    pub receipt: String,
    /// The attested sender (`AROA…:session`); `None` if the queue does not report it.
    pub sender: Option<String>,
    /// When it arrived at the queue; `None` if the queue does not report it.
    pub sent_at: Option<Timestamp>,
    /// The body.
    pub body: String,
}

/// Maximum size of a message including its attributes. SQS now accepts 1 MiB, but every queue
/// accepts this older limit.
pub const MAX_MESSAGE_BYTES: usize = 256 * 1024;

/// A queue of messages of at most [`MAX_MESSAGE_BYTES`] of text.
#[async_trait]
pub trait Queue: Send + Sync {
    /// Sends one message.
    async fn send(&self, body: &str) -> CloudResult<()>;

    /// Sends one message with string attributes.
    async fn send_with(&self, body: &str, attributes: &BTreeMap<String, String>)
    -> CloudResult<()>;

    /// Receives up to `limit` messages, and waits at most `wait` for the first. Messages that are
    /// not deleted are received again.
    async fn receive(&self, limit: usize, wait: Duration) -> CloudResult<Vec<Received>>;

    /// Deletes received messages by receipt.
    async fn delete(&self, receipts: &[String]) -> CloudResult<()>;
}

/// The version of a stored object, for conditional writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Etag(pub String);

/// An object with its version and write time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The version.
    pub etag: Etag,
    /// When it was written, by the store's clock.
    pub modified_at: Timestamp,
}

/// One entry of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The key.
    pub key: String,
    /// The size in bytes.
    pub bytes: u64,
    /// When it was written, by the store's clock.
    pub modified_at: Timestamp,
}

/// The condition of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutIf {
    /// Always.
    Always,
    /// Only if there is no object.
    Absent,
    /// Only if the object has this version.
    Matches(Etag),
}

/// Maximum number of keys in [`Unread::denied`].
pub const MAX_DENIED_KEYS: usize = 1_000;

/// Contents of a directory that nobody reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unread {
    /// Files and folders that this user may not read or delete, by key; at most
    /// [`MAX_DENIED_KEYS`].
    pub denied: BTreeSet<String>,
    /// Number of links, devices and invalid names.
    pub skipped: u64,
}

/// Objects by key in one bucket.
#[async_trait]
pub trait Objects: Send + Sync {
    /// Reads an object of at most `max_bytes`; `Failed` if it is larger, `Missing` if there is
    /// none.
    async fn get(&self, key: &str, max_bytes: u64) -> CloudResult<Object>;

    /// Writes an object. `Conflict` if `condition` is not met.
    async fn put(&self, key: &str, bytes: Vec<u8>, options: PutOptions) -> CloudResult<Etag>;

    /// Up to `limit` entries with the prefix `prefix` and keys greater than `after`, in the order
    /// of their keys.
    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> CloudResult<Vec<Listed>>;

    /// Deletes objects; missing objects count as deleted. After an error, the other objects are
    /// deleted in a directory.
    async fn delete(&self, keys: &[String]) -> CloudResult<()>;

    /// Files that could not be read or deleted since the place was opened. A bucket has none: it
    /// answers with an error instead.
    fn unread(&self) -> Unread {
        Unread::default()
    }
}

/// The error if an object is larger than the limit of its reader.
pub(crate) fn too_large(operation: &str, key: &str, max_bytes: u64) -> CloudError {
    CloudError::Failed {
        operation: operation.to_owned(),
        message: format!("{key} is larger than {max_bytes} bytes"),
    }
}

/// A message of the cloud for an error: on one line and at most 500 characters.
pub fn bounded(words: &str) -> String {
    const MAX_CHARS: usize = 500;
    let line = |c: char| if c.is_control() { ' ' } else { c };
    words.chars().map(line).take(MAX_CHARS).collect()
}

/// Options of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutOptions {
    /// The condition of the write.
    pub condition: PutIf,
    /// The content type.
    pub content_type: Option<&'static str>,
    /// User metadata for people. Characters that are not valid in a header become `?`, and each
    /// value is cut at 500 bytes.
    pub metadata: BTreeMap<String, String>,
}

impl PutOptions {
    /// The metadata as it is stored.
    pub(crate) fn plain_metadata(&self) -> BTreeMap<String, String> {
        const MAX_BYTES: usize = 500;
        let plain = |c: char| if matches!(c, ' '..='~') { c } else { '?' };
        let pairs = self.metadata.iter().map(|(name, value)| {
            let value = value.chars().map(plain).take(MAX_BYTES).collect();
            (name.clone(), value)
        });
        pairs.collect()
    }
}

impl Default for PutOptions {
    fn default() -> Self {
        Self {
            condition: PutIf::Always,
            content_type: None,
            metadata: BTreeMap::new(),
        }
    }
}

/// An email with a text part and an HTML part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Email {
    /// The verified sender.
    pub from: String,
    /// The recipients.
    pub to: Vec<String>,
    /// The subject, one line.
    pub subject: String,
    /// The text part.
    pub text: String,
    /// The HTML part.
    pub html: String,
}

/// Sends email.
#[async_trait]
pub trait Mailer: Send + Sync {
    /// Sends one email.
    async fn send(&self, email: &Email) -> CloudResult<()>;

    /// True if the account is in the SES sandbox, which sends only to verified recipients.
    async fn is_sandboxed(&self) -> CloudResult<bool>;
}

/// A message to a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatPost {
    /// The channel name in the secret; `None` for the default channel.
    pub channel: Option<String>,
    /// The thread that the message continues; ignored if the chat has no threads.
    pub thread: Option<String>,
    /// The message in the format of the chat's API.
    pub body: serde_json::Value,
    /// The id by which the message can be found again; `None` without one.
    pub id: Option<String>,
}

/// A search for a message in a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatSearch {
    /// The channel name in the secret; `None` for the default channel.
    pub channel: Option<String>,
    /// The thread that the message continues.
    pub thread: Option<String>,
    /// The id of the message.
    pub id: String,
    /// The earliest time of the message.
    pub since: Timestamp,
}

/// Posts to a chat.
#[async_trait]
pub trait Chat: Send + Sync {
    /// Posts a message. Returns the thread for updates; `None` if the chat has no threads. URLs and
    /// tokens are secrets and must not appear in an error.
    async fn post(&self, post: &ChatPost) -> CloudResult<Option<String>>;

    /// Searches for a message, and returns the result of [`Chat::post`]; `None` if there is no such
    /// message, or the chat cannot be read.
    async fn find(&self, search: &ChatSearch) -> CloudResult<Option<String>>;

    /// Whether the chat sends the actions of buttons to the API. False if that is unknown.
    async fn has_buttons(&self) -> bool {
        false
    }
}

/// Publishes messages for other programs.
#[async_trait]
pub trait Topic: Send + Sync {
    /// Publishes `body` of at most [`MAX_MESSAGE_BYTES`] with a subject of one line.
    async fn publish(&self, subject: &str, body: &str) -> CloudResult<()>;
}

/// Sends events to a program of the user.
#[async_trait]
pub trait Events: Send + Sync {
    /// Sends one event, a CloudEvent in JSON. The `id` has at most 64 letters and digits. A
    /// repeated event has the same `id`, so the receiver can detect duplicates.
    async fn send(&self, id: &str, body: &str) -> CloudResult<()>;
}

/// Sends requests to webhooks of the policy, by their name.
#[async_trait]
pub trait Hooks: Send + Sync {
    /// The key of a receiver, which its template writes into the body; `None` if it needs none.
    async fn key(&self, name: &str) -> CloudResult<Option<String>>;

    /// Sends a body of JSON. A repeated request has the same `id`. URLs and tokens are secrets and
    /// must not appear in an error.
    async fn post(&self, name: &str, id: &str, body: &str) -> CloudResult<()>;
}

/// Reads Ebb's own secrets, such as the URL of the webhook.
#[async_trait]
pub trait Secrets: Send + Sync {
    /// The text of the secret.
    async fn read(&self, arn: &str) -> CloudResult<String>;
}
