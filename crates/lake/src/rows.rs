//! The columns of each table, and the lossless conversion of domain values to and from them. The
//! columns are a contract with every reader of the lake; the domain types may change independently.

mod column;
mod detail;
mod finding;
mod heartbeat;
mod step;
mod usage;

pub use column::ColumnError;
pub use finding::Judged;

use deltalake_core::arrow::array::{ArrayRef, RecordBatch};
use deltalake_core::arrow::datatypes::{FieldRef, Schema};
use deltalake_core::arrow::error::ArrowError;
use ebb_telemetry::arrival::Placed;
use ebb_telemetry::step::PlacedStep;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_arrow::schema::{SchemaLike, TracingOptions};
use serde_json::json;
use thiserror::Error;

/// The partition column of every table: the UTC date.
pub(crate) const PARTITION: &str = "dt";

/// Why a row cannot be stored or read.
#[derive(Debug, Error)]
#[error("invalid row {row}")]
pub struct RowError {
    /// The row: `node/boot/probe start/sequence`, or a finding's id.
    pub row: String,
    /// The error in it.
    pub source: ColumnError,
}

/// Why rows or columns could not be converted.
#[derive(Debug, Error)]
pub enum RowsError {
    /// One row is invalid.
    #[error(transparent)]
    Row(#[from] RowError),
    /// A finding could not be written to or read from JSON.
    #[error("failed to convert finding {id} to or from JSON")]
    Json {
        /// The id of the finding.
        id: String,
        /// The cause.
        source: serde_json::Error,
    },
    /// The columns do not match the row type.
    #[error("columns do not match the rows")]
    Shape(#[from] serde_arrow::Error),
    /// The columns have different lengths or types.
    #[error("failed to build a batch from the columns")]
    Arrow(#[from] ArrowError),
}

/// A row of a table as a domain value.
pub(crate) trait Record: Sized {
    /// The columns in order; the partition comes first.
    fn fields() -> Result<Vec<FieldRef>, serde_arrow::Error>;
    /// Converts rows to columns.
    fn pack(rows: &[Self]) -> Result<RecordBatch, RowsError>;
    /// Converts columns to rows. The partition may be absent: data files do not contain it.
    fn unpack(batch: &RecordBatch) -> Result<Vec<Self>, RowsError>;
}

/// Checks whether a heartbeat fits the table, so that an invalid one is refused by name and not
/// with its batch.
pub fn check_heartbeat(placed: &Placed) -> Result<(), RowError> {
    heartbeat::HeartbeatRow::new(placed).map(drop)
}

/// Checks whether a task fits the table.
pub fn check_step(placed: &PlacedStep) -> Result<(), RowError> {
    step::row(placed).map(drop)
}

/// The columns of a row type. `instants` become UTC timestamps in microseconds; `maybe_instants`
/// are also nullable.
fn traced<R: DeserializeOwned>(
    instants: &[&str],
    maybe_instants: &[&str],
) -> Result<Vec<FieldRef>, serde_arrow::Error> {
    // Engines of the Hadoop family have no large strings or lists.
    let mut options = TracingOptions::default()
        .strings_as_large_utf8(false)
        .sequence_as_large_list(false);
    for (names, nullable) in [(instants, false), (maybe_instants, true)] {
        for name in names {
            let data_type = "Timestamp(Microsecond, Some(\"UTC\"))";
            let field = json!({"name": name, "data_type": data_type, "nullable": nullable});
            options = options.overwrite(*name, field)?;
        }
    }
    Vec::from_type::<R>(options)
}

fn date_field() -> Result<FieldRef, serde_arrow::Error> {
    let fields = Vec::from_value(json!([{"name": PARTITION, "data_type": "Date32"}]))?;
    Ok(FieldRef::clone(&fields[0]))
}

#[derive(Serialize)]
struct Day {
    dt: i32,
}

/// Joins columns of several row types into one batch; the days come first.
fn side_by_side(
    days: Vec<i32>,
    parts: Vec<(Vec<FieldRef>, Vec<ArrayRef>)>,
) -> Result<RecordBatch, RowsError> {
    let days: Vec<Day> = days.into_iter().map(|dt| Day { dt }).collect();
    let mut fields = vec![date_field()?];
    let mut arrays = serde_arrow::to_arrow(&fields, &days)?;
    for (more_fields, more_arrays) in parts {
        fields.extend(more_fields);
        arrays.extend(more_arrays);
    }
    Ok(RecordBatch::try_new(Schema::new(fields).into(), arrays)?)
}

#[cfg(test)]
mod tests;
