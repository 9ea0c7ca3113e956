//! The objects of a deployment: a bucket of AWS, or the place of `ebb sweep`.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use ebb_cloud::documents::report_files::LATEST_JSON;
use ebb_cloud::ports::Objects;
use ebb_cloud::store::StoreObjects;
use ebb_model::report::Report;
use ebb_report::report_file;

use crate::args::DeploymentArgs;

/// 10,000 findings take about 30 MB.
pub(crate) const MAX_REPORT_BYTES: u64 = 256 << 20;

/// An open deployment.
pub(crate) struct Deployment {
    pub(crate) objects: Arc<dyn Objects>,
    /// The caller, for decisions: an ARN, or the name of the user on this machine.
    pub(crate) who: String,
}

/// Opens a deployment. Must be called on a Tokio runtime that outlives it.
pub(crate) async fn open(args: &DeploymentArgs) -> Result<Deployment> {
    match (&args.lake, &args.bucket) {
        (Some(lake), _) => {
            // A store creates a missing folder, but these commands only read.
            let folder = lake.strip_prefix("file://").unwrap_or(lake);
            if !folder.contains("://") && !Path::new(folder).is_dir() {
                bail!("no folder {folder}\n  --lake is the place of `ebb sweep`");
            }
            let objects = StoreObjects::open(lake)?;
            Ok(Deployment {
                objects: Arc::new(objects),
                who: user(),
            })
        }
        (None, Some(bucket)) => bucket_of_aws(args, bucket).await,
        (None, None) => bail!("no deployment is named\n  give --bucket NAME or --lake URL"),
    }
}

/// The name of the user from the variable `USER`, or else the user's number.
fn user() -> String {
    let user = std::env::var("USER").ok().filter(|user| !user.is_empty());
    user.unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()))
}

#[cfg(feature = "aws")]
async fn bucket_of_aws(args: &DeploymentArgs, bucket: &str) -> Result<Deployment> {
    let region = args.region.as_ref();
    let (config, who) = crate::aws_credentials::connect(region, args.profile.as_deref()).await?;
    Ok(Deployment {
        objects: Arc::new(ebb_cloud::aws::AwsObjects::new(&config, bucket)),
        who: who.arn.unwrap_or(who.user_id),
    })
}

#[cfg(not(feature = "aws"))]
#[expect(clippy::unused_async, reason = "the same shape as with the feature")]
async fn bucket_of_aws(_: &DeploymentArgs, _: &str) -> Result<Deployment> {
    bail!(
        "this program was built without AWS and cannot read a bucket\n  build it with AWS, in the \
         repository: {} -- COMMAND",
        crate::BUILD_WITH_AWS
    )
}

/// The newest report of a deployment.
pub(crate) async fn newest_report(objects: &dyn Objects) -> Result<Report> {
    let object = objects.get(LATEST_JSON, MAX_REPORT_BYTES).await;
    let object = object.map_err(|error| {
        anyhow!(
            "failed to read the newest report of the deployment: {error}\n  the first sweep writes \
             it; check the bucket or URL, and the right to read reports/* there"
        )
    })?;
    report_file::read(&object.bytes).context("failed to read the newest report")
}
