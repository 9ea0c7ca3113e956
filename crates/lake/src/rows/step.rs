//! `steps`: one row for each finished task, with times on AWS's clock.

use ebb_telemetry::identity::{BootId, NodeId, ProbeStart};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::{PlacedStep, StepUsage};

use super::Record;
use super::column::{Column, ColumnError, Micros, day};
use super::row::row;
use super::usage::UsageRow;

row! {
    PlaceRow for PlacedStep without usage: StepUsage {
        node: NodeId = node,
        boot: BootId = boot,
        probe_start: ProbeStart = probe_start,
        sequence: u64 = sequence,
        origin: Origin = origin,
        (started_at: Micros, started_at_submicro_ns: u16) = started_at,
        (observed_at: Micros, observed_at_submicro_ns: u16) = observed_at,
        (last_progress_at: Micros, last_progress_at_submicro_ns: u16) = last_progress_at,
    }
}

impl Record for PlacedStep {
    type Row = (PlaceRow, UsageRow);

    /// A task belongs to the day on which it ended, like its totals.
    fn day(&self) -> i32 {
        day(self.observed_at)
    }

    fn name(&self) -> String {
        let (node, boot, probe_start) = (&self.node, &self.boot, &self.probe_start);
        let (sequence, step) = (self.sequence, &self.usage.id);
        format!("{node}/{boot}/{probe_start}/{sequence}, step {step}")
    }

    fn name_row((place, _): &Self::Row) -> String {
        let (node, boot, probe_start) = (&place.node, &place.boot, &place.probe_start);
        format!("{node}/{boot}/{probe_start}/{}", place.sequence)
    }

    fn put(&self) -> Result<Self::Row, ColumnError> {
        Ok((PlaceRow::put(self)?, self.usage.put()?))
    }

    fn get((place, usage): Self::Row) -> Result<Self, ColumnError> {
        place.get(StepUsage::get(usage)?)
    }
}
