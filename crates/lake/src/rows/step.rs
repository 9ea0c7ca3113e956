//! `steps`: one row for each finished task, with times on AWS's clock.

use deltalake_core::arrow::array::RecordBatch;
use deltalake_core::arrow::datatypes::FieldRef;
use ebb_telemetry::step::PlacedStep;
use serde::{Deserialize, Serialize};

use super::column::{
    ColumnError, Instant, get, get_boot, get_node, get_origin, get_probe_start, put, put_origin,
};
use super::usage::UsageRow;
use super::{Record, RowError, RowsError, date_field, side_by_side, traced};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PlaceRow {
    node: String,
    boot: String,
    probe_start: String,
    sequence: i64,
    origin: String,
    started_at: i64,
    started_at_submicro_ns: i32,
    observed_at: i64,
    observed_at_submicro_ns: i32,
    last_progress_at: i64,
    last_progress_at_submicro_ns: i32,
}

impl PlaceRow {
    fn new(step: &PlacedStep) -> Result<Self, ColumnError> {
        let started = Instant::of(step.started_at);
        let observed = Instant::of(step.observed_at);
        let progress = Instant::of(step.last_progress_at);
        Ok(Self {
            node: step.node.to_string(),
            boot: step.boot.to_string(),
            probe_start: step.probe_start.to_string(),
            sequence: put("sequence", step.sequence)?,
            origin: put_origin(step.origin),
            started_at: started.us,
            started_at_submicro_ns: started.submicro_ns,
            observed_at: observed.us,
            observed_at_submicro_ns: observed.submicro_ns,
            last_progress_at: progress.us,
            last_progress_at_submicro_ns: progress.submicro_ns,
        })
    }

    fn with(self, usage: UsageRow) -> Result<PlacedStep, ColumnError> {
        let at = |column, us, submicro_ns| Instant { us, submicro_ns }.at(column);
        let progress = self.last_progress_at_submicro_ns;
        Ok(PlacedStep {
            node: get_node("node", self.node)?,
            boot: get_boot("boot", self.boot)?,
            probe_start: get_probe_start("probe_start", self.probe_start)?,
            sequence: get("sequence", self.sequence)?,
            origin: get_origin("origin", &self.origin)?,
            started_at: at("started_at", self.started_at, self.started_at_submicro_ns)?,
            observed_at: at(
                "observed_at",
                self.observed_at,
                self.observed_at_submicro_ns,
            )?,
            last_progress_at: at("last_progress_at", self.last_progress_at, progress)?,
            usage: usage.try_into()?,
        })
    }

    fn name(&self) -> String {
        let Self {
            node,
            boot,
            probe_start,
            sequence,
            ..
        } = self;
        format!("{node}/{boot}/{probe_start}/{sequence}")
    }
}

pub(super) fn row(step: &PlacedStep) -> Result<(PlaceRow, UsageRow), RowError> {
    let both = PlaceRow::new(step).and_then(|p| Ok((p, UsageRow::try_from(&step.usage)?)));
    both.map_err(|source| RowError {
        row: format!(
            "{}/{}/{}/{}, step {}",
            step.node, step.boot, step.probe_start, step.sequence, step.usage.id
        ),
        source,
    })
}

fn place_fields() -> Result<Vec<FieldRef>, serde_arrow::Error> {
    traced::<PlaceRow>(&["started_at", "observed_at", "last_progress_at"], &[])
}

impl Record for PlacedStep {
    fn fields() -> Result<Vec<FieldRef>, serde_arrow::Error> {
        let mut fields = vec![date_field()?];
        fields.extend(place_fields()?);
        fields.extend(traced::<UsageRow>(&[], &[])?);
        Ok(fields)
    }

    fn pack(steps: &[Self]) -> Result<RecordBatch, RowsError> {
        let rows = steps.iter().map(row).collect::<Result<Vec<_>, _>>()?;
        let (places, usages): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        // A task belongs to the day on which it ended, like its totals.
        let days = steps.iter().map(|s| Instant::of(s.observed_at).day());
        let (place, usage) = (place_fields()?, traced::<UsageRow>(&[], &[])?);
        let place_arrays = serde_arrow::to_arrow(&place, &places)?;
        let usage_arrays = serde_arrow::to_arrow(&usage, &usages)?;
        let parts = vec![(place, place_arrays), (usage, usage_arrays)];
        side_by_side(days.collect(), parts)
    }

    fn unpack(batch: &RecordBatch) -> Result<Vec<Self>, RowsError> {
        let places: Vec<PlaceRow> = serde_arrow::from_record_batch(batch)?;
        let usages: Vec<UsageRow> = serde_arrow::from_record_batch(batch)?;
        let step = |(place, usage): (PlaceRow, UsageRow)| {
            let row = place.name();
            let placed = place.with(usage);
            placed.map_err(|source| RowsError::Row(RowError { row, source }))
        };
        places.into_iter().zip(usages).map(step).collect()
    }
}
