//! One file of an export, CSV or Parquet. The problem of a row is reported with its number and its
//! column, and reading continues. Any other problem stops the file.

pub(super) mod csv_rows;
pub(super) mod parquet_rows;
#[cfg(test)]
mod tests;

use std::io;

use ebb_model::text_file::bad_lines::{BadLine, BadLines};
use parquet::errors::ParquetError;

use super::charge::{self, ExportRow, RowProblem};
use super::columns::{ExportColumn, ExportColumns, ExportForm, HeaderProblem};
use super::day_print::FilePrint;
use super::repeated_rows::RepeatedRows;
use super::sums::{DayRange, PeriodSums, TooManySums};

/// The most rows of one bill. A program without optimizations needs minutes for them.
const MAX_ROWS: u64 = 50_000_000;

/// Why a file was not read to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileProblem {
    /// It cannot be read, is not text, or exceeds a limit.
    #[error("{source} after line {line}; check the file, or deliver the export again")]
    Read { line: u64, source: io::Error },
    /// It is gzipped, and ends early.
    #[error("the compressed data ends after line {line}; deliver the export again")]
    Truncated { line: u64 },
    #[error("the file is empty")]
    Empty,
    #[error("invalid first line: {0}")]
    FirstLine(String),
    #[error(transparent)]
    Header(#[from] HeaderProblem),
    /// A column has another type than a bill has.
    #[error("column {column}: expected {expected}, found {found}; export the column unchanged")]
    Type {
        column: &'static str,
        expected: &'static str,
        found: String,
    },
    #[error("not a valid Parquet file: {0}; deliver the export again")]
    Parquet(#[from] ParquetError),
    #[error("column {column} has a block of {bytes} bytes, more than {most}")]
    LargeBlock {
        column: String,
        bytes: i64,
        most: i64,
    },
    #[error("the bill has more than {MAX_ROWS} rows; export days instead of hours")]
    TooManyRows,
    #[error(transparent)]
    TooManySums(#[from] TooManySums),
}

/// Where the rows of a file are added.
pub(super) struct RowSink<'a> {
    /// The key of the file.
    pub(super) file: &'a str,
    pub(super) days: DayRange,
    /// The tags by which days are summed.
    pub(super) tags: &'a [String],
    pub(super) sums: &'a mut PeriodSums,
    pub(super) print: &'a mut FilePrint,
    /// `None` if rows are not compared.
    pub(super) repeated: Option<&'a mut RepeatedRows>,
    pub(super) bad: &'a mut BadLines,
    /// Rows of the whole bill so far.
    pub(super) rows: &'a mut u64,
}

impl RowSink<'_> {
    /// Checks the columns of a file for the requested tags.
    fn check_tags(&mut self, columns: &ExportColumns) {
        let column = ExportColumn::Tags;
        if !self.tags.is_empty() && columns.at(column).is_none() {
            self.sums.missing_tags = Some(column.name(columns.form));
        }
    }

    /// Adds a row with its number in the file.
    fn add(
        &mut self,
        row: &impl ExportRow,
        form: ExportForm,
        number: u64,
    ) -> Result<(), FileProblem> {
        self.count()?;
        match charge::read(row, form, self.tags) {
            Ok(charge) => {
                if let Some((column, why)) = &charge.bad_tags {
                    let first = || format!("{}:{number}: {column}: {why}", self.file);
                    self.sums.unread_tags.add(first);
                }
                self.print.add(&charge, self.days);
                if let Some(repeated) = &mut self.repeated
                    && self
                        .days
                        .covered_by(charge.start, charge.end)
                        .next()
                        .is_some()
                {
                    repeated.add((row, form), &charge, number);
                }
                self.sums.add(charge, self.days)?;
            }
            Err(problem) => {
                if let Some(charge) = charge::read_refused(row, form) {
                    self.sums.refuse(charge, &problem, self.days)?;
                }
                match problem {
                    RowProblem::Currency(code) => self.sums.count_currency(&code),
                    RowProblem::Column((column, why)) => {
                        self.bad.add(BadLine::new(number, column, why));
                    }
                }
            }
        }
        Ok(())
    }

    fn refuse(&mut self, number: u64, why: String) -> Result<(), FileProblem> {
        self.count()?;
        self.bad.add(BadLine::new(number, "line", why));
        Ok(())
    }

    fn count(&mut self) -> Result<(), FileProblem> {
        *self.rows += 1;
        self.sums.rows += 1;
        match *self.rows <= MAX_ROWS {
            true => Ok(()),
            false => Err(FileProblem::TooManyRows),
        }
    }
}
