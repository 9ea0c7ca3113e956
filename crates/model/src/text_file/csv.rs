//! Reads CSV files of the user. The length of a line, the lines of a record and the number of columns are
//! limited. A record may go on in the next lines while a quote is open. If it does not become a record of
//! the file, the quote ends with its line.

use std::io::{self, Read};

use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};

use super::lines::{Line, Lines, WaitingLine};

/// The most columns of a file; no file of metrics or of a bill has more.
const MAX_COLUMNS: usize = 1_000;

/// The most lines and bytes of a record.
const MAX_RECORD_LINES: usize = 20;
const MAX_RECORD_BYTES: usize = 1 << 20;

/// The records of a file.
pub struct CsvFile<'a> {
    lines: Lines<'a>,
    parser: Reader,
    line: Vec<u8>,
    /// The number of columns of the first record.
    width: Option<usize>,
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
        Ok(Self::of_lines(Lines::of(source)?))
    }

    /// A file whose next line is its first record.
    pub fn of_lines(lines: Lines<'a>) -> Self {
        Self {
            lines,
            parser: parser_of(b','),
            line: Vec::new(),
            width: None,
        }
    }

    /// Reads the next line that is not empty into `record`; `None` at the end. An invalid line is
    /// `Err` with the reason, and `record` contains its number. Fields are separated by commas, or
    /// by semicolons or tabs if the first line has no comma.
    ///
    /// # Errors
    /// If the file cannot be read, is not text, or exceeds a limit.
    pub fn read(&mut self, record: &mut Record) -> io::Result<Option<Result<(), String>>> {
        loop {
            let Some(Line { number, text }) = self.lines.read_line()? else {
                return Ok(None);
            };
            record.line = number;
            match text {
                Ok("") => continue,
                Ok(text) => {
                    self.line.clear();
                    self.line.extend_from_slice(text.as_bytes());
                    self.line.push(b'\n');
                }
                Err(unusable) => return Ok(Some(Err(unusable.problem()))),
            }
            break;
        }
        if self.width.is_none() {
            self.parser = parser_of(separator(&self.line));
        }
        let mut read = parse(&mut self.parser, &self.line, record);
        if read == Err(NoRecord::OpenQuote) && self.join(record)? {
            read = Ok(());
        }
        if read.is_ok() {
            self.width.get_or_insert(record.ends.len());
        }
        Ok(Some(read.map_err(|why| why.problem())))
    }

    /// Joins the line with the next ones while its quote is open. False if that gives no record with
    /// the columns of the first one; the next lines are then read as usual.
    fn join(&mut self, record: &mut Record) -> io::Result<bool> {
        let mut joined: Vec<WaitingLine> = Vec::new();
        while self.width.is_some()
            && joined.len() < MAX_RECORD_LINES
            && self.line.len() <= MAX_RECORD_BYTES
        {
            let Some(Line { number, text }) = self.lines.read_line()? else {
                break;
            };
            joined.push((number, text.map(str::to_owned)));
            let Ok(text) = text else { break };
            self.line.extend_from_slice(text.as_bytes());
            self.line.push(b'\n');
            // A record has an even number of quotes.
            if !text.contains('"') || self.line.iter().filter(|byte| **byte == b'"').count() % 2 > 0
            {
                continue;
            }
            let read = parse(&mut self.parser, &self.line, record);
            if read.is_ok() && Some(record.ends.len()) == self.width {
                return Ok(true);
            }
            break;
        }
        self.lines.put_back(joined.into_iter());
        Ok(false)
    }
}

fn parser_of(separator: u8) -> Reader {
    let mut parser = ReaderBuilder::new();
    parser.delimiter(separator);
    parser.terminator(Terminator::Any(b'\n')).build()
}

/// The separator of fields, by the first line.
fn separator(line: &[u8]) -> u8 {
    let has = |byte: &u8| line.contains(byte);
    let known = [b',', b';', b'\t'];
    known.into_iter().find(has).unwrap_or(b',')
}

/// Why a text is no record.
#[derive(Debug, Clone, PartialEq, Eq)]
enum NoRecord {
    TooManyColumns,
    OpenQuote,
    NotUtf8,
}

impl NoRecord {
    fn problem(&self) -> String {
        match self {
            Self::TooManyColumns => format!("more than {MAX_COLUMNS} columns"),
            Self::OpenQuote => "missing closing quote".to_owned(),
            Self::NotUtf8 => "the line is not UTF-8".to_owned(),
        }
    }
}

/// Parses lines including their line endings.
fn parse(parser: &mut Reader, line: &[u8], record: &mut Record) -> Result<(), NoRecord> {
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
            return Err(NoRecord::TooManyColumns);
        }
        // The line ending was parsed as a part of a quoted field.
        _ => return Err(NoRecord::OpenQuote),
    }
    record.text = String::from_utf8(text).map_err(|_| NoRecord::NotUtf8)?;
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
        // A record may go on in the next lines.
        check(
            "a,b\n1,\"x\ny\"\n\"2\n\n3\",4\n5,6",
            &[
                Ok(&["a", "b"]),
                Ok(&["1", "x\ny"]),
                Ok(&["2\n\n3", "4"]),
                Ok(&["5", "6"]),
            ],
        );
        // It does not swallow the records behind a single quote.
        check(
            "a,b\n1,\"x\n2,y\n3,\"z\"\n",
            &[Ok(&["a", "b"]), unclosed, Ok(&["2", "y"]), Ok(&["3", "z"])],
        );
        check(
            "\u{feff}a;b\n1,5;2\n",
            &[Ok(&["a", "b"]), Ok(&["1,5", "2"])],
        );
        check("a\tb\n1\t2\n", &[Ok(&["a", "b"]), Ok(&["1", "2"])]);
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
