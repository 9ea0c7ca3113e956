//! What Ebb asks of a cloud, as narrow traits over domain types. No SDK is named
//! here, and nothing here changes a resource of the user's.

pub mod metrics;

pub use metrics::{
    METRICS_PER_FAMILY, METRICS_PER_NODE, MetricsSource, NodeMetrics, PRICE_PER_METRIC, Stream,
    Tells, period_seconds,
};

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use ebb_catalog::fargate_prices::FargatePrices;
use ebb_catalog::machine_type::TypeSpec;
use ebb_catalog::spot_advisor::Advisor;
use ebb_catalog::spot_terms::SpotTerms;
use ebb_catalog::storage_prices::StoragePrices;
use ebb_model::bill::{BilledDay, ResourceCost};
use ebb_model::inventory::Inventory;
use ebb_model::inventory::commitments::Commitment;
use ebb_model::inventory::spot_market::SpotWish;
use ebb_model::visibility_gap::{Gap, Refused};
use ebb_telemetry::identity::{InstanceType, NodeId, Region};
use ebb_telemetry::money::{Usd, UsdPerHour};
use jiff::Timestamp;
use thiserror::Error;

/// Why the cloud did not answer as hoped.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CloudError {
    /// The credentials may not do it; `operation` is the permission to add.
    #[error("{operation} was denied: {message}")]
    Denied {
        /// The action as IAM names it, such as `ec2:DescribeInstances`.
        operation: String,
        /// The cloud's words.
        message: String,
    },
    /// What was asked for does not exist.
    #[error("{operation}: {what} does not exist")]
    Missing {
        /// The action as IAM names it.
        operation: String,
        /// The key, URL or id.
        what: String,
    },
    /// A conditional write found another version than the one it expected.
    #[error("{operation}: {what} was changed by someone else")]
    Conflict {
        /// The action as IAM names it.
        operation: String,
        /// The key.
        what: String,
    },
    /// Anything else: network, throttling past the retries, a fault over there.
    #[error("{operation} failed: {message}")]
    Failed {
        /// The action as IAM names it.
        operation: String,
        /// The cloud's words, or the client's.
        message: String,
    },
}

impl From<CloudError> for Refused {
    fn from(error: CloudError) -> Self {
        let reason = error.to_string();
        let denied = match error {
            CloudError::Denied { operation, .. } => Some(operation),
            _ => None,
        };
        Self { reason, denied }
    }
}

/// A result of asking the cloud.
pub type CloudResult<T> = Result<T, CloudError>;

/// Reads what is there. A part that refuses becomes a gap of the inventory; an
/// error is for when nothing could be read at all.
#[async_trait]
pub trait InventorySource: Send + Sync {
    /// The regions that are enabled.
    async fn regions(&self) -> CloudResult<Vec<Region>>;

    /// Instances and Batch of one region, at `now`.
    async fn gather(&self, region: &Region) -> CloudResult<Inventory>;

    /// What was to be looked at and could not even be asked, such as an account whose
    /// role may not be assumed.
    fn not_entered(&self) -> Vec<Gap>;
}

/// Reads what machines are sold for beside the list price. None of it is charged for.
#[async_trait]
pub trait MarketSource: Send + Sync {
    /// The spot price of each type in a region, of its cheapest zone, for Linux; how often
    /// machines are taken back is not told here.
    async fn spot_prices(&self, region: &Region) -> CloudResult<BTreeMap<InstanceType, SpotTerms>>;

    /// The zones of a region that sell each type.
    async fn zones(&self, region: &Region)
    -> CloudResult<BTreeMap<InstanceType, BTreeSet<String>>>;

    /// What has been reserved in a region and is paid for, used or not.
    async fn reserved(&self, region: &Region) -> CloudResult<Vec<Commitment>>;

    /// How likely spot machines are to be had now, from 1 to 10, in the region's zones
    /// together; `None` where the answer has no score for it. AWS bounds how many new
    /// questions it answers within a day, so that few are asked.
    async fn spot_score(&self, wish: &SpotWish) -> CloudResult<Option<u8>>;

    /// How often spot machines are taken back, everywhere.
    async fn interruptions(&self) -> CloudResult<Advisor>;
}

/// Reads what machines are listed for on demand, for Linux in shared tenancy, and what they
/// have. None of it is charged for.
#[async_trait]
pub trait PriceSource: Send + Sync {
    /// The price of each type that a region sells.
    async fn on_demand(&self, region: &Region) -> CloudResult<BTreeMap<InstanceType, UsdPerHour>>;

    /// What Fargate charges in a region for Linux, on demand.
    async fn fargate(&self, region: &Region) -> CloudResult<FargatePrices>;

    /// What volumes, snapshots and public addresses cost in a region.
    async fn storage(&self, region: &Region) -> CloudResult<StoragePrices>;

    /// What the types of these names have, as far as the region knows them; a `*` stands for
    /// any letters. `None` asks for all that the region knows. A type of which the answer
    /// does not say how large it is is left out.
    async fn types(
        &self,
        region: &Region,
        named: Option<&BTreeSet<String>>,
    ) -> CloudResult<Vec<TypeSpec>>;
}

/// What a request to Cost Explorer costs.
///
/// Source: "AWS Cost Management Pricing", 0.01 USD per paginated request.
pub const PRICE_PER_BILL_REQUEST: Usd = Usd::from_micros(10_000);

/// Reads the bill. Every request costs money.
#[async_trait]
pub trait BillSource: Send + Sync {
    /// Net amortized cost of each EC2 resource by day, the last 14 days.
    /// `Denied` or `Failed` when the account has not opted in.
    /// What belongs to no resource comes under [`NO_RESOURCE`].
    async fn by_resource(&self, to: Timestamp) -> CloudResult<BTreeMap<NodeId, ResourceCost>>;

    /// The same days in all, by service and by these cost allocation tags; nothing from
    /// a source that does not tell.
    async fn by_day(&self, to: Timestamp, tags: &[String]) -> CloudResult<Vec<BilledDay>>;

    /// The Savings Plans that last, and how much of each was used on the last days that
    /// are over; nothing from a source that does not tell.
    async fn plans(&self, to: Timestamp) -> CloudResult<Vec<Commitment>>;

    /// Requests that [`BillSource::plans`] takes at the least.
    fn least_plan_requests(&self) -> u64;

    /// What refused while the rest of a call answered, since this was asked last.
    fn take_gaps(&self) -> Vec<Gap>;

    /// Requests made so far, which is what is paid for.
    fn requests(&self) -> u64;

    /// False where asking is free, so that no budget is needed and nothing is kept.
    fn is_charged_for(&self) -> bool;

    /// What of the bill could not be read, by the parts that it came in.
    fn gaps(&self, to: Timestamp) -> Vec<Gap>;
}

/// The key of what the bill charges to no resource.
pub const NO_RESOURCE: &str = "NoResourceId";

/// A message as the queue hands it out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The queue's id of the message.
    pub id: String,
    /// What deletes it.
    pub receipt: String,
    /// Who sent it as the cloud attests (`AROA…:session`); `None` when it did not say.
    pub sender: Option<String>,
    /// When it arrived at the queue; `None` when it did not say.
    pub sent_at: Option<Timestamp>,
    /// The body.
    pub body: String,
}

/// The bound on a message, its attributes counted. SQS takes 1 MiB by now; what
/// keeps to the older bound passes through every queue.
pub const MAX_MESSAGE_BYTES: usize = 256 * 1024;

/// A queue of messages of at most [`MAX_MESSAGE_BYTES`] of text.
#[async_trait]
pub trait Queue: Send + Sync {
    /// Sends one message.
    async fn send(&self, body: &str) -> CloudResult<()>;

    /// Sends one message with string attributes beside the body.
    async fn send_with(&self, body: &str, attributes: &BTreeMap<String, String>)
    -> CloudResult<()>;

    /// Receives up to `limit` messages, waiting at most `wait` for the first.
    /// They come again unless deleted.
    async fn receive(&self, limit: usize, wait: Duration) -> CloudResult<Vec<Received>>;

    /// Deletes received messages by receipt.
    async fn delete(&self, receipts: &[String]) -> CloudResult<()>;
}

/// What a stored object's version is called, for conditional writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Etag(pub String);

/// An object with its version and time of arrival.
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
    /// Its size.
    pub bytes: u64,
    /// When it was written, by the store's clock.
    pub modified_at: Timestamp,
}

/// When a write may happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutIf {
    /// Always.
    Always,
    /// Only if no object is there.
    Absent,
    /// Only if the object there has this version.
    Matches(Etag),
}

/// Objects by key in one bucket.
#[async_trait]
pub trait Objects: Send + Sync {
    /// Reads an object of at most `max_bytes`; larger ones are `Failed`.
    /// `Missing` when there is none.
    async fn get(&self, key: &str, max_bytes: u64) -> CloudResult<Object>;

    /// Writes an object. `Conflict` when `condition` does not hold.
    async fn put(&self, key: &str, bytes: Vec<u8>, options: PutOptions) -> CloudResult<Etag>;

    /// Up to `limit` entries under `prefix` whose keys come after `after`, in the order of
    /// their keys.
    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> CloudResult<Vec<Listed>>;

    /// Deletes objects; those that are gone already count as deleted.
    async fn delete(&self, keys: &[String]) -> CloudResult<()>;
}

/// The error of an object that is larger than its reader takes.
pub(crate) fn too_large(operation: &str, key: &str, max_bytes: u64) -> CloudError {
    CloudError::Failed {
        operation: operation.to_owned(),
        message: format!("{key} is larger than {max_bytes} bytes"),
    }
}

#[cfg(any(feature = "http", feature = "gcp", feature = "stores"))]
/// Words of the cloud's as an error may carry them: on one line and not long.
pub(crate) fn bounded(words: &str) -> String {
    const MAX_CHARS: usize = 500;
    let line = |c: char| if c.is_control() { ' ' } else { c };
    words.chars().map(line).take(MAX_CHARS).collect()
}

/// How an object is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutOptions {
    /// When the write may happen.
    pub condition: PutIf,
    /// What a browser is told it is.
    pub content_type: Option<&'static str>,
    /// User metadata for people to read; what a header cannot carry becomes `?`,
    /// and each value is cut at 500 bytes.
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

/// An email with both parts.
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

    /// True while only verified recipients are sent anything.
    async fn is_sandboxed(&self) -> CloudResult<bool>;
}

/// A message to a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatPost {
    /// The channel by the name that the secret gives it; `None` for the default one.
    pub channel: Option<String>,
    /// The thread that it continues; ignored where the chat has none.
    pub thread: Option<String>,
    /// The message as the chat's API takes it.
    pub body: serde_json::Value,
    /// What names the message, so that it can be found again.
    pub id: Option<String>,
}

/// A message to look for in a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatSearch {
    /// The channel by the name that the secret gives it; `None` for the default one.
    pub channel: Option<String>,
    /// The thread that it continues.
    pub thread: Option<String>,
    /// What names the message.
    pub id: String,
    /// It was not posted before.
    pub since: Timestamp,
}

/// Posts to a chat.
#[async_trait]
pub trait Chat: Send + Sync {
    /// Posts it, and gives the thread that updates may continue; `None` where the chat
    /// has no threads. URLs and tokens are secrets and must not appear in an error.
    async fn post(&self, post: &ChatPost) -> CloudResult<Option<String>>;

    /// Looks for a message that may have been posted, and gives what [`Chat::post`] gave;
    /// `None` where it is not there, or the chat cannot be read.
    async fn find(&self, search: &ChatSearch) -> CloudResult<Option<String>>;
}

/// Publishes messages for other programs.
#[async_trait]
pub trait Topic: Send + Sync {
    /// Publishes `body` of at most [`MAX_MESSAGE_BYTES`] under a subject of one line.
    async fn publish(&self, subject: &str, body: &str) -> CloudResult<()>;
}

/// Sends events to a program of the user's.
#[async_trait]
pub trait Events: Send + Sync {
    /// Sends one event, a CloudEvent in JSON. The same `id` of at most 64 letters and
    /// digits may be sent again: the receiver knows by it that it is the same.
    async fn send(&self, id: &str, body: &str) -> CloudResult<()>;
}

/// Reads secrets of Ebb's own, such as the webhook's URL.
#[async_trait]
pub trait Secrets: Send + Sync {
    /// The secret's text.
    async fn read(&self, arn: &str) -> CloudResult<String>;
}
