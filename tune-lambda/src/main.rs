//! The API and the pages as a Lambda behind an HTTP API. It reads the newest report from the
//! bucket; `ebb-api` contains the routes and answers.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use ebb_api::gateway;
use ebb_api::gateway::{Event, Reply};
use ebb_api::page_access::{PageAccess, PagesSecret};
use ebb_api::service::Service;
use ebb_api::slack_signature::SigningSecret;
use ebb_cloud::aws::{AwsConfig, AwsObjects};
use jiff::Timestamp;
use lambda_runtime::{Error, LambdaEvent, service_fn};
use tracing_subscriber::EnvFilter;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_env_filter(EnvFilter::new(
            "warn,ebb_tune=info,ebb_sweep=info,ebb_cloud=info",
        ))
        .init();
    anyhow::ensure!(
        std::env::var_os("AWS_LAMBDA_FUNCTION_NAME").is_some(),
        "failed to start: this program runs in AWS Lambda only; outside of it, use `ebb serve`"
    );
    let bucket = std::env::var("EBB_BUCKET").ok().filter(|b| !b.is_empty());
    let bucket = bucket.context("EBB_BUCKET is not set: the bucket of the deployment")?;
    let objects = AwsObjects::new(&AwsConfig::load(None).await, bucket);
    let slack = std::env::var("EBB_SLACK_SIGNING_SECRET").ok();
    let slack = slack.as_deref().and_then(SigningSecret::new);
    let pages = match std::env::var("EBB_PAGES_SECRET").ok() {
        Some(text) if !text.is_empty() => PageAccess::WithLink(
            PagesSecret::new(&text).context("EBB_PAGES_SECRET has less than 32 characters")?,
        ),
        _ => PageAccess::Nobody,
    };
    let service = Service::with_secrets(Arc::new(objects), slack, pages);
    let answered = service_fn(async |event: LambdaEvent<Event>| -> Result<Reply, Error> {
        let path = event.payload.raw_path.clone();
        let (now, at) = (Instant::now(), Timestamp::now());
        let reply = gateway::answer(&service, event.payload, now, at).await;
        tracing::info!(path, status = reply.status_code, "answered");
        Ok(reply)
    });
    let ended = lambda_runtime::run(answered).await;
    ended.map_err(|error| anyhow::anyhow!(error))
}
