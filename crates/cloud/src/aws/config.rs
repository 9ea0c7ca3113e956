//! Settings that all clients share: region, retries, timeouts and HTTP client.

use std::fmt;
use std::time::Duration;

use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{AppName, BehaviorVersion, ConfigLoader, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use ebb_telemetry::identity::{AccountId, Region};

use crate::http;

/// The prefix of our request names in CloudTrail.
const APP_NAME: &str = concat!("ebb-", env!("CARGO_PKG_VERSION"));

/// Used only if no region is configured: any region can list all regions.
const FALLBACK_REGION: &str = "us-east-1";

/// Maximum number of attempts. Adaptive mode spreads throttled calls by a token bucket; five
/// attempts with back-off take about ten seconds.
const MAX_ATTEMPTS: u32 = 5;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit of all attempts of one call, so that a region that does not answer does not use up
/// the time of a sweep.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Longer than the longest poll of SQS, which is 20 s.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(40);

/// Explicit credentials.
#[derive(Clone)]
pub struct Keys {
    /// `ASIA…` or `AKIA…`.
    pub access_key_id: String,
    /// The secret access key.
    pub secret_access_key: String,
    /// The session token; `None` for a user's long-term key.
    pub session_token: Option<String>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Keys").field(&self.access_key_id).finish()
    }
}

/// The AWS configuration: credentials, region and endpoint. By default they come from the
/// environment in the default order of the SDK, including `AWS_ENDPOINT_URL_<SERVICE>`.
#[derive(Clone)]
pub struct AwsConfig {
    pub(super) sdk: SdkConfig,
    /// The account of the credentials; `None` if unknown.
    pub(super) account: Option<AccountId>,
}

impl AwsConfig {
    /// Loads the configuration; `region` takes precedence over the environment.
    pub async fn load(region: Option<&Region>) -> Self {
        Self::load_as(region, None).await
    }

    /// Loads `profile` of the user's AWS configuration file, regardless of keys in the environment.
    pub async fn load_as(region: Option<&Region>, profile: Option<&str>) -> Self {
        let sdk_region = region.map(|r| aws_config::Region::new(r.as_str().to_owned()));
        let mut sdk = match sdk_region {
            Some(sdk_region) => loader(profile).region(sdk_region).load().await,
            None => loader(profile).load().await,
        };
        if sdk.region().is_none() {
            // Loaded again, because roles are assumed in the region too.
            sdk = loader(profile).region(FALLBACK_REGION).load().await;
        }
        if let Some(profile) = profile {
            // The default chain prefers keys in the environment to those of a profile.
            let place = ProviderConfig::default()
                .with_http_client(http::client())
                .with_region(sdk.region().cloned());
            let provider = ProfileFileCredentialsProvider::builder()
                .configure(&place)
                .profile_name(profile)
                .build();
            let provider = SharedCredentialsProvider::new(provider);
            sdk = sdk.into_builder().credentials_provider(provider).build();
        }
        Self { sdk, account: None }
    }

    /// The same configuration with `keys` as credentials.
    #[must_use]
    pub fn with_credentials(self, keys: Keys) -> Self {
        let credentials = Credentials::new(
            keys.access_key_id,
            keys.secret_access_key,
            keys.session_token,
            None,
            "given",
        );
        let provider = SharedCredentialsProvider::new(credentials);
        let sdk = self.sdk.into_builder().credentials_provider(provider);
        Self {
            sdk: sdk.build(),
            account: None,
        }
    }

    /// The same account behind another URL: a simulator, or a private endpoint.
    #[must_use]
    pub fn with_endpoint(self, url: &str) -> Self {
        let sdk = self.sdk.into_builder().endpoint_url(url);
        Self {
            sdk: sdk.build(),
            ..self
        }
    }

    /// The same configuration with `patience` as the time limit of each call.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(CONNECT_TIMEOUT.min(patience))
            .operation_attempt_timeout(ATTEMPT_TIMEOUT.min(patience))
            .operation_timeout(patience);
        let sdk = self.sdk.into_builder().timeout_config(timeouts.build());
        Self {
            sdk: sdk.build(),
            ..self
        }
    }

    /// The default region of calls.
    pub fn region(&self) -> Option<Region> {
        Region::new(self.sdk.region()?.as_ref()).ok()
    }

    /// The retry partition of one service's calls.
    #[cfg(any(
        feature = "inventory",
        feature = "metrics",
        feature = "prices",
        feature = "second-opinion"
    ))]
    pub(super) fn partition(&self, service: &str, region: &Region) -> String {
        let account = self.account.as_ref().map_or("", AccountId::as_str);
        format!("{account}-{service}-{region}")
    }

    #[cfg(any(
        feature = "inventory",
        feature = "metrics",
        feature = "prices",
        feature = "second-opinion"
    ))]
    pub(super) fn in_region(&self, region: &Region) -> SdkConfig {
        let there = aws_config::Region::new(region.as_str().to_owned());
        self.sdk.clone().into_builder().region(there).build()
    }
}

fn loader(profile: Option<&str>) -> ConfigLoader {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .operation_attempt_timeout(ATTEMPT_TIMEOUT)
        .operation_timeout(CALL_TIMEOUT)
        .build();
    let loader = aws_config::defaults(BehaviorVersion::latest())
        .http_client(http::client())
        .retry_config(RetryConfig::adaptive().with_max_attempts(MAX_ATTEMPTS))
        .timeout_config(timeouts)
        .app_name(AppName::new(APP_NAME).expect("the name has only plain characters"));
    match profile {
        Some(profile) => loader.profile_name(profile),
        None => loader,
    }
}

impl fmt::Debug for AwsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwsConfig")
            .field("region", &self.region())
            .field("account", &self.account)
            .finish_non_exhaustive()
    }
}
