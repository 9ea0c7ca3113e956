//! Costs of resources by day, from the bill.

use std::collections::BTreeMap;

use ebb_telemetry::money::Usd;
use serde::{Deserialize, Serialize};

/// What the bill says one resource cost, net and amortized, by closed day.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceCost {
    /// Cost by day (`YYYY-MM-DD`, UTC); days without a charge are left out.
    pub by_day: BTreeMap<String, Usd>,
}

/// What the bill says of one day in all, net and amortized.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BilledDay {
    /// `YYYY-MM-DD`, UTC.
    pub day: String,
    /// The sum over all services.
    pub total: Usd,
    /// Of that, what the service bills that has the machines; `None` when not told.
    pub of_machines: Option<Usd>,
    /// True while the cloud may still change it.
    pub estimated: bool,
    /// By service, as the bill names it.
    pub by_service: BTreeMap<String, Usd>,
    /// By cost allocation tag and its value; `""` where a resource has none.
    pub by_tag: BTreeMap<String, BTreeMap<String, Usd>>,
}
