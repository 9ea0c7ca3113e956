//! The destination of records: a queue and a bucket in the cloud, or an object store that serves as
//! both.

use ebb_cloud::ports::{CloudError, Objects, PutOptions, Queue};
use ebb_wire::DecodeError;
use thiserror::Error;

/// Why a record was not sent.
#[derive(Debug, Error)]
pub enum SinkError {
    /// The cloud refused it or failed.
    #[error(transparent)]
    Cloud(#[from] CloudError),
    /// A record cannot be converted to another format.
    #[error("failed to read a record")]
    Record(#[from] DecodeError),
    /// There was no answer within the time limit.
    #[error("timed out waiting for an answer; check the network and the firewall")]
    NoAnswer,
}

/// How finished tasks are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepRoute {
    /// As messages of the queue if they fit, otherwise as objects. SQS charges a tenth of the price of
    /// a write to S3 for sending, receiving and deleting a message.
    Queue,
    /// Always as objects.
    Objects,
}

/// Accepts encoded records.
#[async_trait::async_trait(?Send)]
pub trait Sink {
    /// How finished tasks are sent.
    fn step_route(&self) -> StepRoute {
        StepRoute::Objects
    }

    /// Sends one message of the queue: heartbeats, or finished tasks if the route is
    /// [`StepRoute::Queue`].
    async fn message(&self, body: &str) -> Result<(), SinkError>;

    /// Stores one object of finished tasks; an object with the same key is replaced.
    async fn steps(&self, key: &str, object: Vec<u8>) -> Result<(), SinkError>;
}

/// A queue and a bucket.
pub struct CloudSink {
    /// The queue.
    pub queue: Box<dyn Queue>,
    /// The store for finished tasks.
    pub objects: Box<dyn Objects>,
    /// How finished tasks are sent.
    pub step_route: StepRoute,
}

#[async_trait::async_trait(?Send)]
impl Sink for CloudSink {
    fn step_route(&self) -> StepRoute {
        self.step_route
    }

    async fn message(&self, body: &str) -> Result<(), SinkError> {
        Ok(self.queue.send(body).await?)
    }

    async fn steps(&self, key: &str, object: Vec<u8>) -> Result<(), SinkError> {
        let options = PutOptions::default();
        self.objects.put(key, object, options).await?;
        Ok(())
    }
}
