//! When and from whom something arrived, and where on AWS's clock its interval is.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::heartbeat::Heartbeat;
use crate::identity::{BootId, NodeId};
use crate::time::BootClock;

/// The sender's clocks at the moment of sending, from which the age of what is
/// sent follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// The boot that `clock` counts from.
    pub boot: BootId,
    /// The boot-time clock.
    pub clock: BootClock,
    /// The wall clock; believed only as far as [`Arrival::place`] says.
    pub wall: Timestamp,
}

/// Why something could not be placed on AWS's clock or under its node.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlaceError {
    /// The body claims another node than the one that AWS attests.
    #[error("the body claims node {claimed}, but {attested} sent it")]
    ClaimsAnotherNode {
        /// What the body says.
        claimed: NodeId,
        /// What AWS attests.
        attested: NodeId,
    },
    /// The interval ends before it begins, or after it was sent.
    #[error("its clocks contradict each other: {what}")]
    Contradiction {
        /// Which do.
        what: &'static str,
    },
    /// It may have been accepted before.
    #[error(
        "it is from before the last {probe_starts} starts of the node's probe, of which nothing \
         more is accepted"
    )]
    Forgotten {
        /// Starts of the probe that are remembered.
        probe_starts: usize,
    },
    /// It is older than anything is accepted.
    #[error("it is {age_hours} h old; at most {max_hours} h are accepted")]
    TooLate {
        /// Its age in whole hours.
        age_hours: u64,
        /// The bound in hours.
        max_hours: u64,
    },
}

/// What arrives later than this is refused and counted; it is how long a queue
/// keeps a message at most.
pub const MAX_AGE: Duration = Duration::from_secs(14 * 24 * 3600);

/// The longest that a boot clock may have run: longer than any machine, so that no age that
/// is computed from it is absurd.
pub const MAX_UPTIME: Duration = Duration::from_secs(20 * 366 * 24 * 3600);

/// How long a delivery may be under way: no attempt of the probe takes longer.
pub const MAX_DELIVERY: Duration = Duration::from_secs(120);

/// What turns a sender's clocks into times on AWS's clock.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// The node that AWS attests.
    pub attested: &'a NodeId,
    /// When AWS took it in.
    pub at: Timestamp,
    /// The sender's clocks at the send.
    pub sent: &'a Sent,
}

impl Arrival<'_> {
    /// Checks who claims to have sent it.
    ///
    /// # Errors
    /// `ClaimsAnotherNode` when that is not the attested node.
    pub fn check_claim(&self, claimed: &NodeId) -> Result<(), PlaceError> {
        if claimed == self.attested {
            return Ok(());
        }
        let (claimed, attested) = (claimed.clone(), self.attested.clone());
        Err(PlaceError::ClaimsAnotherNode { claimed, attested })
    }

    /// When a heartbeat that arrived so ended; nothing of it is moved before it is believed.
    ///
    /// # Errors
    /// See [`PlaceError`]; the words go to the dead-letter place.
    pub fn end_of(&self, heartbeat: &Heartbeat) -> Result<Timestamp, PlaceError> {
        self.check_claim(&heartbeat.node)?;
        let length = heartbeat.end.since(heartbeat.start);
        let length = length.ok_or(PlaceError::Contradiction {
            what: "its interval ends before it begins",
        })?;
        if length > MAX_AGE {
            return Err(PlaceError::Contradiction {
                what: "its interval is longer than a fortnight",
            });
        }
        let wall = Some(heartbeat.wall_at_end);
        self.place(&heartbeat.boot, heartbeat.end, wall)
    }

    /// Where `clock` of `boot` stands on AWS's clock: the time of the send less the age
    /// at send. For an earlier boot the age is told by the wall clock, `wall`.
    ///
    /// # Errors
    /// `Contradiction` for a time after the send, `TooLate` past [`MAX_AGE`].
    pub fn place(
        &self,
        boot: &BootId,
        clock: BootClock,
        wall: Option<Timestamp>,
    ) -> Result<Timestamp, PlaceError> {
        if Duration::from_nanos(clock.as_nanos()) > MAX_UPTIME {
            return Err(PlaceError::Contradiction {
                what: "the machine would be up for more than 20 years",
            });
        }
        let age = if *boot == self.sent.boot {
            self.sent.clock.since(clock)
        } else {
            wall.and_then(|wall| self.sent.wall.duration_since(wall).try_into().ok())
        };
        let age = age.ok_or(PlaceError::Contradiction {
            what: "it was sent before it ended",
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
            .map_err(|_| PlaceError::Contradiction {
                what: "it is too old",
            })
    }

    /// When it was sent: at its arrival, or shortly before it where the sender's wall
    /// clock says so. What a slow network holds up would else leave a hole among the
    /// node's intervals. A wall clock that is ahead or far behind is wrong, and so not
    /// believed.
    fn sent_at(&self) -> Timestamp {
        let under_way = self.at.duration_since(self.sent.wall);
        match Duration::try_from(under_way) {
            Ok(under_way) if under_way <= MAX_DELIVERY => self.sent.wall,
            _ => self.at,
        }
    }
}

/// A heartbeat whose sender is attested and whose end stands on AWS's clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// The node that AWS attests.
    pub node: NodeId,
    /// When the interval ended: time of arrival less the age at send.
    pub end: Timestamp,
    /// What was said.
    pub heartbeat: Heartbeat,
}

impl Placed {
    /// Takes a heartbeat as its node's and places it in time.
    ///
    /// # Errors
    /// See [`PlaceError`]; the words go to the dead-letter place.
    pub fn new(arrival: Arrival<'_>, heartbeat: Heartbeat) -> Result<Self, PlaceError> {
        let end = arrival.end_of(&heartbeat)?;
        Ok(Self {
            node: arrival.attested.clone(),
            end,
            heartbeat,
        })
    }

    /// Where `clock` of the same boot stands on AWS's clock; `None` when that
    /// lies outside the range of a timestamp.
    pub fn place(&self, clock: BootClock) -> Option<Timestamp> {
        let offset = i128::from(clock.as_nanos()) - i128::from(self.heartbeat.end.as_nanos());
        Timestamp::from_nanosecond(self.end.as_nanosecond().checked_add(offset)?).ok()
    }

    /// When the interval began.
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
            // It ended half a minute before it was sent.
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
