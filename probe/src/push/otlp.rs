//! A sink for people who have a collector: heartbeats and steps as metrics, by OTLP over
//! HTTP in its JSON form. Names are OpenTelemetry's where it has one, else begin `ebb.`.
//!
//! Source: OTLP 1.x, "OTLP/HTTP" and "JSON Protobuf Encoding"; semantic conventions for
//! system, container, k8s, process and hardware metrics.

mod metrics;

use std::cell::RefCell;
use std::collections::BTreeMap;

use ebb_cloud::webhook::{BadWebhookUrl, HttpWebhook};
use ebb_telemetry::heartbeat::Heartbeat;
use jiff::Timestamp;
use serde_json::{Value, json};

use self::metrics::{Gathered, Side};
use super::sink::{Sink, SinkError};

/// Where metrics go below a collector's address.
const PATH: &str = "/v1/metrics";

/// A collector.
pub struct Collector {
    webhook: HttpWebhook,
    /// What the counters stand at, of what the collector has taken: heartbeats tell what
    /// came to an interval, and most stores of metrics want sums.
    taken: RefCell<Sums>,
}

/// Counters of one node since the first heartbeat that was sent.
#[derive(Debug, Clone, Default)]
struct Sums {
    since: Option<Timestamp>,
    by_name: BTreeMap<(&'static str, Side), f64>,
}

impl Sums {
    fn add(&mut self, name: &'static str, side: Side, more: f64) -> f64 {
        let sum = self.by_name.entry((name, side)).or_default();
        *sum += more;
        *sum
    }
}

impl Collector {
    /// At this address, such as `http://127.0.0.1:4318`.
    ///
    /// # Errors
    /// When it is not https with a host, nor plain http to this machine.
    pub fn at(address: &str) -> Result<Self, BadWebhookUrl> {
        let url = format!("{}{PATH}", address.trim_end_matches('/'));
        Ok(Self {
            webhook: HttpWebhook::new(&url)?,
            taken: RefCell::default(),
        })
    }

    async fn post(&self, resources: Vec<Value>) -> Result<(), SinkError> {
        let body = json!({ "resourceMetrics": resources });
        let answer = self.webhook.send(&body, None).await?;
        // A collector may take a part; asking again would not change that.
        let said: Option<Value> = serde_json::from_slice(&answer).ok();
        let refused = said.and_then(|said| said.get("partialSuccess").cloned());
        if let Some(refused) = refused.filter(|r| r.get("rejectedDataPoints").is_some()) {
            tracing::warn!(%refused, "the collector did not take every metric");
        }
        Ok(())
    }
}

#[async_trait::async_trait(?Send)]
impl Sink for Collector {
    async fn heartbeats(&self, body: &str) -> Result<(), SinkError> {
        let message = ebb_wire::decode_heartbeats(body)?;
        let mut sums = self.taken.borrow().clone();
        let told = |heartbeat: &Heartbeat| {
            let mut gathered = Gathered::default();
            gathered.node(heartbeat, &mut sums);
            for step in &heartbeat.steps {
                gathered.step(step, heartbeat.wall_at_end, heartbeat.end);
            }
            gathered.resource(&heartbeat.node, heartbeat.origin)
        };
        let resources = message.heartbeats.iter().map(told).collect();
        self.post(resources).await?;
        self.taken.replace(sums);
        Ok(())
    }

    async fn steps(&self, _: &str, object: Vec<u8>) -> Result<(), SinkError> {
        let ebb_wire::StepObject { sent, batch, .. } = ebb_wire::decode_steps(&object)?;
        if batch.boot != sent.boot {
            // When it was is no longer known.
            tracing::warn!(
                steps = batch.steps.len(),
                "steps of an earlier boot are no metrics"
            );
            return Ok(());
        }
        let mut gathered = Gathered::default();
        for step in &batch.steps {
            gathered.step(step, sent.wall, sent.clock);
        }
        self.post(vec![gathered.resource(&batch.node, batch.origin)])
            .await
    }
}

#[cfg(test)]
mod tests;
