//! A made-up deployment for `make bench-pages`: a report with 10,000 nodes, and a run with 100,000
//! tasks. `bench-pages FOLDER` writes both for `ebb serve --lake`, and prints the number of tasks. All input
//! is generated and labelled as simulated.

use std::path::Path;

use ebb_cloud::documents::report_files::LATEST_JSON;
use ebb_cloud::documents::run_tasks::{
    PART_TASKS, PartEntry, PartSide, encode_head, part_document, part_key, run_key,
};
use ebb_cloud::documents::task_lists::encode;
use ebb_model::report::Report;
use ebb_model::report::task_brief::BriefList;
use ebb_model::report::task_detail::TaskList;
use serde_json::{Value, json};

const NODES: u64 = 10_000;
const TASKS: u64 = 100_000;
const STEPS: u64 = 40;
const RUN: &str = "large-run";

/// 2026-01-01T00:00:00Z.
const BEGIN: i64 = 1_767_225_600;

fn main() {
    let folder = std::env::args().nth(1).expect("bench-pages FOLDER");
    let folder = Path::new(&folder);
    let report: Report = serde_json::from_value(report()).expect("a report");
    let report = serde_json::to_vec(&report).expect("JSON");
    write(&folder.join(LATEST_JSON), &report);
    write_run(folder);
    println!("{TASKS}");
}

fn write(path: &Path, content: &[u8]) {
    let parent = path.parent().expect("a folder");
    std::fs::create_dir_all(parent).expect("a folder");
    std::fs::write(path, content).expect("a file");
}

/// Writes the run in parts, as a sweep does.
fn write_run(folder: &Path) {
    let mut tasks: Vec<Value> = (0..TASKS).map(task).collect();
    tasks.sort_by_key(|task| {
        let text = |field: &str| task[field].as_str().map(str::to_owned);
        (text("started_at"), text("id"))
    });
    let list = json!({
        "schema": TaskList::SCHEMA, "at": time(0), "origin": "simulated",
        "tasks": tasks, "left_out": 0,
    });
    let list: TaskList = serde_json::from_value(list).expect("a list of tasks");
    let mut entries = Vec::new();
    for (number, part) in list.tasks.chunks(PART_TASKS).enumerate() {
        let packed = encode(&part_document(part))
            .expect("JSON")
            .expect("it fits");
        let key = part_key(RUN, number, PartSide::A);
        write(&folder.join(key), &packed);
        entries.push(PartEntry::new((number, part.len()), &packed, None));
    }
    let briefs = BriefList::from(&list);
    let head = encode_head(RUN, &briefs, &entries);
    let packed = head.expect("JSON").expect("it fits");
    write(&folder.join(run_key(RUN)), &packed);
}

/// A number below `below` that looks random, and is the same each time.
fn noise(n: u64, salt: u64, below: u64) -> u64 {
    let mixed = (n ^ (salt << 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed ^ (mixed >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 33) % below
}

fn time(seconds: u64) -> String {
    let seconds = BEGIN + i64::try_from(seconds).expect("a few days");
    jiff::Timestamp::from_second(seconds)
        .expect("in range")
        .to_string()
}

fn node_id(n: u64) -> String {
    format!("i-{n:017x}")
}

fn task(n: u64) -> Value {
    let step = n % STEPS;
    let queued = step * 3_600 / 2 + noise(n, 1, 36_000);
    let start = queued + noise(n, 2, 120);
    let end = start + 20 + noise(n, 3, 60 * (1 + step % 7));
    let status = u8::from(noise(n, 4, 200) == 0);
    json!({
        "id": format!("{n}"), "step": format!("STEP_{step}"), "name": format!("task-{n}"),
        "kind": "nextflow_task", "runtime": "nextflow", "run": RUN, "pipeline": null,
        "sample": null, "node": node_id(noise(n, 5, NODES)), "job": null, "attempt": null,
        "user_id": null, "queued_at": time(queued), "started_at": time(start),
        "observed_at": time(end), "last_progress_at": time(end),
        "end": {"exited": status}, "typical_seconds": null, "requested_cores": 4.0,
        "requested_memory_bytes": null, "peak_cores": 2.5, "peak_memory_bytes": null,
        "cpu_seconds": 60.0, "disk_read_bytes": null, "disk_written_bytes": null,
        "network_received_bytes": null, "network_sent_bytes": null, "gpu_busy_seconds": null,
        "states": {}, "tools": [], "points": points(n, start), "findings": [],
    })
}

/// One task in a thousand was observed by 20 sweeps.
fn points(n: u64, start: u64) -> Vec<Value> {
    let count = if n.is_multiple_of(1_000) { 20 } else { 0 };
    let point = |at: u64| {
        json!({
            "at": time(start + at * 60), "cpu_seconds": (at * 60 * 2 + noise(at, n, 60)) as f64,
            "memory_bytes": (at + noise(at, n, 3)) << 28, "disk_bytes": at * (200 << 20),
            "network_bytes": (at != 9).then_some(at * (30 << 20)), "gpu_busy_seconds": null,
        })
    };
    (0..count).map(point).collect()
}

fn report() -> Value {
    json!({
        "schema": Report::SCHEMA,
        "at": time(90_000),
        "origin": "simulated",
        "findings": [],
        "not_evaluated": [],
        "gaps": [],
        "totals": {
            "running_instances": NODES, "with_probe": NODES, "on_metrics": 0, "jobs": 0,
            "waste_per_hour": 0, "spent": 0, "saving_a_month": 0, "without_price": 0,
            "price_bases": [],
        },
        "steps": [],
        "nodes": (0..NODES).map(node).collect::<Vec<_>>(),
    })
}

fn node(n: u64) -> Value {
    json!({
        "id": node_id(n), "name": format!("worker-{n}"), "region": "eu-central-1",
        "instance_type": "m5.4xlarge", "market": "on_demand", "state": "running",
        "owner": format!("team-{}", n % 12), "controller": null, "origin": "simulated",
        "heard_at": time(90_000), "per_hour": 768_000, "basis": "list_price", "findings": [],
    })
}
