//! What leaves the node: spooled records, encoded at the moment they are sent,
//! by one policy of retry. Where they go is behind [`Sink`].

#[cfg(feature = "otlp")]
mod otlp;
mod outbox;
mod retry;
mod sink;

#[cfg(feature = "otlp")]
pub use otlp::Collector;
pub use outbox::{Outbox, OutboxError, Urgency};
pub use sink::{CloudSink, Sink, SinkError};

use std::cell::RefCell;
use std::time::Duration;

use ebb_domain::heartbeat::{Heartbeat, Sent};
use ebb_domain::step::StepBatch;
use ebb_signal::{EncodeError, MAX_HEARTBEATS};
use tokio::sync::Notify;

use self::retry::Backoff;
use crate::spool::{RecordNumber, Spool, SpoolError};

/// What is left of the five seconds that a stop may take, after the last pass.
const LAST_FLUSH: Duration = Duration::from_secs(4);

/// The longest that an attempt may take: a network can swallow what is sent and never
/// say so. The sinks' own bounds are shorter.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(120);

/// What one attempt came to.
#[derive(Debug, PartialEq, Eq)]
enum Attempt {
    /// Nothing waits that must go now.
    Nothing,
    /// Something went.
    Sent,
    /// It did not go, and stays.
    Failed,
}

/// Sends what the outbox holds until it is closed, and then once more what is
/// left, for a few seconds at most. `changed` is told of all news of the outbox
/// by `notify_waiters`, `now` reads the node's clocks.
pub async fn run(
    outbox: &RefCell<Outbox>,
    changed: &Notify,
    sink: &dyn Sink,
    now: impl Fn() -> Sent,
) -> Result<(), SpoolError> {
    let send = async |lane| -> Result<(), SpoolError> {
        until_closed(lane, outbox, changed, sink, &now).await?;
        while attempt(lane, outbox, sink, &now).await? == Attempt::Sent {}
        Ok(())
    };
    // An attempt that hangs must not keep the program from ending.
    let give_up = async {
        closed(outbox, changed).await;
        tokio::time::sleep(LAST_FLUSH).await;
    };
    tokio::select! {
        sent = async { tokio::try_join!(send(Lane::Heartbeats), send(Lane::Steps)) } => sent.map(|_| ()),
        () = give_up => Ok(()),
    }
}

/// The two kinds of records wait and fail apart, so that a bucket that refuses
/// does not hold up heartbeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    Heartbeats,
    Steps,
}

async fn until_closed(
    lane: Lane,
    outbox: &RefCell<Outbox>,
    changed: &Notify,
    sink: &dyn Sink,
    now: &impl Fn() -> Sent,
) -> Result<(), SpoolError> {
    let mut backoff = Backoff::default();
    while !outbox.borrow().is_closed() {
        // Made before the attempt, so that no news in between is missed.
        let news = changed.notified();
        match attempt(lane, outbox, sink, now).await? {
            Attempt::Sent => backoff = Backoff::default(),
            Attempt::Nothing => news.await,
            // News does not cut a wait short; the end of the program does.
            Attempt::Failed => {
                let pause = backoff.next(retry::jitter());
                let _ = tokio::time::timeout(pause, closed(outbox, changed)).await;
            }
        }
    }
    Ok(())
}

async fn closed(outbox: &RefCell<Outbox>, changed: &Notify) {
    loop {
        let news = changed.notified();
        if outbox.borrow().is_closed() {
            return;
        }
        news.await;
    }
}

async fn attempt(
    lane: Lane,
    outbox: &RefCell<Outbox>,
    sink: &dyn Sink,
    now: &impl Fn() -> Sent,
) -> Result<Attempt, SpoolError> {
    match lane {
        Lane::Heartbeats => {
            let next = outbox.borrow_mut().next_message(&now())?;
            let Some((records, body)) = next else {
                return Ok(Attempt::Nothing);
            };
            let went = bounded(sink.heartbeats(&body)).await;
            settle(&mut outbox.borrow_mut().heartbeats, &records, went)
        }
        Lane::Steps => {
            let next = outbox.borrow_mut().next_object(&now())?;
            let Some((record, key, object)) = next else {
                return Ok(Attempt::Nothing);
            };
            let went = bounded(sink.steps(&key, object)).await;
            settle(&mut outbox.borrow_mut().steps, &[record], went)
        }
    }
}

async fn bounded(sending: impl Future<Output = Result<(), SinkError>>) -> Result<(), SinkError> {
    let went = tokio::time::timeout(LONGEST_ATTEMPT, sending).await;
    went.unwrap_or(Err(SinkError::NoAnswer))
}

fn settle(
    spool: &mut Spool,
    records: &[RecordNumber],
    went: Result<(), SinkError>,
) -> Result<Attempt, SpoolError> {
    if let Err(error) = went {
        tracing::warn!(%error, waiting = spool.len(), "not sent; it waits in the spool");
        return Ok(Attempt::Failed);
    }
    for record in records {
        spool.remove(*record)?;
    }
    Ok(Attempt::Sent)
}

/// As many of the oldest heartbeats as fit one message: their number and the
/// message. `Err` when not even one fits.
fn encode_fitting(sent: &Sent, heartbeats: &[Heartbeat]) -> Result<(usize, String), EncodeError> {
    let mut count = heartbeats.len().min(MAX_HEARTBEATS);
    loop {
        match ebb_signal::encode_heartbeats(sent, &heartbeats[..count]) {
            Ok(body) => return Ok((count, body)),
            Err(error) if count <= 1 => return Err(error),
            Err(_) => count -= 1,
        }
    }
}

/// Where a batch of finished steps goes. `sender` is what the cloud attests, so
/// that its policy can hold each node to its own place.
fn steps_key(sender: &str, batch: &StepBatch) -> String {
    let StepBatch {
        boot,
        probe_start,
        sequence,
        ..
    } = batch;
    format!("ingest/v1/{sender}/{boot}/{probe_start}/{sequence}.steps.zst")
}

#[cfg(test)]
mod tests;
