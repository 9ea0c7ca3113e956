//! Reads CSV files of the user. The length of a line, the lines of a record and the number of
//! columns are limited. The first line shows whether commas, semicolons or tabs separate fields.
//! A record may go on in the next lines while a quote is open. If that gives no record with the
//! columns of the first one, its line is invalid, and reading continues with the next line.

use std::io::{self, Read};

use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};

use super::lines::{Line, Lines, WaitingLine};

/// The most columns of a file; no file of metrics or of a bill has more.
const MAX_COLUMNS: usize = 1_000;

/// The most lines and bytes with which an open quote goes on.
const MAX_RECORD_LINES: usize = 20;
const MAX_RECORD_BYTES: usize = 1 << 20;

/// The records of a file.
pub struct CsvFile<'a> {
    lines: Lines<'a>,
    parser: Reader,
    separator: u8,
    line: Vec<u8>,
    /// The number of columns of the first record.
    width: Option<usize>,
    /// A line before this one is not joined: an earlier quote stays open until here.
    joins_from: u64,
}

/// One record as fields without surrounding blanks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// The number of its first line, from 1.
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
        Ok(Self::of_lines(Lines::open(source)?))
    }

    /// A file whose next line is its first record.
    pub fn of_lines(lines: Lines<'a>) -> Self {
        Self {
            lines,
            parser: parser_of(b','),
            separator: b',',
            line: Vec::new(),
            width: None,
            joins_from: 0,
        }
    }

    /// Reads the next record into `record`, and skips empty lines; `None` at the end. An invalid
    /// line is `Err` with the reason, and `record` contains its number.
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
            self.separator = separator(&self.line);
            self.parser = parser_of(self.separator);
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
        if self.width.is_none() || record.line < self.joins_from {
            return Ok(false);
        }
        let mut taken: Vec<WaitingLine> = Vec::new();
        let mut end = QuoteEnd::Open;
        while end == QuoteEnd::Open
            && taken.len() < MAX_RECORD_LINES
            && self.line.len() <= MAX_RECORD_BYTES
        {
            let Some(Line { number, text }) = self.lines.read_line()? else {
                break;
            };
            taken.push((number, text.map(str::to_owned)));
            let Ok(text) = text else { break };
            end = end_of_quote(text.as_bytes(), self.separator);
            self.line.extend_from_slice(text.as_bytes());
            self.line.push(b'\n');
        }
        let is_joined = end == QuoteEnd::Closed
            && parse(&mut self.parser, &self.line, record).is_ok()
            && Some(record.ends.len()) == self.width;
        if is_joined {
            return Ok(true);
        }
        if let (QuoteEnd::Open, Some((last, _))) = (end, taken.last()) {
            self.joins_from = *last;
        }
        self.lines.put_back(taken.into_iter());
        Ok(false)
    }
}

/// How a line ends that begins inside of a quote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuoteEnd {
    /// Inside of a quote.
    Open,
    /// At the end of a record.
    Closed,
    /// With text right after a closing quote, so that an earlier quote is too much.
    Stray,
}

/// Follows an open quote through a line without its line ending.
fn end_of_quote(line: &[u8], separator: u8) -> QuoteEnd {
    let mut rest = line;
    // Each turn begins inside of a quote.
    while let Some(at) = rest.iter().position(|byte| *byte == b'"') {
        match &rest[at + 1..] {
            [] => return QuoteEnd::Closed,
            [b'"', after @ ..] => rest = after,
            fields if fields[0] == separator => {
                // Elsewhere in a field, a quote is text.
                let mut pairs = fields.windows(2);
                match pairs.position(|pair| pair == [separator, b'"']) {
                    Some(next) => rest = &fields[next + 2..],
                    None => return QuoteEnd::Closed,
                }
            }
            _ => return QuoteEnd::Stray,
        }
    }
    QuoteEnd::Open
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

    const UNCLOSED: Result<&[&str], &str> = Err("missing closing quote");

    /// Checks the records of a text, or why a line is none.
    fn check(text: &str, expect: &[Result<&[&str], &str>]) {
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
    }

    #[test]
    fn a_line_is_a_record_or_has_a_reason() {
        check("", &[]);
        check("a, b ,c\r\n\r\nd\n", &[Ok(&["a", "b", "c"]), Ok(&["d"])]);
        check("a,\"b,c\",\"d\"\"e\"", &[Ok(&["a", "b,c", "d\"e"])]);
        check(",,", &[Ok(&["", "", ""])]);
        check("a,\"b\nc,d\n\"", &[UNCLOSED, Ok(&["c", "d"]), UNCLOSED]);
        check(
            "\u{feff}a;b\n1,5;2\n",
            &[Ok(&["a", "b"]), Ok(&["1,5", "2"])],
        );
        check("a\tb\n1\t2\n", &[Ok(&["a", "b"]), Ok(&["1", "2"])]);
        check("a,b;c\n1;2,3\n", &[Ok(&["a", "b;c"]), Ok(&["1;2", "3"])]);
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
    fn a_record_goes_on_while_its_quote_is_open() {
        let check_rows = |rows: &str, expect: &[Result<&[&str], &str>]| {
            let mut all = expect.to_vec();
            all.insert(0, Ok(&["a", "b"]));
            check(&format!("a,b\n{rows}"), &all);
        };
        check_rows(
            "1,\"x\r\ny\"\n\"2\n\n3\",\"4\n\"\n5,6",
            &[Ok(&["1", "x\ny"]), Ok(&["2\n\n3", "4"]), Ok(&["5", "6"])],
        );
        check_rows("\"1\"\"\n\",2\" x\n", &[Ok(&["1\"", "2\" x"])]);
        // It swallows no record behind a single quote.
        check_rows(
            "1,\"x\n2,y\n3,\"z\"\n",
            &[UNCLOSED, Ok(&["2", "y"]), Ok(&["3", "z"])],
        );
        check_rows("1,\"x\n2,\"y\nz\"\n", &[UNCLOSED, Ok(&["2", "y\nz"])]);
        check_rows("1,\"x\ny\",3\n", &[UNCLOSED, Ok(&["y\"", "3"])]);
        check_rows("1,\"x", &[UNCLOSED]);
        let long = format!("1,\"x{}y\"\n", "\n".repeat(30));
        check_rows(&long, &[UNCLOSED, Ok(&["y\""])]);
        let large = "x".repeat(1 << 19);
        let fields = [large.as_str()];
        check_rows(
            &format!("1,\"x\n{large}\n{large}\ny\"\n"),
            &[UNCLOSED, Ok(&fields), Ok(&fields), Ok(&["y\""])],
        );
        check(
            "a;b\n1;\"x;\n\"\n2;3\n",
            &[Ok(&["a", "b"]), Ok(&["1", "x;"]), Ok(&["2", "3"])],
        );
    }

    #[test]
    fn quotes_that_stay_open_are_read_ahead_once() {
        // Each line closes the quote of the line before and opens another one.
        let text = format!("a,b\n{}", "x\",\"\n".repeat(1_000));
        let mut expect = vec![UNCLOSED; 1_001];
        expect[0] = Ok(&["a", "b"]);
        check(&text, &expect);
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
