//! Buckets through `object_store`, configured as for the clients of the cloud: region, endpoint and
//! credentials from the environment, or else from the container or instance.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
use object_store::client::SpawnedReqwestConnector;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::{BackoffConfig, ClientConfigKey, ClientOptions, ObjectStore, RetryConfig};
// Depends on the HTTP client of the store, to enable its resolver in Rust by a feature of this
// crate: a static program must not load the name-service libraries of the host.
use reqwest as _;
use tokio::runtime::Handle;
use url::Url;

use super::StoreError;
use crate::endpoint::{BadEndpoint, Endpoint};

/// Time limit of a request, well below the time that a sweep keeps for its end.
const GIVE_UP_AFTER: Duration = Duration::from_secs(30);

pub(super) fn s3(base: &Url) -> Result<Arc<dyn ObjectStore>, StoreError> {
    let builder = AmazonS3Builder::from_env();
    if let Some(endpoint) = builder.get_config_value(&AmazonS3ConfigKey::Endpoint) {
        check_endpoint(&endpoint)?;
    }
    let built = builder
        .with_bucket_name(name(base)?)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_client_options(options())
        .with_retry(retry())
        // The log is read on short-lived runtimes, but connections must outlive them.
        .with_http_connector(SpawnedReqwestConnector::new(Handle::current()))
        .build();
    Ok(Arc::new(built.map_err(|error| client(base, error))?))
}

pub(super) fn google(base: &Url) -> Result<Arc<dyn ObjectStore>, StoreError> {
    let built = GoogleCloudStorageBuilder::from_env()
        .with_bucket_name(name(base)?)
        .with_client_options(options())
        .with_retry(retry())
        .with_http_connector(SpawnedReqwestConnector::new(Handle::current()))
        .build();
    Ok(Arc::new(built.map_err(|error| client(base, error))?))
}

/// Refuses an endpoint that is not a URL or contains a user name. Plain http to a store in the
/// user's own network is allowed, because requests are signed and do not contain the key.
fn check_endpoint(endpoint: &str) -> Result<(), StoreError> {
    match Endpoint::parse(endpoint) {
        Ok(_) | Err(BadEndpoint::NotPrivate) => Ok(()),
        Err(source) => Err(StoreError::Endpoint { source }),
    }
}

fn name(base: &Url) -> Result<&str, StoreError> {
    base.host_str().ok_or_else(|| StoreError::Incomplete {
        url: base.to_string(),
        what: "bucket",
    })
}

fn client(base: &Url, source: object_store::Error) -> StoreError {
    StoreError::Client {
        url: base.to_string(),
        source: Box::new(source),
    }
}

fn options() -> ClientOptions {
    ClientOptions::new()
        // The shuffling resolver uses the C library.
        .with_config(ClientConfigKey::RandomizeAddresses, "false")
        // Only an endpoint from the environment can be plain HTTP.
        .with_allow_http(true)
        .with_connect_timeout(Duration::from_secs(5))
        .with_timeout(GIVE_UP_AFTER)
}

fn retry() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig::default(),
        max_retries: 5,
        retry_timeout: GIVE_UP_AFTER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_that_names_a_user_is_refused() {
        let check = |text: &str, expect: bool| {
            assert_eq!(check_endpoint(text).is_ok(), expect, "{text}");
        };
        check("https://s3.eu-west-1.amazonaws.com", true);
        check("http://store.internal:9000", true);
        check("http://127.0.0.1:9000", true);
        check("http://127.0.0.1:9000@evil.example/", false);
        check("store.internal:9000", false);
        check("http://store internal/", false);
    }
}
