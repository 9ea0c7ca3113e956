//! What all clients share: region, retries, timeouts and transport.

use std::fmt;
use std::time::Duration;

use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{AppName, BehaviorVersion, ConfigLoader, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use ebb_telemetry::identity::{AccountId, Region};

use crate::http;

/// How the names of our requests begin in the account's CloudTrail.
const APP_NAME: &str = concat!("ebb-", env!("CARGO_PKG_VERSION"));

/// Asked only where nothing names a region: any region lists all regions.
const FALLBACK_REGION: &str = "us-east-1";

/// Throttled calls are spread by the adaptive mode's token bucket; five attempts
/// with back-off are about ten seconds.
const MAX_ATTEMPTS: u32 = 5;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// All attempts of one call together: a region that does not answer must not use up
/// the time of a sweep.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Longer than SQS's longest poll, which is 20 s.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(40);

/// A credential that is given rather than found.
#[derive(Clone)]
pub struct Keys {
    /// `ASIA…` or `AKIA…`.
    pub access_key_id: String,
    /// Its secret.
    pub secret_access_key: String,
    /// The session that it belongs to; `None` for a user's own.
    pub session_token: Option<String>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Keys").field(&self.access_key_id).finish()
    }
}

/// Where and as whom AWS is asked. Credentials, endpoints and profile come from
/// the environment in the SDK's usual order, `AWS_ENDPOINT_URL_<SERVICE>` too.
#[derive(Clone)]
pub struct AwsConfig {
    pub(super) sdk: SdkConfig,
    /// Whose calls these are, where it is known.
    pub(super) account: Option<AccountId>,
}

impl AwsConfig {
    /// Loads it; `region` wins over what the environment says.
    pub async fn load(region: Option<&Region>) -> Self {
        Self::load_as(region, None).await
    }

    /// Loads it as `profile` of the user's AWS configuration file, whatever keys the
    /// environment has.
    pub async fn load_as(region: Option<&Region>, profile: Option<&str>) -> Self {
        let asked = region.map(|r| aws_config::Region::new(r.as_str().to_owned()));
        let mut sdk = match asked {
            Some(asked) => loader(profile).region(asked).load().await,
            None => loader(profile).load().await,
        };
        if sdk.region().is_none() {
            // Loaded anew, because roles are assumed in the region too.
            sdk = loader(profile).region(FALLBACK_REGION).load().await;
        }
        if let Some(profile) = profile {
            // The usual chain takes the environment's keys before a profile's.
            let place = ProviderConfig::default()
                .with_http_client(transport())
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

    /// The same place, asked with `keys` instead of what the environment has.
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

    /// The same place, where each call may take so long in all.
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

    /// The region that is asked unless a call names another.
    pub fn region(&self) -> Option<Region> {
        Region::new(self.sdk.region()?.as_ref()).ok()
    }

    /// What the retries of one service's calls go by.
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
        .http_client(transport())
        .retry_config(RetryConfig::adaptive().with_max_attempts(MAX_ATTEMPTS))
        .timeout_config(timeouts)
        .app_name(AppName::new(APP_NAME).expect("the name has only plain characters"));
    match profile {
        Some(profile) => loader.profile_name(profile),
        None => loader,
    }
}

pub(super) fn transport() -> SharedHttpClient {
    aws_smithy_http_client::Builder::new()
        .tls_provider(http::tls())
        .build_with_resolver(http::resolver())
}

impl fmt::Debug for AwsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwsConfig")
            .field("region", &self.region())
            .field("account", &self.account)
            .finish_non_exhaustive()
    }
}
