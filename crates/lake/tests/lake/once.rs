//! A batch is committed once, whoever tries and however often.

use std::collections::BTreeSet;

use ebb_lake::{Appended, Batch, Commits, LakeError, MAX_BATCH_ROWS};
use ebb_telemetry::shard::Shard;

use crate::local::{batch, lake};
use crate::sample::heartbeat;

#[tokio::test]
async fn the_same_batch_again_is_already_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows = [heartbeat(1, 0)];
    let lake_one = lake(&folder).await;
    let check = async |number, expect: Appended| {
        let appended = lake_one.append_heartbeats(&rows, &batch(number)).await;
        assert_eq!(appended.expect("appends"), expect, "batch {number}");
    };
    check(5, Appended::Committed(1)).await;
    check(5, Appended::AlreadyThere(1)).await;
    check(4, Appended::AlreadyThere(1)).await;
    check(6, Appended::Committed(2)).await;
    let after = lake(&folder)
        .await
        .append_heartbeats(&rows, &batch(6))
        .await;
    assert_eq!(after.expect("appends"), Appended::AlreadyThere(2));
    assert_eq!(
        lake_one
            .heartbeats_since(Commits::after(None))
            .await
            .expect("reads")
            .rows
            .len(),
        2
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_writers_of_one_batch_one_commits() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, other) = (lake(&folder).await, lake(&folder).await);
    let rows = [heartbeat(1, 0)];
    for number in 1..=5 {
        let batch = batch(number);
        let both = futures::join!(
            one.append_heartbeats(&rows, &batch),
            other.append_heartbeats(&rows, &batch),
        );
        let both = [both.0.expect("appends"), both.1.expect("appends")];
        let commits = both.iter().filter(|a| matches!(a, Appended::Committed(_)));
        assert_eq!(commits.count(), 1, "batch {number}: {both:?}");
    }
    assert_eq!(
        one.heartbeats_since(Commits::after(None))
            .await
            .expect("reads")
            .rows
            .len(),
        5
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_of_different_shards_all_commit() {
    let folder = tempfile::tempdir().expect("a folder");
    let append = async |index: u16| {
        let shard = Shard { index, of: 5 };
        let batch = Batch {
            shard,
            number: 1,
            known: None,
        };
        let rows = [heartbeat(u32::from(index), 0)];
        lake(&folder)
            .await
            .append_heartbeats(&rows, &batch)
            .await
            .expect("appends")
    };
    let all = futures::join!(append(1), append(2), append(3), append(4));
    for appended in [all.0, all.1, all.2, all.3] {
        assert!(matches!(appended, Appended::Committed(_)), "{appended:?}");
    }
    let since = lake(&folder)
        .await
        .heartbeats_since(Commits::after(None))
        .await
        .expect("reads");
    let nodes: BTreeSet<_> = since.rows.iter().map(|p| p.node.to_string()).collect();
    assert_eq!((since.rows.len(), nodes.len()), (4, 4));
}

/// While the number of shards changes, sweeps of both numbers may run.
#[tokio::test]
async fn a_batch_waits_until_those_of_other_numbers_of_shards_are_known() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = lake(&folder).await;
    let append = async |(index, of): (u16, u16), known: Option<u64>| {
        let shard = Shard { index, of };
        let batch = Batch {
            shard,
            number: 1,
            known,
        };
        let appended = lake.append_heartbeats(&[heartbeat(1, 0)], &batch).await;
        appended.expect("it answers")
    };
    assert_eq!(append((0, 2), None).await, Appended::Committed(1));
    assert_eq!(append((1, 2), None).await, Appended::Committed(2));
    for shard in [(0, 1), (0, 4), (2, 4), (1, 3)] {
        let refused = Appended::AlreadyThere(2);
        assert_eq!(append(shard, None).await, refused, "{shard:?}");
        assert_eq!(append(shard, Some(0)).await, refused, "{shard:?}");
    }
    // The first of four has no node of the second of two.
    assert_eq!(append((0, 4), Some(1)).await, Appended::Committed(3));
    assert_eq!(append((0, 1), Some(2)).await, Appended::AlreadyThere(3));
    assert_eq!(append((0, 1), Some(3)).await, Appended::Committed(4));
}

/// The content of a deleted file cannot have been read.
#[tokio::test]
async fn batches_of_other_shards_are_passed_over_unread() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = lake(&folder).await;
    let append = async |shard: Shard, node: u32| {
        let batch = Batch {
            shard,
            number: 1,
            known: Some(2),
        };
        let appended = lake.append_heartbeats(&[heartbeat(node, 0)], &batch).await;
        assert!(matches!(appended, Ok(Appended::Committed(_))));
    };
    let of_two = |index| Shard { index, of: 2 };
    append(of_two(0), 1).await;
    append(of_two(1), 2).await;
    append(Shard::ONLY, 3).await;
    let nodes = async |shard: Shard| {
        let all = Commits {
            shard,
            ..Commits::after(None)
        };
        let since = lake.heartbeats_since(all).await.ok()?;
        assert!(since.is_complete());
        Some(since.rows.len())
    };
    assert_eq!(nodes(Shard::ONLY).await, Some(3));
    let table = folder.path().join("lake/heartbeats");
    let log = table.join("_delta_log/00000000000000000002.json");
    let commit = std::fs::read_to_string(log).expect("the second shard's commit");
    for day in std::fs::read_dir(table).expect("a table").flatten() {
        let files = std::fs::read_dir(day.path())
            .into_iter()
            .flatten()
            .flatten();
        let names = files.map(|file| (file.path(), file.file_name()));
        for (path, name) in names {
            if name.to_str().is_some_and(|name| commit.contains(name)) {
                std::fs::remove_file(path).expect("it is there");
            }
        }
    }
    assert_eq!(nodes(of_two(1)).await, None, "its file is gone");
    assert_eq!(nodes(of_two(0)).await, Some(2));
    let of_four = |index| Shard { index, of: 4 };
    assert_eq!(nodes(of_four(2)).await, Some(2), "of the first of two");
    assert_eq!(nodes(of_four(3)).await, None, "of the second of two");
}

#[tokio::test]
async fn a_batch_beyond_the_bound_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows = vec![heartbeat(1, 0); MAX_BATCH_ROWS + 1];
    let refused = lake(&folder)
        .await
        .append_heartbeats(&rows, &batch(1))
        .await;
    assert!(matches!(refused, Err(LakeError::TooManyRows { .. })));
}

/// A checkpoint is written every ten commits; transactions must outlive it.
#[tokio::test]
async fn batches_are_remembered_beyond_a_checkpoint() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = lake(&folder).await;
    for number in 1..=11 {
        let appended = lake
            .append_heartbeats(&[heartbeat(1, number)], &batch(number))
            .await;
        assert_eq!(appended.expect("appends"), Appended::Committed(number));
    }
    let log = folder
        .path()
        .join("lake/heartbeats/_delta_log/_last_checkpoint");
    assert!(log.exists(), "no checkpoint was written");
    let again = lake.append_heartbeats(&[heartbeat(1, 5)], &batch(5)).await;
    assert_eq!(again.expect("appends"), Appended::AlreadyThere(11));
    let since = lake
        .heartbeats_since(Commits::after(Some(9)))
        .await
        .expect("reads");
    assert_eq!(since.rows.len(), 2);
}
