//! How often the account's own spot machines were interrupted, as sweeps observed it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ebb_catalog::spot_terms::OwnInterruptions;
use ebb_model::inventory::Inventory;
use ebb_model::inventory::instance::{InstanceState, Market};
use ebb_telemetry::identity::{InstanceType, NodeId, Region};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::collect::account::is_older;

/// The most time that counts between two sweeps: after a longer time it is unknown which machines
/// ran.
const LONGEST_STEP: Duration = Duration::from_secs(3600);

/// Time after which earlier observations count half. The advisor's bands also cover a month.
const HALF_LIFE: Duration = Duration::from_secs(30 * 24 * 3600);

/// The most interrupted machines that are stored. EC2 lists a terminated machine for about an hour,
/// and a stopped machine for as long as it exists.
///
/// Source: EC2 user guide, "Terminate Amazon EC2 instances".
const MAX_COUNTED: usize = 10_000;

/// Observations of each type in each region.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Own {
    observed: BTreeMap<Region, BTreeMap<InstanceType, Watched>>,
    /// Interrupted machines that were counted and are still listed.
    counted: BTreeSet<NodeId>,
    last: Option<Timestamp>,
    halved: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Watched {
    taken_back: u32,
    seconds: u64,
}

impl Own {
    /// Counts the running time since the last sweep, and the interruptions in it. Machines that
    /// were interrupted before the first sweep are not counted.
    pub(crate) fn watch(&mut self, inventory: &Inventory, now: Timestamp) {
        self.halve(now);
        let since = self.last.map(|last| now.duration_since(last));
        let since = since.and_then(|since| Duration::try_from(since).ok());
        let seconds = since.map(|since| since.min(LONGEST_STEP).as_secs());
        let mut counted = BTreeSet::new();
        let spot = inventory.instances.values();
        for machine in spot.filter(|one| one.market == Market::Spot) {
            let runs = machine.state == InstanceState::Running;
            if !runs && !machine.is_taken_back {
                continue;
            }
            let of_region = self.observed.entry(machine.region.clone()).or_default();
            let watched = of_region.entry(machine.instance_type.clone()).or_default();
            if runs {
                watched.seconds = watched.seconds.saturating_add(seconds.unwrap_or(0));
            } else if counted.len() < MAX_COUNTED {
                let is_new = !self.counted.contains(&machine.id) && seconds.is_some();
                watched.taken_back = watched.taken_back.saturating_add(u32::from(is_new));
                counted.insert(machine.id.clone());
            }
        }
        self.counted = counted;
        self.last = Some(now);
    }

    /// The observations of a type; `None` if it was observed for less than an hour in all.
    pub(crate) fn interruptions_of(
        &self,
        region: &Region,
        kind: &InstanceType,
    ) -> Option<OwnInterruptions> {
        let watched = self.observed.get(region)?.get(kind)?;
        let machine_hours = watched.seconds / 3600;
        (machine_hours > 0).then_some(OwnInterruptions {
            count: watched.taken_back,
            machine_hours,
        })
    }

    fn halve(&mut self, now: Timestamp) {
        let halved = *self.halved.get_or_insert(now);
        if !is_older(halved, now, HALF_LIFE) {
            return;
        }
        self.halved = Some(now);
        for of_region in self.observed.values_mut() {
            of_region.retain(|_, watched| {
                watched.taken_back /= 2;
                watched.seconds /= 2;
                watched.seconds > 0
            });
        }
        self.observed.retain(|_, of_region| !of_region.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use ebb_model::inventory::instance::Instance;

    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + minutes * 60).expect("a time")
    }

    fn region() -> Region {
        Region::new("eu-central-1").expect("a region")
    }

    fn kind() -> InstanceType {
        InstanceType::new("m5.large").expect("a type")
    }

    /// Machines with these numbers; those from ten on were interrupted.
    fn fleet(numbers: &[u32]) -> Inventory {
        let mut inventory = Inventory::default();
        for n in numbers {
            let id = NodeId::new(format!("i-{n}")).expect("a node");
            let state = match n {
                0..10 => InstanceState::Running,
                _ => InstanceState::Terminated,
            };
            let mut one = Instance::new(id.clone(), region(), kind(), state, Market::Spot);
            one.is_taken_back = *n >= 10;
            inventory.instances.insert(id, one);
        }
        inventory
    }

    #[test]
    fn hours_and_interruptions_are_counted_once_and_only_while_somebody_watches() {
        let mut own = Own::default();
        let mut check = |minutes, numbers: &[u32], expect: Option<(u32, u64)>| {
            own.watch(&fleet(numbers), at(minutes));
            let got = own.interruptions_of(&region(), &kind());
            assert_eq!(
                got.map(|own| (own.count, own.machine_hours)),
                expect,
                "{minutes}"
            );
        };
        // A machine that was interrupted before the first sweep is not counted.
        check(0, &[1, 2, 10], None);
        check(30, &[1, 2, 10], Some((0, 1)));
        check(60, &[1, 2, 10, 11], Some((1, 2)));
        check(90, &[1, 2, 11], Some((1, 3)));
        // Without a sweep for a day, one hour of it counts.
        check(90 + 1_440, &[1, 2], Some((1, 5)));
        check(90 + 1_440 + 60 * 24 * 30, &[12, 13, 14], Some((3, 2)));
    }
}
