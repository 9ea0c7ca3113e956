//! The time on a simulated node. The generator's clock starts some time before the generator does.
//! The time in between is the nodes' past, which is sent at once.

use std::time::Duration;

use ebb_telemetry::time::BootClock;

use crate::world::Node;

/// The length of an interval.
pub const BEAT: Duration = Duration::from_secs(2);

/// The clock of one node: it was launched `age` before the generator started,
/// which was `past` after the generator's clock began.
#[derive(Debug, Clone, Copy)]
pub struct NodeClock {
    age: Duration,
    past: Duration,
}

/// One interval of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Counts the node's intervals from 0.
    pub number: u64,
    /// When it began on the generator's clock.
    pub start: Duration,
    /// When it ended.
    pub end: Duration,
}

impl NodeClock {
    /// The clock of `node` for a generator that also sends `past`.
    pub fn new(node: &Node, past: Duration) -> Self {
        let age = Duration::from_secs(node.age_seconds);
        Self { age, past }
    }

    /// The node's boot-time clock at a time of the generator's clock; zero before the launch.
    pub fn boot_at(&self, generator: Duration) -> BootClock {
        nanos((self.age + generator).saturating_sub(self.past))
    }

    /// The boot-time clock at `age` before the generator's start.
    pub fn boot_before_start(&self, age: Duration) -> BootClock {
        nanos(self.age.saturating_sub(age))
    }

    /// An interval. The first one starts with the generator's clock, or at the node's launch if
    /// that is later.
    pub fn part(&self, number: u64) -> Part {
        let first = self.past.saturating_sub(self.age);
        let start = first + BEAT * u32::try_from(number).unwrap_or(u32::MAX);
        Part {
            number,
            start,
            end: start + BEAT,
        }
    }
}

fn nanos(time: Duration) -> BootClock {
    BootClock::from_nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
