//! A stored answer about the spot market.

use std::time::Duration;

use ebb_cloud::ports::CloudResult;
use ebb_model::visibility_gap::{Gap, Refused};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::collect::account::is_older;

/// Spot prices follow long-term trends of supply and demand and do not change from minute to
/// minute.
///
/// Source: EC2 user guide, "Spot Instance pricing history".
pub(crate) const SPOT_AGE: Duration = Duration::from_secs(3600);

/// Interval for zones, reservations and the advisor's file, which AWS rebuilds at most once a day.
pub(crate) const DAILY: Duration = Duration::from_secs(24 * 3600);

/// The last answer with its time, and why a later request was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredAnswer<T> {
    /// When it was requested last.
    at: Timestamp,
    pub(crate) last: Option<(Timestamp, T)>,
    refused: Option<Refused>,
}

impl<T> Default for StoredAnswer<T> {
    fn default() -> Self {
        Self {
            at: Timestamp::UNIX_EPOCH,
            last: None,
            refused: None,
        }
    }
}

impl<T> StoredAnswer<T> {
    /// Requests the answer if it is due. After a refusal the next request waits an hour: a refusal
    /// is not resolved in minutes, and every region would be asked at every sweep.
    pub(crate) async fn renew(
        &mut self,
        every: Duration,
        now: Timestamp,
        request: impl Future<Output = CloudResult<T>>,
    ) {
        let every = match self.refused {
            Some(_) => every.min(SPOT_AGE),
            None => every,
        };
        if !is_older(self.at, now, every) {
            return;
        }
        self.at = now;
        match request.await {
            Ok(value) => (self.last, self.refused) = (Some((now, value)), None),
            Err(error) => self.refused = Some(error.into()),
        }
    }

    pub(crate) fn within(&self, age: Duration, now: Timestamp) -> Option<&T> {
        let (at, value) = self.last.as_ref()?;
        (!is_older(*at, now, age)).then_some(value)
    }

    pub(crate) fn gap(&self, scope: impl FnOnce() -> String) -> Option<Gap> {
        let refused = self.refused.clone()?;
        let last = match &self.last {
            Some((at, _)) => format!("; last response at {}", at.strftime("%Y-%m-%d %H:%M UTC")),
            None => String::new(),
        };
        Some(refused.and(&last).gap(scope()))
    }
}
