//! Instances that no cloud inventory lists.

use std::collections::BTreeMap;

use ebb_telemetry::identity::{InstanceType, NodeId, Region};
use ebb_telemetry::origin::SIMULATED_TAG;

use crate::inventory::instance::{Instance, InstanceState, Market, Provider};

/// Where hosts are that no cloud has.
const PLACE: &str = "on-premises";

impl Instance {
    /// A host of the user's own, of which nothing is known but that it is there.
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

    /// A machine of which only metrics are known: one of AWS's on demand if they name its
    /// type and region, else a host.
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

/// What a file of metrics may say about a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MeteredMachine {
    /// Its type; `None` where the file does not name it.
    pub instance_type: Option<InstanceType>,
    /// Where it is; `None` where the file does not name it.
    pub region: Option<Region>,
    /// Whether a generator made its metrics.
    pub is_simulated: bool,
}
