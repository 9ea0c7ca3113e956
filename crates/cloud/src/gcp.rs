//! The ports to Google Cloud: Compute Engine and Cloud Monitoring, by Google's own
//! clients. They only read.

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

/// Of one call, the first counted: one that is refused for want of capacity or quota is
/// tried again after a pause that grows.
const ATTEMPTS: u32 = 4;

/// Which project, and how it is reached.
#[derive(Debug, Clone)]
pub struct GcpConfig {
    project: String,
    endpoint: Option<String>,
}

impl GcpConfig {
    /// A project of Google's, with the credentials that its tools find: the file of
    /// `GOOGLE_APPLICATION_CREDENTIALS`, `gcloud auth application-default login`, or the
    /// machine's own.
    ///
    /// # Errors
    /// When that is no project id.
    pub fn new(project: &str) -> CloudResult<Self> {
        let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"-.:".contains(&c);
        if project.is_empty() || project.len() > 100 || !project.bytes().all(plain) {
            return Err(CloudError::Failed {
                operation: "project".to_owned(),
                message: format!(
                    "'{}' is no project id; `gcloud projects list` names them",
                    project.escape_default()
                ),
            });
        }
        Ok(Self {
            project: project.to_owned(),
            endpoint: None,
        })
    }

    /// The same at another address and without credentials, as a simulator has it.
    #[must_use]
    pub fn at(self, endpoint: &str) -> Self {
        Self {
            endpoint: Some(endpoint.to_owned()),
            ..self
        }
    }

    /// The project.
    pub fn project(&self) -> &str {
        &self.project
    }

    /// None where Google's own are to be found.
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

/// What Google says may be tried again, and too many requests.
fn retry() -> impl google_cloud_gax::retry_policy::RetryPolicy {
    TooManyRequests::new(Aip194Strict).with_attempt_limit(ATTEMPTS)
}

/// Google's clients take the process's provider; it must be the one that the others here
/// use. Where the program has chosen already, its choice holds.
fn one_crypto_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    });
}

/// What follows the last slash of a URL that names a resource.
fn last_part(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or(url)
}

/// Source: Compute Engine, "Regions and zones": a zone is its region's name with a letter.
fn region_of(zone: &str) -> &str {
    zone.rsplit_once('-').map_or(zone, |(region, _)| region)
}
