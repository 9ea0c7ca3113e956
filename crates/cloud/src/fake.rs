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
mod shared;

pub use account::{FakeBill, FakeInventory, FakeMetrics};
pub use clock::FakeClock;
pub use markets::{FakeMarkets, FakePrices};
pub use objects::{FakeObjects, StoredObject};
pub use outbox::{FakeChat, FakeEvents, FakeMailer, FakeTopic};
pub use queue::{FakeMessage, FakeQueue};
pub use secrets::FakeSecrets;
