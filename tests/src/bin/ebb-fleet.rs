//! The fleet generator: sends the data of the demo's simulated nodes until it is ended.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use ebb_cloud::aws::AwsConfig;
use ebb_tests::fleet::{Target, play};
use ebb_tests::world::World;
use tokio::signal::unix::{SignalKind, signal};

/// Sends the heartbeats and finished steps of a simulated fleet, each node with
/// its own credential. Endpoint and region come from the environment
/// (AWS_ENDPOINT_URL, AWS_REGION). Ends on SIGTERM or SIGINT.
#[derive(Parser)]
#[command(
    version,
    after_help = "Example:\n  ebb-fleet --world DIR \
    --queue-url http://127.0.0.1:4566/123456789012/ebb-heartbeats --bucket ebb-123456789012-us-east-1"
)]
struct FleetOptions {
    /// Folder with the world.json of tests/sim/seed.py.
    #[arg(long)]
    world: PathBuf,
    /// Queue for heartbeats; several shards have several queues, separated by commas.
    #[arg(long)]
    queue_url: String,
    /// Bucket for finished steps.
    #[arg(long)]
    bucket: String,
    /// Seconds of the past to send at the start.
    #[arg(long, default_value_t = 60)]
    past: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let options = FleetOptions::parse();
    let world = World::read(&options.world)?;
    let target = Target {
        config: AwsConfig::load(None).await,
        queue_url: options.queue_url,
        bucket: options.bucket,
    };
    let past = Duration::from_secs(options.past);
    let print_counts = |nodes, beats| {
        println!(
            "{nodes} nodes told {beats} heartbeats of their last {} s",
            past.as_secs()
        );
    };
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        ended = play(&world, &target, past, print_counts) => ended,
        _ = terminate.recv() => Ok(()),
        pressed = tokio::signal::ctrl_c() => Ok(pressed?),
    }
}
