//! The sender and the arrival time of a message, and its interval on the AWS clock.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::heartbeat::Heartbeat;
use crate::identity::{BootId, NodeId};
use crate::time::BootClock;

/// The sender's clocks at the time of sending. The age of a record is computed from them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// The boot that `clock` counts from.
    pub boot: BootId,
    /// The boot-time clock at the time of sending. For tasks of an earlier boot, the probe continues
    /// the clock of that boot by the wall clock.
    pub clock: BootClock,
    /// The wall clock; [`Arrival::place`] limits how far it is trusted.
    pub wall: Timestamp,
}

/// Why a record could not be assigned to a time on the AWS clock or to a node.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlaceError {
    /// The body claims a node other than the one that AWS attests.
    #[error("the body claims node {claimed}, but {attested} sent it")]
    ClaimsAnotherNode {
        /// The node that the body claims.
        claimed: NodeId,
        /// The node that AWS attests.
        attested: NodeId,
    },
    /// The interval ends before it begins, or ends after the message was sent.
    #[error("contradictory times: {what}")]
    Contradiction {
        /// The contradiction.
        what: &'static str,
    },
    /// The record may be a duplicate: it is older than the probe starts that are remembered.
    #[error("sent before the last {probe_starts} starts of the node's probe; no longer accepted")]
    Forgotten {
        /// Number of probe starts that are remembered.
        probe_starts: usize,
    },
    /// The record is older than [`MAX_AGE`].
    #[error("{age_hours} h old; at most {max_hours} h are accepted")]
    TooLate {
        /// Its age in whole hours.
        age_hours: u64,
        /// The maximum in hours.
        max_hours: u64,
    },
}

/// A record older than this is refused and counted. SQS keeps a message for at most 14 days.
pub const MAX_AGE: Duration = Duration::from_secs(14 * 24 * 3600);

/// Maximum value of a boot clock, 20 years. No machine runs that long without a boot, so a larger
/// value is an error.
pub const MAX_UPTIME: Duration = Duration::from_secs(20 * 366 * 24 * 3600);

/// Maximum time between sending and arrival. No attempt of the probe takes longer.
pub const MAX_DELIVERY: Duration = Duration::from_secs(120);

/// Converts times on a sender's clocks to times on the AWS clock.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// The node that AWS attests.
    pub attested: &'a NodeId,
    /// When AWS received the message.
    pub at: Timestamp,
    /// The sender's clocks at the time of sending.
    pub sent: &'a Sent,
}

impl Arrival<'_> {
    /// Checks the node that the body claims.
    ///
    /// # Errors
    /// `ClaimsAnotherNode` if the claimed node is not the attested node.
    pub fn check_claim(&self, claimed: &NodeId) -> Result<(), PlaceError> {
        if claimed == self.attested {
            return Ok(());
        }
        let (claimed, attested) = (claimed.clone(), self.attested.clone());
        Err(PlaceError::ClaimsAnotherNode { claimed, attested })
    }

    /// The time on the AWS clock at which the heartbeat ended. All its clocks are checked first.
    ///
    /// # Errors
    /// See [`PlaceError`]; the message of the error is stored with the dead letter.
    pub fn end_of(&self, heartbeat: &Heartbeat) -> Result<Timestamp, PlaceError> {
        self.check_claim(&heartbeat.node)?;
        let length = heartbeat.end.since(heartbeat.start);
        let length = length.ok_or(PlaceError::Contradiction {
            what: "the interval ends before it begins",
        })?;
        if length > MAX_AGE {
            return Err(PlaceError::Contradiction {
                what: "the interval is longer than 14 days",
            });
        }
        let wall = Some(heartbeat.wall_at_end);
        self.place(&heartbeat.boot, heartbeat.end, wall)
    }

    /// The time on the AWS clock of `clock` in boot `boot`: the time of sending minus the age at
    /// that time. For an earlier boot, the age is computed from the wall clock `wall`.
    ///
    /// # Errors
    /// `Contradiction` if the time is after the time of sending, `TooLate` if it is older than
    /// [`MAX_AGE`].
    pub fn place(
        &self,
        boot: &BootId,
        clock: BootClock,
        wall: Option<Timestamp>,
    ) -> Result<Timestamp, PlaceError> {
        if Duration::from_nanos(clock.as_nanos()) > MAX_UPTIME {
            return Err(PlaceError::Contradiction {
                what: "the uptime of the machine exceeds 20 years",
            });
        }
        let age = if *boot == self.sent.boot {
            self.sent.clock.since(clock)
        } else {
            wall.and_then(|wall| self.sent.wall.duration_since(wall).try_into().ok())
        };
        let age = age.ok_or(PlaceError::Contradiction {
            what: "it was sent before the interval ended",
        })?;
        if age > MAX_AGE {
            let hours = |d: Duration| d.as_secs() / 3600;
            return Err(PlaceError::TooLate {
                age_hours: hours(age),
                max_hours: hours(MAX_AGE),
            });
        }
        self.sent_at()
            .checked_sub(age)
            .map_err(|_| PlaceError::Contradiction { what: "too old" })
    }

    /// The time of sending. This is the sender's wall clock if it is at most [`MAX_DELIVERY`]
    /// before the arrival, so that a slow network causes no gap between intervals. Otherwise the
    /// wall clock is wrong, and the arrival time is used.
    fn sent_at(&self) -> Timestamp {
        let under_way = self.at.duration_since(self.sent.wall);
        match Duration::try_from(under_way) {
            Ok(under_way) if under_way <= MAX_DELIVERY => self.sent.wall,
            _ => self.at,
        }
    }
}

/// A heartbeat with an attested sender and an end on the AWS clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// The node that AWS attests.
    pub node: NodeId,
    /// When the interval ended: the arrival time minus the age at the time of sending.
    pub end: Timestamp,
    /// The heartbeat as it was sent.
    pub heartbeat: Heartbeat,
}

impl Placed {
    /// Assigns a heartbeat to its node and to a time on the AWS clock.
    ///
    /// # Errors
    /// See [`PlaceError`]; the message of the error is stored with the dead letter.
    pub fn new(arrival: Arrival<'_>, heartbeat: Heartbeat) -> Result<Self, PlaceError> {
        let end = arrival.end_of(&heartbeat)?;
        Ok(Self {
            node: arrival.attested.clone(),
            end,
            heartbeat,
        })
    }

    /// The time on the AWS clock of `clock` in the same boot; `None` if it is outside the range of
    /// a timestamp.
    pub fn place(&self, clock: BootClock) -> Option<Timestamp> {
        let offset = i128::from(clock.as_nanos()) - i128::from(self.heartbeat.end.as_nanos());
        Timestamp::from_nanosecond(self.end.as_nanosecond().checked_add(offset)?).ok()
    }

    /// When the interval began; `None` if the time is outside the range of a timestamp.
    pub fn start(&self) -> Option<Timestamp> {
        self.place(self.heartbeat.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_delivery_moves_nothing_and_a_wrong_wall_clock_neither() {
        let arrived = 1_790_000_000;
        let at = |second| Timestamp::from_second(second).expect("a time of this century");
        let check = |wall_before_arrival: i64, expect_before_arrival: i64| {
            let sent = Sent {
                boot: BootId::new("boot").expect("a boot"),
                clock: BootClock::from_nanos(90_000_000_000),
                wall: at(arrived - wall_before_arrival),
            };
            let arrival = Arrival {
                attested: &NodeId::new("i-1").expect("a node"),
                at: at(arrived),
                sent: &sent,
            };
            // The interval ended half a minute before the heartbeat was sent.
            let ended = BootClock::from_nanos(60_000_000_000);
            let placed = arrival.place(&sent.boot, ended, None);
            let expect = at(arrived - expect_before_arrival);
            assert_eq!(placed, Ok(expect), "{wall_before_arrival} s");
        };
        check(0, 30);
        check(6, 36);
        check(120, 150);
        check(121, 30);
        check(86_400, 30);
        check(-1, 30);
    }
}
