//! Measures the lake in a local folder: `make bench-lake`. One part is a day of heartbeats of a
//! simulated fleet: rates, and bytes on disk before and after compaction. The other part is the log
//! of many days of sweeps: time and memory to open a table and to read its newest rows.
//!
//! `NODES` is the size of the fleet (100). `DAYS` is the number of days in the log (365), and
//! `COMMITS` the number of commits a day (288). The day of the fleet stays in the folder `LAKE`, if it is set.

#[path = "bench-sweep/detail.rs"]
mod detail;
#[expect(dead_code, reason = "shared with the benchmark of sweeps")]
#[path = "bench-sweep/fleet.rs"]
mod fleet;

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use ebb_lake::{Batch, Cleanup, Commits, Lake, StoredWindow, Table, Upkeep, UpkeepCounts};
use ebb_telemetry::arrival::Placed;
use ebb_telemetry::shard::Shard;
use jiff::Timestamp;

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
        day_of_a_fleet(setting("NODES", 100)).await;
        log_of_many_days(setting("DAYS", 365), setting("COMMITS", 288)).await;
    });
}

fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(default, |text| text.parse().expect("a number"))
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

/// Upkeep as at a later time: every commit until now belongs to an earlier day.
async fn keep_up(lake: &Lake, cleanup: Option<Cleanup>) -> UpkeepCounts {
    let now = Timestamp::now().saturating_add(40 * DAY).expect("a time");
    let mut all = UpkeepCounts::default();
    loop {
        let upkeep = Upkeep {
            now,
            cleanup,
            is_over: &|| false,
        };
        let counts = lake.keep_up(Table::Heartbeats, &upkeep).await;
        let counts = counts.expect("upkeep");
        all.add(counts);
        if !counts.is_unfinished {
            return all;
        }
    }
}

async fn day_of_a_fleet(nodes: u64) {
    let temporary = tempfile::tempdir().expect("a folder");
    // Other programs can be measured with the same files.
    let folder = std::env::var_os("LAKE").map_or(temporary.path().to_owned(), Into::into);
    let lake = open(&folder).await;
    let mut rows = 0;
    let mut appending = Duration::ZERO;
    for sweep in 0..24 * 60 / SWEEP_MINUTES {
        let minutes = sweep * SWEEP_MINUTES + 1..=(sweep + 1) * SWEEP_MINUTES;
        let part = minutes.flat_map(|minute| (0..nodes).map(move |node| placed(node, minute)));
        let part: Vec<Placed> = part.collect();
        rows += part.len() as u64;
        let began = Instant::now();
        let appended = lake.append_heartbeats(&part, &batch(sweep)).await;
        appended.expect("appends");
        appending += began.elapsed();
    }
    println!("A day of {nodes} nodes: {rows} heartbeats");
    rate("append", rows, appending);
    let before = bytes_of(&folder.join("heartbeats"));
    scan(&lake, rows, "read, before compaction").await;
    let began = Instant::now();
    let counts = keep_up(&lake, None).await;
    rate("compact", rows, began.elapsed());
    keep_up(&lake, Some(CLEANUP)).await;
    let after = bytes_of(&folder.join("heartbeats"));
    println!(
        "  {} files became {}",
        counts.merged_files, counts.new_files
    );
    let a_row = |bytes: u64| bytes / rows;
    println!(
        "  bytes a heartbeat, with its tasks: {} before, {} after",
        a_row(before),
        a_row(after)
    );
    scan(&lake, rows, "read, after compaction").await;
    memory();
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
    for (name, upkeep) in [("with upkeep", true), ("without upkeep", false)] {
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
                keep_up(&lake, Some(CLEANUP)).await;
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
