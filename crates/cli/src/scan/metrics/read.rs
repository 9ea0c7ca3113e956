//! Reads metrics from CSV. An invalid line is reported with its number and field, and reading
//! continues.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use anyhow::{Result, bail};
use ebb_model::inventory::host::MeteredMachine;
use ebb_model::metric_series::{MetricSample, MetricSeries};
use ebb_model::text_file::bad_lines::{BadLine, BadLines, shown};
use ebb_model::text_file::csv::{CsvFile, Record};
use ebb_telemetry::identity::{InstanceType, NodeId, Region};
use ebb_telemetry::units::Share;
use jiff::{SignedDuration, Timestamp};

const TIMESTAMP: &str = "timestamp";
const RESOURCE: &str = "resource_id";
const LINE: &str = "line";
const VALUES: [&str; 6] = [
    "cpu_pct",
    "memory_pct",
    "net_in_bytes",
    "net_out_bytes",
    "disk_read_bytes",
    "disk_write_bytes",
];

/// Optional columns about the machine itself.
const ABOUT: [&str; 3] = ["instance_type", "region", "simulated"];

/// Columns that are required to call a machine idle.
const NEEDED: [&str; 3] = ["cpu_pct", "net_in_bytes", "net_out_bytes"];

/// The most per cent of the whole machine: sums of decimal fractions may exceed 100 a little.
const MOST_PERCENT: f64 = 101.0;

/// The greatest value of a column that may be fractions, in the unit of the file. Fractions may exceed
/// 1 a little, as `1 - rate(idle)` of Prometheus does after a late sample. A limit works for files of
/// any length; without the largest values, a file of few rows has no protection.
const MOST_FRACTION: f64 = 1.5;

/// CPU above this and below 0 counts as 0: differences of counters may be less than 0 a little. -1
/// itself often means that there is no value.
const CPU_BELOW: f64 = -1.0;

/// Words of exporters for an unknown value, without case.
const UNKNOWN: [&str; 7] = ["", "-", "NaN", "N/A", "NA", "null", "None"];

/// The most rows, at about 100 bytes each; later rows are refused and counted.
const MAX_ROWS: usize = 5_000_000;

/// The content of a file.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    /// By machine, in chronological order.
    pub(super) series: BTreeMap<NodeId, MetricSeries>,
    /// The data about each machine itself.
    pub(super) machines: BTreeMap<NodeId, MeteredMachine>,
    /// Valid rows of all machines that are evaluated.
    pub(super) rows: usize,
    /// Rows that repeat the time and all values of an earlier row of the machine. They are ignored.
    pub(super) repeated_rows: usize,
    /// Invalid lines.
    pub(super) bad_lines: BadLines,
    /// Columns without a known name.
    pub(super) unread_columns: Vec<String>,
    /// Machines with CPU above 100 per cent in some row. They are not evaluated: their other rows
    /// are those with little load.
    pub(super) per_core: BTreeSet<NodeId>,
    /// Columns without a value above 1.5, which suggests fractions instead of per cent. Their values
    /// are left out.
    pub(super) perhaps_fractions: Vec<&'static str>,
    /// Missing columns that every evaluation requires.
    pub(super) missing_columns: Vec<&'static str>,
}

impl Metrics {
    /// The time of the newest row.
    pub(super) fn newest(&self) -> Option<Timestamp> {
        let last = self
            .series
            .values()
            .filter_map(|series| series.points().next_back());
        last.map(|point| point.end).max()
    }
}

/// Reads the whole file. Fails if the header is not one of metrics. With `are_percent`, CPU and
/// memory are per cent, although no value is above 1.5.
pub(super) fn read(source: impl Read, are_percent: bool) -> Result<Metrics> {
    let mut file = CsvFile::new(source)?;
    let (mut metrics, mut record) = (Metrics::default(), Record::default());
    match file.read(&mut record)? {
        Some(Ok(())) => {}
        Some(Err(why)) => bail!("invalid first line: {why}"),
        None => bail!("the file is empty"),
    }
    let columns = MetricColumns::from_header(&record, &mut metrics)?;
    let mut rows: BTreeMap<NodeId, MachineRows> = BTreeMap::new();
    let mut kept = 0;
    while let Some(read) = file.read(&mut record)? {
        let line = record.line;
        let row = read
            .map_err(|why| BadLine::new(line, LINE, why))
            .and_then(|()| columns.row(&record, line));
        let taken = row.and_then(|row| {
            if kept == MAX_ROWS {
                return Err(BadLine::new(
                    line,
                    RESOURCE,
                    format!("more than {MAX_ROWS} rows"),
                ));
            }
            if row.is_over {
                metrics.per_core.insert(row.id);
                let why = "more than 100 % of the whole machine".to_owned();
                return Err(BadLine::new(line, VALUES[0], why));
            }
            let machine = rows.entry(row.id).or_default();
            let earlier = machine.samples.get(&row.at);
            let is_repeated = earlier.is_some_and(|earlier| *earlier == row.sample);
            if earlier.is_some() && !is_repeated {
                let why = "a second row of the machine for this time, with other values";
                return Err(BadLine::new(line, TIMESTAMP, why));
            }
            columns.describe(&record, line, &mut machine.about)?;
            match is_repeated {
                true => metrics.repeated_rows += 1,
                false => {
                    machine.samples.insert(row.at, row.sample);
                    kept += 1;
                }
            }
            Ok(())
        });
        if let Err(refused) = taken {
            metrics.bad_lines.add(refused);
        }
    }
    if !are_percent {
        metrics.perhaps_fractions = leave_out_fractions(&mut rows);
    }
    rows.retain(|id, _| !metrics.per_core.contains(id));
    for (id, machine) in rows {
        metrics.rows += machine.samples.len();
        let series = MetricSeries::from_samples(machine.samples);
        metrics.series.insert(id.clone(), series);
        metrics.machines.insert(id, machine.about);
    }
    Ok(metrics)
}

/// Removes the values of columns without a value above 1.5, and returns the names of these columns.
fn leave_out_fractions(rows: &mut BTreeMap<NodeId, MachineRows>) -> Vec<&'static str> {
    type Value = fn(&mut MetricSample) -> &mut Option<Share>;
    let columns: [(&str, Value); 2] = [
        (VALUES[0], |sample| &mut sample.cpu),
        (VALUES[1], |sample| &mut sample.memory),
    ];
    let mut left_out = Vec::new();
    for (name, value) in columns {
        let samples = rows.values_mut().flat_map(|row| row.samples.values_mut());
        let mut values: Vec<_> = samples.map(value).collect();
        let most = values.iter().filter_map(|value| **value).max();
        if most.is_some_and(|most| most <= share_of(MOST_FRACTION)) {
            values.iter_mut().for_each(|value| **value = None);
            left_out.push(name);
        }
    }
    left_out
}

/// A machine while its rows are read.
#[derive(Default)]
struct MachineRows {
    samples: BTreeMap<Timestamp, MetricSample>,
    about: MeteredMachine,
}

struct MetricRow {
    id: NodeId,
    at: Timestamp,
    sample: MetricSample,
    /// True if its CPU is above 100 per cent in some row.
    is_over: bool,
}

/// The position of each field in a row.
struct MetricColumns {
    timestamp: usize,
    resource: usize,
    values: [Option<usize>; VALUES.len()],
    about: [Option<usize>; ABOUT.len()],
}

impl MetricColumns {
    fn from_header(header: &Record, metrics: &mut Metrics) -> Result<Self> {
        let names: Vec<&str> = header.iter().collect();
        let at = |wanted: &str| {
            names
                .iter()
                .position(|name| name.eq_ignore_ascii_case(wanted))
        };
        let (Some(timestamp), Some(resource)) = (at(TIMESTAMP), at(RESOURCE)) else {
            bail!(
                "the first line must contain the column names {TIMESTAMP},{RESOURCE},{}",
                VALUES.join(",")
            );
        };
        let known = [TIMESTAMP, RESOURCE].into_iter().chain(VALUES).chain(ABOUT);
        let known: Vec<&str> = known.collect();
        let is_known = |name: &str| known.iter().any(|known| known.eq_ignore_ascii_case(name));
        let unread = names.iter().filter(|name| !is_known(name));
        metrics.unread_columns = unread.map(|name| shown(name)).collect();
        let missing = NEEDED.into_iter().filter(|name| at(name).is_none());
        metrics.missing_columns = missing.collect();
        Ok(Self {
            timestamp,
            resource,
            values: VALUES.map(at),
            about: ABOUT.map(at),
        })
    }

    /// Stores the data of a row about the machine itself; the newest line with a value counts.
    fn describe(
        &self,
        record: &Record,
        line: u64,
        about: &mut MeteredMachine,
    ) -> Result<(), BadLine> {
        let field = |n: usize| {
            let text = self.about[n].and_then(|at| record.get(at));
            text.filter(|text| !is_unknown(text))
        };
        let bad = |n: usize, why: String| BadLine::new(line, ABOUT[n], why);
        let known = about.instance_type.as_ref().map(InstanceType::as_str);
        if let Some(text) = field(0).filter(|text| Some(*text) != known) {
            let kind = InstanceType::new(text).map_err(|error| bad(0, error.to_string()))?;
            about.instance_type = Some(kind);
        }
        let known = about.region.as_ref().map(Region::as_str);
        if let Some(text) = field(1).filter(|text| Some(*text) != known) {
            let region = Region::new(text).map_err(|error| bad(1, error.to_string()))?;
            about.region = Some(region);
        }
        about.is_simulated |= match field(2) {
            None | Some("false") => false,
            Some("true") => true,
            Some(other) => {
                let why = format!("'{}' is neither true nor false", shown(other));
                return Err(bad(2, why));
            }
        };
        Ok(())
    }

    fn row(&self, record: &Record, line: u64) -> Result<MetricRow, BadLine> {
        let field = |at: usize| record.get(at).unwrap_or_default();
        let at =
            timestamp(field(self.timestamp)).map_err(|why| BadLine::new(line, TIMESTAMP, why))?;
        let id = NodeId::new(field(self.resource))
            .map_err(|error| BadLine::new(line, RESOURCE, error.to_string()))?;
        let value = |n: usize| {
            let text = self.values[n].map_or("", field);
            let above = (n == 0).then_some(CPU_BELOW);
            number(text, above).map_err(|why| BadLine::new(line, VALUES[n], why))
        };
        let percent = |n: usize| match value(n)? {
            Some(percent) if percent > MOST_PERCENT => {
                let why = format!("{percent} is more than 100 % of the whole machine");
                Err(BadLine::new(line, VALUES[n], why))
            }
            percent => Ok(percent.map(share_of)),
        };
        // A sum with one unknown part is unknown.
        let both = |a: usize, b: usize| {
            let (a, b) = (value(a)?, value(b)?);
            Ok::<_, BadLine>(a.zip(b).map(|(a, b)| (a + b) as u64))
        };
        let is_over = value(0)?.is_some_and(|cpu| cpu > MOST_PERCENT);
        let sample = MetricSample {
            cpu: if is_over { None } else { percent(0)? },
            memory: percent(1)?,
            network_bytes: both(2, 3)?,
            disk_bytes: both(4, 5)?,
        };
        Ok(MetricRow {
            id,
            at,
            sample,
            is_over,
        })
    }
}

/// Per cent as a share; more than 100 counts as 100.
fn share_of(percent: f64) -> Share {
    Share::from_ppm((percent.min(100.0) * 10_000.0).round() as u32)
}

/// How far a time may be in the future, for the clocks of other machines. A single wrong time in the
/// future would make all other machines ended.
const MAX_AHEAD: SignedDuration = SignedDuration::from_hours(1);

/// A time with a zone, or seconds or milliseconds since 1970; a local time without a zone is refused.
fn timestamp(text: &str) -> Result<Timestamp, String> {
    let number = text.parse::<f64>();
    let time = match number {
        Ok(number) if !number.is_finite() => None,
        // Seconds of this size are after the year 5000.
        Ok(number) if number.abs() >= 1e11 => Timestamp::from_millisecond(number as i64).ok(),
        Ok(number) => Timestamp::from_second(number as i64).ok(),
        Err(_) => text.parse().ok(),
    };
    let time = time.ok_or_else(|| {
        format!(
            "'{}' is neither a time such as 2026-09-01T00:05:00Z nor seconds or milliseconds since 1970",
            shown(text)
        )
    })?;
    match time.duration_since(Timestamp::now()) > MAX_AHEAD {
        true => Err(format!("'{}' is in the future", shown(text))),
        false => Ok(time),
    }
}

fn is_unknown(text: &str) -> bool {
    UNKNOWN.iter().any(|word| word.eq_ignore_ascii_case(text))
}

/// A number from 0, or `None` if it is unknown. A number below 0 and above `zero_above` counts as 0.
fn number(text: &str, zero_above: Option<f64>) -> Result<Option<f64>, String> {
    if is_unknown(text) {
        return Ok(None);
    }
    let number = text.parse::<f64>().ok();
    let is_valid = |n: f64| n >= 0.0 || zero_above.is_some_and(|above| n > above);
    let number = number.filter(|n| n.is_finite() && is_valid(*n));
    number
        .map(|n| Some(n.max(0.0)))
        .ok_or_else(|| format!("'{}' is not a number from 0", shown(text)))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use super::*;

    fn metrics_of(text: &str) -> Metrics {
        read(text.as_bytes(), true).expect("the header is one")
    }

    #[test]
    fn columns_are_known_by_name_and_what_is_empty_is_unknown() {
        let read = metrics_of(
            "\u{feff}resource_id,cpu_pct,timestamp,colour,net_in_bytes,net_out_bytes\n\
             a, 12.5 ,2026-09-01T00:05:00Z,red,7,8\n\
             a,,2026-09-01T02:10:00+02:00,,7,\n",
        );
        assert_eq!(read.unread_columns, ["colour"]);
        assert_eq!(read.bad_lines.count(), 0, "{:?}", read.bad_lines);
        let series = read.series.values().next().expect("one machine");
        let points: Vec<_> = series.points().collect();
        let values = points.iter().map(|p| {
            let cpu = p.cpu_max.map(Share::ppm);
            (p.end.to_string(), p.period_seconds, cpu, p.network_bytes)
        });
        let expect = [
            (
                "2026-09-01T00:05:00Z".to_owned(),
                300,
                Some(125_000),
                Some(15),
            ),
            ("2026-09-01T00:10:00Z".to_owned(), 300, None, None),
        ];
        assert_eq!(values.collect::<Vec<_>>(), expect);
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named_and_the_rest_goes_on() {
        let check = |row: &str, expect: &str| {
            let text = format!(
                "timestamp,resource_id,cpu_pct,memory_pct,disk_read_bytes\n0,a,1,1,1\n{row}\n600,a,1,1,1\n"
            );
            let read = metrics_of(&text);
            let gaps = read.bad_lines.gaps(Path::new("/a/f.csv"));
            assert_eq!(gaps.len(), 1, "{row}: {gaps:?}");
            let message = format!("{}: {}", gaps[0].scope, gaps[0].reason);
            assert!(
                message.starts_with(&format!("f.csv:{expect}")),
                "{row}: {message}"
            );
            let points = read.series.values().map(|series| series.points().len());
            assert_eq!(points.sum::<usize>(), 2, "{row}");
        };
        check(
            "2026-09-01 00:00,a,1,1,1",
            "3: timestamp: '2026-09-01 00:00' is neither a time",
        );
        check(
            "2999-01-01T00:00:00Z,a,1,1,1",
            "3: timestamp: '2999-01-01T00:00:00Z' is in the future",
        );
        check("300,,1,1,1", "3: resource_id: node id is empty");
        check("300,a b,1,1,1", "3: resource_id: node id 'a b' holds");
        check("300,a,1%,1,1", "3: cpu_pct: '1%' is not a number");
        check("300,a,-1,1,1", "3: cpu_pct: '-1' is not a number");
        check("300,a,inf,1,1", "3: cpu_pct: 'inf' is not a number");
        check("300,a,1,-0.5,1", "3: memory_pct: '-0.5' is not a number");
        check("300,a,1,102,1", "3: memory_pct: 102 is more than 100");
        check("300,a,1,1,x", "3: disk_read_bytes: 'x' is not a number");
        check(
            "0,a,1,2,1",
            "3: timestamp: a second row of the machine for this time, with other values",
        );
    }

    #[test]
    fn rows_that_repeat_others_are_counted() {
        let check = |row: &str, expect: (usize, u64)| {
            let text =
                format!("timestamp,resource_id,cpu_pct,memory_pct\n0,a,1,\n{row}\n600,a,1,2\n");
            let read = metrics_of(&text);
            let found = (read.repeated_rows, read.bad_lines.count());
            assert_eq!(found, expect, "{row}: {:?}", read.bad_lines);
            let points = read.series.values().map(|series| series.points().len());
            assert_eq!(points.sum::<usize>(), 2, "{row}");
        };
        check("0,a,1,", (1, 0));
        check("1970-01-01T00:00:00Z,a,1.0,NaN", (1, 0));
        check("0,a,1,0", (0, 1));
        check("0,a,2,", (0, 1));
    }

    #[test]
    fn times_and_values_of_other_tools_are_read() {
        let read = metrics_of(
            "TIMESTAMP,Resource_ID,cpu_pct\n1788220800.0,a,100.0000001\n1788221100000,a,5\n",
        );
        assert_eq!((read.bad_lines.count(), read.per_core.len()), (0, 0));
        let points = read.series.values().flat_map(|series| series.points());
        let ends: Vec<(i64, Option<u32>)> = points
            .map(|point| (point.end.as_second(), point.cpu_max.map(Share::ppm)))
            .collect();
        let expect = [(1_788_220_800, 1_000_000), (1_788_221_100, 50_000)];
        assert_eq!(ends, expect.map(|(at, cpu)| (at, Some(cpu))));
    }

    #[test]
    fn a_word_for_unknown_costs_its_own_value_only() {
        let check = |values: &str, expect: [Option<u64>; 4]| {
            let read = metrics_of(&format!(
                "timestamp,resource_id,cpu_pct,memory_pct,net_in_bytes,net_out_bytes,\
                 disk_read_bytes,disk_write_bytes,instance_type\n0,a,{values}\n300,a,{values}\n"
            ));
            assert_eq!(read.bad_lines.count(), 0, "{values}: {:?}", read.bad_lines);
            let percent = |share: Option<Share>| share.map(|share| u64::from(share.ppm() / 10_000));
            let points = read.series.values().flat_map(|series| series.points());
            let found: Vec<_> = points
                .map(|p| {
                    [
                        percent(p.cpu_max),
                        percent(p.memory),
                        p.network_bytes,
                        p.disk_bytes,
                    ]
                })
                .collect();
            assert_eq!(found, [expect, expect], "{values}");
        };
        let all = [Some(5), Some(40), Some(3), Some(7)];
        let [cpu, memory, network, disk] = all;
        check("5,40,1,2,3,4,m5.large", all);
        for word in ["NaN", "nan", "N/A", "NA", "null", "None", "-"] {
            check(
                &format!("{word},40,1,2,3,4,"),
                [None, memory, network, disk],
            );
            check(&format!("5,{word},1,2,3,4,"), [cpu, None, network, disk]);
            check(&format!("5,40,1,{word},3,4,"), [cpu, memory, None, disk]);
            check(&format!("5,40,1,2,{word},4,"), [cpu, memory, network, None]);
            check(&format!("5,40,1,2,3,4,{word}"), all);
        }
        for below in ["-0.021", "-0.99", "-0"] {
            check(
                &format!("{below},40,1,2,3,4,"),
                [Some(0), memory, network, disk],
            );
        }
    }

    #[test]
    fn a_quote_that_is_not_closed_costs_its_own_line_only() {
        let read =
            metrics_of("timestamp,resource_id,cpu_pct\n0,a,1\n300,\"a,1\n600,a,1\n900,a,1\n");
        let gaps = read.bad_lines.gaps(Path::new("/a/f.csv"));
        assert_eq!(gaps.len(), 1);
        assert_eq!(gaps[0].scope, "f.csv:3: line");
        assert_eq!(gaps[0].reason, "missing closing quote");
        let points = read.series.values().map(|series| series.points().len());
        assert_eq!(points.sum::<usize>(), 3);
    }

    #[test]
    fn a_file_that_is_no_table_is_refused_at_once() {
        let check = |source: &mut dyn Read, expect: &str| {
            let error = super::read(source, true).expect_err(expect).to_string();
            assert!(error.contains(expect), "{error}");
        };
        check(&mut io::repeat(0), "not a text file: line 1 has a NUL byte");
        check(&mut io::repeat(b'x'), "line 1 has more than 64 MiB");
        let wide = format!("timestamp,resource_id{}\n", ",x".repeat(300_000));
        check(
            &mut wide.as_bytes(),
            "invalid first line: more than 1000 columns",
        );
        check(&mut io::empty(), "the file is empty");
    }

    #[test]
    fn a_row_that_has_too_few_fields_lacks_only_those() {
        let read = metrics_of("timestamp,resource_id,cpu_pct,memory_pct\n0,a,5\n300,a,6\n");
        let series = read.series.values().next().expect("one machine");
        let points: Vec<_> = series.points().collect();
        assert!(
            points
                .iter()
                .all(|p| p.cpu_max.is_some() && p.memory.is_none())
        );
    }

    #[test]
    fn what_a_file_says_about_a_machine_itself_is_kept_and_may_change() {
        let header = "timestamp,resource_id,instance_type,region,simulated\n";
        let read = metrics_of(&format!(
            "{header}0,a,m5.large,eu-west-1,true\n300,a,,,\n600,a,m5.xlarge,,false\n0,b,,,\n"
        ));
        assert!(read.unread_columns.is_empty());
        let about = |id: &str| read.machines[&NodeId::new(id).expect("an id")].clone();
        let a = about("a");
        let kind = a.instance_type.as_ref().map(InstanceType::as_str);
        let region = a.region.as_ref().map(Region::as_str);
        assert_eq!(
            (kind, region, a.is_simulated),
            (Some("m5.xlarge"), Some("eu-west-1"), true)
        );
        assert_eq!(about("b"), MeteredMachine::default());

        let check = |row: &str, expect: &str| {
            let read = metrics_of(&format!("{header}0,a,,,\n{row}\n600,a,,,\n"));
            let gaps = read.bad_lines.gaps(Path::new("/a/f.csv"));
            let message = format!("{}: {}", gaps[0].scope, gaps[0].reason);
            assert!(
                message.starts_with(&format!("f.csv:3: {expect}")),
                "{message}"
            );
        };
        check("300,a,m5 large,,", "instance_type: ");
        check("300,a,,nowhere at all,", "region: ");
        check(
            "300,a,,,maybe",
            "simulated: 'maybe' is neither true nor false",
        );
    }

    #[test]
    fn values_up_to_1_5_may_be_fractions_and_count_only_if_they_are_said_to_be_percent() {
        let check = |most: &str, are_percent: bool, expect: &[&str]| {
            let text =
                format!("timestamp,resource_id,cpu_pct,memory_pct\n0,a,0.97,40\n300,a,{most},41\n");
            let read = read(text.as_bytes(), are_percent).expect("the header is one");
            assert_eq!(read.perhaps_fractions, expect, "{most}");
            let series = read.series.values().next().expect("one machine");
            let is_known = expect.is_empty();
            let mut points = series.points();
            assert!(points.all(|p| p.cpu_max.is_some() == is_known && p.memory.is_some()));
        };
        for most in ["0.2", "1.0132", "1.5"] {
            check(most, false, &["cpu_pct"]);
            check(most, true, &[]);
        }
        check("1.51", false, &[]);
    }

    #[test]
    fn a_gap_between_rows_is_about_nothing() {
        let read = metrics_of(
            "timestamp,resource_id,cpu_pct\n900,a,1\n0,a,1\n300,a,1\n4500,a,1\n5000,a,1\n1200,a,1\n1,b,1\n",
        );
        let lengths = |id: &str| -> Vec<u32> {
            let series = &read.series[&NodeId::new(id).expect("an id")];
            series.points().map(|p| p.period_seconds).collect()
        };
        // The median distance of 0, 300, 900, 1200, 4500, 5000 is 500 seconds.
        assert_eq!(lengths("a"), [500, 300, 600, 300, 500, 500]);
        assert_eq!(lengths("b"), [0_u32; 0]);
    }

    #[test]
    fn a_header_that_names_no_machine_is_refused() {
        let error = read("time,host\n1,a\n".as_bytes(), true).expect_err("no header");
        assert!(
            error.to_string().contains("timestamp,resource_id,cpu_pct"),
            "{error}"
        );
    }
}
