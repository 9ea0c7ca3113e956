//! A sink for OpenTelemetry collectors: sends heartbeats and tasks as metrics, by OTLP over HTTP in
//! its JSON encoding. Metric names are OpenTelemetry's if it has one, otherwise they begin with
//! `ebb.`.
//!
//! Source: OTLP 1.x, "OTLP/HTTP" and "JSON Protobuf Encoding"; semantic conventions for
//! system, container, k8s, process and hardware metrics.

mod metrics;

use std::cell::RefCell;
use std::collections::BTreeMap;

use ebb_cloud::http_post::{HttpPost, InvalidPostUrl};
use ebb_telemetry::heartbeat::Heartbeat;
use jiff::Timestamp;
use serde_json::{Value, json};

use self::metrics::{Gathered, ProcessGroup};
use super::sink::{Sink, SinkError};

/// The metrics path at a collector's address.
const PATH: &str = "/v1/metrics";

/// A collector.
pub struct OtlpCollector {
    receiver: HttpPost,
    /// The sums of the counters that the collector has accepted. Heartbeats contain the values of
    /// one interval, but most metric stores need cumulative sums.
    accepted: RefCell<CounterSums>,
}

/// Counters of one node since the first heartbeat that was sent.
#[derive(Debug, Clone, Default)]
struct CounterSums {
    since: Option<Timestamp>,
    by_name: BTreeMap<(&'static str, ProcessGroup), f64>,
}

impl CounterSums {
    fn add(&mut self, name: &'static str, side: ProcessGroup, more: f64) -> f64 {
        let sum = self.by_name.entry((name, side)).or_default();
        *sum += more;
        *sum
    }
}

impl OtlpCollector {
    /// A collector at this address, such as `http://127.0.0.1:4318`.
    ///
    /// # Errors
    /// If the address is neither https with a host nor plain http to this machine.
    pub fn at(address: &str) -> Result<Self, InvalidPostUrl> {
        let url = format!("{}{PATH}", address.trim_end_matches('/'));
        Ok(Self {
            receiver: HttpPost::new(&url)?,
            accepted: RefCell::default(),
        })
    }

    async fn post(&self, resources: Vec<Value>) -> Result<(), SinkError> {
        let body = json!({ "resourceMetrics": resources });
        let answer = self.receiver.send(&body, None).await?;
        // A collector can accept a part; a retry would not change that.
        let response: Option<Value> = serde_json::from_slice(&answer).ok();
        let refused = response.and_then(|response| response.get("partialSuccess").cloned());
        if let Some(refused) = refused.filter(|r| r.get("rejectedDataPoints").is_some()) {
            tracing::warn!(%refused, "failed to deliver some metrics; the collector refused them");
        }
        Ok(())
    }
}

#[async_trait::async_trait(?Send)]
impl Sink for OtlpCollector {
    async fn message(&self, body: &str) -> Result<(), SinkError> {
        let message = ebb_wire::decode_heartbeats(body)?;
        let mut sums = self.accepted.borrow().clone();
        let metrics_of = |heartbeat: &Heartbeat| {
            let mut gathered = Gathered::default();
            gathered.node(heartbeat, &mut sums);
            for step in &heartbeat.steps {
                gathered.step(step, heartbeat.wall_at_end, heartbeat.end);
            }
            gathered.resource(&heartbeat.node, heartbeat.origin)
        };
        let resources = message.heartbeats.iter().map(metrics_of).collect();
        self.post(resources).await?;
        self.accepted.replace(sums);
        Ok(())
    }

    async fn steps(&self, _: &str, object: Vec<u8>) -> Result<(), SinkError> {
        let ebb_wire::StepObject { sent, batch, .. } = ebb_wire::decode_steps(&object)?;
        if batch.boot != sent.boot {
            // Its time is no longer known.
            tracing::warn!(
                steps = batch.steps.len(),
                "dropped steps of an earlier boot, which have no time as metrics"
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
