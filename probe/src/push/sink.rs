//! Where records go: a queue and a bucket, be they the cloud's or one place of an object
//! store that plays both.

use ebb_cloud::ports::{CloudError, Objects, PutOptions, Queue};
use ebb_wire::DecodeError;
use thiserror::Error;

/// Why a record did not go.
#[derive(Debug, Error)]
pub enum SinkError {
    /// The cloud did not take it.
    #[error(transparent)]
    Cloud(#[from] CloudError),
    /// A record that cannot be told in another form.
    #[error("a record cannot be read again")]
    Record(#[from] DecodeError),
    /// Nobody said whether it went.
    #[error("there was no answer in time; is the network a black hole?")]
    NoAnswer,
}

/// Takes encoded records.
#[async_trait::async_trait(?Send)]
pub trait Sink {
    /// Takes one message of heartbeats.
    async fn heartbeats(&self, body: &str) -> Result<(), SinkError>;

    /// Takes one object of finished steps; the same key again replaces it.
    async fn steps(&self, key: &str, object: Vec<u8>) -> Result<(), SinkError>;
}

/// A queue and a bucket.
pub struct CloudSink {
    /// Takes heartbeats.
    pub queue: Box<dyn Queue>,
    /// Takes finished steps.
    pub objects: Box<dyn Objects>,
}

#[async_trait::async_trait(?Send)]
impl Sink for CloudSink {
    async fn heartbeats(&self, body: &str) -> Result<(), SinkError> {
        Ok(self.queue.send(body).await?)
    }

    async fn steps(&self, key: &str, object: Vec<u8>) -> Result<(), SinkError> {
        let options = PutOptions::default();
        self.objects.put(key, object, options).await?;
        Ok(())
    }
}
