//! The scheduled sweep as a Lambda: environment, clients, one call of the sweep,
//! and its summary as the answer. On request it sends test messages instead. Nothing is decided here.

mod metrics;
mod ports;
mod secret;
mod settings;

use std::time::Instant;

use anyhow::{Context as _, Result};
use ebb_cloud::error_chain::reason;
use ebb_ingest::deadline::Deadline;
use ebb_notify::test_message;
use ebb_telemetry::identity::AccountId;
use jiff::Timestamp;
use lambda_runtime::{Context, Diagnostic, LambdaEvent, service_fn};
use serde_json::Value;
use tracing_subscriber::EnvFilter;

use settings::Settings;

/// A sweep allocates and frees millions of small things, many on another core than
/// their own: of decoding alone glibc's allocator took a fifth.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The clients' own words stay out: they are many, and nobody has read them all
/// for secrets.
const LOG: &str = "warn,ebb_sweeper=info,ebb_sweep=info,ebb_cloud=info,ebb_lake=info";

// A checkpoint of the lake blocks a thread while it waits for connections that another one has to serve.
#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn main() -> Result<(), lambda_runtime::Error> {
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_env_filter(EnvFilter::new(LOG))
        .init();
    if std::env::var_os("AWS_LAMBDA_FUNCTION_NAME").is_none() {
        return Err(
            "failed to start: this program runs in AWS Lambda only; outside of it, use `ebb sweep`"
                .into(),
        );
    }
    lambda_runtime::run(service_fn(invoked)).await
}

/// Creates all clients again for each sweep. This takes a moment every few minutes, and no state of
/// an earlier sweep remains.
async fn invoked(event: LambdaEvent<Value>) -> Result<Value, Diagnostic> {
    let done = match test_message::is_request(&event.payload) {
        true => send_test().await,
        false => sweep(&event.context).await,
    };
    done.map_err(|error| Diagnostic {
        error_type: "SweepFailed".to_owned(),
        error_message: reason(error.as_ref()),
    })
}

/// Sends a test message to each channel with the rights and the settings of a sweep.
async fn send_test() -> Result<Value> {
    let settings = Settings::read(|name| std::env::var(name).ok())?;
    let answer = ports::send_test(&settings).await?;
    let answer = serde_json::to_value(answer).context("failed to write the answer as JSON")?;
    tracing::info!(%answer, "tested the channels");
    Ok(answer)
}

async fn sweep(context: &Context) -> Result<Value> {
    let settings = Settings::read(|name| std::env::var(name).ok())?;
    let began = Instant::now();
    let end = i64::try_from(context.deadline)
        .ok()
        .and_then(|ms| Timestamp::from_millisecond(ms).ok())
        .context("invalid deadline of the invocation")?;
    let deadline = Deadline::within(Timestamp::now(), end);
    // The function and its role are of the same account.
    let account = AccountId::of_arn(&context.invoked_function_arn);
    let summary = ports::sweep(&settings, &deadline, account).await?;
    if settings.metrics && settings.shard.reports() {
        let function = &context.env_config.function_name;
        // CloudWatch reads metrics from lines of the log, so they need no permission and no call.
        println!("{}", metrics::line(&summary, began.elapsed(), function));
    }
    let summary = serde_json::to_value(summary).context("failed to write the summary as JSON")?;
    tracing::info!(%summary, "swept");
    Ok(summary)
}
