//! Ports in memory, with the behaviour of the real ones that a sweep depends on: a message is
//! received again until it is deleted, and a conditional write checks versions. A clone is another
//! client of the same fake. They need no SDK.

#[cfg(feature = "account")]
pub mod account;
pub mod clock;
#[cfg(feature = "account")]
pub mod markets;
pub mod objects;
mod outbox;
mod queue;
#[cfg(feature = "account")]
pub mod run_parts;
mod secrets;
mod shared;

#[cfg(feature = "account")]
pub use account::{FakeBill, FakeInventory, FakeMetrics};
pub use clock::FakeClock;
#[cfg(feature = "account")]
pub use markets::{FakeMarkets, FakePrices};
pub use objects::{FakeObjects, StoredObject};
pub use outbox::{FakeChat, FakeEvents, FakeHooks, FakeMailer, FakeRequest, FakeTopic};
pub use queue::{FakeMessage, FakeQueue};
pub use secrets::FakeSecrets;
