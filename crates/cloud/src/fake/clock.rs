//! The clock of the fake cloud, moved by the test alone.

use std::time::Duration;

use jiff::Timestamp;

use super::shared::Shared;

/// A clock that stands still until it is moved.
#[derive(Debug, Clone)]
pub struct FakeClock(Shared<Timestamp>);

impl FakeClock {
    /// A clock that stands at `now`.
    pub fn at(now: Timestamp) -> Self {
        Self(Shared::new(now))
    }

    /// What it shows.
    pub fn now(&self) -> Timestamp {
        *self.0.lock()
    }

    /// Moves it to `now`, forwards or back.
    pub fn set(&self, now: Timestamp) {
        *self.0.lock() = now;
    }

    /// Moves it forwards, at most to the last timestamp there is.
    pub fn advance(&self, by: Duration) {
        let mut now = self.0.lock();
        *now = now.saturating_add(by).unwrap_or(Timestamp::MAX);
    }
}
