//! Container instances by ARN and by node.

use std::collections::{BTreeMap, btree_map};
use std::ops::Deref;

use ebb_telemetry::identity::{NodeId, Region};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::inventory::batch::task::Health;

/// One container instance of ECS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContainerInstance {
    /// The node of the container instance.
    pub node: NodeId,
    /// The cluster that it joined.
    pub cluster_arn: String,
    /// The region.
    pub region: Region,
    /// True while its agent is connected; `None` when ECS did not report it.
    pub agent_connected: Option<bool>,
    /// Number of running tasks; `None` when ECS did not report it.
    pub running_tasks: Option<u32>,
    /// Number of tasks that are being started; `None` when ECS did not report it.
    #[serde(default)]
    pub pending_tasks: Option<u32>,
    /// The ECS status, such as `ACTIVE`, `DRAINING` or `REGISTRATION_FAILED`.
    #[serde(default)]
    pub status: Option<String>,
    /// The health of its container runtime by the health check of ECS.
    #[serde(default)]
    pub health: Option<Health>,
    /// When the health last changed; `None` when ECS does not report it.
    #[serde(default)]
    pub health_since: Option<Timestamp>,
    /// When it joined the cluster.
    #[serde(default)]
    pub registered_at: Option<Timestamp>,
}

impl ContainerInstance {
    /// A container instance of which only the node, cluster and region are known.
    pub fn new(node: NodeId, cluster_arn: impl Into<String>, region: Region) -> Self {
        Self {
            node,
            cluster_arn: cluster_arn.into(),
            region,
            agent_connected: None,
            running_tasks: None,
            pending_tasks: None,
            status: None,
            health: None,
            health_since: None,
            registered_at: None,
        }
    }
}

/// Container instances by ARN, with an index by node. Rules look up nodes a hundred thousand times
/// in a large fleet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(
    from = "BTreeMap<String, ContainerInstance>",
    into = "BTreeMap<String, ContainerInstance>"
)]
pub struct ContainerInstances {
    by_arn: BTreeMap<String, ContainerInstance>,
    arn_of: BTreeMap<NodeId, String>,
}

impl ContainerInstances {
    /// Adds a container instance under its ARN.
    pub fn insert(&mut self, arn: String, instance: ContainerInstance) {
        self.extend([(arn, instance)]);
    }

    /// The container instance on a node, with its ARN; if there are several, the first by ARN.
    pub fn on(&self, node: &NodeId) -> Option<(&str, &ContainerInstance)> {
        let (arn, instance) = self.by_arn.get_key_value(self.arn_of.get(node)?)?;
        Some((arn, instance))
    }

    /// Changes every container instance.
    #[cfg(any(test, feature = "testing"))]
    pub fn change(&mut self, change: impl Fn(&mut ContainerInstance)) {
        let mut all = std::mem::take(self).by_arn;
        all.values_mut().for_each(change);
        self.extend(all);
    }
}

/// Access by ARN.
impl Deref for ContainerInstances {
    type Target = BTreeMap<String, ContainerInstance>;

    fn deref(&self) -> &Self::Target {
        &self.by_arn
    }
}

impl Extend<(String, ContainerInstance)> for ContainerInstances {
    fn extend<T: IntoIterator<Item = (String, ContainerInstance)>>(&mut self, all: T) {
        for (arn, instance) in all {
            let known = self
                .arn_of
                .entry(instance.node.clone())
                .or_insert_with(|| arn.clone());
            if arn < *known {
                known.clone_from(&arn);
            }
            self.by_arn.insert(arn, instance);
        }
    }
}

impl FromIterator<(String, ContainerInstance)> for ContainerInstances {
    fn from_iter<T: IntoIterator<Item = (String, ContainerInstance)>>(all: T) -> Self {
        let mut instances = Self::default();
        instances.extend(all);
        instances
    }
}

impl IntoIterator for ContainerInstances {
    type Item = (String, ContainerInstance);
    type IntoIter = btree_map::IntoIter<String, ContainerInstance>;

    fn into_iter(self) -> Self::IntoIter {
        self.by_arn.into_iter()
    }
}

impl From<BTreeMap<String, ContainerInstance>> for ContainerInstances {
    fn from(by_arn: BTreeMap<String, ContainerInstance>) -> Self {
        by_arn.into_iter().collect()
    }
}

impl From<ContainerInstances> for BTreeMap<String, ContainerInstance> {
    fn from(instances: ContainerInstances) -> Self {
        instances.by_arn
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_telemetry::identity::Region;
    use ebb_telemetry::testing::node;

    fn region() -> Region {
        Region::new("us-east-1").expect("a region")
    }

    #[test]
    fn a_machine_has_its_container_instance_the_first_of_several_and_reads_back() {
        let on = |n| ContainerInstance::new(node(n), "cluster", region());
        let named = |name: &str, n| (format!("arn:{name}"), on(n));
        let all = [named("b", 1), named("a", 1), named("c", 2)];
        let forth: ContainerInstances = all.clone().into_iter().collect();
        let back: ContainerInstances = all.into_iter().rev().collect();
        assert_eq!(forth, back);
        let text = serde_json::to_string(&forth).expect("writes");
        assert_eq!(
            serde_json::from_str::<ContainerInstances>(&text).expect("reads"),
            forth
        );
        let check = |n, expect: Option<&str>| {
            assert_eq!(forth.on(&node(n)).map(|(arn, _)| arn), expect);
        };
        check(1, Some("arn:a"));
        check(2, Some("arn:c"));
        check(3, None);
    }
}
