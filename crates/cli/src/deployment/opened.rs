//! An open deployment, and its newest report.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use ebb_cloud::documents::decisions;
use ebb_cloud::documents::report_files::LATEST_JSON;
use ebb_cloud::endpoint::Endpoint;
use ebb_cloud::ports::{CloudError, Objects};
use ebb_cloud::store::StoreObjects;
use ebb_model::decision::Decision;
use ebb_model::report::Report;
use ebb_report::report_file;
use jiff::Timestamp;

use super::api_client::ApiClient;
use super::target::{Place, Target};

/// 10,000 findings take about 30 MB.
pub(crate) const MAX_REPORT_BYTES: u64 = 256 << 20;

/// An open deployment.
pub(crate) enum Deployment {
    /// Its objects can be read.
    Stored(StoredDeployment),
    /// Its API answers.
    Api(ApiClient),
}

/// The objects of a deployment.
pub(crate) struct StoredDeployment {
    pub(crate) objects: Arc<dyn Objects>,
    /// The caller, for decisions: an ARN, or the name of the user on this machine.
    pub(crate) who: String,
}

impl Deployment {
    /// The newest report.
    pub(crate) async fn newest_report(&self) -> Result<Report> {
        match self {
            Self::Stored(stored) => newest_report(stored.objects.as_ref()).await,
            Self::Api(api) => api.newest_report().await,
        }
    }

    /// The decisions that are in effect at `now`, by the id of the finding.
    pub(crate) async fn decisions(&self, now: Timestamp) -> Result<BTreeMap<String, Decision>> {
        match self {
            Self::Stored(stored) => {
                let all = decisions::load(stored.objects.as_ref()).await?;
                let in_effect = (all.findings.into_iter()).filter(|(_, one)| one.holds_at(now));
                Ok(in_effect.collect())
            }
            Self::Api(api) => api.decisions().await,
        }
    }

    /// When the newest report was written; `None` before the first. An error means that the
    /// deployment does not answer.
    pub(crate) async fn report_time(&self) -> Result<Option<Timestamp>> {
        match self {
            Self::Stored(stored) => {
                let listed = stored.objects.list(LATEST_JSON, None, 1).await;
                let listed = listed.map_err(|error| unanswered(&error))?;
                let newest = listed.iter().find(|object| object.key == LATEST_JSON);
                Ok(newest.map(|object| object.modified_at))
            }
            Self::Api(api) => api.report_time().await,
        }
    }
}

/// Opens a deployment. Must be called on a Tokio runtime that outlives it.
pub(crate) async fn open(target: &Target) -> Result<Deployment> {
    let opened = match &target.place.value {
        Place::Lake(url) => lake(url).map(Deployment::Stored),
        Place::Bucket(bucket) => bucket_of_aws(target, bucket).await.map(Deployment::Stored),
        Place::Api(address) => api(target, address).await.map(Deployment::Api),
    };
    opened.with_context(|| format!("failed to open {}", target.place))
}

/// Refuses a place on this machine that does not exist. A store creates a missing folder, but these
/// commands only read.
pub(crate) fn check_folder(url: &str) -> Result<()> {
    if let Some(folder) = missing_folder(url) {
        bail!("no folder {folder}\n  give --lake the folder that `ebb sweep` uses");
    }
    Ok(())
}

/// Shows that a command is going to create the folder, whose name may be misspelt.
#[cfg(feature = "sweep")]
pub(crate) fn tell_new_folder(url: &str) {
    use ebb_telemetry::safe_text::one_line;

    if let Some(folder) = missing_folder(url) {
        eprintln!("ebb: the folder {} is new", one_line(folder));
    }
}

fn missing_folder(url: &str) -> Option<&str> {
    let folder = url.strip_prefix("file://").unwrap_or(url);
    (!folder.contains("://") && !Path::new(folder).is_dir()).then_some(folder)
}

fn lake(url: &str) -> Result<StoredDeployment> {
    check_folder(url)?;
    Ok(StoredDeployment {
        objects: Arc::new(StoreObjects::open(url)?),
        who: user(),
    })
}

/// The name of the user from the variable `USER`, or else the user's number.
fn user() -> String {
    let user = std::env::var("USER").ok().filter(|user| !user.is_empty());
    user.unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()))
}

#[cfg(feature = "aws")]
async fn bucket_of_aws(target: &Target, bucket: &str) -> Result<StoredDeployment> {
    let region = target.region.as_ref().map(|region| &region.value);
    let profile = target.profile.as_ref().map(|name| name.value.as_str());
    let (config, who) = crate::aws_credentials::connect(region, profile).await?;
    Ok(StoredDeployment {
        objects: Arc::new(ebb_cloud::aws::AwsObjects::new(&config, bucket)),
        who: who.arn.unwrap_or(who.user_id),
    })
}

#[cfg(not(feature = "aws"))]
#[expect(clippy::unused_async, reason = "the same shape as with the feature")]
async fn bucket_of_aws(_: &Target, _: &str) -> Result<StoredDeployment> {
    bail!(
        "this program was built without AWS and cannot read a bucket\n  build it with AWS, in the \
         repository: {} -- COMMAND",
        crate::BUILD_WITH_AWS
    )
}

#[cfg(feature = "http")]
async fn api(target: &Target, address: &Endpoint) -> Result<ApiClient> {
    use super::api_client::Access;
    use ebb_cloud::http_api::{Authorization, HttpApi};

    let token = std::env::var("EBB_API_TOKEN").ok();
    let token = token.map(|token| token.trim().to_owned());
    let (authorization, access) = match token.filter(|token| !token.is_empty()) {
        Some(token) => (Authorization::Bearer(token), Access::Token),
        None if address.is_this_machine() => (Authorization::Unsigned, Access::Local),
        None => signed(target, address).await?,
    };
    let api = HttpApi::new(address.clone(), authorization);
    Ok(ApiClient::new(Box::new(api), access))
}

#[cfg(feature = "aws")]
async fn signed(
    target: &Target,
    address: &Endpoint,
) -> Result<(
    ebb_cloud::http_api::Authorization,
    super::api_client::Access,
)> {
    use super::api_client::{Access, region_of_gateway};
    use ebb_cloud::aws::{AwsConfig, RequestSigner, SignedService};

    let profile = target.profile.as_ref().map(|name| name.value.as_str());
    let named = target.region.as_ref().map(|region| region.value.clone());
    let region = named.or_else(|| region_of_gateway(address.host()));
    let config = AwsConfig::load_as(region.as_ref(), profile).await;
    let region = region.or_else(|| config.region());
    let region = region.context("the region of the API is unknown\n  add --region REGION")?;
    let signer = RequestSigner::load(&config, region, SignedService::ApiGateway).await;
    let signer = signer.map_err(|error| {
        let error = error.to_string();
        let help = crate::aws_credentials::remedy(&error, profile);
        anyhow!("{error}\n{help}\n  an API with JWT authorization needs a token in EBB_API_TOKEN")
    })?;
    let authorization = ebb_cloud::http_api::Authorization::Signed(signer);
    Ok((authorization, Access::Signed))
}

#[cfg(all(feature = "http", not(feature = "aws")))]
#[expect(clippy::unused_async, reason = "the same shape as with the feature")]
async fn signed(
    _: &Target,
    _: &Endpoint,
) -> Result<(
    ebb_cloud::http_api::Authorization,
    super::api_client::Access,
)> {
    use super::api_client::Access;

    let authorization = ebb_cloud::http_api::Authorization::Unsigned;
    Ok((authorization, Access::Unsigned))
}

#[cfg(not(feature = "http"))]
#[expect(clippy::unused_async, reason = "the same shape as with the feature")]
async fn api(_: &Target, _: &Endpoint) -> Result<ApiClient> {
    bail!(
        "this program was built without an HTTP client and cannot ask an API\n  build it with AWS, \
         in the repository: {} -- COMMAND",
        crate::BUILD_WITH_AWS
    )
}

/// The newest report of a deployment.
pub(crate) async fn newest_report(objects: &dyn Objects) -> Result<Report> {
    let object = objects.get(LATEST_JSON, MAX_REPORT_BYTES).await;
    let object = object.map_err(|error| unread(&error))?;
    report_file::read(&object.bytes).context("failed to read the newest report")
}

/// Why the list of the deployment's objects failed, with a remedy.
fn unanswered(error: &CloudError) -> anyhow::Error {
    match error {
        CloudError::Missing { .. } => without_bucket(error),
        _ => anyhow!(
            "the deployment does not answer: {error}\n  check the name and the region, and the \
             rights s3:ListBucket on it and s3:GetObject on reports/*"
        ),
    }
}

/// Why the newest report cannot be read, with a remedy.
fn unread(error: &CloudError) -> anyhow::Error {
    match error {
        CloudError::Missing { what, .. } if what != LATEST_JSON => without_bucket(error),
        _ => anyhow!(
            "failed to read the newest report of the deployment: {error}\n  the first sweep writes \
             it; check the bucket or URL, and the right to read reports/* there"
        ),
    }
}

fn without_bucket(error: &CloudError) -> anyhow::Error {
    anyhow!("failed to read the deployment: {error}\n  check its name and the region")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_bucket_differs_from_a_missing_report_and_the_remedy_follows_the_cause() {
        let missing = |what: &str| CloudError::Missing {
            operation: "s3:GetObject".to_owned(),
            what: what.to_owned(),
        };
        let check = |error: anyhow::Error, expect: [&str; 2]| {
            let text = format!("{error:#}");
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!(lines.len(), 2, "{text}");
            assert!(lines[0].ends_with(expect[0]), "{text}");
            assert!(lines[1].contains(expect[1]), "{text}");
        };
        let no_bucket = ["bucket nope does not exist", "check its name"];
        check(unread(&missing("bucket nope")), no_bucket);
        check(unanswered(&missing("bucket nope")), no_bucket);
        let no_report = [
            "reports/latest/report.json does not exist",
            "the first sweep writes it",
        ];
        check(unread(&missing(LATEST_JSON)), no_report);
        let denied = CloudError::Denied {
            operation: "s3:ListBucket".to_owned(),
            message: "AccessDenied: no".to_owned(),
        };
        let expect = ["was denied: AccessDenied: no", "the rights s3:ListBucket"];
        check(unanswered(&denied), expect);
    }
}
