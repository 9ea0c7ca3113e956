//! Sends the data of the nodes: their past at once, then one interval after the other.

use std::time::Duration;

use anyhow::{Context, Result};
use ebb_cloud::aws::{AwsConfig, AwsObjects, AwsQueue, Keys};
use ebb_cloud::ports::{Objects, PutOptions, Queue};
use ebb_probe::config::Cloud;
use ebb_telemetry::arrival::Sent;
use ebb_telemetry::heartbeat::Heartbeat;
use ebb_telemetry::identity::{BootId, NodeId, ProbeStart};
use ebb_wire::MAX_HEARTBEATS;
use ebb_wire::{encode_heartbeats, encode_steps};
use jiff::Timestamp;
use tokio::time::Instant;

use super::act::{heartbeat, is_lost, step_batch};
use super::clock::NodeClock;
use crate::world::{Node, World};

/// The destination of a fleet.
#[derive(Debug, Clone)]
pub struct Target {
    /// Region, endpoints and transport; each node has its own credentials.
    pub config: AwsConfig,
    /// The queue of heartbeats; several shards have several queues, separated by commas.
    pub queue_url: String,
    /// The bucket for finished steps.
    pub bucket: String,
}

/// One node with its clients.
struct Player {
    node: Node,
    clock: NodeClock,
    boot: BootId,
    probe_start: ProbeStart,
    user_id: String,
    queue: AwsQueue,
    objects: AwsObjects,
    next: u64,
}

/// Runs every node with a credential except the real probe's node. It sends `past` at once and
/// calls `on_caught_up` with the number of nodes and heartbeats. Then it continues until the future
/// is dropped.
///
/// # Errors
/// If a message cannot be sent: a demo with gaps would show nothing.
pub async fn play(
    world: &World,
    target: &Target,
    past: Duration,
    on_caught_up: impl FnOnce(usize, usize),
) -> Result<()> {
    let began = Instant::now();
    let mut players = players(world, target, past)?;
    let mut beats = 0;
    for player in &mut players {
        player.send_steps(past).await?;
        beats += player.catch_up(past + began.elapsed()).await?;
    }
    on_caught_up(players.len(), beats);
    let mut live = tokio::task::JoinSet::new();
    for player in players {
        live.spawn(player.go_on(began, past));
    }
    while let Some(ended) = live.join_next().await {
        ended.context("a node's task")??;
    }
    Ok(())
}

fn players(world: &World, target: &Target, past: Duration) -> Result<Vec<Player>> {
    let mut players = Vec::new();
    for node in &world.nodes {
        let Some(given) = &node.credentials else {
            continue;
        };
        if node.instance_id == world.probe_node {
            continue;
        }
        let config = target.config.clone().with_credentials(Keys {
            access_key_id: given.access_key_id.clone(),
            secret_access_key: given.secret_access_key.clone(),
            session_token: Some(given.session_token.clone()),
        });
        let cloud = Cloud {
            queue_url: &target.queue_url,
            bucket: &target.bucket,
        };
        let id = NodeId::new(node.instance_id.clone())?;
        players.push(Player {
            clock: NodeClock::new(node, past),
            boot: BootId::new(format!("boot-of-{}", node.instance_id))?,
            probe_start: ProbeStart::new(format!("play-{:x}", Timestamp::now().as_millisecond()))?,
            user_id: given.user_id.clone(),
            queue: AwsQueue::new(&config, cloud.queue_of(&id).to_owned()),
            objects: AwsObjects::new(&config, target.bucket.clone()),
            node: node.clone(),
            next: 0,
        });
    }
    Ok(players)
}

impl Player {
    /// The node's clocks at a time of the generator's.
    fn sent(&self, generator: Duration) -> Sent {
        Sent {
            boot: self.boot.clone(),
            clock: self.clock.boot_at(generator),
            wall: Timestamp::now(),
        }
    }

    async fn send_steps(&self, generator: Duration) -> Result<()> {
        let sent = self.sent(generator);
        let Some(batch) = step_batch(&self.node, self.clock, &sent, &self.probe_start)? else {
            return Ok(());
        };
        let key = format!(
            "ingest/v1/{}/{}/{}/{:08}.steps.zst",
            self.user_id, self.boot, self.probe_start, batch.sequence
        );
        let object = encode_steps(&sent, &batch)?;
        self.objects
            .put(&key, object, PutOptions::default())
            .await?;
        Ok(())
    }

    /// Sends all intervals that have ended, in as many messages as necessary.
    async fn catch_up(&mut self, generator: Duration) -> Result<usize> {
        let sent = self.sent(generator);
        let mut beats = Vec::new();
        while self.clock.part(self.next).end <= generator {
            beats.extend(self.beat(&sent)?);
        }
        for message in beats.chunks(MAX_HEARTBEATS) {
            self.queue.send(&encode_heartbeats(&sent, message)?).await?;
        }
        Ok(beats.len())
    }

    fn beat(&mut self, sent: &Sent) -> Result<Option<Heartbeat>> {
        let part = self.clock.part(self.next);
        self.next += 1;
        if is_lost(&self.node, part) {
            return Ok(None);
        }
        let beat = heartbeat(&self.node, self.clock, part, sent, &self.probe_start)?;
        Ok(Some(beat))
    }

    async fn go_on(mut self, began: Instant, past: Duration) -> Result<()> {
        loop {
            let due = self.clock.part(self.next).end.saturating_sub(past);
            tokio::time::sleep_until(began + due).await;
            self.catch_up(past + began.elapsed())
                .await
                .with_context(|| format!("node {}", self.node.instance_id))?;
        }
    }
}
