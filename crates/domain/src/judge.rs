//! From facts to a report: runs every rule over every resource.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::units::{Share, Usd};

/// Utilization of one node over time, from metrics of the cloud.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricSeries {
    /// Points in order of time.
    pub points: Vec<MetricPoint>,
}

/// One point: what a period of `period_seconds` ending at `end` saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricPoint {
    /// The end of the period.
    pub end: Timestamp,
    /// The length of the period.
    pub period_seconds: u32,
    /// Greatest CPU utilization of the whole machine; `None` without data.
    pub cpu_max: Option<Share>,
    /// Bytes in and out; `None` without data.
    pub network_bytes: Option<u64>,
    /// Bytes to and from disks; `None` without data.
    pub disk_bytes: Option<u64>,
}

/// What the bill says one resource cost, net and amortized, by closed day.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceCost {
    /// Cost by day (`YYYY-MM-DD`, UTC); days without a charge are left out.
    pub by_day: BTreeMap<String, Usd>,
}
