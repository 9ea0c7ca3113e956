//! Instances that no cloud inventory lists.

use std::collections::BTreeMap;

use ebb_telemetry::identity::{InstanceType, NodeId, Region};
use ebb_telemetry::origin::SIMULATED_TAG;

use crate::inventory::instance::{Instance, InstanceState, Market, Provider};

/// The region name of hosts outside a cloud.
const PLACE: &str = "on-premises";

impl Instance {
    /// A host outside a cloud, of which only the id is known.
    pub fn host(id: NodeId) -> Self {
        Self {
            id,
            account: None,
            region: Region::new(PLACE).expect("a plain word is a name"),
            instance_type: InstanceType::unlisted(),
            provider: Provider::Own,
            hardware: None,
            state: InstanceState::Running,
            launched_at: None,
            market: Market::OnDemand,
            controller: None,
            tags: BTreeMap::new(),
            image: None,
            state_since: None,
            is_taken_back: false,
        }
    }

    /// A machine of which only metrics are known. An on-demand AWS instance if the metrics contain
    /// its type and region; otherwise a host.
    pub fn metered(id: NodeId, described: MeteredMachine) -> Self {
        let host = match (described.instance_type, described.region) {
            (Some(kind), Some(region)) => {
                Self::new(id, region, kind, InstanceState::Running, Market::OnDemand)
            }
            (kind, region) => {
                let host = Self::host(id);
                Self {
                    instance_type: kind.unwrap_or_else(InstanceType::unlisted),
                    region: region.unwrap_or(host.region),
                    ..host
                }
            }
        };
        let label = (SIMULATED_TAG.to_owned(), "true".to_owned());
        Self {
            tags: described
                .is_simulated
                .then_some(label)
                .into_iter()
                .collect(),
            ..host
        }
    }
}

/// The description of a machine in a metrics file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MeteredMachine {
    /// The instance type; `None` when the file does not contain it.
    pub instance_type: Option<InstanceType>,
    /// The region; `None` when the file does not contain it.
    pub region: Option<Region>,
    /// Whether a generator made its metrics.
    pub is_simulated: bool,
}
