use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use parquet::basic::Compression as Codec;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::SchemaDescriptor;

use super::csv_rows;
use super::*;
use crate::cost_export::amount::Amount;
use crate::cost_export::sums::DaySums;

const HEAD: &str = "ChargePeriodStart,ChargePeriodEnd,EffectiveCost,BillingCurrency,ServiceName,\
                    ServiceCategory,ChargeCategory,ResourceId,Tags";
const ROW: &str = "2026-10-01T05:00:00Z,2026-10-01T06:00:00Z,0.25,USD,EC2,Compute,Usage,\
                   i-0123456789abcdef0,\"{\"\"team\"\": \"\"tides\"\"}\"";

fn days() -> DayRange {
    DayRange {
        first: "2026-10-01".parse().expect("a day"),
        end: "2026-10-15".parse().expect("a day"),
    }
}

/// The sums, the invalid rows and the result of reading something.
fn read(
    read: impl FnOnce(&mut RowSink<'_>) -> Result<(), FileProblem>,
) -> (PeriodSums, Vec<String>, Result<(), String>) {
    let (mut sums, mut bad, mut rows) = (PeriodSums::default(), BadLines::default(), 0);
    let tags = ["team".to_owned()];
    let result = read(&mut RowSink {
        file: "bill",
        days: days(),
        tags: &tags,
        sums: &mut sums,
        print: &mut FilePrint::default(),
        repeated: None,
        bad: &mut bad,
        rows: &mut rows,
    });
    let bad = bad.named().map(ToString::to_string).collect();
    (sums, bad, result.map_err(|problem| problem.to_string()))
}

fn day(sums: PeriodSums) -> DaySums {
    let mut days = sums.into_days(days()).expect("few sums");
    days.pop_first().expect("a day").1
}

fn amount(text: &str) -> Amount {
    Amount::parse(text).expect("an amount")
}

fn gzipped(text: &str) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(text.as_bytes()).expect("it packs");
    packer.finish().expect("it packs")
}

#[test]
fn csv_is_read_plain_and_gzipped_and_invalid_rows_are_named() {
    let text = [
        HEAD,
        ROW,
        "",
        "a,b",
        "2026-10-01T05:00:00Z,\"",
        &ROW.replace("0.25", "much"),
        ROW,
    ];
    let text = text.join("\r\n");
    for bytes in [text.as_bytes().to_vec(), gzipped(&text)] {
        let (sums, bad, result) = read(|sink| csv_rows::read(bytes.as_slice(), sink));
        assert_eq!(result, Ok(()));
        assert_eq!(sums.rows, 5);
        assert_eq!(
            bad,
            [
                "4: line: 2 columns instead of 9; skipped",
                "5: line: missing closing quote; skipped",
                "6: EffectiveCost: 'much' is not an amount below 1000000000; skipped",
            ]
        );
        let day = day(sums);
        assert_eq!(day.by_service["EC2"], amount("0.5"));
        assert_eq!(day.by_node.values().copied().sum::<Amount>(), amount("0.5"));
        assert_eq!(day.by_tag[0]["tides"], amount("0.5"));
    }
}

#[test]
fn csv_that_is_not_a_bill_is_refused_in_words() {
    let check = |bytes: &[u8], expect: &str| {
        let (.., result) = read(|sink| csv_rows::read(bytes, sink));
        let problem = result.expect_err(expect);
        assert!(problem.contains(expect), "{problem}");
    };
    check(b"", "the file is empty");
    check(b"time,cost\n", "no column of CUR 2.0");
    check(
        b"ChargePeriodStart\n",
        "without the columns ChargePeriodEnd, ChargeCategory, ServiceName, ServiceCategory",
    );
    check(b"\"a\nb", "invalid first line: missing closing quote");
    check(b"a\0", "NUL byte after line 0; check the file");
    let rows: String = (0..10_000).map(|n| format!("{n}{ROW}\n")).collect();
    let packed = gzipped(&format!("{HEAD}\n{rows}"));
    check(
        &packed[..packed.len() / 2],
        "the compressed data ends after line ",
    );
    let mut damaged = packed;
    let middle = damaged.len() / 2;
    damaged[middle..middle + 40].fill(0x55);
    check(&damaged, "check the file");
}

const SCHEMA: &str = "message bill {
    optional binary Unused (UTF8);
    required int64 ChargePeriodStart (TIMESTAMP(MILLIS,true));
    optional int64 ChargePeriodEnd (TIMESTAMP(NANOS,true));
    required double EffectiveCost;
    required binary BillingCurrency (UTF8);
    required binary ServiceName (UTF8);
    required binary ServiceCategory (UTF8);
    required binary ChargeCategory (UTF8);
    optional binary ResourceId (UTF8);
    optional group Tags (MAP) {
        repeated group key_value { required binary key (UTF8); optional binary value (UTF8); }
    }
}";

/// A Parquet file with rows of this cost, one an hour, each with a tag.
fn parquet(schema: &str, costs: &[f64]) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(schema).expect("a schema"));
    let columns = SchemaDescriptor::new(Arc::clone(&schema));
    let properties = WriterProperties::builder().set_compression(Codec::SNAPPY);
    let writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties.build()));
    let mut writer = writer.expect("it opens");
    let mut group = writer.next_row_group().expect("a group");
    let (ones, hours) = (vec![1; costs.len()], 0..costs.len() as i64);
    let start = 1_790_830_800_000;
    for at in 0..columns.num_columns() {
        let mut column = group.next_column().expect("a column").expect("a column");
        let text = |text: &str| vec![ByteArray::from(text); costs.len()];
        let levels = |level: i16| vec![level; costs.len()];
        let written = match (columns.column(at).name(), column.untyped()) {
            ("ChargePeriodStart", ColumnWriter::Int64ColumnWriter(writer)) => {
                let times: Vec<i64> = hours.clone().map(|hour| start + hour * 3_600_000).collect();
                writer.write_batch(&times, None, None)
            }
            (_, ColumnWriter::Int64ColumnWriter(writer)) => {
                let ends = hours
                    .clone()
                    .map(|hour| (start + (hour + 1) * 3_600_000) * 1_000_000);
                writer.write_batch(&ends.collect::<Vec<_>>(), Some(&ones), None)
            }
            ("EffectiveCost", ColumnWriter::Int32ColumnWriter(writer)) => {
                let whole: Vec<i32> = costs.iter().map(|dollars| *dollars as i32).collect();
                writer.write_batch(&whole, None, None)
            }
            (_, ColumnWriter::Int32ColumnWriter(writer)) => {
                writer.write_batch(&[], Some(&levels(0)), None)
            }
            (_, ColumnWriter::DoubleColumnWriter(writer)) => writer.write_batch(costs, None, None),
            (name, ColumnWriter::ByteArrayColumnWriter(writer)) => match name {
                "ServiceCategory" => writer.write_batch(&text("Compute"), None, None),
                "BillingCurrency" => writer.write_batch(&text("USD"), None, None),
                "ChargeCategory" => writer.write_batch(&text("Usage"), None, None),
                "ResourceId" => writer.write_batch(&text("i-0123456789abcdef0"), Some(&ones), None),
                "Unused" => writer.write_batch(&text("x"), Some(&ones), None),
                "key" => writer.write_batch(&text("user:team"), Some(&levels(2)), Some(&levels(0))),
                "value" => writer.write_batch(&text("tides"), Some(&levels(3)), Some(&levels(0))),
                _ => writer.write_batch(&text("EC2"), None, None),
            },
            (name, _) => panic!("another type of {name}"),
        };
        written.expect("written");
        column.close().expect("closed");
    }
    group.close().expect("closed");
    writer.into_inner().expect("a file")
}

#[test]
fn parquet_has_the_same_sums_as_csv() {
    let bytes = parquet(SCHEMA, &[0.25, 0.125, -0.0625, f64::NAN]);
    let (sums, bad, result) = read(|sink| parquet_rows::read(Bytes::from(bytes), sink));
    assert_eq!(result, Ok(()));
    assert_eq!(
        bad,
        ["4: EffectiveCost: is not an amount below 1000000000; skipped"]
    );
    let newest = sums.newest.map(|at| at.to_string());
    assert_eq!(newest.as_deref(), Some("2026-10-01T08:00:00Z"));
    let day = day(sums);
    assert_eq!(day.by_service["EC2"], amount("0.3125"));
    assert_eq!(
        day.by_node.values().copied().sum::<Amount>(),
        amount("0.3125")
    );
    assert_eq!(day.by_tag[0]["tides"], amount("0.3125"));
}

#[test]
fn parquet_may_have_whole_amounts_and_columns_of_nulls() {
    let whole = SCHEMA.replace(
        "required double EffectiveCost",
        "required int32 EffectiveCost",
    );
    let (sums, bad, result) = read(|sink| {
        let bytes = parquet(&whole, &[3.0, 4.0]);
        parquet_rows::read(Bytes::from(bytes), sink)
    });
    assert_eq!((result, bad), (Ok(()), Vec::new()));
    assert_eq!(day(sums).by_service["EC2"], amount("7"));
    let nulls = SCHEMA.replace(
        "optional binary ResourceId (UTF8)",
        "optional int32 ResourceId (UNKNOWN)",
    );
    let (sums, bad, result) = read(|sink| {
        let bytes = parquet(&nulls, &[3.0]);
        parquet_rows::read(Bytes::from(bytes), sink)
    });
    assert_eq!((result, bad), (Ok(()), Vec::new()));
    let day = day(sums);
    assert_eq!(day.by_service["EC2"], amount("3"));
    assert!(day.by_node.is_empty());
}

#[test]
fn parquet_that_is_not_a_bill_is_refused_in_words() {
    let check = |bytes: Vec<u8>, expect: &str| {
        let (.., result) = read(|sink| parquet_rows::read(Bytes::from(bytes), sink));
        let problem = result.expect_err(expect);
        assert!(problem.contains(expect), "{problem}");
    };
    let whole = parquet(SCHEMA, &[1.0; 100]);
    check(Vec::new(), "not a valid Parquet file");
    check(
        whole[..whole.len() / 2].to_vec(),
        "not a valid Parquet file",
    );
    let mut damaged = whole;
    damaged[8..60].fill(0xff);
    check(damaged, "not a valid Parquet file");
    check(
        parquet(&SCHEMA.replace("ServiceName", "Service"), &[1.0]),
        "FOCUS 1.x without the columns ServiceName",
    );
    check(
        parquet(
            &SCHEMA.replace(
                "required binary ServiceName (UTF8)",
                "required binary ServiceName (BSON)",
            ),
            &[1.0],
        ),
        "column ServiceName: expected text, found BYTE_ARRAY BSON; export the column unchanged",
    );
    check(
        parquet(&SCHEMA.replace("(TIMESTAMP(MILLIS,true))", ""), &[1.0]),
        "column ChargePeriodStart: expected a time or text, found INT64 NONE",
    );
}
