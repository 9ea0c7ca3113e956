//! What leaves the node: spooled records, encoded at the moment they are sent,
//! by one policy of retry. Where they go is behind [`Sink`].

pub(crate) mod fit;
#[cfg(feature = "otlp")]
mod otlp;
mod outbox;
mod retry;
mod sink;

pub use fit::LeftOut;
#[cfg(feature = "otlp")]
pub use otlp::Collector;
pub use outbox::{Outbox, Urgency};
pub use sink::{CloudSink, Sink, SinkError};

use std::cell::RefCell;
use std::time::Duration;

use ebb_telemetry::arrival::Sent;
use ebb_telemetry::step::StepBatch;
use tokio::sync::Notify;

use self::outbox::Message;
use self::retry::Backoff;

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
) {
    let send = async |lane| {
        until_closed(lane, outbox, changed, sink, &now).await;
        while attempt(lane, outbox, sink, &now).await == Attempt::Sent {}
    };
    // An attempt that hangs must not keep the program from ending.
    let give_up = async {
        closed(outbox, changed).await;
        tokio::time::sleep(LAST_FLUSH).await;
    };
    tokio::select! {
        ((), ()) = async { tokio::join!(send(Lane::Heartbeats), send(Lane::Steps)) } => (),
        () = give_up => (),
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
) {
    let mut backoff = Backoff::default();
    while !outbox.borrow().is_closed() {
        // Made before the attempt, so that no news in between is missed.
        let news = changed.notified();
        match attempt(lane, outbox, sink, now).await {
            Attempt::Sent => backoff = Backoff::default(),
            Attempt::Nothing => news.await,
            // News does not cut a wait short; the end of the program does.
            Attempt::Failed => {
                let pause = backoff.next(retry::jitter());
                let _ = tokio::time::timeout(pause, closed(outbox, changed)).await;
            }
        }
    }
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
) -> Attempt {
    match lane {
        Lane::Heartbeats => {
            let next = outbox.borrow_mut().next_message(&now());
            let Some(Message {
                records,
                body,
                left_out,
            }) = next
            else {
                return Attempt::Nothing;
            };
            let went = bounded(sink.heartbeats(&body)).await;
            let outbox = &mut *outbox.borrow_mut();
            if let Err(error) = went {
                return failed(&error, outbox.heartbeats.len());
            }
            records
                .into_iter()
                .for_each(|record| outbox.heartbeats.remove(record));
            outbox.note_left_out(left_out);
            Attempt::Sent
        }
        Lane::Steps => {
            let next = outbox.borrow_mut().next_object(&now());
            let Some(Message {
                records,
                body,
                left_out,
            }) = next
            else {
                return Attempt::Nothing;
            };
            let went = bounded(sink.steps(&body.key, body.bytes)).await;
            let outbox = &mut *outbox.borrow_mut();
            if let Err(error) = went {
                return failed(&error, outbox.steps.len());
            }
            records
                .into_iter()
                .for_each(|record| outbox.steps.remove(record));
            outbox.note_left_out(left_out);
            Attempt::Sent
        }
    }
}

fn failed(error: &SinkError, waiting: usize) -> Attempt {
    tracing::warn!(%error, waiting, "failed to send; records wait in the spool and are sent later");
    Attempt::Failed
}

async fn bounded(sending: impl Future<Output = Result<(), SinkError>>) -> Result<(), SinkError> {
    let went = tokio::time::timeout(LONGEST_ATTEMPT, sending).await;
    went.unwrap_or(Err(SinkError::NoAnswer))
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
