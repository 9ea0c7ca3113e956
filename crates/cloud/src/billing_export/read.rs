//! Reads rows of the billing export and sums them by day. An invalid row is reported with its line
//! and field, and reading continues.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};

use ebb_model::text_file::bad_lines::{BadLine, BadLines};
use ebb_model::text_file::csv::{CsvFile, Record};
use ebb_model::text_file::lines::{Line, Lines};
use ebb_telemetry::identity::NodeId;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use thiserror::Error;

use super::row::{self, BillingColumns, BillingRow, LINE};

/// The most sums, at about 100 bytes each; later rows are refused and counted.
const MAX_SUMS: usize = 2_000_000;

/// The sums of one day in billionths of a dollar.
#[derive(Debug, Clone, Default)]
pub(super) struct Day {
    pub(super) by_service: BTreeMap<String, i128>,
    pub(super) by_node: BTreeMap<NodeId, i128>,
    /// By the value of each requested tag; `""` if a row has no value.
    pub(super) by_tag: BTreeMap<String, BTreeMap<String, i128>>,
}

/// The content of a billing file.
#[derive(Debug, Clone, Default)]
pub(super) struct BillingFile {
    pub(super) days: BTreeMap<Date, Day>,
    /// The latest start of usage in any row.
    pub(super) newest: Option<Timestamp>,
    /// Invalid lines.
    pub(super) bad_lines: BadLines,
    /// Whether it is CSV without the column of credits.
    pub(super) is_without_credits: bool,
    sums: usize,
}

impl BillingFile {
    fn take(&mut self, row: BillingRow, tags: &BTreeSet<String>, line: u64) -> Result<(), BadLine> {
        if self.sums >= MAX_SUMS {
            let why = format!("more than {MAX_SUMS} services and resources by day");
            return Err(BadLine::new(line, LINE, why));
        }
        let date = row.start.to_zoned(TimeZone::UTC).date();
        let day = self.days.entry(date).or_default();
        self.sums += add(&mut day.by_service, row.service, row.net_nanos);
        if let Some(node) = row.node {
            self.sums += add(&mut day.by_node, node, row.price_nanos);
        }
        for tag in tags {
            let value = row.labels.get(tag).cloned().unwrap_or_default();
            let by_value = day.by_tag.entry(tag.clone()).or_default();
            self.sums += add(by_value, value, row.net_nanos);
        }
        self.newest = self.newest.max(Some(row.start));
        Ok(())
    }

    fn read(&mut self, row: Result<BillingRow, BadLine>, tags: &BTreeSet<String>, line: u64) {
        if let Err(bad) = row.and_then(|row| self.take(row, tags, line)) {
            self.bad_lines.add(bad);
        }
    }
}

/// Adds to a sum; returns the number of new sums, 0 or 1.
fn add<K: Ord>(sums: &mut BTreeMap<K, i128>, key: K, nanos: i128) -> usize {
    let before = sums.len();
    *sums.entry(key).or_default() += nanos;
    sums.len() - before
}

/// Why a file is not a billing export.
#[derive(Debug, Error)]
pub enum NoBillingExport {
    /// It cannot be read, is not text, or exceeds a limit.
    #[error(transparent)]
    Unreadable(#[from] io::Error),
    /// It is a JSON list.
    #[error("expected one JSON object a line; `jq -c '.[]'` converts a list")]
    List,
    /// It has no line.
    #[error("the file is empty")]
    Empty,
    /// Its first line is not a CSV record.
    #[error("invalid first line: {reason}")]
    FirstLine {
        /// The problem.
        reason: String,
    },
    /// Required columns are missing.
    #[error("required columns are missing in the first line: {} (with . or _)", missing.join(", "))]
    Columns {
        /// Their names.
        missing: Vec<&'static str>,
    },
}

/// Reads the whole file: CSV, or one JSON object a line.
///
/// # Errors
/// If the file is truncated or has another format.
pub(super) fn read(
    source: impl Read,
    tags: &BTreeSet<String>,
) -> Result<BillingFile, NoBillingExport> {
    let mut lines = Lines::open(source)?;
    let mut first = None;
    while let Some(Line { number, text }) = lines.read_line()? {
        let line = (number, text.map(str::to_owned));
        first = lines.first_byte();
        if first.is_some() || line.1.is_err() {
            lines.put_back(std::iter::once(line));
            break;
        }
    }
    match first {
        Some(b'{') => of_lines(lines, tags),
        Some(b'[') => Err(NoBillingExport::List),
        _ => of_csv(lines, tags),
    }
}

fn of_lines(mut lines: Lines<'_>, tags: &BTreeSet<String>) -> Result<BillingFile, NoBillingExport> {
    let mut bill = BillingFile::default();
    while let Some(Line { number, text }) = lines.read_line()? {
        let row = match text {
            Ok(text) if text.trim().is_empty() => continue,
            Ok(text) => row::of_json(text, number),
            Err(unusable) => Err(BadLine::new(number, LINE, unusable.problem())),
        };
        bill.read(row, tags, number);
    }
    Ok(bill)
}

fn of_csv(lines: Lines<'_>, tags: &BTreeSet<String>) -> Result<BillingFile, NoBillingExport> {
    let mut file = CsvFile::of_lines(lines);
    let (mut bill, mut record) = (BillingFile::default(), Record::default());
    match file.read(&mut record)? {
        Some(Ok(())) => {}
        Some(Err(reason)) => return Err(NoBillingExport::FirstLine { reason }),
        None => return Err(NoBillingExport::Empty),
    }
    let columns = BillingColumns::from_header(&record);
    let columns = columns.map_err(|missing| NoBillingExport::Columns { missing })?;
    bill.is_without_credits = !columns.has_credits();
    while let Some(read) = file.read(&mut record)? {
        let line = record.line;
        let row = read
            .map_err(|why| BadLine::new(line, LINE, why))
            .and_then(|()| columns.row(&record, line));
        bill.read(row, tags, line);
    }
    // CSV contains no lists, and so no labels.
    bill.days.values_mut().for_each(|day| day.by_tag.clear());
    Ok(bill)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::Path;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn file_of(text: &str) -> BillingFile {
        let tags = BTreeSet::from(["project".to_owned()]);
        read(text.as_bytes(), &tags).expect("it is read")
    }

    fn json(day: u8, cost: f64, label: &str) -> String {
        format!(
            r#"{{"service":{{"description":"Compute Engine"}},"usage_start_time":"2026-09-{day:02} 05:00:00 UTC","cost":{cost},"currency":"USD","labels":[{{"key":"{label}","value":"tides"}}],"resource":{{"global_name":"//compute.googleapis.com/projects/4/zones/z-a/instances/11"}}}}"#
        )
    }

    fn gaps(bill: &BillingFile) -> Vec<String> {
        let gaps = bill.bad_lines.gaps(Path::new("/srv/bill"));
        gaps.into_iter().map(|gap| gap.scope).collect()
    }

    #[test]
    fn json_is_known_behind_a_byte_order_mark_and_in_gzip() {
        let text = format!("\u{feff}\n{}", json(1, 0.25, "project"));
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(text.as_bytes()).expect("memory");
        let packed = packed.finish().expect("memory");
        for bytes in [text.into_bytes(), packed] {
            let bill = read(bytes.as_slice(), &BTreeSet::new()).expect("it is read");
            assert_eq!((bill.days.len(), bill.bad_lines.count()), (1, 0));
        }
    }

    #[test]
    fn rows_are_summed_by_day_service_instance_and_label() {
        let lines = [
            json(1, 0.25, "project"),
            json(1, 0.5, "team"),
            json(2, 1.0, "team"),
        ];
        let bill = file_of(&lines.join("\n\n"));
        assert_eq!(gaps(&bill), [""; 0]);
        let newest = bill.newest.map(|at| at.to_string());
        assert_eq!(newest.as_deref(), Some("2026-09-02T05:00:00Z"));
        let [first, second] = &bill.days.values().collect::<Vec<_>>()[..] else {
            panic!("two days: {bill:?}")
        };
        assert_eq!(first.by_service["Compute Engine"], 750_000_000);
        assert_eq!(first.by_node.values().sum::<i128>(), 750_000_000);
        assert_eq!(first.by_tag["project"]["tides"], 250_000_000);
        assert_eq!(first.by_tag["project"][""], 500_000_000);
        assert_eq!(second.by_service["Compute Engine"], 1_000_000_000);
    }

    #[test]
    fn csv_of_a_query_reads_the_same_without_labels() {
        let bill = file_of(
            "\u{feff}service_description,usage_start_time,resource_global_name,cost,currency,credits_amount,sku\n\
             Compute Engine,2026-09-01 05:00:00,//compute.googleapis.com/projects/4/zones/z-a/instances/11,0.25,USD,-0.05,x\n\
             Cloud Storage,2026-09-01,,0.5,USD,,x\n",
        );
        assert_eq!(gaps(&bill), [""; 0]);
        let day = bill.days.values().next().expect("a day");
        assert_eq!(day.by_node.values().sum::<i128>(), 200_000_000);
        assert_eq!(day.by_service["Cloud Storage"], 500_000_000);
        assert!(day.by_tag.is_empty());
    }

    #[test]
    fn csv_has_promotions_apart_and_may_lack_credits() {
        let bill = file_of(
            "service_description,usage_start_time,resource_global_name,usage_unit,cost,currency,credits_amount,promotions_amount\n\
             Compute Engine,2026-09-01,//compute.googleapis.com/projects/4/zones/z-a/instances/11,seconds,0.25,USD,-0.05,-0.2\n\
             Compute Engine,2026-09-01,//compute.googleapis.com/projects/4/zones/z-a/instances/11,bytes,0.5,USD,,\n\
             Compute Engine,2026-09-01,,,0.5,USD,,much\n",
        );
        assert_eq!(gaps(&bill), ["bill:4: promotions.amount"]);
        assert!(!bill.is_without_credits);
        let day = bill.days.values().next().expect("a day");
        assert_eq!(day.by_service["Compute Engine"], 500_000_000);
        assert_eq!(day.by_node.values().sum::<i128>(), 200_000_000);
        let bill =
            file_of("service.description,usage_start_time,cost,currency\na,2026-09-01,1,USD\n");
        assert!(bill.is_without_credits);
    }

    #[test]
    fn what_cannot_be_read_is_named_by_its_line_and_the_rest_goes_on() {
        let good = json(1, 0.25, "team");
        let long = format!("{{\"{}\":1}}", "x".repeat(1 << 20));
        let bill = file_of(&[&*good, "{\"cost\":1}", &long, "", "nothing", &good].join("\n"));
        assert_eq!(
            gaps(&bill),
            [
                "bill:2: service.description",
                "bill:3: line",
                "bill:5: line"
            ]
        );
        let day = bill.days.values().next().expect("a day");
        assert_eq!(day.by_service["Compute Engine"], 500_000_000);
        let bill = file_of(
            "service.description,usage_start_time,cost,currency\na,2026-09-01,much,USD\na,2026-09-01,1,USD\n",
        );
        assert_eq!(gaps(&bill), ["bill:2: cost"]);
        let bill = file_of("service.description,usage_start_time,cost,currency\n\"a,1\nb,2\nc,3\n");
        let gaps = bill.bad_lines.gaps(Path::new("/srv/bill"));
        assert_eq!(gaps[0].reason, "missing closing quote");
        assert_eq!(gaps.len(), 3, "each other line is read by itself: {gaps:?}");
    }

    #[test]
    fn what_is_no_export_is_refused_in_words() {
        let check = |text: &str, expect: &str| {
            let error = read(text.as_bytes(), &BTreeSet::new()).expect_err(expect);
            assert!(error.to_string().contains(expect), "{error}");
        };
        check("[{}]", "jq -c '.[]'");
        // A list on one line.
        check(&format!("[{}]", "{},".repeat(1 << 20)), "jq -c '.[]'");
        check(
            "time,host\n",
            "first line: service.description, usage_start_time, cost, currency (with",
        );
        check(
            "service_description,cost,usage_start\n",
            "first line: usage_start_time, currency (with",
        );
        check("", "the file is empty");
        check("\0", "not a text file: line 1 has a NUL byte");
        let wide = ",x".repeat(300_000);
        check(&wide, "invalid first line: more than 1000 columns");
    }
}
