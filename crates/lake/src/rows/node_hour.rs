//! `node_hours`: one row for each node and hour that a probe observed.

use ebb_model::cost::PriceBasis;
use ebb_model::node_hour::NodeHourRecord;
use ebb_telemetry::identity::{AccountId, NodeId};
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::units::Share;

use super::Record;
use super::column::{ColumnError, Micros, day};
use super::row::row;

row! {
    NodeHourRow for NodeHourRecord {
        node: NodeId = node,
        (hour_start: Micros, hour_start_submicro_ns: u16) = hour,
        origin: Origin = origin,
        account: Option<AccountId> = account,
        instance_type: Option<String> = instance_type,
        observed_ppm: Share = observed,
        active_ppm: Share = active,
        with_tasks_ppm: Share = with_tasks,
        price_micro_usd_per_hour: Option<UsdPerHour> = price,
        price_basis: Option<PriceBasis> = price_basis,
    }
}

impl Record for NodeHourRecord {
    type Row = NodeHourRow;

    fn day(&self) -> i32 {
        day(self.hour)
    }

    fn name(&self) -> String {
        format!("{}/{}", self.node, self.hour)
    }

    fn name_row(row: &NodeHourRow) -> String {
        format!("{}/{}", row.node, row.hour_start)
    }

    fn put(&self) -> Result<NodeHourRow, ColumnError> {
        NodeHourRow::put(self)
    }

    fn get(row: NodeHourRow) -> Result<Self, ColumnError> {
        row.get()
    }
}
