//! Rows as they are stored, as JSON objects, for queries of people. Nothing is checked or converted:
//! columns of later versions of this program are read as well.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use deltalake_core::arrow::array::RecordBatch;
use deltalake_core::arrow::datatypes::DataType;
use deltalake_core::arrow::error::ArrowError;
use deltalake_core::arrow::json::writer::{LineDelimited, WriterBuilder};
use serde_json::{Map, Value};

use super::read::DataFile;
use super::{TableError, TableLog};
use crate::rows::PARTITION;

/// One row by column. Unknown values are `null`. Timestamps are RFC 3339 in UTC.
pub type StoredRow = Map<String, Value>;

/// Which rows and columns to read.
#[derive(Debug, Clone, Copy)]
pub struct StoredWindow<'a> {
    /// The first and last UTC date, as in the partition column.
    pub days: (&'a str, &'a str),
    /// The columns to read, besides the partition; `None` for all.
    pub columns: Option<&'a BTreeSet<String>>,
    /// The most rows to read.
    pub max_rows: u64,
}

/// The size of a table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableSummary {
    /// Number of rows; a file without a number in the log counts as full.
    pub rows: u64,
    /// Number of data files.
    pub files: usize,
    /// The first UTC date with rows; `None` for an empty table.
    pub first_day: Option<String>,
    /// The last UTC date with rows.
    pub last_day: Option<String>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: ColumnKind,
}

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// A whole number, or a truth value as 0 or 1.
    Integer,
    /// A floating-point number.
    Real,
    /// Text, a date or a timestamp.
    Text,
    /// A list, map or struct.
    Nested,
}

impl From<&DataType> for ColumnKind {
    fn from(kind: &DataType) -> Self {
        match kind {
            DataType::Boolean => Self::Integer,
            kind if kind.is_integer() => Self::Integer,
            kind if kind.is_floating() => Self::Real,
            kind if kind.is_nested() => Self::Nested,
            _ => Self::Text,
        }
    }
}

impl TableLog {
    /// Calls `each` for the rows of a window, the newest file first, until it breaks. Returns the
    /// number of rows that were not read.
    pub(crate) async fn stored_rows(
        &self,
        window: &StoredWindow<'_>,
        each: &mut dyn FnMut(StoredRow) -> ControlFlow<()>,
    ) -> Result<u64, TableError> {
        let files = self.files_of_days(window.days).await?;
        let all = files.iter().map(|file| file.rows).sum::<u64>();
        let mut read = 0;
        'files: for file in files {
            let day = file.day.clone();
            let path = file.path.to_string();
            for batch in self.batches(file, window.columns).await? {
                let room = window.max_rows.saturating_sub(read);
                let room = usize::try_from(room).unwrap_or(usize::MAX);
                let batch = batch.slice(0, batch.num_rows().min(room));
                let rows = objects(&batch).map_err(|source| TableError::Decode {
                    path: path.clone(),
                    source,
                })?;
                for mut row in rows {
                    row.insert(PARTITION.to_owned(), day.clone().into());
                    read += 1;
                    if each(row).is_break() {
                        break 'files;
                    }
                }
                if read >= window.max_rows {
                    break 'files;
                }
            }
        }
        Ok(all.saturating_sub(read))
    }

    /// The number of rows and the days of the table.
    pub(crate) async fn summary(&self) -> Result<TableSummary, TableError> {
        let files = self.all_files().await?;
        let days = || files.iter().filter_map(|file: &DataFile| file.day.clone());
        Ok(TableSummary {
            rows: files.iter().map(|file| file.rows).sum(),
            files: files.len(),
            first_day: days().min(),
            last_day: days().max(),
        })
    }
}

/// The rows of a batch as JSON objects.
fn objects(batch: &RecordBatch) -> Result<Vec<StoredRow>, ArrowError> {
    if batch.num_columns() == 0 {
        return Ok(vec![StoredRow::new(); batch.num_rows()]);
    }
    let mut text = Vec::new();
    let builder = WriterBuilder::new().with_explicit_nulls(true);
    let mut writer = builder.build::<_, LineDelimited>(&mut text);
    writer.write(batch)?;
    writer.finish()?;
    drop(writer);
    let lines = serde_json::Deserializer::from_slice(&text).into_iter();
    let rows: Result<_, serde_json::Error> = lines.collect();
    rows.map_err(|error| ArrowError::JsonError(error.to_string()))
}
