//! Nodes that only their probe reports and no inventory of a cloud contains. They are on-premises
//! hosts, or machines of a cloud that Ebb does not read.

use std::time::Duration;

use ebb_model::inventory::Inventory;
use ebb_model::inventory::instance::Instance;
use ebb_node_state::fleet_state::FleetState;
use ebb_telemetry::identity::NodeId;
use jiff::Timestamp;

/// After this time without heartbeats the host is considered removed. Until then the report shows
/// that its probe is silent.
pub(crate) const LEFT_AFTER: Duration = Duration::from_secs(24 * 3600);

/// Adds nodes that only their probes report. A node with an EC2 id is left out, because it is in an
/// inventory or terminated.
pub fn add_unlisted_hosts(inventory: &mut Inventory, state: &FleetState, now: Timestamp) {
    for (id, node) in &state.nodes {
        let here = node.latest.as_ref().is_some_and(|latest| {
            latest
                .end
                .checked_add(LEFT_AFTER)
                .is_ok_and(|left| now <= left)
        });
        if here && !is_of_ec2(id) {
            let host = || Instance::host(id.clone());
            inventory.instances.entry(id.clone()).or_insert_with(host);
        }
    }
}

/// Whether the host is considered removed, because its probe was last heard at this time.
pub(crate) fn has_left(id: &str, heard_at: Timestamp, now: Timestamp) -> bool {
    let left = heard_at.checked_add(LEFT_AFTER);
    !is_id_of_ec2(id) && left.is_ok_and(|left| left < now)
}

fn is_of_ec2(id: &NodeId) -> bool {
    is_id_of_ec2(id.as_str())
}

/// Source: EC2 user guide, "Resource IDs": `i-` and 8 or 17 hexadecimal digits.
fn is_id_of_ec2(id: &str) -> bool {
    let digits = id.strip_prefix("i-");
    let is_hex = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    digits.is_some_and(|digits| matches!(digits.len(), 8 | 17) && digits.bytes().all(is_hex))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::World;
    use ebb_model::cost::PriceBasis;
    use ebb_model::policy::stated_price::{StatedIn, StatedPrice};
    use ebb_telemetry::arrival::Placed;
    use ebb_telemetry::money::{Usd, UsdPerHour};
    use ebb_telemetry::testing::{at, clock, heartbeat};

    /// A node called `name` that was idle for `minutes` minutes.
    fn quiet(name: &str, minutes: u64) -> World {
        let mut world = World::default();
        let node = NodeId::new(name).expect("a name");
        for minute in 0..minutes {
            let mut h = heartbeat(clock(minute * 60), clock(minute * 60 + 60));
            (h.node, h.sequence) = (node.clone(), minute);
            let placed = Placed {
                node: node.clone(),
                end: at(minute * 60 + 60),
                heartbeat: h,
            };
            let policy = &world.policy.activity;
            world.state.fold_heartbeat(&placed, policy);
        }
        world.now = at(minutes * 60 + 5);
        world
    }

    #[test]
    fn a_host_that_only_its_probe_knows_is_judged_until_it_has_left() {
        let check = |name: &str, silent_s: u64, expect: &str| {
            let mut world = quiet(name, 60);
            world.now = at(3600 + silent_s);
            add_unlisted_hosts(&mut world.inventory, &world.state, world.now);
            let outcome = match world.verdict() {
                Ok(finding) => finding.id,
                Err(why) => why,
            };
            assert_eq!(outcome, expect, "{name}");
        };
        check("rack3-07", 5, "idle_node/on-premises/rack3-07");
        check(
            "rack3-07",
            7_200,
            "its probe sent the last heartbeat 2 h 00 min ago",
        );
        check("rack3-07", 90_000, "well");
        check("i-0123456789abcdef0", 5, "well");
        check("i-01234567", 5, "well");
        for host in [
            "i-12",
            "i-",
            "i-0123456789",
            "i-0123456789abcdeg0",
            "i-ABCDEF01",
        ] {
            check(host, 5, &format!("idle_node/on-premises/{host}"));
        }
    }

    #[test]
    fn it_costs_what_its_user_states_and_nobody_is_told_to_ask_aws() {
        let mut world = quiet("rack3-07", 60);
        add_unlisted_hosts(&mut world.inventory, &world.state, world.now);
        let unpriced = world.verdict().expect("it is idle");
        assert_eq!(unpriced.cost, None);
        assert_eq!(unpriced.resource.instance_type, None);
        let command = unpriced.remedy.command;
        assert_eq!(command.as_deref(), Some("ssh -- 'rack3-07' w"));
        let hour = UsdPerHour::from_micros(350_000);
        world.policy.prices = vec![StatedPrice {
            node: "rack3-*".to_owned(),
            usd_micros_per_hour: 350_000,
            source: StatedIn::Policy,
        }];
        let cost = world.verdict().expect("it is idle").cost.expect("stated");
        assert_eq!((cost.per_hour, cost.basis), (hour, PriceBasis::Stated));
        assert_eq!(cost.spent, Usd::from_micros(350_000));
    }
}
