//! The columns are a contract: readers outside this project rely on every one.

use deltalake_core::arrow::datatypes::DataType;
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
    assert_snapshot!(shown(Placed::fields()), @r#"
    dt: Date32
    node: Utf8
    claimed_node: Utf8
    boot: Utf8
    probe_start: Utf8
    sequence: Int64
    origin: Utf8
    started_at?: Timestamp(µs, "UTC")
    ended_at: Timestamp(µs, "UTC")
    ended_at_submicro_ns: Int32
    start_boot_ns: Int64
    end_boot_ns: Int64
    wall_at_end: Timestamp(µs, "UTC")
    wall_at_end_submicro_ns: Int32
    workload_cpu_ns?: Int64
    workload_disk_bytes?: Int64
    workload_network_bytes?: Int64
    workload_gpu_ppm?: Int32
    workload_processes_started: Int64
    background_cpu_ns?: Int64
    background_disk_bytes?: Int64
    background_network_bytes?: Int64
    background_gpu_ppm?: Int32
    background_processes_started: Int64
    typed_ago_ns?: Int64
    coverage_cpu_ppm?: Int32
    coverage_memory_ppm?: Int32
    coverage_disk_ppm?: Int32
    coverage_network_ppm?: Int32
    coverage_gpu_ppm?: Int32
    coverage_short_processes_ppm?: Int32
    millicores: Int64
    memory_bytes: Int64
    gpus?: Int64
    probe_cpu_ns: Int64
    probe_resident_bytes?: Int64
    probe_events_lost: Int64
    probe_records_dropped: Int64
    probe_spool_bytes: Int64
    steps: list
      element: struct
        step_kind: Utf8
        step_key: Utf8
        step_name: Utf8
        started_boot_ns: Int64
        observed_boot_ns: Int64
        last_progress_boot_ns: Int64
        end_state: Utf8
        exit_status?: Int32
        exit_signal?: Int32
        processes: Int64
        cpu_ns: Int64
        peak_memory_bytes?: Int64
        peak_memory_source?: Utf8
        disk_read_bytes?: Int64
        disk_written_bytes?: Int64
        requested_millicores?: Int64
        requested_memory_bytes?: Int64
        peak_millicores?: Int64
        tools: list
          element: struct
            name: Utf8
            processes: Int64
            cpu_ns: Int64
            peak_memory_bytes?: Int64
            disk_bytes?: Int64
        detail?: struct
          user_cpu_ns?: Int64
          system_cpu_ns?: Int64
          run_queue_ns?: Int64
          voluntary_switches?: Int64
          involuntary_switches?: Int64
          minor_faults?: Int64
          major_faults?: Int64
          disk_delay_ns?: Int64
          parallelism: list
            element: struct
              class: Int32
              wall_ns: Int64
              cpu_ns: Int64
          states: list
            element: struct
              state: Utf8
              samples: Int64
              time_ns: Int64
          network?: struct
            received_bytes: Int64
            sent_bytes: Int64
            retransmits: Int64
            connections: Int64
          gpu?: struct
            devices: Int64
            held_ns: Int64
            busy_ns?: Int64
            peak_memory_bytes?: Int64
          run?: struct
            launcher: Utf8
            key: Utf8
            pipeline?: Utf8
          handed?: struct
            trace_id?: Utf8
            labels: list
              element: struct
                key: Utf8
                value: Utf8
          opened?: struct
            arguments: list
              element: Utf8
            files: list
              element: struct
                path: Utf8
                count: Int64
            files_left_out: Int64
          asked?: struct
            read_bytes: Int64
            written_bytes: Int64
            read_calls: Int64
            write_calls: Int64
          unmoved?: struct
            now_ns: Int64
            longest_ns: Int64
          threads?: Int64
          user_id?: Int64
          reclaim?: struct
            taken_bytes?: Int64
            limit_hits: Int64
          memory_now_bytes?: Int64
          namespaces?: list
            element: Utf8
    "#);
}

#[test]
fn steps_have_these_columns() {
    assert_snapshot!(shown(PlacedStep::fields()), @r#"
    dt: Date32
    node: Utf8
    boot: Utf8
    probe_start: Utf8
    sequence: Int64
    origin: Utf8
    started_at: Timestamp(µs, "UTC")
    started_at_submicro_ns: Int32
    observed_at: Timestamp(µs, "UTC")
    observed_at_submicro_ns: Int32
    last_progress_at: Timestamp(µs, "UTC")
    last_progress_at_submicro_ns: Int32
    step_kind: Utf8
    step_key: Utf8
    step_name: Utf8
    started_boot_ns: Int64
    observed_boot_ns: Int64
    last_progress_boot_ns: Int64
    end_state: Utf8
    exit_status?: Int32
    exit_signal?: Int32
    processes: Int64
    cpu_ns: Int64
    peak_memory_bytes?: Int64
    peak_memory_source?: Utf8
    disk_read_bytes?: Int64
    disk_written_bytes?: Int64
    requested_millicores?: Int64
    requested_memory_bytes?: Int64
    peak_millicores?: Int64
    tools: list
      element: struct
        name: Utf8
        processes: Int64
        cpu_ns: Int64
        peak_memory_bytes?: Int64
        disk_bytes?: Int64
    detail?: struct
      user_cpu_ns?: Int64
      system_cpu_ns?: Int64
      run_queue_ns?: Int64
      voluntary_switches?: Int64
      involuntary_switches?: Int64
      minor_faults?: Int64
      major_faults?: Int64
      disk_delay_ns?: Int64
      parallelism: list
        element: struct
          class: Int32
          wall_ns: Int64
          cpu_ns: Int64
      states: list
        element: struct
          state: Utf8
          samples: Int64
          time_ns: Int64
      network?: struct
        received_bytes: Int64
        sent_bytes: Int64
        retransmits: Int64
        connections: Int64
      gpu?: struct
        devices: Int64
        held_ns: Int64
        busy_ns?: Int64
        peak_memory_bytes?: Int64
      run?: struct
        launcher: Utf8
        key: Utf8
        pipeline?: Utf8
      handed?: struct
        trace_id?: Utf8
        labels: list
          element: struct
            key: Utf8
            value: Utf8
      opened?: struct
        arguments: list
          element: Utf8
        files: list
          element: struct
            path: Utf8
            count: Int64
        files_left_out: Int64
      asked?: struct
        read_bytes: Int64
        written_bytes: Int64
        read_calls: Int64
        write_calls: Int64
      unmoved?: struct
        now_ns: Int64
        longest_ns: Int64
      threads?: Int64
      user_id?: Int64
      reclaim?: struct
        taken_bytes?: Int64
        limit_hits: Int64
      memory_now_bytes?: Int64
      namespaces?: list
        element: Utf8
    "#);
}

#[test]
fn findings_have_these_columns() {
    assert_snapshot!(shown(Judged::fields()), @r#"
    dt: Date32
    judged_at: Timestamp(µs, "UTC")
    judged_at_submicro_ns: Int32
    finding_id: Utf8
    kind: Utf8
    resource_id: Utf8
    resource_name?: Utf8
    region: Utf8
    node?: Utf8
    owner?: Utf8
    instance_type?: Utf8
    origin: Utf8
    window_from: Timestamp(µs, "UTC")
    window_to: Timestamp(µs, "UTC")
    coverage_ppm?: Int32
    evidence: Utf8
    confidence: Utf8
    price_basis?: Utf8
    wasted_micro_usd_per_hour?: Int64
    spent_micro_usd?: Int64
    saving_micro_usd_per_month?: Int64
    action: Utf8
    advice: Utf8
    finding_json: Utf8
    "#);
}

const INTRODUCTION: &str = "\
# Lake tables

The lake is three Delta tables under `lake/` of the bucket, or of the place in `--lake`. Athena, DuckDB, Spark and
pandas read them. Each table is partitioned by `dt`, the UTC date of the row. Names end in their unit: `_ns`
is nanoseconds, `_bytes` bytes, `_ppm` parts per million, `_micro_usd` millionths of a dollar. `_submicro_ns`
holds the nanoseconds that a timestamp in microseconds cannot. `_boot_ns` is a reading of the boot-time clock of the
node. A null is unknown, which is not zero.
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
            Judged::fields(),
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
