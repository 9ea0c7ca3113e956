//! The columns are a contract: readers outside this project rely on every one.

use std::time::Duration;

use deltalake_core::arrow::array::{Int32Array, Int64Array, StringArray};
use deltalake_core::arrow::datatypes::{DataType, FieldRef};
use ebb_model::cost_record::CostRecord;
use ebb_model::node_hour::NodeHourRecord;
use ebb_telemetry::step::StepDetail;
use ebb_telemetry::testing::placed_step;
use ebb_telemetry::units::CpuTime;
use insta::assert_snapshot;

use super::*;

fn shown(fields: Result<Vec<FieldRef>, serde_arrow::Error>) -> String {
    let fields = fields.expect("row types have columns");
    fields.iter().map(|f| line(f, 0)).collect()
}

fn line(field: &FieldRef, depth: usize) -> String {
    let null = if field.is_nullable() { "?" } else { "" };
    let (kind, inner) = match field.data_type() {
        DataType::List(of) => ("list".to_owned(), line(of, depth + 1)),
        DataType::Struct(of) => {
            let inner = of.iter().map(|f| line(f, depth + 1)).collect();
            ("struct".to_owned(), inner)
        }
        plain => (plain.to_string(), String::new()),
    };
    let indent = "  ".repeat(depth);
    format!("{indent}{}{null}: {kind}\n{inner}", field.name())
}

#[test]
fn heartbeats_have_these_columns() {
    assert_snapshot!(shown(Placed::fields()));
}

#[test]
fn steps_have_these_columns() {
    assert_snapshot!(shown(PlacedStep::fields()));
}

#[test]
fn findings_have_these_columns() {
    assert_snapshot!(shown(EvaluatedFinding::fields()));
}

#[test]
fn costs_have_these_columns() {
    assert_snapshot!(shown(CostRecord::fields()));
}

#[test]
fn node_hours_have_these_columns() {
    assert_snapshot!(shown(NodeHourRecord::fields()));
}

#[test]
fn a_value_that_does_not_fit_is_refused_by_the_path_of_its_column() {
    let check = |change: fn(&mut PlacedStep), expect: &str| {
        let mut step = placed_step(1, 1);
        step.usage.detail = StepDetail::sample();
        assert!(check_step(&step).is_ok());
        change(&mut step);
        let error = check_step(&step).expect_err(expect).source.to_string();
        assert!(error.starts_with(expect), "{error}");
    };
    check(
        |step| step.usage.cpu = CpuTime(u64::MAX),
        "cpu_ns is 18446744073709551615, more than the maximum",
    );
    check(
        |step| step.usage.detail.run_queue = Some(Duration::MAX),
        "detail.run_queue_ns is ",
    );
    check(
        |step| {
            let states = step.usage.detail.states.values_mut();
            states.for_each(|sampled| sampled.samples = 1 << 63);
        },
        "detail.states.samples is 9223372036854775808, ",
    );
}

#[test]
fn a_stored_value_of_no_known_version_is_refused_by_its_column() {
    let check = |column: &str, stored: ArrayRef, expect: &str| {
        let batch = PlacedStep::pack(&[placed_step(1, 1)]).expect("it fits");
        let schema = batch.schema();
        let mut columns = batch.columns().to_vec();
        columns[schema.index_of(column).expect("a column")] = stored;
        let batch = RecordBatch::try_new(schema, columns).expect("the same types");
        match PlacedStep::unpack(&batch).expect_err(expect) {
            RowsError::Row(error) => assert_eq!(error.source.to_string(), expect),
            other => panic!("{other}"),
        }
    };
    let text = |word: &str| Arc::new(StringArray::from(vec![word])) as ArrayRef;
    let status = |value: Option<i32>| Arc::new(Int32Array::from(vec![value])) as ArrayRef;
    check(
        "end_state",
        text("paused"),
        "end_state has the unknown value 'paused'",
    );
    check(
        "origin",
        text("guessed"),
        "origin has the unknown value 'guessed'",
    );
    check(
        "exit_status",
        status(None),
        "exit_status is null, but another column requires it",
    );
    check(
        "exit_status",
        status(Some(256)),
        "exit_status is 256, which is outside its range",
    );
    check(
        "processes",
        Arc::new(Int64Array::from(vec![-1])),
        "processes is -1, which is outside its range",
    );
}

const INTRODUCTION: &str = "\
# Lake tables

The lake is five Delta tables under `lake/` of the bucket, or of the place in `--lake`. Athena, DuckDB, Spark and
Polars read them. Each table is partitioned by `dt`, the UTC date of the row. Names end in their unit: `_ns`
is nanoseconds, `_bytes` bytes, `_ppm` parts per million, `_micro_usd` millionths of a dollar. `_submicro_ns`
holds the nanoseconds that a timestamp in microseconds cannot. `_boot_ns` is a reading of the boot-time clock of the
node. A null is unknown, which is not zero.

`commit_version` is the version of the table that added the row. It is null until the
[upkeep](../operations.md#size-of-the-lake) merges the file of the row with others. Read the tables through their Delta
log: their folders also contain files that were replaced.

The [wire contract](wire.md) explains the values of heartbeats and tasks. These structs have another name there:

| column | message | content |
|---|---|---|
| `detail.handed` | `SchedulerLabels` | labels and trace id of a scheduler |
| `detail.opened` | `OptInDetail` | arguments and paths of files, if the probe may send them |
| `detail.asked` | `SyscallIo` | bytes and calls of `read` and `write` |
| `detail.unmoved` | `CpuWithoutProgress` | CPU time without I/O, a new page or a new process |
";

/// The name of a column's type in Delta.
fn delta_type(data_type: &DataType) -> String {
    match data_type {
        DataType::Utf8 => "string".to_owned(),
        DataType::Int64 => "long".to_owned(),
        DataType::Int32 => "integer".to_owned(),
        DataType::Boolean => "boolean".to_owned(),
        DataType::Date32 => "date".to_owned(),
        DataType::Timestamp(..) => "timestamp".to_owned(),
        DataType::Struct(_) => "struct".to_owned(),
        DataType::List(of) => format!("array of {}", delta_type(of.data_type())),
        other => panic!("a column of type {other} has no name in the page"),
    }
}

/// A row of the page for a column, and rows for the columns in it.
fn page_rows(parent: &str, field: &FieldRef, out: &mut String) {
    let name = format!("{parent}{}", field.name());
    let null = if field.is_nullable() { "yes" } else { "no" };
    let kind = delta_type(field.data_type());
    out.push_str(&format!("| `{name}` | {kind} | {null} |\n"));
    let (element, mark) = match field.data_type() {
        DataType::List(of) => (of.data_type(), "[]"),
        plain => (plain, ""),
    };
    let DataType::Struct(inner) = element else {
        return;
    };
    for field in inner {
        page_rows(&format!("{name}{mark}."), field, out);
    }
}

#[test]
fn the_page_of_the_tables_is_current() {
    let tables = [
        (
            "heartbeats",
            "One row for each node and interval.",
            Placed::fields(),
        ),
        (
            "steps",
            "One row for each finished task.",
            PlacedStep::fields(),
        ),
        (
            "findings",
            "One row for each finding and sweep.",
            EvaluatedFinding::fields(),
        ),
        (
            "costs",
            "One row for each day of the bill, use, machine and names of tasks.\n\
             The rows of a day with the newest `evaluated_at` replace all others of that day. They add up to its bill,\n\
             `day_billed_micro_usd`.",
            CostRecord::fields(),
        ),
        (
            "node_hours",
            "One row for each node and hour that a probe observed, written after the end of the day.\n\
             The time that is observed and not active is idle.",
            NodeHourRecord::fields(),
        ),
    ];
    let mut text = INTRODUCTION.to_owned();
    for (name, about, fields) in tables {
        text.push_str(&format!("\n## {name}\n{about}\n\n"));
        text.push_str("| column | type | may be null |\n|---|---|---|\n");
        for field in fields.expect("row types have columns") {
            page_rows("", &field, &mut text);
        }
    }
    let page = "../../docs/src/reference/lake.md";
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    ebb_test_support::expect_file(&page, &text);
}
