//! Rows that are written are read unchanged, and exactly the new rows are new.

use ebb_lake::{Appended, Batch, Commits, Lake, Since};
use ebb_telemetry::arrival::Placed;
use ebb_telemetry::shard::Shard;
use ebb_telemetry::step::StepEnd;
use ebb_telemetry::time::BootClock;
use jiff::Timestamp;
use jiff::civil::date;
use tempfile::TempDir;

use crate::sample::{bare_heartbeat, bare_usage, heartbeat, step, step_usage};

pub(crate) async fn lake(folder: &TempDir) -> Lake {
    let url = format!("file://{}/lake", folder.path().display());
    Lake::open(&url).await.expect("a lake")
}

pub(crate) const fn batch(number: u64) -> Batch {
    Batch {
        known: None,
        shard: Shard::ONLY,
        number,
    }
}

/// Rows come back by file, and so by day, in no promised order.
fn sorted(mut since: Since<Placed>) -> Vec<Placed> {
    since
        .rows
        .sort_by_key(|p| (p.node.clone(), p.heartbeat.sequence));
    since.rows
}

#[tokio::test]
async fn an_empty_lake_answers_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = lake(&folder).await;
    let since = lake
        .heartbeats_since(Commits::after(None))
        .await
        .expect("reads");
    assert_eq!(
        (since.rows.len(), since.through, since.newest),
        (0, None, None)
    );
    assert!(since.is_complete());
    assert_eq!(
        lake.steps_since(Commits::after(None))
            .await
            .expect("reads")
            .newest,
        None
    );
    let days = (date(2026, 1, 1), date(2027, 1, 1));
    let window = lake.steps_between(days.0, days.1).await.expect("reads");
    assert_eq!((window.rows.len(), window.left_out), (0, 0));
    assert_eq!(lake.findings_latest().await.expect("reads"), None);
}

#[tokio::test]
async fn heartbeats_come_back_as_they_were() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut far = heartbeat(3, 0);
    far.heartbeat.wall_at_end = Timestamp::MIN;
    far.end = Timestamp::MAX;
    let rows = vec![heartbeat(1, 0), heartbeat(1, 2), bare_heartbeat(2, 9), far];
    let made = lake(&folder)
        .await
        .append_heartbeats(&rows, &batch(1))
        .await;
    assert_eq!(made.expect("appends"), Appended::Committed(1));
    let reopened = lake(&folder)
        .await
        .heartbeats_since(Commits::after(None))
        .await
        .expect("reads");
    assert_eq!(reopened.through, Some(1));
    assert_eq!(sorted(reopened), rows);
}

#[tokio::test]
async fn a_value_that_no_column_holds_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut row = heartbeat(1, 4);
    row.heartbeat.end = BootClock::from_nanos(u64::MAX);
    let error = ebb_lake::check_heartbeat(&row).expect_err("does not fit");
    assert_eq!(error.row, "i-00000001/0b5c-boot/b00b/4");
    assert!(
        error
            .source
            .to_string()
            .starts_with("end_boot_ns is 18446744073709551615")
    );
    let refused = lake(&folder)
        .await
        .append_heartbeats(&[row], &batch(1))
        .await;
    assert!(refused.is_err());
}

#[tokio::test]
async fn only_rows_of_later_commits_are_new() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = lake(&folder).await;
    for number in 1..=3 {
        let rows = [heartbeat(1, number), heartbeat(2, number)];
        lake.append_heartbeats(&rows, &batch(number))
            .await
            .expect("appends");
    }
    let check = async |version, expect: &[u64]| {
        let since = lake
            .heartbeats_since(Commits::after(version))
            .await
            .expect("reads");
        assert_eq!((since.through, since.newest), (Some(3), Some(3)));
        let mut got: Vec<u64> = since.rows.iter().map(|p| p.heartbeat.sequence).collect();
        got.dedup();
        assert_eq!(got, expect, "since {version:?}");
    };
    check(None, &[1, 2, 3]).await;
    check(Some(0), &[1, 2, 3]).await;
    check(Some(1), &[2, 3]).await;
    check(Some(3), &[]).await;
}

#[tokio::test]
async fn steps_come_back_as_they_were_and_by_day() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = lake(&folder).await;
    let ends = [
        StepEnd::Running,
        StepEnd::Exited(0),
        StepEnd::Exited(255),
        StepEnd::Signalled(9),
        StepEnd::OutOfMemory,
        StepEnd::Unknown,
    ];
    let mut rows: Vec<_> = ends.map(|end| step(0, step_usage("a", end))).into();
    rows.push(step(0, bare_usage("b")));
    lake.append_steps(&rows, &batch(1)).await.expect("appends");
    assert_eq!(
        lake.steps_since(Commits::after(None))
            .await
            .expect("reads")
            .rows,
        rows
    );

    let later = [step(1, bare_usage("c")), step(30, bare_usage("d"))];
    lake.append_steps(&later, &batch(2)).await.expect("appends");
    let check = async |from, to, expect: &str| {
        let window = lake.steps_between(from, to).await.expect("reads");
        let mut keys: Vec<_> = window
            .rows
            .iter()
            .map(|s| s.usage.id.key.as_str())
            .collect();
        keys.dedup();
        assert_eq!((keys.concat().as_str(), window.left_out), (expect, 0));
    };
    check(date(2026, 11, 20), date(2026, 11, 20), "ab").await;
    check(date(2026, 11, 21), date(2026, 11, 30), "c").await;
    check(date(2026, 11, 1), date(2027, 1, 1), "dcab").await;
    check(date(2027, 1, 1), date(2026, 1, 1), "").await;
}
