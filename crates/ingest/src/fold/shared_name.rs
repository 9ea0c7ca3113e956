//! Machines that send under one name. Without a cloud, a node is named by its host name, and images of
//! machines often have the same.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ebb_telemetry::arrival::Placed;
use ebb_telemetry::identity::{BootId, NodeId};
use jiff::{SignedDuration, Timestamp};

/// Errors of the clocks. A machine that boots again has no overlap with its earlier boot.
const SLACK: SignedDuration = SignedDuration::from_mins(5);

/// The time between a boot of a machine and its newest heartbeat.
struct Uptime {
    booted: Timestamp,
    newest: Timestamp,
}

impl Uptime {
    fn from_heartbeat(placed: &Placed) -> Option<Self> {
        let since_boot = Duration::from_nanos(placed.heartbeat.end.as_nanos());
        Some(Self {
            booted: placed.end.checked_sub(since_boot).ok()?,
            newest: placed.end,
        })
    }

    fn is_before(&self, other: &Self) -> bool {
        self.newest.duration_since(other.booted) <= SLACK
    }
}

/// Nodes with heartbeats of two boots that ran at the same time, which one machine cannot have.
pub(crate) fn of_several_machines(rows: &[Placed]) -> BTreeSet<NodeId> {
    let mut uptimes: BTreeMap<&NodeId, BTreeMap<&BootId, Uptime>> = BTreeMap::new();
    for placed in rows {
        let Some(new) = Uptime::from_heartbeat(placed) else {
            continue;
        };
        let of_node = uptimes.entry(&placed.node).or_default();
        let known = of_node.entry(&placed.heartbeat.boot).or_insert(Uptime {
            booted: new.booted,
            newest: new.newest,
        });
        known.booted = known.booted.min(new.booted);
        known.newest = known.newest.max(new.newest);
    }
    let overlap = |of_node: &BTreeMap<&BootId, Uptime>| {
        let mut in_order: Vec<&Uptime> = of_node.values().collect();
        in_order.sort_by_key(|uptime| uptime.booted);
        in_order.windows(2).any(|two| !two[0].is_before(two[1]))
    };
    let several = uptimes.into_iter().filter(|(_, of_node)| overlap(of_node));
    several.map(|(node, _)| node.clone()).collect()
}

#[cfg(test)]
mod tests {
    use ebb_telemetry::testing::{at, clock, placed};

    use super::*;

    const HOUR: u64 = 3_600;

    /// A heartbeat some seconds after a fixed time, of a boot that began `uptime` seconds earlier.
    fn heartbeat(node: u8, boot: &str, seconds: u64, uptime: u64) -> Placed {
        let mut placed = placed(node, 1);
        placed.end = at(seconds);
        placed.heartbeat.boot = BootId::new(boot).expect("a name");
        placed.heartbeat.end = clock(uptime);
        placed
    }

    #[test]
    fn boots_at_the_same_time_are_several_machines() {
        let check = |rows: &[Placed], expect: bool| {
            let found = of_several_machines(rows);
            assert_eq!(!found.is_empty(), expect, "{found:?}");
        };
        let other = heartbeat(2, "c", 60, HOUR);
        let one = heartbeat(1, "a", 0, HOUR);
        let long = heartbeat(1, "b", 30, 1_000 * HOUR);
        check(&[one.clone(), other.clone(), long.clone()], true);
        check(&[long, one.clone()], true);
        // A boot after a restart of the machine; the clock is wrong by up to two minutes.
        check(&[one.clone(), heartbeat(1, "b", 300, 240)], false);
        check(&[one.clone(), heartbeat(1, "b", 120, 240)], false);
        // Only one boot, and two nodes.
        check(&[one.clone(), heartbeat(1, "a", 600, HOUR + 600)], false);
        check(&[one, other], false);
    }
}
