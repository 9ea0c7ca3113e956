//! The tasks in Nextflow's execution report, the HTML page of `-with-report`. It has all fields of a
//! trace, also those that the trace of the same run leaves out by default, such as the requests.
//!
//! Source: `ReportTemplate.html` and `ReportObserver.renderTasksJson` of Nextflow. The values are those
//! of `trace.raw`. They are a JavaScript literal, in which `\'` is the only escape that JSON does not
//! have. A report of more tasks than `report.maxTasks` (10,000) has `null` instead of the tasks.

use std::fmt;
use std::io::{self, BufRead, Cursor, Read};

use serde::Deserializer as _;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use thiserror::Error;

/// The text before the tasks, without blanks.
const BEFORE_TASKS: &str = "window.data={\"trace\":";

/// The most bytes of a report that are read. One of 10,000 tasks has about 40 MB.
const MAX_REPORT_BYTES: u64 = 512 << 20;

/// Why the tasks of a page cannot be read.
#[derive(Debug, Error)]
pub enum ReportError {
    /// The page could not be read to its end.
    #[error("failed to read the file")]
    Io(#[from] io::Error),
    /// It is another page, or a report without tasks.
    #[error(
        "the page has no tasks: of HTML, only execution reports of Nextflow are read, and one of more \
         than 10,000 tasks does not contain them; import the trace of the run"
    )]
    NoTasks,
    /// Fields of its tasks are objects, as in the reports of nf-co2footprint.
    #[error("the page is the report of a plugin of Nextflow; import execution_report_*.html")]
    OfPlugin,
    /// Its tasks are no list of fields.
    #[error("the report is damaged; import the trace of the run")]
    Damaged(#[source] serde_json::Error),
}

/// Whether a file with these first bytes is an HTML page.
pub(super) fn is_html(first: &[u8]) -> bool {
    let text = first.strip_prefix("\u{feff}".as_bytes()).unwrap_or(first);
    text.trim_ascii_start().starts_with(b"<")
}

/// The trace of the tasks in a report: a header of these fields, and a row for each task.
pub(super) fn to_trace(page: impl BufRead, fields: &[&str]) -> Result<String, ReportError> {
    let mut page = page.take(MAX_REPORT_BYTES);
    let mut line = Vec::new();
    loop {
        line.clear();
        if page.read_until(b'\n', &mut line)? == 0 {
            return Err(ReportError::NoTasks);
        }
        if let Some(begin) = after_marker(&line) {
            let literal = Cursor::new(line.split_off(begin)).chain(page);
            return read_tasks(WithoutQuoteEscapes::new(literal), fields);
        }
    }
}

/// Where the tasks begin in this line; `None` if they do not.
fn after_marker(line: &[u8]) -> Option<usize> {
    let mut expected = BEFORE_TASKS.bytes().peekable();
    for (index, byte) in line.iter().enumerate() {
        if expected.peek().is_none() {
            return Some(index);
        }
        if !byte.is_ascii_whitespace() && expected.next() != Some(*byte) {
            return None;
        }
    }
    expected.peek().is_none().then_some(line.len())
}

fn read_tasks(literal: impl Read, fields: &[&str]) -> Result<String, ReportError> {
    let mut rows = fields.join("\t");
    rows.push('\n');
    let header = rows.len();
    let mut json = serde_json::Deserializer::from_reader(literal);
    let mut trace = TraceText {
        fields,
        rows,
        is_of_plugin: false,
    };
    json.deserialize_option(Tasks(&mut trace))
        .map_err(ReportError::Damaged)?;
    if trace.is_of_plugin {
        return Err(ReportError::OfPlugin);
    }
    match trace.rows.len() > header {
        true => Ok(trace.rows),
        false => Err(ReportError::NoTasks),
    }
}

/// The trace so far.
struct TraceText<'f> {
    fields: &'f [&'f str],
    rows: String,
    /// True if a field of a task is an object.
    is_of_plugin: bool,
}

/// Adds a row for each task of the list, if there is one.
struct Tasks<'t, 'f>(&'t mut TraceText<'f>);

impl<'de> Visitor<'de> for Tasks<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of tasks")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: serde::Deserializer<'de>>(self, tasks: D) -> Result<(), D::Error> {
        tasks.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut tasks: A) -> Result<(), A::Error> {
        while tasks.next_element_seed(Task(self.0))?.is_some() {}
        Ok(())
    }
}

/// Adds the row of one task.
struct Task<'t, 'f>(&'t mut TraceText<'f>);

impl<'de> DeserializeSeed<'de> for Task<'_, '_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, task: D) -> Result<(), D::Error> {
        task.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Task<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the fields of a task")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut task: A) -> Result<(), A::Error> {
        let fields = self.0.fields;
        let mut values = vec!["-".to_owned(); fields.len()];
        while let Some(name) = task.next_key::<String>()? {
            let Some(index) = fields.iter().position(|field| *field == name) else {
                task.next_value::<IgnoredAny>()?;
                continue;
            };
            match task.next_value::<Value>()? {
                Value::String(text) => values[index] = text.replace(['\t', '\r', '\n'], " "),
                Value::Number(number) => values[index] = number.to_string(),
                Value::Object(_) => self.0.is_of_plugin = true,
                _ => {}
            }
        }
        self.0.rows.push_str(&values.join("\t"));
        self.0.rows.push('\n');
        Ok(())
    }
}

/// Reads a literal of JavaScript as JSON: `\'` becomes `'`.
struct WithoutQuoteEscapes<R> {
    source: io::Bytes<io::BufReader<R>>,
    /// A byte that was read and not returned yet.
    waiting: Option<u8>,
    /// The last byte was a backslash that begins an escape.
    is_escape: bool,
}

impl<R: Read> WithoutQuoteEscapes<R> {
    fn new(source: R) -> Self {
        Self {
            source: io::BufReader::new(source).bytes(),
            waiting: None,
            is_escape: false,
        }
    }

    fn next_byte(&mut self) -> io::Result<Option<u8>> {
        let byte = match self.waiting.take() {
            Some(byte) => byte,
            None => match self.source.next().transpose()? {
                Some(byte) => byte,
                None => return Ok(None),
            },
        };
        if self.is_escape || byte != b'\\' {
            self.is_escape = false;
            return Ok(Some(byte));
        }
        match self.source.next().transpose()? {
            Some(b'\'') => Ok(Some(b'\'')),
            next => {
                self.waiting = next;
                self.is_escape = true;
                Ok(Some(byte))
            }
        }
    }
}

impl<R: Read> Read for WithoutQuoteEscapes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut length = 0;
        for place in buffer {
            let Some(byte) = self.next_byte()? else {
                break;
            };
            *place = byte;
            length += 1;
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: [&str; 6] = ["process", "name", "status", "exit", "cpus", "realtime"];

    fn page(data: &str) -> String {
        format!("<!DOCTYPE html>\n<script>\n  window.data = {data}\n</script>\n</html>\n")
    }

    #[test]
    fn the_tasks_of_a_report_are_rows_of_a_trace() {
        let data = r#"{ "trace":[
{"task_id":"1","process":"ALIGN","script":"awk \'{print \"\\t\"}\'\n\tsort","name":"ALIGN (it\'s \\)","realtime":"61000","cpus":4,"exit":null},{"name":"SORT"}]
,"summary":[] };"#;
        let trace = to_trace(Cursor::new(page(data)), &FIELDS).expect("a trace");
        let rows: Vec<Vec<&str>> = trace.lines().map(|row| row.split('\t').collect()).collect();
        let value = |row: usize, field: &str| {
            let index = rows[0].iter().position(|name| *name == field);
            rows[row][index.expect("a field")]
        };
        assert_eq!(rows.len(), 3);
        assert_eq!(value(1, "name"), "ALIGN (it's \\)");
        assert_eq!(value(1, "realtime"), "61000");
        assert_eq!((value(1, "cpus"), value(1, "exit")), ("4", "-"));
        assert_eq!((value(2, "name"), value(2, "status")), ("SORT", "-"));
    }

    #[test]
    fn a_page_without_tasks_is_refused_with_the_reason() {
        let check = |page: String, expect: &str| {
            let error = to_trace(Cursor::new(page), &FIELDS).expect_err("it has no tasks");
            assert!(error.to_string().contains(expect), "{error}");
        };
        check("<html>\n</html>".to_owned(), "no tasks");
        check(page(r#"{ "trace":null, "summary":[] };"#), "no tasks");
        check(page(r#"{ "trace":[], "summary":[] };"#), "no tasks");
        check(page(r#"{ "trace":[{"name":"A""#), "damaged");
        check(page(r#"{ "trace":[7] };"#), "damaged");
        let of_plugin = r#"{ "trace":[{"name":{"raw":"A","readable":"A"},"energy":{}}] };"#;
        check(page(of_plugin), "report of a plugin");
        assert!(is_html(b"\xef\xbb\xbf \n<html>"));
        assert!(!is_html(b"task_id\thash"));
    }
}
