//! Reads CSV files of the user with one record a line. The length of a line and the number of
//! columns are limited. A quote that is not closed ends with its line.

use std::io::{self, Read};

use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};

use super::lines::{Line, Lines};

/// The most columns of a file; no file of metrics or of a bill has more.
const MAX_COLUMNS: usize = 1_000;

/// The records of a file.
pub struct CsvFile<'a> {
    lines: Lines<'a>,
    parser: Reader,
    line: Vec<u8>,
}

/// One line as fields without surrounding blanks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// The number of the line, from 1.
    pub line: u64,
    text: String,
    /// The end of each field in the text.
    ends: Vec<usize>,
}

impl Record {
    /// The field at a position from 0; `None` beyond the last.
    pub fn get(&self, at: usize) -> Option<&str> {
        let end = *self.ends.get(at)?;
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.text.get(begin..end).map(str::trim)
    }

    /// The fields in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.ends.len()).filter_map(|at| self.get(at))
    }
}

impl<'a> CsvFile<'a> {
    /// A plain or gzipped file.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn new(source: impl Read + 'a) -> io::Result<Self> {
        Ok(Self {
            lines: Lines::of(source)?,
            parser: ReaderBuilder::new()
                .terminator(Terminator::Any(b'\n'))
                .build(),
            line: Vec::new(),
        })
    }

    /// Reads the next line that is not empty into `record`; `None` at the end. An invalid line is
    /// `Err` with the reason, and `record` contains its number.
    ///
    /// # Errors
    /// If the file cannot be read, is not text, or exceeds a limit.
    pub fn read(&mut self, record: &mut Record) -> io::Result<Option<Result<(), String>>> {
        loop {
            let Some(Line { number, text }) = self.lines.read_line()? else {
                return Ok(None);
            };
            record.line = number;
            return Ok(Some(match text {
                Ok("") => continue,
                Ok(text) => {
                    self.line.clear();
                    self.line.extend_from_slice(text.as_bytes());
                    self.line.push(b'\n');
                    parse(&mut self.parser, &self.line, record)
                }
                Err(unusable) => Err(unusable.problem()),
            }));
        }
    }
}

/// Parses one line including its line ending.
fn parse(parser: &mut Reader, line: &[u8], record: &mut Record) -> Result<(), String> {
    parser.reset();
    let mut text = std::mem::take(&mut record.text).into_bytes();
    // A parsed field is never longer than its text in the line.
    text.resize(line.len(), 0);
    record.ends.resize(MAX_COLUMNS, 0);
    let (result, _, written, fields) = parser.read_record(line, &mut text, &mut record.ends);
    record.ends.truncate(fields);
    text.truncate(written);
    match result {
        ReadRecordResult::Record => {}
        ReadRecordResult::OutputEndsFull => {
            return Err(format!("more than {MAX_COLUMNS} columns"));
        }
        // The line ending was parsed as a part of a quoted field.
        _ => return Err("missing closing quote".to_owned()),
    }
    record.text = String::from_utf8(text).map_err(|_| "the line is not UTF-8".to_owned())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_record_or_has_a_reason() {
        let check = |text: &str, expect: &[Result<&[&str], &str>]| {
            let mut file = CsvFile::new(text.as_bytes()).expect("it opens");
            let (mut record, mut got) = (Record::default(), Vec::new());
            while let Some(read) = file.read(&mut record).expect("it is read") {
                let fields = || record.iter().map(str::to_owned).collect::<Vec<_>>();
                got.push(read.map(|()| fields()));
            }
            let owned = |fields: &&[&str]| fields.iter().map(|&f| f.to_owned()).collect();
            let expect: Vec<Result<Vec<String>, String>> = expect
                .iter()
                .map(|one| one.as_ref().map(owned).map_err(|&why| why.to_owned()))
                .collect();
            assert_eq!(got, expect, "{text}");
        };
        check("", &[]);
        check("a, b ,c\r\n\r\nd\n", &[Ok(&["a", "b", "c"]), Ok(&["d"])]);
        check("a,\"b,c\",\"d\"\"e\"", &[Ok(&["a", "b,c", "d\"e"])]);
        check(",,", &[Ok(&["", "", ""])]);
        let unclosed = Err("missing closing quote");
        check("a,\"b\nc,d\n\"", &[unclosed, Ok(&["c", "d"]), unclosed]);
        let wide = ",".repeat(300_000);
        check(
            &format!("{wide}\na"),
            &[Err("more than 1000 columns"), Ok(&["a"])],
        );
        check(
            &format!("{}\na", "x".repeat(2 << 20)),
            &[Err("the line is longer than 1024 KiB"), Ok(&["a"])],
        );
    }

    #[test]
    fn an_endless_file_is_an_error() {
        let check = |byte: u8, expect: &str| {
            let mut file = CsvFile::new(io::repeat(byte)).expect("it opens");
            let error = file.read(&mut Record::default()).expect_err(expect);
            assert_eq!(error.to_string(), expect);
        };
        check(0, "not a text file: line 1 has a NUL byte");
        check(b',', "line 1 has more than 64 MiB");
        check(b'"', "line 1 has more than 64 MiB");
    }
}
