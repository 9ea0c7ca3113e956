//! Ports in memory, faithful to the real ones where it matters to a sweep: a
//! message comes again until it is deleted, a conditional write sees versions.
//! A clone is another client of the same fake. No SDK is needed for any of this.

pub mod account;
pub mod clock;
pub mod markets;
pub mod objects;
mod outbox;
mod queue;
mod secrets;

pub use account::{FakeBill, FakeInventory, FakeMetrics};
pub use clock::FakeClock;
pub use markets::{FakeMarkets, FakePrices};
pub use objects::{FakeObjects, StoredObject};
pub use outbox::{FakeChat, FakeEvents, FakeMailer, FakeTopic};
pub use queue::{FakeMessage, FakeQueue};
pub use secrets::FakeSecrets;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// State that clones of a fake share.
#[derive(Debug, Default)]
struct Shared<T>(Arc<Mutex<T>>);

impl<T> Shared<T> {
    fn new(value: T) -> Self {
        Self(Arc::new(Mutex::new(value)))
    }

    /// A test that panicked elsewhere must not hide what this one sees.
    fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}
