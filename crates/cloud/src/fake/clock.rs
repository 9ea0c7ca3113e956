//! The clock of the fake cloud, which only the test advances.

use std::time::Duration;

use jiff::Timestamp;

use super::shared::Shared;

/// A clock that stays constant until it is set.
#[derive(Debug, Clone)]
pub struct FakeClock(Shared<Timestamp>);

impl FakeClock {
    /// A clock with the time `now`.
    pub fn at(now: Timestamp) -> Self {
        Self(Shared::new(now))
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        *self.0.lock()
    }

    /// Sets the time to `now`, forwards or backwards.
    pub fn set(&self, now: Timestamp) {
        *self.0.lock() = now;
    }

    /// Advances the time, at most to the last timestamp.
    pub fn advance(&self, by: Duration) {
        let mut now = self.0.lock();
        *now = now.saturating_add(by).unwrap_or(Timestamp::MAX);
    }
}
