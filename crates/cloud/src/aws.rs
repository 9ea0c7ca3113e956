//! The AWS implementations of the ports. Each is behind a feature, because each needs an SDK.
//! [`config`] contains the settings that all clients share.

/// A client of one service that reads an account in a region. AWS limits calls by account and
/// region, so each client has its own retry partition. Throttling of one then does not slow the
/// others. By default the SDK partitions retries by region alone.
#[cfg(any(
    feature = "inventory",
    feature = "metrics",
    feature = "prices",
    feature = "second-opinion"
))]
macro_rules! client {
    ($sdk:ident, $config:expr, $region:expr) => {{
        let sdk = $config.in_region($region);
        let name = $config.partition(stringify!($sdk), $region);
        let own = $sdk::config::retry::RetryPartition::new(name);
        let config = $sdk::config::Builder::from(&sdk).retry_partition(own);
        $sdk::Client::from_conf(config.build())
    }};
}

#[cfg(feature = "bill")]
mod bill;
mod config;
#[cfg(feature = "email")]
mod email;
mod error;
#[cfg(feature = "identity")]
mod identity;
#[cfg(feature = "inventory")]
mod inventory;
#[cfg(feature = "inventory")]
mod markets;
#[cfg(feature = "accounts")]
mod members;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "objects")]
mod objects;
#[cfg(feature = "second-opinion")]
mod opinions;
#[cfg(feature = "prices")]
mod prices;
#[cfg(feature = "queue")]
mod queue;
#[cfg(feature = "secrets")]
mod secrets;
#[cfg(feature = "http-api-signed")]
mod signer;
#[cfg(any(feature = "inventory", feature = "metrics", feature = "objects"))]
mod time;
#[cfg(feature = "topic")]
mod topic;

#[cfg(feature = "bill")]
pub use bill::AwsBill;
pub use config::{AwsConfig, Keys};
#[cfg(feature = "email")]
pub use email::AwsMailer;
#[cfg(feature = "identity")]
pub use identity::{Caller, Machine, caller, machine};
#[cfg(feature = "inventory")]
pub use inventory::AwsInventory;
#[cfg(feature = "inventory")]
pub use markets::{AwsMarkets, SPOT_ADVISOR};
#[cfg(feature = "accounts")]
pub use members::{Entered, MemberRole, MemberScope, enter};
#[cfg(feature = "metrics")]
pub use metrics::AwsMetrics;
#[cfg(feature = "objects")]
pub use objects::AwsObjects;
#[cfg(feature = "prices")]
pub use prices::AwsPrices;
#[cfg(feature = "queue")]
pub use queue::AwsQueue;
#[cfg(feature = "secrets")]
pub use secrets::AwsSecrets;
#[cfg(feature = "http-api-signed")]
pub use signer::{RequestSigner, SignedService};

pub use crate::http::proxy_variable;
#[cfg(feature = "topic")]
pub use topic::AwsTopic;
