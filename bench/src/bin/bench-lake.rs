//! Measures the lake in a local folder: `make bench-lake`. All data is simulated.
//!
//! - A day of a fleet: rates, and bytes of a heartbeat and a task on disk, before and after compaction.
//! - 30 days of the costs and hours of a large fleet, which DuckDB reads too.
//! - The log of many days of sweeps: time and memory to open a table and to read its newest rows.
//!
//! `NODES` is the size of the fleet of the day (100), `FLEET` that of the 30 days (10,000). `DAYS` is the
//! number of days in the log (365), and `COMMITS` the number of commits a day (24). If the folder `LAKE`
//! is set, the day without tasks and the 30 days stay there.

#[path = "bench-lake/month.rs"]
mod month;

#[path = "bench-sweep/detail.rs"]
mod detail;
#[expect(dead_code, reason = "shared with the benchmark of sweeps")]
#[path = "bench-sweep/fleet.rs"]
mod fleet;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ebb_lake::{Batch, Cleanup, Commits, Lake, StoredWindow, Table, Upkeep, UpkeepCounts};
use ebb_telemetry::arrival::Placed;
use ebb_telemetry::shard::Shard;
use ebb_telemetry::step::{PlacedStep, StepEnd, StepUsage};
use jiff::Timestamp;
use tempfile::TempDir;

const DAY: Duration = Duration::from_secs(86_400);

const CLEANUP: Cleanup = Cleanup {
    keep_days: None,
    unreferenced: Duration::from_secs(7 * 86_400),
};

/// Minutes between sweeps.
const SWEEP_MINUTES: u64 = 5;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let nodes = setting("NODES", 100);
        for (what, has_tasks) in [("with their tasks", true), ("without tasks", false)] {
            day_of_a_fleet(nodes, what, has_tasks).await;
        }
        month::measure(setting("FLEET", 10_000)).await;
        log_of_many_days(setting("DAYS", 365), setting("COMMITS", 24)).await;
    });
}

fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(default, |text| text.parse().expect("a number"))
}

/// The folder `LAKE`, or a temporary one.
fn kept(temporary: &TempDir) -> PathBuf {
    std::env::var_os("LAKE").map_or_else(|| temporary.path().to_owned(), Into::into)
}

async fn open(folder: &Path) -> Lake {
    let lake = Lake::open(&format!("file://{}", folder.display())).await;
    lake.expect("a lake")
}

fn batch(number: u64) -> Batch {
    Batch {
        shard: Shard::ONLY,
        number,
        known: None,
    }
}

fn placed(node: u64, minute: u64) -> Placed {
    let number = u32::try_from(node).expect("a small fleet");
    let heartbeat = fleet::heartbeat(number, minute);
    Placed {
        node: heartbeat.node.clone(),
        end: fleet::at(minute),
        heartbeat,
    }
}

/// The tasks that end in a minute.
fn ended(node: u64, minute: u64) -> impl Iterator<Item = PlacedStep> {
    let Placed { heartbeat, .. } = placed(node, minute);
    let is_last = minute.is_multiple_of(fleet::STEP_MINUTES);
    let ended = heartbeat.steps.into_iter().filter(move |_| is_last);
    ended.map(move |usage| PlacedStep {
        node: heartbeat.node.clone(),
        boot: heartbeat.boot.clone(),
        probe_start: heartbeat.probe_start.clone(),
        sequence: minute,
        origin: heartbeat.origin,
        started_at: fleet::at(minute - fleet::STEP_MINUTES),
        observed_at: fleet::at(minute),
        last_progress_at: fleet::at(minute),
        usage: StepUsage {
            end: StepEnd::Exited(0),
            ..usage
        },
    })
}

/// Upkeep as at a later time: every commit until now belongs to an earlier day.
async fn keep_up(lake: &Lake, table: Table, cleanup: Option<Cleanup>) -> UpkeepCounts {
    let now = Timestamp::now().saturating_add(40 * DAY).expect("a time");
    let mut all = UpkeepCounts::default();
    loop {
        let upkeep = Upkeep {
            now,
            cleanup,
            is_over: &|| false,
        };
        let counts = lake.keep_up(table, &upkeep).await;
        let counts = counts.expect("upkeep");
        all.add(counts);
        if !counts.is_unfinished {
            return all;
        }
    }
}

async fn day_of_a_fleet(nodes: u64, what: &str, has_tasks: bool) {
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = match has_tasks {
        true => temporary.path().to_owned(),
        false => kept(&temporary),
    };
    let lake = open(&folder).await;
    let (mut rows, mut tasks) = (0, 0);
    let mut appending = Duration::ZERO;
    for sweep in 0..24 * 60 / SWEEP_MINUTES {
        let minutes = sweep * SWEEP_MINUTES + 1..=(sweep + 1) * SWEEP_MINUTES;
        let each = minutes.flat_map(|minute| (0..nodes).map(move |node| (node, minute)));
        let mut part: Vec<Placed> = each.clone().map(|(n, minute)| placed(n, minute)).collect();
        let mut steps: Vec<PlacedStep> = each.flat_map(|(n, minute)| ended(n, minute)).collect();
        if !has_tasks {
            part.iter_mut().for_each(|one| one.heartbeat.steps.clear());
            steps.clear();
        }
        rows += part.len() as u64;
        let began = Instant::now();
        let appended = lake.append_heartbeats(&part, &batch(sweep)).await;
        appended.expect("appends");
        appending += began.elapsed();
        if !steps.is_empty() {
            tasks += steps.len() as u64;
            let appended = lake.append_steps(&steps, &batch(sweep)).await;
            appended.expect("appends");
        }
    }
    println!("A day of {nodes} nodes, {what}: {rows} heartbeats");
    rate("append", rows, appending);
    scan(&lake, rows, "read, before compaction").await;
    compacted(&lake, &folder, Table::Heartbeats, rows, "heartbeat").await;
    if tasks > 0 {
        compacted(&lake, &folder, Table::Steps, tasks, "finished task").await;
    }
    scan(&lake, rows, "read, after compaction").await;
    memory();
}

/// Compacts a table, and prints the size of a row.
async fn compacted(lake: &Lake, folder: &Path, table: Table, rows: u64, what: &str) {
    let place = folder.join(table.to_string());
    let before = bytes_of(&place);
    let began = Instant::now();
    let counts = keep_up(lake, table, None).await;
    rate(&format!("compact {table}"), rows, began.elapsed());
    keep_up(lake, table, Some(CLEANUP)).await;
    println!(
        "  {what}: {:.1} bytes in {} files, {:.1} in {} after compaction",
        before as f64 / rows as f64,
        counts.merged_files,
        bytes_of(&place) as f64 / rows as f64,
        counts.new_files,
    );
}

async fn scan(lake: &Lake, rows: u64, what: &str) {
    let columns = ["node", "ended_at", "workload_cpu_ns"].map(str::to_owned);
    let columns = columns.into();
    let window = StoredWindow {
        days: ("0000-01-01", "9999-12-31"),
        columns: Some(&columns),
        max_rows: u64::MAX,
    };
    let began = Instant::now();
    let mut read = 0;
    let mut each = |_| {
        read += 1;
        ControlFlow::Continue(())
    };
    let left_out = lake
        .stored_rows(Table::Heartbeats, &window, &mut each)
        .await;
    assert_eq!((left_out.expect("reads"), read), (0, rows));
    rate(what, rows, began.elapsed());
}

/// The bytes of the data files of a table, without its log.
fn bytes_of(table: &Path) -> u64 {
    let days = std::fs::read_dir(table).expect("a table").flatten();
    let days = days.filter(|day| day.file_name() != "_delta_log");
    let files = days.flat_map(|day| std::fs::read_dir(day.path()).expect("a folder").flatten());
    files
        .map(|file| file.metadata().expect("a file").len())
        .sum()
}

fn rate(what: &str, rows: u64, took: Duration) {
    let rows = rows as f64 / took.as_secs_f64();
    println!("  {what}: {rows:.0} rows/s, {:.2} s", took.as_secs_f64());
}

fn memory() {
    let status = std::fs::read_to_string("/proc/self/status").expect("a Linux kernel");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    println!(
        "  peak memory of this process: {}",
        line.expect("it is there").trim()
    );
}

async fn log_of_many_days(days: u64, commits: u64) {
    println!("A log of {days} days of {commits} commits");
    // Without upkeep a month takes minutes.
    let all = [
        ("with upkeep", true, days),
        ("without upkeep", false, days.min(30)),
    ];
    for (name, upkeep, days) in all {
        let folder = tempfile::tempdir().expect("a folder");
        let mut number = 0;
        for day in 1..=days {
            let lake = open(folder.path()).await;
            for _ in 0..commits {
                number += 1;
                lake.append_heartbeats(&[placed(1, number)], &batch(number))
                    .await
                    .expect("appends");
                if number == 1 {
                    forget_removals(folder.path());
                }
            }
            if upkeep {
                keep_up(&lake, Table::Heartbeats, Some(CLEANUP)).await;
            }
            if day == 7.min(days) || day == days {
                newest(folder.path(), &format!("{name}, after day {day}"), number).await;
            }
        }
        memory();
    }
}

/// A checkpoint contains the removals of the last seven days by the clock of the machine, which here
/// are those of all days.
fn forget_removals(folder: &Path) {
    let first = folder.join("heartbeats/_delta_log/00000000000000000000.json");
    let text = std::fs::read_to_string(&first).expect("the first commit");
    let known = "\"delta.checkpointInterval\":\"10\"";
    assert!(text.contains(known), "{text}");
    let forget = "\"delta.deletedFileRetentionDuration\":\"interval 0 seconds\"";
    let text = text.replace(known, &format!("{known},{forget}"));
    std::fs::write(&first, text).expect("it is written");
}

/// The time to open a table and read its newest rows, and to append to it.
async fn newest(folder: &Path, what: &str, number: u64) {
    let lake = open(folder).await;
    let began = Instant::now();
    let summary = lake.summary(Table::Heartbeats).await.expect("reads");
    let opened = began.elapsed();
    let began = Instant::now();
    let appended = lake
        .append_heartbeats(&[placed(1, number)], &batch(number))
        .await;
    let (ebb_lake::Appended::Committed(version) | ebb_lake::Appended::AlreadyThere(version)) =
        appended.expect("it answers");
    let answered = began.elapsed();
    let began = Instant::now();
    let commits = Commits::after(version.checked_sub(3));
    let since = lake.heartbeats_since(commits).await.expect("reads");
    println!(
        "  {what}: {} files; open {} ms, look for a batch {} ms, read {} new rows {} ms",
        summary.files,
        opened.as_millis(),
        answered.as_millis(),
        since.rows.len(),
        began.elapsed().as_millis(),
    );
}
