//! Rows as they are stored, for queries of people.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use ebb_lake::{ColumnKind, Lake, StoredRow, StoredWindow, Table, TableSummary};

use crate::local::{batch, lake};
use crate::sample::heartbeat;

async fn rows(lake: &Lake, window: &StoredWindow<'_>) -> (Vec<StoredRow>, u64) {
    let mut rows = Vec::new();
    let mut each = |row| {
        rows.push(row);
        ControlFlow::Continue(())
    };
    let left_out = lake.stored_rows(Table::Heartbeats, window, &mut each).await;
    let left_out = left_out.expect("it is read");
    (rows, left_out)
}

/// Four heartbeats, the last two on the next day.
async fn four_rows(folder: &tempfile::TempDir) -> Lake {
    let lake = lake(folder).await;
    let all: Vec<_> = (0..4).map(|sequence| heartbeat(7, sequence)).collect();
    let appended = lake.append_heartbeats(&all, &batch(1)).await;
    appended.expect("it is appended");
    lake
}

#[tokio::test]
async fn rows_of_a_window_are_read_as_they_are_stored() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = four_rows(&folder).await;
    let window = StoredWindow {
        days: ("2026-11-20", "2026-11-21"),
        columns: None,
        max_rows: 10,
    };
    let (whole, left_out) = rows(&lake, &window).await;
    assert_eq!((whole.len(), left_out), (4, 0));
    assert_eq!(whole[0]["dt"], "2026-11-21", "the newest day comes first");
    assert_eq!(whole[0]["node"], "i-00000007");
    let ended = whole[0]["ended_at"].as_str().expect("a timestamp is text");
    assert!(ended.starts_with("2026-11-21T00:00:"), "{ended}");
    assert!(whole[0]["steps"].is_array());
    let columns = lake.columns(Table::Heartbeats).expect("columns");
    let mut names: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
    let mut stored: Vec<&str> = whole[0].keys().map(String::as_str).collect();
    names.sort_unstable();
    stored.sort_unstable();
    assert_eq!(names, stored);
    let kind = |name: &str| {
        columns
            .iter()
            .find(|one| one.name == name)
            .map(|one| one.kind)
    };
    assert_eq!(kind("sequence"), Some(ColumnKind::Integer));
    assert_eq!(kind("ended_at"), Some(ColumnKind::Text));
    assert_eq!(kind("steps"), Some(ColumnKind::Nested));
}

#[tokio::test]
async fn only_the_columns_and_rows_that_are_wanted_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = four_rows(&folder).await;
    let wanted = BTreeSet::from(["sequence".to_owned()]);
    let some = StoredWindow {
        days: ("2026-11-20", "2026-11-20"),
        columns: Some(&wanted),
        max_rows: 1,
    };
    let (few, left_out) = rows(&lake, &some).await;
    assert_eq!((few.len(), left_out), (1, 1));
    let keys: Vec<&str> = few[0].keys().map(String::as_str).collect();
    assert_eq!(keys, ["dt", "sequence"]);
    let none = BTreeSet::new();
    let days = StoredWindow {
        columns: Some(&none),
        max_rows: 10,
        ..some
    };
    assert_eq!(
        rows(&lake, &days).await.0.len(),
        2,
        "rows without a column count"
    );
}

#[tokio::test]
async fn a_summary_has_rows_and_days() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = four_rows(&folder).await;
    let summary = lake.summary(Table::Heartbeats).await.expect("it is read");
    assert_eq!(summary.rows, 4);
    assert_eq!(summary.first_day.as_deref(), Some("2026-11-20"));
    assert_eq!(summary.last_day.as_deref(), Some("2026-11-21"));
    let steps = lake
        .summary(Table::Steps)
        .await
        .expect("no table is no error");
    assert_eq!(steps, TableSummary::default());
}
