//! Upkeep through the public face of the lake.

use std::time::Duration;

use ebb_lake::{Cleanup, Commits, Lake, Table, Upkeep, UpkeepCounts};
use jiff::Timestamp;
use jiff::civil::date;
use jiff::tz::TimeZone;

use crate::findings::evaluated_finding;
use crate::local::{batch, lake};
use crate::sample::heartbeat;

/// Upkeep as in eight days, so that all commits are old.
async fn keep_up(lake: &Lake, table: Table, cleanup: Option<Cleanup>, time: bool) -> UpkeepCounts {
    let upkeep = Upkeep {
        now: eight_days_later(),
        cleanup,
        is_over: &|| !time,
    };
    lake.keep_up(table, &upkeep).await.expect("upkeep")
}

fn eight_days_later() -> Timestamp {
    let days = Duration::from_secs(8 * 86_400);
    Timestamp::now().saturating_add(days).expect("a time")
}

fn cleanup(keep_days: Option<u32>) -> Option<Cleanup> {
    let unreferenced = Duration::from_secs(7 * 86_400);
    Some(Cleanup {
        keep_days,
        unreferenced,
    })
}

#[tokio::test]
async fn upkeep_merges_removes_and_deletes_within_its_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = lake(&folder).await;
    let nothing = keep_up(&lake, Table::Heartbeats, cleanup(Some(30)), true).await;
    assert_eq!(nothing, UpkeepCounts::default(), "there is no table yet");
    for number in 0..4 {
        let rows = [heartbeat(1, number)];
        let appended = lake.append_heartbeats(&rows, &batch(number)).await;
        appended.expect("appends");
    }
    let over = keep_up(&lake, Table::Heartbeats, cleanup(Some(0)), false).await;
    let unfinished = UpkeepCounts {
        is_unfinished: true,
        ..UpkeepCounts::default()
    };
    assert_eq!(over, unfinished, "nothing is begun without time");
    let merged = keep_up(&lake, Table::Heartbeats, None, true).await;
    assert_eq!((merged.merged_files, merged.new_files), (4, 2));
    assert!(!merged.is_unfinished, "its own commit needs no other");
    // The first two rows are of the day before this one.
    let today = eight_days_later().to_zoned(TimeZone::UTC).date();
    let days = today.since(date(2026, 11, 21)).expect("a span").get_days();
    let days = u32::try_from(days).expect("it is in the past");
    let cleaned = keep_up(&lake, Table::Heartbeats, cleanup(Some(days)), true).await;
    assert_eq!((cleaned.deleted_files, cleaned.expired_files), (4, 1));
    let cleaned = keep_up(&lake, Table::Heartbeats, cleanup(None), true).await;
    assert_eq!((cleaned.deleted_files, cleaned.expired_files), (1, 0));
    let since = lake.heartbeats_since(Commits::after(None)).await;
    let rows = since.expect("reads").rows;
    let sequences: Vec<u64> = rows.iter().map(|row| row.heartbeat.sequence).collect();
    assert_eq!(sequences, [2, 3]);
}

#[tokio::test]
async fn the_newest_sweep_answers_after_its_file_was_merged() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = lake(&folder).await;
    for number in 1..=3 {
        let found = [
            evaluated_finding(&format!("i-{number}"), None),
            evaluated_finding("i-0", None),
        ];
        let appended = lake.append_findings(&found, &batch(number)).await;
        appended.expect("appends");
    }
    let merged = keep_up(&lake, Table::Findings, None, true).await;
    assert_eq!(merged.merged_files, 3);
    let cleaned = keep_up(&lake, Table::Findings, cleanup(None), true).await;
    assert_eq!(cleaned.deleted_files, 3);
    let latest = lake.findings_latest().await.expect("reads");
    let mut latest = latest.expect("there is a sweep");
    latest.sort_by(|a, b| a.finding.resource.id.cmp(&b.finding.resource.id));
    assert_eq!(
        latest,
        [
            evaluated_finding("i-0", None),
            evaluated_finding("i-3", None)
        ]
    );
}
