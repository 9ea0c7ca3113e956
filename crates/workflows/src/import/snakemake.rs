//! Snakemake's benchmark files: one line a run, tab separated or, in files that end in
//! `.jsonl`, an object. The rule's name is in them only with `--benchmark-extended`;
//! otherwise the file's path names it by a pattern.
//!
//! Source: "Benchmark rules", Snakemake's documentation, and `benchmark.py` of 9.27.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_domain::step::Requested;
use ebb_domain::units::{Bytes, CpuTime};
use jiff::Timestamp;
use serde_json::Value;

use super::pattern::{FileNaming, NamedFile};
use super::python_literal::dictionary;
use super::quantity::{busy, cores, mebibytes, percent, plain_seconds};
use super::record::{BadLine, Column, Header, Record, Row};
use super::{ImportError, Parser, Sink};

/// Reads one benchmark file.
pub(super) struct Benchmark {
    named: Option<NamedFile>,
    /// The folder of the run, where no pattern tells.
    folder: String,
    /// `None` for objects.
    columns: Option<Columns>,
    modified: Option<Timestamp>,
}

struct Columns {
    seconds: Column,
    max_rss: Column,
    io_in: Column,
    io_out: Column,
    mean_load: Column,
    cpu_time: Column,
    rule_name: Column,
    wildcards: Column,
    threads: Column,
    resources: Column,
    input_size_mb: Column,
}

/// The fields of a run, from either form.
struct Fields {
    rule: Option<String>,
    wildcards: Option<String>,
    seconds: Duration,
    load: Option<f64>,
    cpu: Option<Duration>,
    max_rss: Option<Bytes>,
    read: Option<Bytes>,
    written: Option<Bytes>,
    input: Option<Bytes>,
    requested: Requested,
    time_limit: Option<Duration>,
}

impl Benchmark {
    /// Whether this first line is one of a benchmark file.
    pub(super) fn is_header(line: &str) -> bool {
        Header::of(line, '\t').has("h:m:s") || (line.starts_with('{') && line.contains("\"h:m:s\""))
    }

    /// Of a file by its path and first line.
    pub(super) fn of(
        path: &str,
        line: &str,
        naming: &FileNaming,
        modified: Option<Timestamp>,
    ) -> Result<Self, ImportError> {
        let is_object = line.starts_with('{');
        let header = Header::of(line, '\t');
        if !is_object && !header.has("s") {
            return Err(ImportError::MissingColumn {
                column: "s",
                remedy: "is it a file of benchmark:?",
            });
        }
        let named = naming.name(path);
        let is_extended = match is_object {
            true => line.contains("\"rule_name\""),
            false => header.has("rule_name"),
        };
        if named.is_none() && !is_extended {
            return Err(ImportError::NoRule);
        }
        let at = |name| header.column(name);
        let columns = Columns {
            seconds: at("s"),
            max_rss: at("max_rss"),
            io_in: at("io_in"),
            io_out: at("io_out"),
            mean_load: at("mean_load"),
            cpu_time: at("cpu_time"),
            rule_name: at("rule_name"),
            wildcards: at("wildcards"),
            threads: at("threads"),
            resources: at("resources"),
            input_size_mb: at("input_size_mb"),
        };
        Ok(Self {
            folder: folder_of(path),
            named,
            columns: (!is_object).then_some(columns),
            modified,
        })
    }

    fn record(&self, line: u64, fields: Fields) -> Result<Record, BadLine> {
        let named = self.named.as_ref();
        let rule = fields.rule.or_else(|| named.map(|file| file.rule.clone()));
        let rule = rule.ok_or_else(|| BadLine {
            line,
            field: "rule_name".to_owned(),
            problem: "it is missing".to_owned(),
        })?;
        let of_file = named.and_then(|file| file.sample.clone());
        let sample = fields.wildcards.or(of_file);
        let wall = fields.seconds;
        let nanos = |time: Duration| CpuTime(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let by_load = fields.load.map(|load| busy(wall, load));
        Ok(Record {
            step: rule,
            run: Some(named.map_or_else(|| self.folder.clone(), |file| file.folder.clone())),
            // Each line is a repetition, and a task of its own.
            task: format!("{} {line}", sample.as_deref().unwrap_or_default()),
            sample,
            ended: self.modified,
            wall,
            cpu: fields.cpu.map(nanos).or(by_load),
            peak: fields.max_rss.filter(|peak| peak.0 > 0),
            disk: (fields.read.zip(fields.written)).map(|(a, b)| a.saturating_add(b)),
            input: fields.input,
            requested: fields.requested,
            time_limit: fields.time_limit,
            // A benchmark is written only when the job ended well.
            ..Record::default()
        })
    }
}

impl Parser for Benchmark {
    fn line(&mut self, number: u64, line: &str, sink: &mut Sink<'_>) {
        let fields = match &self.columns {
            Some(columns) => columns.fields(&Row::of(number, line, '\t')),
            None => of_object(number, line),
        };
        sink.take(
            number,
            fields.and_then(|fields| self.record(number, fields)),
        );
    }

    fn finish(&mut self, _: &mut Sink<'_>) {}

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

impl Columns {
    fn fields(&self, row: &Row<'_>) -> Result<Fields, BadLine> {
        let seconds = row.get(self.seconds, plain_seconds)?;
        let resources = row.get(self.resources, resources)?.unwrap_or_default();
        Ok(Fields {
            rule: row.text(self.rule_name).map(str::to_owned),
            wildcards: row.get(self.wildcards, wildcards)?.flatten(),
            seconds: seconds.ok_or_else(|| row.bad(self.seconds, "it is missing"))?,
            load: row.get(self.mean_load, percent)?,
            cpu: row.get(self.cpu_time, plain_seconds)?,
            max_rss: row.get(self.max_rss, mebibytes)?,
            read: row.get(self.io_in, mebibytes)?,
            written: row.get(self.io_out, mebibytes)?,
            input: row.get(self.input_size_mb, input)?,
            requested: Requested {
                cores: row.get(self.threads, cores)?,
                memory: memory(&resources),
            },
            time_limit: runtime(&resources),
        })
    }
}

/// A line of a `.jsonl` file.
fn of_object(line: u64, text: &str) -> Result<Fields, BadLine> {
    let bad = |field: &str, problem: String| BadLine {
        line,
        field: field.to_owned(),
        problem,
    };
    let value: Value = serde_json::from_str(text).map_err(|error| bad("", error.to_string()))?;
    let text_of = |name: &str| match value.get(name)? {
        Value::Null => None,
        Value::String(text) if text == "NA" || text == "-" => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    let read_text = |name: &str, read: fn(&str) -> Option<f64>| match text_of(name) {
        None => Ok(None),
        Some(text) => read(&text).map(Some).ok_or_else(|| {
            bad(
                name,
                format!("cannot read '{}'", super::record::excerpt(&text)),
            )
        }),
    };
    let number = |name: &str| read_text(name, super::quantity::number);
    let megabytes =
        |name: &str| Ok::<_, BadLine>(number(name)?.and_then(|n| mebibytes(&n.to_string())));
    let map_of = |name: &str| -> BTreeMap<String, String> {
        let entries = value.get(name).and_then(Value::as_object);
        let entries = entries.into_iter().flatten();
        let plain = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        entries
            .map(|(key, value)| (key.clone(), plain(value)))
            .collect()
    };
    let resources = map_of("resources");
    let sizes = map_of("input_size_mb");
    let seconds = number("s")?.and_then(|n| plain_seconds(&n.to_string()));
    Ok(Fields {
        rule: text_of("rule_name"),
        wildcards: pairs(&map_of("wildcards")),
        seconds: seconds.ok_or_else(|| bad("s", "it is missing".to_owned()))?,
        load: number("mean_load")?,
        cpu: number("cpu_time")?.and_then(|n| plain_seconds(&n.to_string())),
        max_rss: megabytes("max_rss")?,
        read: megabytes("io_in")?,
        written: megabytes("io_out")?,
        input: sum_of_sizes(&sizes),
        requested: Requested {
            cores: text_of("threads").and_then(|text| cores(&text)),
            memory: memory(&resources),
        },
        time_limit: runtime(&resources),
    })
}

/// The wildcards as `name=value`; the inner `None` where there are none.
fn wildcards(text: &str) -> Option<Option<String>> {
    dictionary(text).map(|values| pairs(&values))
}

fn pairs(values: &BTreeMap<String, String>) -> Option<String> {
    let pairs: Vec<String> = values
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    (!pairs.is_empty()).then(|| pairs.join(","))
}

fn resources(text: &str) -> Option<BTreeMap<String, String>> {
    dictionary(text)
}

/// `{'file': 12.5, …}` in mebibytes, or a number of them.
fn input(text: &str) -> Option<Bytes> {
    match mebibytes(text) {
        Some(bytes) => Some(bytes),
        None => sum_of_sizes(&dictionary(text)?),
    }
}

fn sum_of_sizes(sizes: &BTreeMap<String, String>) -> Option<Bytes> {
    let sizes: Option<Vec<f64>> = sizes.values().map(|size| size.parse().ok()).collect();
    let sizes = sizes.filter(|sizes| !sizes.is_empty())?;
    mebibytes(&sizes.iter().sum::<f64>().to_string())
}

/// `mem_mib`, or `mem_mb` in millions of bytes.
fn memory(resources: &BTreeMap<String, String>) -> Option<Bytes> {
    let of = |name: &str, by: u64| {
        Some(Bytes(
            resources.get(name)?.parse::<u64>().ok()?.checked_mul(by)?,
        ))
    };
    of("mem_mib", 1 << 20).or_else(|| of("mem_mb", 1_000_000))
}

/// `runtime`, in minutes.
fn runtime(resources: &BTreeMap<String, String>) -> Option<Duration> {
    let minutes: u64 = resources.get("runtime")?.parse().ok()?;
    Some(Duration::from_secs(minutes.checked_mul(60)?))
}

/// The folder of the run that a file is of: what is in front of the folder of benchmarks,
/// else the file's own.
fn folder_of(path: &str) -> String {
    let (folder, _) = path.rsplit_once('/').unwrap_or(("", path));
    let mut parts: Vec<&str> = folder.split('/').collect();
    if let Some(at) = parts.iter().position(|part| part.contains("benchmark")) {
        parts.truncate(at);
    }
    parts.join("/")
}
