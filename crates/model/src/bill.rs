//! Costs of resources by day, from the bill.

use std::collections::BTreeMap;

use ebb_telemetry::money::Usd;
use serde::{Deserialize, Serialize};

/// Billed cost of one resource by closed day, net and amortized.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceCost {
    /// Cost by day (`YYYY-MM-DD`, UTC); days without a charge are left out.
    pub by_day: BTreeMap<String, Usd>,
}

/// Billed cost of one day, net and amortized.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BilledDay {
    /// `YYYY-MM-DD`, UTC.
    pub day: String,
    /// The sum over all services.
    pub total: Usd,
    /// The part that the compute service bills; `None` when unknown.
    pub of_machines: Option<Usd>,
    /// True while the cloud provider may still change the cost.
    pub estimated: bool,
    /// Cost by service name of the bill.
    pub by_service: BTreeMap<String, Usd>,
    /// Cost by cost allocation tag and tag value; `""` for resources without the tag.
    pub by_tag: BTreeMap<String, BTreeMap<String, Usd>>,
}

impl BilledDay {
    /// Adds the bill of another account for the same day.
    pub fn add(&mut self, other: Self) {
        self.total = self.total + other.total;
        self.of_machines = self.of_machines.zip(other.of_machines).map(|(a, b)| a + b);
        self.estimated |= other.estimated;
        for (service, usd) in other.by_service {
            let known = self.by_service.entry(service).or_default();
            *known = *known + usd;
        }
        for (tag, values) in other.by_tag {
            let by_value = self.by_tag.entry(tag).or_default();
            for (value, usd) in values {
                let known = by_value.entry(value).or_default();
                *known = *known + usd;
            }
        }
    }
}
