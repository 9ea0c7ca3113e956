//! Ports in memory, with the behaviour of the real ones that a sweep depends on: a message is
//! received again until it is deleted, and a conditional write checks versions. A clone is another
//! client of the same fake. They need no SDK.

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
