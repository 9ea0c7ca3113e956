//! Snakemake's benchmark files. Each run is a tab-separated line, or an object in files that end in
//! `.jsonl`. They contain the rule's name only with `--benchmark-extended`; otherwise a pattern of
//! the path gives it.
//!
//! Source: "Benchmark rules", Snakemake's documentation, and `benchmark.py` of 9.27.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_telemetry::step::Requested;
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores};
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::pattern::{FileNaming, NamedFile};
use super::python_literal::dictionary;
use super::quantity::{busy, cores, mebibytes, number, percent, plain_seconds};
use super::record::{BadLine, Column, Header, Record, Row, excerpt, is_unknown};
use super::snakefile::{RuleRequest, Snakefile};
use super::{ImportError, Note, Parser, Sink, Source};

/// A shorter job is sampled only once, at its start.
///
/// Source: `BENCHMARK_INTERVAL_SHORT` of Snakemake's `benchmark.py`, half a second; two of those,
/// because a sample takes its time.
const SHORTEST_SAMPLED: Duration = Duration::from_secs(1);

/// Snakemake takes samples every half second until this time, and then every [`SAMPLE_INTERVAL`].
/// It takes none at the end of a job.
///
/// Source: `ScheduledPeriodicTimer` in `benchmark.py` of Snakemake 7 to 9.
const SHORT_INTERVALS_END: Duration = Duration::from_secs(15);
const SAMPLE_INTERVAL: Duration = Duration::from_secs(30);

/// The share of a job after its last sample, in percent, above which its CPU time is unknown.
const MAX_UNSAMPLED_PERCENT: u32 = 25;

/// Reads one benchmark file.
pub(super) struct Benchmark {
    named: Option<NamedFile>,
    /// The request of the rule in its Snakefile.
    request: RuleRequest,
    /// The folder of the run, if no pattern gives it.
    folder: String,
    /// `None` for objects.
    columns: Option<BenchmarkColumns>,
    modified: Option<Timestamp>,
    /// The beginning of a line with fewer fields than columns.
    open: Option<Open>,
}

/// A line whose last field continues on the next one: parameters are in Python syntax, and an array
/// takes several lines.
struct Open {
    line: u64,
    text: String,
}

impl Open {
    /// Whether all columns are present, or the last field shows no sign of a continuation.
    fn is_whole(&self, columns: usize) -> bool {
        let last = self.text.rsplit('\t').next().unwrap_or_default();
        let goes_on = last.starts_with('{') && !last.ends_with('}');
        !goes_on || self.text.len() >= MAX_OPEN_BYTES || self.text.split('\t').count() >= columns
    }
}

/// The most bytes of a field that continues on several lines.
const MAX_OPEN_BYTES: usize = 1 << 20;

/// The sources for the name and the request of a rule.
#[derive(Clone, Copy)]
pub(super) struct Rules<'a> {
    pub(super) naming: &'a FileNaming,
    pub(super) snakefile: Option<&'a Snakefile>,
}

impl Rules<'_> {
    fn request(&self, rule: &str) -> RuleRequest {
        let known = self.snakefile.and_then(|file| file.request(rule));
        known.unwrap_or_default()
    }
}

struct BenchmarkColumns {
    /// The number of columns, including those that are not read.
    count: usize,
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

/// The fields of a run in either form.
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
    has_memory_per_core: bool,
    time_limit: Option<Duration>,
}

impl Benchmark {
    /// Whether this first line is one of a benchmark file.
    pub(super) fn is_header(line: &str) -> bool {
        Header::parse(line, '\t').has("h:m:s")
            || (line.starts_with('{') && line.contains("\"h:m:s\""))
    }

    /// A reader for a file, by its path and first line.
    pub(super) fn open(
        source: &Source<'_>,
        line: &str,
        rules: Rules<'_>,
    ) -> Result<Self, ImportError> {
        let is_object = line.starts_with('{');
        let header = Header::parse(line, '\t');
        if !is_object && !header.has("s") {
            return Err(ImportError::MissingColumn {
                column: "s",
                remedy: "expected a file of the benchmark: directive",
            });
        }
        let named = rules.naming.name(source.path);
        let is_extended = match is_object {
            true => line.contains("\"rule_name\""),
            false => header.has("rule_name"),
        };
        let named = match named {
            Err(unnamed) if !is_extended => return Err(unnamed.into()),
            named => named.ok(),
        };
        let request = named.as_ref().map(|file| rules.request(&file.rule));
        let columns = BenchmarkColumns::from_header(&header);
        Ok(Self {
            folder: folder_of(source.path),
            named,
            request: request.unwrap_or_default(),
            columns: (!is_object).then_some(columns),
            modified: source.modified,
            open: None,
        })
    }

    fn take(&self, open: &Open, sink: &mut Sink<'_>) {
        let Some(columns) = &self.columns else {
            return;
        };
        let row = Row::split(open.line, &open.text, '\t');
        let record = Row::check_fields(open.line, row.len(), columns.count)
            .and_then(|()| row.check_end(columns.count))
            .and_then(|()| columns.fields(&row))
            .and_then(|fields| self.record(open.line, fields));
        sink.take(open.line, record);
    }

    fn record(&self, line: u64, fields: Fields) -> Result<Record, BadLine> {
        let named = self.named.as_ref();
        let rule = fields.rule.or_else(|| named.map(|file| file.rule.clone()));
        let rule = rule.ok_or_else(|| BadLine {
            line,
            field: "rule_name".to_owned(),
            problem: "missing".to_owned(),
        })?;
        let of_file = named.and_then(|file| file.sample.clone());
        let sample = fields.wildcards.or(of_file);
        let wall = fields.seconds;
        // A shorter job has one sample from its start, when it was still a shell.
        let is_sampled = wall >= SHORTEST_SAMPLED;
        let nanos = |time: Duration| CpuTime(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let cpu = fields.cpu.map(nanos);
        let cpu = cpu.or_else(|| fields.load.map(|load| busy(last_sample(wall), load)));
        Ok(Record {
            step: rule,
            run: Some(named.map_or_else(|| self.folder.clone(), |file| file.folder.clone())),
            // Each line is a repetition and its own task.
            task: format!("{} {line}", sample.as_deref().unwrap_or_default()),
            sample,
            ended: self.modified,
            wall,
            occupied: Some(wall),
            cpu: cpu
                .filter(|_| is_sampled)
                .and_then(|cpu| whole_cpu(cpu, wall)),
            peak: fields.max_rss.filter(|peak| peak.0 > 0 && is_sampled),
            disk: (fields.read.zip(fields.written)).map(|(a, b)| a.saturating_add(b)),
            input: fields.input,
            requested: Requested {
                cores: fields.requested.cores.or(self.request.requested.cores),
                memory: fields.requested.memory.or(self.request.requested.memory),
            },
            has_memory_per_core: fields.has_memory_per_core || self.request.has_memory_per_core,
            time_limit: fields.time_limit.or(self.request.time_limit),
            // Snakemake writes a benchmark only for successful jobs.
            ..Record::default()
        })
    }
}

impl Parser for Benchmark {
    fn line(&mut self, number: u64, line: &str, sink: &mut Sink<'_>) {
        let Some(columns) = &self.columns else {
            let fields = of_object(number, line);
            let record = fields.and_then(|fields| self.record(number, fields));
            return sink.take(number, record);
        };
        // Files may be concatenated, also of runs with other options.
        if self.open.is_none() && line.starts_with("s\th:m:s") {
            self.columns = Some(BenchmarkColumns::from_header(&Header::parse(line, '\t')));
            return;
        }
        let open = match self.open.take() {
            Some(mut open) => {
                open.text.push(' ');
                open.text.push_str(line.trim_start());
                open
            }
            None => Open {
                line: number,
                text: line.to_owned(),
            },
        };
        match open.is_whole(columns.count) {
            true => self.take(&open, sink),
            false => self.open = Some(open),
        }
    }

    fn finish(&mut self, sink: &mut Sink<'_>) {
        if let Some(open) = self.open.take() {
            self.take(&open, sink);
        }
    }

    fn notes(&self) -> Vec<Note> {
        vec![
            "Snakemake takes samples every 30 seconds after the first 15, and none at the end. So \
             benchmark files do not contain shorter peaks of memory. The CPU time counts if at \
             most a quarter of the job was after its last sample"
                .to_owned()
                .into(),
        ]
    }
}

/// The time of the last sample of a job that took so long.
fn last_sample(wall: Duration) -> Duration {
    let Some(after) = wall.checked_sub(SHORT_INTERVALS_END) else {
        return wall;
    };
    let samples = after.as_secs() / SAMPLE_INTERVAL.as_secs();
    SHORT_INTERVALS_END + Duration::from_secs(samples * SAMPLE_INTERVAL.as_secs())
}

/// The CPU time of a whole job from the CPU time until its last sample, at the same rate. `None` if
/// too much of the job was not sampled.
fn whole_cpu(until_sample: CpuTime, wall: Duration) -> Option<CpuTime> {
    let sampled = last_sample(wall);
    let is_known = (wall - sampled) * 100 <= wall * MAX_UNSAMPLED_PERCENT;
    let nanos = u128::from(until_sample.0) * wall.as_nanos() / sampled.as_nanos().max(1);
    is_known.then(|| CpuTime(u64::try_from(nanos).unwrap_or(u64::MAX)))
}

impl BenchmarkColumns {
    fn from_header(header: &Header) -> Self {
        let at = |name| header.column(name);
        Self {
            count: header.len(),
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
        }
    }

    fn fields(&self, row: &Row<'_>) -> Result<Fields, BadLine> {
        let seconds = row.get(self.seconds, plain_seconds)?;
        let resources = row.get(self.resources, resources)?.unwrap_or_default();
        Ok(Fields {
            rule: row.text(self.rule_name).map(str::to_owned),
            wildcards: row.get(self.wildcards, wildcards)?.flatten(),
            seconds: seconds.ok_or_else(|| row.bad(self.seconds, "missing"))?,
            load: row.get(self.mean_load, percent)?,
            cpu: row.get(self.cpu_time, plain_seconds)?,
            max_rss: row.get(self.max_rss, mebibytes)?,
            read: row.get(self.io_in, mebibytes)?,
            written: row.get(self.io_out, mebibytes)?,
            input: row.get(self.input_size_mb, input)?.flatten(),
            requested: Requested {
                cores: row.get(self.threads, cores)?,
                memory: memory(&resources, row.get(self.threads, cores)?),
            },
            has_memory_per_core: resources.contains_key(PER_CORE),
            time_limit: runtime(&resources),
        })
    }
}

/// The fields of a line in a `.jsonl` file.
fn of_object(line: u64, text: &str) -> Result<Fields, BadLine> {
    let object = Object::parse(line, text)?;
    let resources = object.map("resources")?;
    let seconds = object.get("s", plain_seconds)?;
    Ok(Fields {
        rule: object.text("rule_name"),
        wildcards: pairs(&object.map("wildcards")?),
        seconds: seconds.ok_or_else(|| object.bad("s", "missing".to_owned()))?,
        load: object.get("mean_load", number)?,
        cpu: object.get("cpu_time", plain_seconds)?,
        max_rss: object.get("max_rss", mebibytes)?,
        read: object.get("io_in", mebibytes)?,
        written: object.get("io_out", mebibytes)?,
        input: match object.values.get("input_size_mb") {
            Some(Value::Number(_)) => object.get("input_size_mb", mebibytes)?,
            _ => sum_of_sizes(&object.map("input_size_mb")?),
        },
        requested: Requested {
            cores: object.get("threads", cores)?,
            memory: memory(&resources, object.get("threads", cores)?),
        },
        has_memory_per_core: resources.contains_key(PER_CORE),
        time_limit: runtime(&resources),
    })
}

/// An object with errors that name its line and the field.
struct Object {
    line: u64,
    values: Map<String, Value>,
}

impl Object {
    fn parse(line: u64, text: &str) -> Result<Self, BadLine> {
        let problem = match serde_json::from_str(text) {
            Ok(Value::Object(values)) => return Ok(Self { line, values }),
            Err(error) if error.is_eof() => {
                "a JSON object without an end; the file may be incomplete"
            }
            _ => "not a JSON object",
        };
        Err(BadLine {
            line,
            field: "line".to_owned(),
            problem: problem.to_owned(),
        })
    }

    fn bad(&self, field: &str, problem: String) -> BadLine {
        BadLine {
            line: self.line,
            field: field.to_owned(),
            problem,
        }
    }

    fn invalid(&self, field: &str, text: &str) -> BadLine {
        self.bad(field, format!("invalid value '{}'", excerpt(text)))
    }

    /// `None` if it is missing or marked as unknown.
    fn text(&self, field: &str) -> Option<String> {
        match self.values.get(field)? {
            Value::Null => None,
            Value::String(text) if is_unknown(text) => None,
            value => Some(plain(value)),
        }
    }

    fn get<T>(&self, field: &str, read: fn(&str) -> Option<T>) -> Result<Option<T>, BadLine> {
        let Some(text) = self.text(field) else {
            return Ok(None);
        };
        let value = read(&text);
        value.map(Some).ok_or_else(|| self.invalid(field, &text))
    }

    /// A map; empty if it is missing.
    fn map(&self, field: &str) -> Result<BTreeMap<String, String>, BadLine> {
        match self.values.get(field) {
            None | Some(Value::Null) => Ok(BTreeMap::new()),
            Some(Value::String(text)) if is_unknown(text) => Ok(BTreeMap::new()),
            Some(Value::Object(entries)) => {
                let entries = entries.iter();
                Ok(entries
                    .map(|(key, value)| (key.clone(), plain(value)))
                    .collect())
            }
            Some(other) => Err(self.invalid(field, &plain(other))),
        }
    }
}

/// The text of a value, without the quotes of JSON.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The wildcards as `name=value`; the inner `None` if there are none.
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

/// Input size: `{'file': 12.5, …}` in mebibytes, or a number of mebibytes. The inner `None` is for
/// a job without input files.
fn input(text: &str) -> Option<Option<Bytes>> {
    match mebibytes(text) {
        Some(bytes) => Some(Some(bytes)),
        None => dictionary(text).map(|sizes| sum_of_sizes(&sizes)),
    }
}

fn sum_of_sizes(sizes: &BTreeMap<String, String>) -> Option<Bytes> {
    let sizes: Option<Vec<f64>> = sizes.values().map(|size| size.parse().ok()).collect();
    let sizes = sizes.filter(|sizes| !sizes.is_empty())?;
    mebibytes(&sizes.iter().sum::<f64>().to_string())
}

/// The resource of Snakemake for memory by core, which takes precedence with Slurm.
const PER_CORE: &str = "mem_mb_per_cpu";

/// Memory from `mem_mb_per_cpu` and the threads, otherwise from `mem_mib`, or from `mem_mb` in
/// millions of bytes.
fn memory(resources: &BTreeMap<String, String>, threads: Option<MilliCores>) -> Option<Bytes> {
    let of = |name: &str, by: f64| -> Option<Bytes> {
        let bytes = number(resources.get(name)?)? * by;
        (bytes > 0.0 && bytes < 1e18).then(|| Bytes(bytes.round() as u64))
    };
    if resources.contains_key(PER_CORE) {
        return of(PER_CORE, 1e6 * threads?.as_cores());
    }
    of("mem_mib", 1_048_576.0).or_else(|| of("mem_mb", 1e6))
}

/// Time limit from `runtime`, in minutes.
fn runtime(resources: &BTreeMap<String, String>) -> Option<Duration> {
    let minutes = number(resources.get("runtime")?)?;
    (minutes > 0.0 && minutes < 1e9).then(|| Duration::from_secs_f64(minutes * 60.0))
}

/// The folder of a file's run: the parent of the benchmarks folder, otherwise the folder of the
/// file.
fn folder_of(path: &str) -> String {
    let (folder, _) = path.rsplit_once('/').unwrap_or(("", path));
    let mut parts: Vec<&str> = folder.split('/').collect();
    if let Some(at) = parts.iter().position(|part| part.contains("benchmark")) {
        parts.truncate(at);
    }
    parts.join("/")
}
