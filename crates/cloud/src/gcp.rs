//! The ports for Google Cloud: Compute Engine and Cloud Monitoring, with Google's own clients. They
//! only read.

mod error;
mod inventory;
mod metrics;
#[cfg(test)]
mod server;
#[cfg(test)]
mod tests;

pub use inventory::GcpInventory;
pub use metrics::GcpMetrics;

use std::sync::Once;

use google_cloud_auth::credentials::{Credentials, anonymous};
use google_cloud_compute_v1::client::{Instances, MachineTypes};
use google_cloud_gax::retry_policy::{Aip194Strict, RetryPolicyExt, TooManyRequests};
use google_cloud_monitoring_v3::client::MetricService;

use crate::ports::{CloudError, CloudResult};
use error::not_built;

/// Number of attempts of one call, including the first. A call that fails because of capacity or
/// quota is retried with exponential back-off.
const ATTEMPTS: u32 = 4;

/// The project and its endpoint.
#[derive(Debug, Clone)]
pub struct GcpConfig {
    project: String,
    endpoint: Option<String>,
}

impl GcpConfig {
    /// A Google Cloud project with Application Default Credentials: the file of
    /// `GOOGLE_APPLICATION_CREDENTIALS`, `gcloud auth application-default login`, or the
    /// credentials of the machine.
    ///
    /// # Errors
    /// If the text is not a project id.
    pub fn new(project: &str) -> CloudResult<Self> {
        let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"-.:".contains(&c);
        if project.is_empty() || project.len() > 100 || !project.bytes().all(plain) {
            return Err(CloudError::Failed {
                operation: "project".to_owned(),
                message: format!(
                    "'{}' is not a project id; `gcloud projects list` shows all ids",
                    project.escape_default()
                ),
            });
        }
        Ok(Self {
            project: project.to_owned(),
            endpoint: None,
        })
    }

    /// The same project at another endpoint and without credentials, for a simulator.
    #[must_use]
    pub fn at(self, endpoint: &str) -> Self {
        Self {
            endpoint: Some(endpoint.to_owned()),
            ..self
        }
    }

    /// The project id.
    pub fn project(&self) -> &str {
        &self.project
    }

    /// `None` if Application Default Credentials are used.
    fn credentials(&self) -> Option<Credentials> {
        self.endpoint
            .as_ref()
            .map(|_| anonymous::Builder::new().build())
    }

    async fn instances(&self) -> CloudResult<Instances> {
        one_crypto_provider();
        let mut builder = Instances::builder().with_retry_policy(retry());
        if let (Some(endpoint), Some(nobody)) = (&self.endpoint, self.credentials()) {
            builder = builder.with_endpoint(endpoint).with_credentials(nobody);
        }
        builder.build().await.map_err(|error| not_built(&error))
    }

    async fn machine_types(&self) -> CloudResult<MachineTypes> {
        one_crypto_provider();
        let mut builder = MachineTypes::builder().with_retry_policy(retry());
        if let (Some(endpoint), Some(nobody)) = (&self.endpoint, self.credentials()) {
            builder = builder.with_endpoint(endpoint).with_credentials(nobody);
        }
        builder.build().await.map_err(|error| not_built(&error))
    }

    async fn monitoring(&self) -> CloudResult<MetricService> {
        one_crypto_provider();
        let mut builder = MetricService::builder().with_retry_policy(retry());
        if let (Some(endpoint), Some(nobody)) = (&self.endpoint, self.credentials()) {
            builder = builder.with_endpoint(endpoint).with_credentials(nobody);
        }
        builder.build().await.map_err(|error| not_built(&error))
    }
}

/// Retries errors that Google documents as retryable, and too many requests.
fn retry() -> impl google_cloud_gax::retry_policy::RetryPolicy {
    TooManyRequests::new(Aip194Strict).with_attempt_limit(ATTEMPTS)
}

/// Installs the TLS crypto provider of the process, which Google's clients use, as the other
/// clients here do. A provider that is already installed stays.
fn one_crypto_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    });
}

/// The text after the last slash of a resource URL.
fn last_part(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or(url)
}

/// The region of a zone. Source: Compute Engine, "Regions and zones": a zone name is the region
/// name with a letter.
fn region_of(zone: &str) -> &str {
    zone.rsplit_once('-').map_or(zone, |(region, _)| region)
}
