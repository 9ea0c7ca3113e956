//! Running machines without a probe, and how each gets one.

use ebb_telemetry::identity::{InstanceType, NodeId, Region};
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::safe_text::one_line;
use serde::{Deserialize, Serialize};

/// Running machines without a probe.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnwatchedMachines {
    /// At most 200, the most expensive first, then those with an unknown price.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<UnwatchedMachine>,
    /// Number of machines beyond those.
    #[serde(default)]
    pub left_out: usize,
}

impl UnwatchedMachines {
    /// Limit on the machines that a report lists. One step often installs the probe on many.
    pub const MAX: usize = 200;

    /// Number of all machines.
    pub fn count(&self) -> usize {
        self.machines.len() + self.left_out
    }

    /// Each step that installs probes, with the labels of its machines. The step for the most
    /// expensive machine is first.
    pub fn steps(&self) -> Vec<(&str, Vec<String>)> {
        let mut steps: Vec<(&str, Vec<String>)> = Vec::new();
        for machine in &self.machines {
            let label = machine.label();
            match steps.iter_mut().find(|(step, _)| *step == machine.install) {
                Some((_, labels)) => labels.push(label),
                None => steps.push((&machine.install, vec![label])),
            }
        }
        steps
    }
}

impl UnwatchedMachine {
    /// The name with the id, or the id alone, on one line.
    pub fn label(&self) -> String {
        match &self.name {
            Some(name) => one_line(&format!("{name} ({})", self.node)),
            None => one_line(self.node.as_str()),
        }
    }
}

/// A running machine without a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnwatchedMachine {
    /// The machine.
    pub node: NodeId,
    /// Its tag `Name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its region.
    pub region: Region,
    /// Its type; `None` outside the clouds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<InstanceType>,
    /// Its price; `None` if it is unknown.
    #[serde(
        rename = "price_per_hour_usd",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub price_per_hour: Option<UsdPerHour>,
    /// The command or the step that installs a probe on it.
    pub install: String,
}
