//! Upkeep changes files and never rows, whenever it is killed and whatever others do meanwhile.

#[expect(dead_code, reason = "the samples of the tests of the whole lake")]
#[path = "../../tests/lake/sample.rs"]
mod sample;
mod scripted_store;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ebb_cloud::store;
use ebb_telemetry::arrival::Placed;
use ebb_telemetry::shard::Shard;
use futures::FutureExt;
use jiff::Timestamp;
use jiff::civil::{Date, date};
use tempfile::TempDir;

use super::compact::Compaction;
use super::*;
use crate::lake::Commits;
use sample::heartbeat;
use scripted_store::{Script, ScriptedStore};

const DAY: Duration = Duration::from_secs(86_400);

fn place(folder: &TempDir) -> Place {
    let url = format!("file://{}", folder.path().display());
    store::open(&url).expect("a folder")
}

fn log(folder: &TempDir) -> TableLog {
    TableLog::new(Table::Heartbeats, &place(folder)).expect("a table")
}

fn scripted(folder: &TempDir, script: Script) -> TableLog {
    over(Arc::new(ScriptedStore::new(script)), folder)
}

fn over(store: Arc<ScriptedStore>, folder: &TempDir) -> TableLog {
    let base = place(folder).base;
    TableLog::new(Table::Heartbeats, &Place { store, base }).expect("a table")
}

fn later(by: Duration) -> Timestamp {
    Timestamp::now().saturating_add(by).expect("a time")
}

async fn newest(log: &TableLog) -> Result<DeltaTable, TableError> {
    Ok(log.load().await?.expect("it exists"))
}

/// Merges every commit that exists.
async fn compact(log: &TableLog) -> Result<Compaction, TableError> {
    let table = newest(log).await?;
    log.compact(table, later(DAY).as_millisecond()).await
}

async fn expire(log: &TableLog, day: Date) -> u64 {
    let table = newest(log).await.expect("opens");
    log.expire(table, day).await.expect("removes")
}

/// Deletes files that were removed from the table until now.
async fn delete_unreferenced(log: &TableLog) -> u64 {
    let table = newest(log).await.expect("opens");
    let deleted = log.delete_unreferenced(&table, later(8 * DAY), 7 * DAY);
    deleted.await.expect("deletes")
}

async fn delete_old_commits(log: &TableLog) -> u64 {
    let table = newest(log).await.expect("opens");
    let deleted = log.delete_old_commits(&table, later(31 * DAY));
    deleted.await.expect("deletes")
}

/// A row as its node and sequence.
type RowName = (String, u64);

fn names(rows: &[Placed]) -> Vec<RowName> {
    let name = |row: &Placed| (row.node.to_string(), row.heartbeat.sequence);
    let mut names: Vec<_> = rows.iter().map(name).collect();
    names.sort();
    names
}

/// The rows of commit `number`: two nodes, and from the third commit on the next day.
fn rows_of(number: u64) -> Vec<Placed> {
    vec![heartbeat(2, number - 1), heartbeat(1, number - 1)]
}

async fn append(log: &TableLog, number: u64) {
    let batch = Batched {
        shard: Shard::ONLY,
        number,
        unknown_from: None,
    };
    let appended = log.append(&rows_of(number), &batch).await;
    let appended = appended.expect("appends");
    assert!(matches!(appended, Appended::Committed(_)), "{appended:?}");
}

async fn filled(commits: u64) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let log = log(&folder);
    for number in 1..=commits {
        append(&log, number).await;
    }
    folder
}

/// The same files in a new folder.
fn copied(from: &TempDir) -> TempDir {
    let to = tempfile::tempdir().expect("a folder");
    copy(from.path(), to.path());
    to
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        let to = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => {
                std::fs::create_dir(&to).expect("it is new");
                copy(&entry.path(), &to);
            }
            false => drop(std::fs::copy(entry.path(), to).expect("copied")),
        }
    }
}

/// The rows after a version, in reads of at most `max_rows`.
async fn read_since(log: &TableLog, mut commits: Commits, max_rows: u64) -> Vec<RowName> {
    let mut rows = Vec::new();
    loop {
        let since = log.since::<Placed>(commits, max_rows).await.expect("reads");
        rows.extend(since.rows.iter().cloned());
        if since.is_complete() {
            return names(&rows);
        }
        assert!(since.through > commits.after, "it gets further");
        commits.after = since.through;
    }
}

/// The rows of the newest version, as other programs see them.
async fn read_all(log: &TableLog) -> Vec<RowName> {
    let window = StoredWindow {
        days: ("0000-01-01", "9999-12-31"),
        columns: None,
        max_rows: u64::MAX,
    };
    let mut rows = Vec::new();
    let mut each = |row: StoredRow| {
        let node = row["node"].as_str().expect("text").to_owned();
        rows.push((node, row["sequence"].as_u64().expect("a number")));
        ControlFlow::Continue(())
    };
    let left_out = log.stored_rows(&window, &mut each).await;
    assert_eq!(left_out.expect("reads"), 0);
    rows.sort();
    rows
}

/// Checks that each row of these commits is read once, however it is read.
async fn holds(log: &TableLog, numbers: impl IntoIterator<Item = u64>, how: &str) {
    let rows: Vec<Placed> = numbers.into_iter().flat_map(rows_of).collect();
    let expect = names(&rows);
    assert_eq!(read_all(log).await, expect, "{how}: of the newest version");
    let since = read_since(log, Commits::after(None), 3).await;
    assert_eq!(since, expect, "{how}: by commit");
}

fn files(folder: &TempDir) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    let table = folder.path().join("heartbeats");
    for day in std::fs::read_dir(table).expect("a table").flatten() {
        let inner = std::fs::read_dir(day.path()).expect("a folder").flatten();
        files.extend(inner.map(|file| {
            let day = day.file_name();
            format!("{}/{}", day.display(), file.file_name().display())
        }));
    }
    files.retain(|name| name.starts_with("dt="));
    files
}

#[tokio::test]
async fn merged_rows_are_read_once_also_without_their_first_files() {
    let folder = filled(12).await;
    let log = log(&folder);
    assert_eq!(files(&folder).len(), 12);
    let before = files(&folder);
    let merged = compact(&log).await.expect("compacts");
    let expect = Compaction::Merged {
        files: 12,
        merged: 2,
    };
    assert_eq!(merged, expect);
    // The next compaction has only the commit of this one.
    append(&log, 13).await;
    let check = async |how: &str| {
        holds(&log, 1..=13, how).await;
        for after in 0..=14 {
            // Commit 13 is that of the compaction, and the last rows are those of commit 14.
            let first = if after == 13 { 13 } else { after + 1 };
            let rows: Vec<Placed> = (first..=13).flat_map(rows_of).collect();
            for max_rows in [1, 3, 100] {
                let since = read_since(&log, Commits::after(Some(after)), max_rows).await;
                assert_eq!(since, names(&rows), "{how}: {max_rows} after {after}");
            }
        }
        let before = Commits {
            before: Some(4),
            ..Commits::after(Some(1))
        };
        let rows = [rows_of(2), rows_of(3)].concat();
        assert_eq!(read_since(&log, before, 100).await, names(&rows), "{how}");
    };
    check("with all files").await;
    assert_eq!(delete_unreferenced(&log).await, 12);
    assert!(files(&folder).is_disjoint(&before));
    check("without the first files").await;
    let deleted = delete_old_commits(&log).await;
    assert_eq!(deleted, 9, "those before the checkpoint");
    check("without the first commits").await;
}

#[tokio::test]
async fn commits_of_today_are_not_merged() {
    let folder = filled(3).await;
    let log = log(&folder);
    let table = newest(&log).await.expect("opens");
    let today = log.compact(table, later(Duration::ZERO).as_millisecond() - 60_000);
    assert_eq!(today.await.expect("looks"), Compaction::Finished);
    assert_eq!(files(&folder).len(), 3);
}

#[tokio::test]
async fn compaction_that_is_killed_at_any_write_loses_and_doubles_nothing() {
    // The commit of compaction is the tenth, which also writes a checkpoint.
    let template = filled(8).await;
    let mut killed = 0;
    for at in 0.. {
        let mut is_done = true;
        for script in [Script::DieBefore(at), Script::DieAfter(at)] {
            let how = match script {
                Script::DieBefore(_) => format!("killed before write {at}"),
                _ => format!("killed after write {at}"),
            };
            let folder = copied(&template);
            let survivor = log(&folder);
            let is_killed = compact(&scripted(&folder, script)).await.is_err();
            is_done &= !is_killed;
            killed += u32::from(is_killed);
            holds(&survivor, 1..=8, &how).await;
            append(&survivor, 9).await;
            compact(&survivor).await.expect("nothing kills it");
            holds(&survivor, 1..=9, &how).await;
            delete_unreferenced(&survivor).await;
            holds(&survivor, 1..=9, &how).await;
            let live = files(&folder).len();
            assert!(live <= 4, "{how}: {live} files are left");
        }
        if is_done {
            break;
        }
    }
    assert!(killed >= 6, "only {killed} writes can be killed");
}

/// The work of another program during a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Append,
    Compact,
    Expire,
}

#[tokio::test]
async fn appends_and_other_compactions_may_come_between() {
    let template = filled(5).await;
    let mut overtaken = BTreeSet::new();
    for act in [Act::Append, Act::Compact, Act::Expire] {
        // The commit is the third write, after one file of each day.
        for at in 0..4 {
            let folder = copied(&template);
            let other = log(&folder);
            let work = async move {
                match act {
                    Act::Append => append(&other, 6).await,
                    Act::Compact => drop(compact(&other).await.expect("it is first")),
                    Act::Expire => {
                        assert_eq!(expire(&other, date(2026, 11, 21)).await, 2);
                    }
                }
            };
            let script = Script::Act(at, Mutex::new(Some(work.boxed())));
            let result = compact(&scripted(&folder, script)).await;
            let result = result.expect("nothing fails");
            let how = format!("{act:?} before write {at}");
            let log = log(&folder);
            let all = match act {
                // Without a fourth write, nothing comes between.
                _ if at == 3 => 1..=5,
                Act::Append => 1..=6,
                Act::Compact => 1..=5,
                Act::Expire => 3..=5,
            };
            if result == Compaction::Overtaken {
                overtaken.insert(format!("{act:?}"));
            }
            compact(&log).await.expect("nothing fails");
            delete_unreferenced(&log).await;
            holds(&log, all, &how).await;
        }
    }
    let expect = ["Compact".to_owned(), "Expire".to_owned()];
    assert_eq!(overtaken, BTreeSet::from(expect));
}

#[tokio::test]
async fn rows_whose_retention_ended_are_removed_and_others_stay() {
    for is_merged in [false, true] {
        let folder = filled(5).await;
        let log = log(&folder);
        if is_merged {
            compact(&log).await.expect("compacts");
        }
        let how = format!("merged: {is_merged}");
        assert_eq!(expire(&log, date(2026, 11, 20)).await, 0);
        let removed = expire(&log, date(2026, 11, 21)).await;
        assert_eq!(removed, if is_merged { 1 } else { 2 }, "{how}");
        assert_eq!(expire(&log, date(2026, 11, 21)).await, 0);
        let rows: Vec<Placed> = (3..=5).flat_map(rows_of).collect();
        assert_eq!(read_all(&log).await, names(&rows), "{how}");
        assert!(delete_unreferenced(&log).await > 0);
        holds(&log, 3..=5, &how).await;
        compact(&log).await.expect("compacts");
        holds(&log, 3..=5, &how).await;
    }
}

#[tokio::test]
async fn a_table_of_an_earlier_version_allows_removals_when_they_are_due() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = log(&folder);
    let fields = <Placed as crate::rows::Record>::fields().expect("columns");
    let table = log.load_or_create(&fields).await.expect("a table");
    let append_only = [("delta.appendOnly".to_owned(), "true".to_owned())];
    let changed = table
        .set_tbl_properties()
        .with_properties(append_only.into());
    changed.await.expect("it is set");
    for number in 1..=3 {
        append(&log, number).await;
    }
    compact(&log).await.expect("no row is removed");
    assert_eq!(expire(&log, date(2026, 11, 21)).await, 1);
    assert_eq!(read_all(&log).await, names(&rows_of(3)));
}

#[tokio::test]
async fn files_of_others_and_files_that_are_still_read_are_not_deleted() {
    let folder = filled(3).await;
    let log = log(&folder);
    compact(&log).await.expect("compacts");
    let table = folder.path().join("heartbeats");
    let others = [
        "dt=2026-11-20/notes.parquet",
        "dt=2026-11-20/part-1.csv",
        "readme.parquet",
    ];
    for name in others {
        std::fs::write(table.join(name), "theirs").expect("written");
    }
    let orphan = "dt=2026-11-20/part-00000-crashed-c000.snappy.parquet";
    std::fs::write(table.join(orphan), "ours").expect("written");
    let opened = newest(&log).await.expect("opens");
    let now = log.delete_unreferenced(&opened, later(Duration::ZERO), 7 * DAY);
    assert_eq!(now.await.expect("looks"), 0, "all of them are new");
    assert_eq!(
        delete_unreferenced(&log).await,
        4,
        "three files and the orphan"
    );
    for name in others {
        assert!(table.join(name).exists(), "{name}");
    }
    assert!(!table.join(orphan).exists());
    holds(&log, 1..=3, "afterwards").await;
}

/// Commits of a day in the test of a long time.
const COMMITS_A_DAY: u64 = 6;

/// Appends the commits of one day and does the upkeep after it, with a retention of ten days.
async fn live_a_day(log: &TableLog, day: u64) {
    let first = date(2026, 11, 20).to_zoned(jiff::tz::TimeZone::UTC);
    let midnight = first.expect("a time").timestamp() + (DAY * u32::try_from(day).expect("few"));
    for number in day * COMMITS_A_DAY..(day + 1) * COMMITS_A_DAY {
        let mut row = heartbeat(1, number);
        row.end = midnight + Duration::from_secs(60);
        let batch = Batched {
            shard: Shard::ONLY,
            number,
            unknown_from: None,
        };
        log.append(&[row], &batch).await.expect("appends");
    }
    compact(log).await.expect("compacts");
    let oldest = midnight - 10 * DAY;
    let oldest = oldest.to_zoned(jiff::tz::TimeZone::UTC).date();
    expire(log, oldest).await;
    delete_unreferenced(log).await;
    delete_old_commits(log).await;
}

/// The number of requests and bytes to open a table, read the newest commits and list its rows.
async fn cost_of_reading(folder: &TempDir) -> (usize, u64) {
    let store = Arc::new(ScriptedStore::new(Script::Nothing));
    let log = over(store.clone(), folder);
    let newest = log
        .load()
        .await
        .expect("opens")
        .and_then(|table| table.version());
    let commits = Commits::after(newest.and_then(|newest| newest.checked_sub(3)));
    log.since::<Placed>(commits, 100).await.expect("reads");
    log.summary().await.expect("reads");
    let reads = store.reads.load(Ordering::Relaxed);
    (reads, store.read_bytes.load(Ordering::Relaxed))
}

#[tokio::test]
async fn an_old_table_is_opened_as_fast_as_a_young_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = log(&folder);
    let fields = <Placed as crate::rows::Record>::fields().expect("columns");
    let table = log.load_or_create(&fields).await.expect("a table");
    // A checkpoint contains removals of the last week, which this test has in seconds.
    let forget = "delta.deletedFileRetentionDuration".to_owned();
    let forget = [(forget, "interval 0 seconds".to_owned())];
    let changed = table.set_tbl_properties().with_properties(forget.into());
    changed.await.expect("it is set");
    let mut young = (0, 0);
    for day in 0..28 {
        live_a_day(&log, day).await;
        if (10..15).contains(&day) {
            let (reads, bytes) = cost_of_reading(&folder).await;
            young = (young.0.max(reads), young.1.max(bytes));
        }
    }
    let (reads, bytes) = cost_of_reading(&folder).await;
    assert!(reads <= young.0 + 2, "{reads} requests, {} before", young.0);
    assert!(
        bytes <= young.1 * 11 / 10,
        "{bytes} bytes, {} before",
        young.1
    );
    let commits = folder.path().join("heartbeats/_delta_log");
    let commits = std::fs::read_dir(commits).expect("a log").count();
    assert!(commits < 60, "{commits} files in the log");
    assert!(files(&folder).len() <= 13, "{:?}", files(&folder));
    let rows = read_since(&log, Commits::after(None), 7).await;
    assert_eq!(rows, read_all(&log).await);
    assert_eq!(rows.len() as u64, 11 * COMMITS_A_DAY);
}
