//! Rows of CSV, plain or gzipped.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};

use ebb_model::text_file::csv::{CsvFile, Record};

use super::{FileProblem, RowSink};
use crate::cost_export::charge::{Cell, ExportRow};
use crate::cost_export::columns::{ExportColumn, ExportColumns};

struct CsvRow<'a> {
    record: &'a Record,
    columns: &'a ExportColumns,
}

impl ExportRow for CsvRow<'_> {
    fn cell(&self, column: ExportColumn) -> Cell<'_> {
        let text = self.columns.at(column).and_then(|at| self.record.get(at));
        text.map_or(Cell::Absent, Cell::Text)
    }

    fn hash_of_all(&self) -> Option<u64> {
        let mut hasher = DefaultHasher::new();
        self.record.iter().for_each(|text| text.hash(&mut hasher));
        Some(hasher.finish())
    }
}

/// Reads all rows.
pub(in crate::cost_export) fn read(
    source: impl Read,
    sink: &mut RowSink<'_>,
) -> Result<(), FileProblem> {
    let mut record = Record::default();
    let mut file = CsvFile::new(source).map_err(|error| unreadable(error, 0))?;
    match file
        .read(&mut record)
        .map_err(|error| unreadable(error, 0))?
    {
        Some(Ok(())) => {}
        Some(Err(reason)) => return Err(FileProblem::FirstLine(reason)),
        None => return Err(FileProblem::Empty),
    }
    let columns = ExportColumns::find(record.iter())?;
    sink.check_tags(&columns);
    let width = record.iter().count();
    loop {
        let before = record.line;
        let read = file.read(&mut record);
        let Some(read) = read.map_err(|error| unreadable(error, before))? else {
            return Ok(());
        };
        let line = record.line;
        let found = record.iter().count();
        match read {
            Ok(()) if found == width => {
                let (record, columns) = (&record, &columns);
                sink.add(&CsvRow { record, columns }, columns.form, line)?;
            }
            Ok(()) => sink.refuse(line, format!("{found} columns instead of {width}"))?,
            Err(why) => sink.refuse(line, why)?,
        }
    }
}

fn unreadable(source: io::Error, line: u64) -> FileProblem {
    match source.kind() {
        io::ErrorKind::UnexpectedEof => FileProblem::Truncated { line },
        _ => FileProblem::Read { line, source },
    }
}
