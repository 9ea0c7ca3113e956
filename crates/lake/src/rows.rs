//! The columns of each table, and the lossless conversion of domain values to and from them. The
//! columns are a contract with every reader of the lake; the domain types may change independently.
//! Each column is declared once, by the macro `row`, from which the stored type, its schema and
//! both conversions follow.

mod column;
mod cost;
mod detail;
mod finding;
mod heartbeat;
mod node_hour;
mod row;
mod step;
mod usage;

pub use column::{ColumnError, ValueError};
pub use finding::EvaluatedFinding;

use std::sync::Arc;

use deltalake_core::arrow::array::{ArrayRef, Date32Array, Int64Array, RecordBatch};
use deltalake_core::arrow::datatypes::{DataType, Field, Schema};
use deltalake_core::arrow::error::ArrowError;
use ebb_telemetry::arrival::Placed;
use ebb_telemetry::step::PlacedStep;
use thiserror::Error;

use row::{Fields, Row};

/// The partition column of every table: the UTC date.
pub(crate) const PARTITION: &str = "dt";

/// The last column of every table: the commit that appended the row. It is null until compaction
/// moves the row to a file with rows of other commits.
pub(crate) const COMMIT_VERSION: &str = "commit_version";

/// Why a row cannot be stored or read.
#[derive(Debug, Error)]
#[error("invalid row {row}")]
pub struct RowError {
    /// The row: `node/boot/probe start/sequence`, or a finding's id.
    pub row: String,
    /// The error in it.
    pub source: Box<ColumnError>,
}

/// Why rows or columns could not be converted.
#[derive(Debug, Error)]
pub enum RowsError {
    /// One row is invalid.
    #[error(transparent)]
    Row(#[from] RowError),
    /// The columns do not match the row type.
    #[error("columns do not match the rows")]
    Shape(#[from] serde_arrow::Error),
    /// The columns have different lengths or types.
    #[error("failed to build a batch from the columns")]
    Arrow(#[from] ArrowError),
}

/// A row of a table as a domain value.
pub(crate) trait Record: Sized + Sync {
    /// The stored columns without the partition.
    type Row: Row;

    /// The day of the partition, counted from 1970-01-01.
    fn day(&self) -> i32;
    /// The name of the row in errors.
    fn name(&self) -> String;
    /// The same name, from stored columns.
    fn name_row(row: &Self::Row) -> String;
    fn put(&self) -> Result<Self::Row, ColumnError>;
    fn get(row: Self::Row) -> Result<Self, ColumnError>;
    /// Changes the order of the columns of `Row` to that of the table.
    fn arrange<T>(_columns: &mut [T]) {}

    /// The columns in order; the partition comes first, and [`COMMIT_VERSION`] last.
    fn fields() -> Fields {
        let mut fields = Self::Row::fields()?;
        Self::arrange(&mut fields);
        let partition = Field::new(PARTITION, DataType::Date32, false);
        fields.insert(0, partition.into());
        fields.push(Field::new(COMMIT_VERSION, DataType::Int64, true).into());
        Ok(fields)
    }

    /// Converts one value to a row.
    fn to_row(&self) -> Result<Self::Row, RowError> {
        self.put().map_err(|source| RowError {
            row: self.name(),
            source: Box::new(source),
        })
    }

    /// Converts rows to columns.
    fn pack(records: &[Self]) -> Result<RecordBatch, RowsError> {
        let mut builders = Self::Row::builders()?;
        for record in records {
            record.to_row()?.push(&mut builders)?;
        }
        let mut arrays = Vec::new();
        for builder in builders {
            arrays.extend(builder.into_arrow()?);
        }
        Self::arrange(&mut arrays);
        let days: Date32Array = records.iter().map(|record| Some(record.day())).collect();
        arrays.insert(0, Arc::new(days) as ArrayRef);
        arrays.push(Arc::new(Int64Array::new_null(records.len())));
        let schema = Schema::new(Self::fields()?);
        Ok(RecordBatch::try_new(schema.into(), arrays)?)
    }

    /// Converts columns to rows. The partition may be absent: data files do not contain it.
    fn unpack(batch: &RecordBatch) -> Result<Vec<Self>, RowsError> {
        let record = |row| {
            let name = Self::name_row(&row);
            Self::get(row).map_err(|error| {
                RowsError::Row(RowError {
                    row: name,
                    source: Box::new(error),
                })
            })
        };
        Self::Row::read(batch)?.into_iter().map(record).collect()
    }
}

/// Checks whether a heartbeat fits the table, so that an invalid one is refused by name and not
/// with its batch.
pub fn check_heartbeat(placed: &Placed) -> Result<(), RowError> {
    placed.to_row().map(drop)
}

/// Checks whether a task fits the table.
pub fn check_step(placed: &PlacedStep) -> Result<(), RowError> {
    placed.to_row().map(drop)
}

#[cfg(test)]
mod tests;
