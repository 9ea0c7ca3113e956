//! Sends spooled records, which are encoded at the time of sending, with a single retry policy.
//! [`Sink`] is the destination.

pub(crate) mod fit;
#[cfg(feature = "otlp")]
mod otlp;
mod outbox;
mod retry;
mod sink;
mod stored_batch;

pub use fit::OmittedSteps;
#[cfg(feature = "otlp")]
pub use otlp::OtlpCollector;
pub use outbox::{Outbox, Urgency};
pub use sink::{CloudSink, Sink, SinkError, StepRoute};
pub use stored_batch::StoredBatch;

use std::cell::RefCell;
use std::time::Duration;

use ebb_telemetry::arrival::Sent;
use ebb_telemetry::step::StepBatch;
use tokio::sync::Notify;

use self::outbox::{Finished, Message};
use self::retry::Backoff;

/// Time for the last sends, out of the five seconds that a stop may take.
const LAST_FLUSH: Duration = Duration::from_secs(4);

/// Time limit of an attempt, because a network can drop packets without an error. The limits of the
/// sinks are shorter.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(120);

/// The result of one attempt.
#[derive(Debug, PartialEq, Eq)]
enum Attempt {
    /// Nothing is due.
    Nothing,
    /// A record was sent.
    Sent,
    /// Sending failed, and the record stays in the spool.
    Failed,
}

/// Sends the content of the outbox until it is closed, and then the rest for a few seconds at most.
/// Every change of the outbox must call `notify_waiters` of `changed`; `now` reads the node's
/// clocks.
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
    // A hanging attempt must not keep the program from ending.
    let give_up = async {
        closed(outbox, changed).await;
        tokio::time::sleep(LAST_FLUSH).await;
    };
    tokio::select! {
        ((), ()) = async { tokio::join!(send(Lane::Heartbeats), send(Lane::Steps)) } => (),
        () = give_up => (),
    }
}

/// Heartbeats and tasks wait and fail separately, so that a bucket that refuses objects does not
/// delay heartbeats.
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
        // Created before the attempt, so that no change in between is missed.
        let news = changed.notified();
        match attempt(lane, outbox, sink, now).await {
            Attempt::Sent => backoff = Backoff::default(),
            Attempt::Nothing => news.await,
            // A change does not shorten the wait; the end of the program does.
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
            let went = bounded(sink.message(&body)).await;
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
            let next = outbox.borrow_mut().next_finished(&now(), sink.step_route());
            let Some(Message {
                records,
                body,
                left_out,
            }) = next
            else {
                return Attempt::Nothing;
            };
            let went = match body {
                Finished::Message(body) => bounded(sink.message(&body)).await,
                Finished::Object { key, bytes } => bounded(sink.steps(&key, bytes)).await,
            };
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

/// The object key of a batch of finished tasks. `sender` is the attested identity, so that an IAM
/// policy can limit each node to its own prefix.
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
