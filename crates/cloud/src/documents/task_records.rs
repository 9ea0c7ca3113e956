//! Names of tasks from the records of engines, stored by `ebb names push` and read by every sweep.
//! An object contains the records of one push, under the day on which the last of them ends:
//! `names/v1/2026-11-20/DIGEST.jsonl.zst`. The digest of its text is its name, so a repeated push
//! changes nothing.
//!
//! The text is `ebb.names/1` and one record in JSON a line. Objects are data from outside: every
//! value is checked, and all sizes and numbers are limited.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ebb_model::task_record::{TaskKey, TaskRecord};
use ebb_model::visibility_gap::{Gap, Refused};
use ebb_telemetry::safe_text::one_line;
use futures::{StreamExt, stream};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::documents::inflate::inflate;
use crate::ports::{CloudError, Objects, PutIf, PutOptions};

/// The prefix of all objects.
const PREFIX: &str = "names/v1/";

/// The scope of a gap.
const SCOPE: &str = "task names";

const SCHEMA: &str = "ebb.names/1";

const ENDING: &str = ".jsonl.zst";

/// How long records are used: as long as a sweep reads finished tasks.
pub const RETENTION: Duration = Duration::from_secs(14 * 24 * 3600);

/// Maximum number of records in an object, which the program writes; 20 MB as text.
pub const MAX_RECORDS_A_PUSH: usize = 100_000;

/// Maximum number of records that a sweep reads, at about 400 bytes of memory each.
const MAX_RECORDS: usize = 300_000;

/// Maximum number of objects that a sweep reads. A push merges the objects of a day into one when
/// there are [`MERGE_FROM`] of them, so two weeks have at most 360.
const MAX_OBJECTS: usize = 512;

/// Maximum number of keys that a listing returns.
const MAX_LISTED: usize = 10_000;

/// Number of objects of one day from which a push merges them.
const MERGE_FROM: usize = 24;

const MAX_PACKED_BYTES: u64 = 16 << 20;

const MAX_BYTES: u64 = 128 << 20;

/// Maximum length of a line. A record has at most six names of 256 bytes.
const MAX_LINE_BYTES: usize = 8 << 10;

/// Maximum number of objects that a gap names.
const MAX_NAMED: usize = 3;

const ZSTD_LEVEL: i32 = 3;

/// Objects that are read at the same time.
const AT_ONCE: usize = 8;

/// The records of all pushes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskRecords {
    /// The records; the same record of several pushes is there once.
    pub records: Vec<TaskRecord>,
    /// Objects that could not be read, and records that were left out.
    pub gaps: Vec<Gap>,
}

/// Why names could not be stored.
#[derive(Debug, Error)]
pub enum PushError {
    /// No record is left.
    #[error("no record to store")]
    Nothing,
    /// The records do not fit into an object.
    #[error("the records have more than {} MiB", MAX_BYTES >> 20)]
    TooLarge,
    /// The records could not be encoded.
    #[error("failed to encode the records")]
    Encode(#[source] std::io::Error),
    /// The bucket or folder failed.
    #[error("failed to write {key}")]
    Cloud {
        /// The key of the object.
        key: String,
        /// The cause.
        source: CloudError,
    },
}

/// The result of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    /// The key of the object.
    pub key: String,
    /// Number of stored records.
    pub records: usize,
    /// Number of records beyond [`MAX_RECORDS_A_PUSH`]; those that end first.
    pub left_out: usize,
    /// Whether the same records were stored before.
    pub is_repeated: bool,
    /// Number of objects that were deleted because they are too old.
    pub deleted: usize,
    /// Number of objects of the same day that were merged.
    pub merged: usize,
    /// Why old objects could not be deleted or merged; the records are stored.
    pub warning: Option<String>,
}

/// Reads the records of the last [`RETENTION`] before `now`, the newest first. An object that
/// cannot be read, and records beyond a limit, become gaps.
pub async fn load(objects: &dyn Objects, now: Timestamp) -> TaskRecords {
    let mut all = TaskRecords::default();
    let listed = match list(objects, first_day(now)).await {
        Ok(listed) => listed,
        Err(error) => {
            all.gaps.push(Refused::from(error).gap(SCOPE));
            return all;
        }
    };
    let mut problems = Problems::default();
    if listed.len() >= MAX_LISTED {
        let reason = format!("more than {MAX_LISTED} objects; the newest are not read");
        all.gaps.push(Gap::new(SCOPE, reason));
    }
    let (mut keys, mut newest_last) = (Vec::new(), listed);
    while let Some(key) = newest_last.pop() {
        match day_of(&key) {
            Some(day) if day <= last_day(now) => keys.push(key),
            _ => problems.refuse(&key, "the key has no valid day"),
        }
    }
    problems.objects_left_out = keys.len().saturating_sub(MAX_OBJECTS);
    keys.truncate(MAX_OBJECTS);
    let reads = keys.into_iter().map(|key| async move {
        let records = read(objects, &key).await;
        (key, records)
    });
    let mut reads = stream::iter(reads).buffered(AT_ONCE);
    let mut unique = UniqueRecords::default();
    while let Some((key, records)) = reads.next().await {
        match records {
            Ok(records) => {
                for record in records {
                    let is_full = unique.count >= MAX_RECORDS;
                    match is_full {
                        true => problems.records_left_out += 1,
                        false => unique.add(record),
                    }
                }
            }
            Err(reason) => problems.refuse(&key, &reason),
        }
    }
    all.records = unique.into_vec();
    all.gaps.extend(problems.gaps());
    all
}

/// Stores the records of one push, those that end last first. Deletes objects that are too old, and
/// merges the objects of the day if there are many.
///
/// # Errors
/// If the records cannot be stored. Failures after that are a warning.
pub async fn push(
    objects: &dyn Objects,
    mut records: Vec<TaskRecord>,
    now: Timestamp,
) -> Result<Pushed, PushError> {
    let left_out = records.len().saturating_sub(MAX_RECORDS_A_PUSH);
    records.truncate(MAX_RECORDS_A_PUSH);
    let count = records.len();
    let (key, is_repeated) = put(objects, records, now).await?;
    let mut pushed = Pushed {
        records: count,
        left_out,
        is_repeated,
        deleted: 0,
        merged: 0,
        warning: None,
        key,
    };
    if let Err(error) = tidy(objects, &mut pushed, now).await {
        pushed.warning = Some(error.to_string());
    }
    Ok(pushed)
}

/// Deletes old objects, and merges those of the day of `pushed`.
async fn tidy(
    objects: &dyn Objects,
    pushed: &mut Pushed,
    now: Timestamp,
) -> Result<(), CloudError> {
    let listed = objects.list(PREFIX, None, MAX_LISTED).await?;
    let keys: Vec<String> = listed.into_iter().map(|entry| entry.key).collect();
    let of = |is_wanted: &dyn Fn(Date) -> bool| -> Vec<String> {
        let wanted = keys.iter().filter(|key| day_of(key).is_some_and(is_wanted));
        wanted.cloned().collect()
    };
    let oldest = first_day(now);
    let old = of(&|day| day < oldest);
    if !old.is_empty() {
        objects.delete(&old).await?;
        pushed.deleted = old.len();
    }
    let pushed_on = day_of(&pushed.key);
    let of_day = of(&|day| Some(day) == pushed_on);
    if of_day.len() >= MERGE_FROM {
        merge(objects, of_day, pushed, now).await?;
    }
    Ok(())
}

/// Replaces the objects of a day by one. After a crash in between, some records are stored twice,
/// which changes nothing. An object that cannot be read, or that does not fit, stays.
async fn merge(
    objects: &dyn Objects,
    keys: Vec<String>,
    pushed: &mut Pushed,
    now: Timestamp,
) -> Result<(), CloudError> {
    let (mut unique, mut merged) = (UniqueRecords::default(), Vec::new());
    for key in keys {
        let Ok(records) = read(objects, &key).await else {
            continue;
        };
        if unique.count + records.len() <= MAX_RECORDS_A_PUSH {
            records.into_iter().for_each(|record| unique.add(record));
            merged.push(key);
        }
    }
    let stored = put(objects, unique.into_vec(), now).await;
    let (key, _) = stored.map_err(|error| match error {
        PushError::Cloud { source, .. } => source,
        other => CloudError::Failed {
            operation: "names".to_owned(),
            message: other.to_string(),
        },
    })?;
    merged.retain(|other| *other != key);
    objects.delete(&merged).await?;
    pushed.merged = merged.len();
    pushed.key = key;
    Ok(())
}

/// Writes the records; returns the key, and whether the object existed.
async fn put(
    objects: &dyn Objects,
    mut records: Vec<TaskRecord>,
    now: Timestamp,
) -> Result<(String, bool), PushError> {
    let last = records.iter().map(|record| record.until).max();
    let last = last.ok_or(PushError::Nothing)?.min(now);
    // The order of the rows in a file does not matter.
    records.sort();
    records.dedup();
    let text = encode(&records).map_err(|error| PushError::Encode(error.into()))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(PushError::TooLarge);
    }
    let digest = Sha256::digest(text.as_bytes());
    let digest: String = digest[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let key = format!("{PREFIX}{}/{digest}{ENDING}", day(last));
    let packed = zstd::bulk::compress(text.as_bytes(), ZSTD_LEVEL).map_err(PushError::Encode)?;
    if packed.len() as u64 > MAX_PACKED_BYTES {
        return Err(PushError::TooLarge);
    }
    let options = PutOptions {
        condition: PutIf::Absent,
        content_type: Some("application/zstd"),
        ..PutOptions::default()
    };
    match objects.put(&key, packed, options).await {
        Ok(_) => Ok((key, false)),
        Err(CloudError::Conflict { .. }) => Ok((key, true)),
        Err(source) => Err(PushError::Cloud { key, source }),
    }
}

fn encode(records: &[TaskRecord]) -> Result<String, serde_json::Error> {
    let mut text = format!("{SCHEMA}\n");
    for record in records {
        text.push_str(&serde_json::to_string(record)?);
        text.push('\n');
    }
    Ok(text)
}

/// The records of one object; the error is a reason for people.
async fn read(objects: &dyn Objects, key: &str) -> Result<Vec<TaskRecord>, String> {
    let object = objects.get(key, MAX_PACKED_BYTES).await;
    let object = object.map_err(|error| error.to_string())?;
    decode(&inflate(&object.bytes, MAX_BYTES)?)
}

fn decode(text: &[u8]) -> Result<Vec<TaskRecord>, String> {
    let mut lines = text.split(|byte| *byte == b'\n');
    match lines.next().and_then(|line| std::str::from_utf8(line).ok()) {
        Some(SCHEMA) => {}
        Some(schema) if schema.starts_with("ebb.names/") => {
            return Err(format!(
                "it has the newer schema {}; update Ebb",
                one_line(schema.get(..20).unwrap_or(schema))
            ));
        }
        _ => return Err("it does not contain names of tasks".to_owned()),
    }
    let mut records = Vec::new();
    for (at, line) in lines.enumerate().filter(|(_, line)| !line.is_empty()) {
        let number = at + 2;
        if line.len() > MAX_LINE_BYTES || records.len() >= MAX_RECORDS_A_PUSH {
            return Err(format!("line {number} is too long, or one too many"));
        }
        let record = serde_json::from_slice(line)
            .map_err(|error| format!("line {number}: {}", one_line(&error.to_string())))?;
        records.push(record);
    }
    Ok(records)
}

/// All keys from a day on, in order. Keys of earlier days are not listed.
async fn list(objects: &dyn Objects, from: Date) -> Result<Vec<String>, CloudError> {
    let after = format!("{PREFIX}{from}");
    let listed = objects.list(PREFIX, Some(&after), MAX_LISTED).await?;
    Ok(listed.into_iter().map(|entry| entry.key).collect())
}

fn day(at: Timestamp) -> Date {
    at.to_zoned(TimeZone::UTC).date()
}

/// The first day whose objects are used. A record of an earlier day may end on a later one, but no
/// record of an earlier day ends within the retention.
fn first_day(now: Timestamp) -> Date {
    day(now.saturating_sub(RETENTION).unwrap_or(Timestamp::MIN))
}

/// The last day whose objects are used: the clock of the pusher may be ahead.
fn last_day(now: Timestamp) -> Date {
    day(now).saturating_add(1.day())
}

/// The day in a key; `None` if the key has another form.
fn day_of(key: &str) -> Option<Date> {
    let (day, name) = key.strip_prefix(PREFIX)?.split_once('/')?;
    let digest = name.strip_suffix(ENDING)?;
    let is_digest = digest.len() == 32 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    day.parse().ok().filter(|_| is_digest && day.len() == 10)
}

/// Records without repetitions. Of several records of a running task, the latest one counts.
#[derive(Default)]
struct UniqueRecords {
    by_keys: BTreeMap<Vec<TaskKey>, Vec<TaskRecord>>,
    count: usize,
}

impl UniqueRecords {
    fn add(&mut self, record: TaskRecord) {
        let same = self.by_keys.entry(record.keys.clone()).or_default();
        if same.iter().any(|known| known.continues(&record)) {
            return;
        }
        let before = same.len();
        same.retain(|known| !record.continues(known));
        same.push(record);
        self.count = self.count + same.len() - before;
    }

    fn into_vec(self) -> Vec<TaskRecord> {
        let unique: BTreeSet<TaskRecord> = self.by_keys.into_values().flatten().collect();
        unique.into_iter().collect()
    }
}

/// Objects and records that were not used.
#[derive(Default)]
struct Problems {
    refused: Vec<(String, String)>,
    refused_count: usize,
    objects_left_out: usize,
    records_left_out: usize,
}

impl Problems {
    fn refuse(&mut self, key: &str, reason: &str) {
        self.refused_count += 1;
        if self.refused.len() < MAX_NAMED {
            self.refused.push((one_line(key), one_line(reason)));
        }
    }

    fn gaps(self) -> Vec<Gap> {
        let named = self.refused.iter();
        let mut gaps: Vec<Gap> = named
            .map(|(key, reason)| Gap::new(format!("{SCOPE}: {key}"), reason.clone()))
            .collect();
        let more = self.refused_count - self.refused.len();
        if more > 0 {
            gaps.push(Gap::new(SCOPE, format!("{more} more objects were refused")));
        }
        if self.objects_left_out + self.records_left_out > 0 {
            gaps.push(Gap::new(
                SCOPE,
                format!(
                    "{} older objects and {} older records were left out to limit memory; push \
                     less often, or only recent tasks",
                    self.objects_left_out, self.records_left_out
                ),
            ));
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use ebb_model::task_record::testing::slurm_record;

    use crate::failing::{Failing, Fault};
    use crate::fake::clock::FakeClock;
    use crate::fake::objects::FakeObjects;

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    fn now() -> Timestamp {
        at("2026-11-20T12:00:00Z")
    }

    fn bucket() -> FakeObjects {
        FakeObjects::new(FakeClock::at(now()))
    }

    fn record(id: usize, name: &str, until: Timestamp) -> TaskRecord {
        TaskRecord {
            until,
            ..slurm_record(&id.to_string(), name)
        }
    }

    #[tokio::test]
    async fn the_same_push_twice_is_one_object_and_reads_back() {
        let bucket = bucket();
        let records = vec![record(8, "sort", now()), record(7, "align", now())];
        let first = push(&bucket, records.clone(), now()).await.expect("stored");
        let turned = records.iter().rev().cloned().collect();
        let again = push(&bucket, turned, now() + DAY).await.expect("stored");
        assert_eq!((first.is_repeated, again.is_repeated), (false, true));
        assert_eq!(first.key, again.key);
        assert!(first.key.starts_with("names/v1/2026-11-20/"), "{first:?}");
        assert_eq!(bucket.keys(), [first.key]);
        let loaded = load(&bucket, now()).await;
        let expect = vec![record(7, "align", now()), record(8, "sort", now())];
        assert_eq!((loaded.records, loaded.gaps), (expect, Vec::new()));
        let error = push(&bucket, Vec::new(), now()).await;
        assert_eq!(error.expect_err("empty").to_string(), "no record to store");
    }

    #[tokio::test]
    async fn of_a_running_task_the_latest_record_counts() {
        let bucket = bucket();
        for minute in [0, 30, 15] {
            let until = now() + Duration::from_secs(minute * 60);
            let pushed = push(&bucket, vec![record(7, "align", until)], until);
            pushed.await.expect("stored");
        }
        let loaded = load(&bucket, now() + DAY).await;
        let until = now() + Duration::from_secs(1_800);
        assert_eq!(loaded.records, [record(7, "align", until)]);
    }

    #[tokio::test]
    async fn old_objects_are_ignored_and_then_deleted() {
        let bucket = bucket();
        let stored = push(&bucket, vec![record(1, "old", now())], now()).await;
        let key = stored.expect("stored").key;
        let later = now() + 16 * DAY;
        assert_eq!(load(&bucket, later).await, TaskRecords::default());
        let pushed = push(&bucket, vec![record(2, "new", later)], later).await;
        let pushed = pushed.expect("stored");
        assert_eq!((pushed.deleted, bucket.stored(&key)), (1, None));
        assert_eq!(bucket.keys(), [pushed.key]);
    }

    #[tokio::test]
    async fn many_pushes_of_a_day_become_one_object() {
        let bucket = bucket();
        let mut merged = 0;
        for id in 0..60 {
            let pushed = push(&bucket, vec![record(id, "a", now())], now()).await;
            merged += pushed.expect("stored").merged;
        }
        assert!(merged >= 2 * (MERGE_FROM - 1), "{merged}");
        assert!(bucket.keys().len() < MERGE_FROM, "{}", bucket.keys().len());
        let loaded = load(&bucket, now()).await;
        assert_eq!((loaded.records.len(), loaded.gaps), (60, Vec::new()));
    }

    #[tokio::test]
    async fn what_no_push_wrote_is_refused_with_its_name_and_the_rest_is_read() {
        let digest = "0".repeat(32);
        let key = format!("names/v1/2026-11-19/{digest}{ENDING}");
        let packed = |text: &str| zstd::bulk::compress(text.as_bytes(), 1).expect("it packs");
        let check = async |key: &str, bytes: Vec<u8>, expect: &str| {
            let bucket = bucket();
            let good = push(&bucket, vec![record(7, "align", now())], now()).await;
            good.expect("stored");
            bucket.insert(key, bytes);
            let loaded = load(&bucket, now()).await;
            assert_eq!(loaded.records.len(), 1, "{expect}");
            let [gap] = &loaded.gaps[..] else {
                panic!("{expect}: {:?}", loaded.gaps)
            };
            assert!(gap.reason.contains(expect), "{gap:?}");
            assert!(!format!("{gap:?}").contains('\u{1b}'), "{gap:?}");
            assert!(gap.scope.starts_with("task names: names/v1/"), "{gap:?}");
        };
        check(&key, b"no zstd".to_vec(), "failed to decompress").await;
        check(&key, packed("anything"), "does not contain names").await;
        check(&key, packed("ebb.names/2\n{}"), "update Ebb").await;
        check(&key, packed("ebb.names/1\n{}\n"), "line 2: missing field").await;
        check(&key, packed("ebb.names/1\n\u{1b}[2J\n"), "line 2").await;
        let long = format!("ebb.names/1\n{}\n", "x".repeat(MAX_LINE_BYTES + 1));
        check(&key, packed(&long), "line 2 is too long").await;
        let bomb = packed(&"\n".repeat(MAX_BYTES as usize + 1));
        check(&key, bomb, "more than").await;
        check("names/v1/9999-12-31/x", Vec::new(), "no valid day").await;
        let future = format!("names/v1/2026-12-31/{digest}{ENDING}");
        check(&future, Vec::new(), "no valid day").await;
        check("names/v1/2026-11-19/\u{1b}[2J", Vec::new(), "no valid day").await;
    }

    #[tokio::test]
    async fn a_listing_that_fails_is_a_gap_and_a_failed_cleanup_a_warning() {
        let bucket = bucket();
        let denied = Failing::new(bucket.clone(), &Fault::always("objects.list"));
        let loaded = load(&denied, now()).await;
        assert_eq!((loaded.records.len(), loaded.gaps.len()), (0, 1));
        let failing = Failing::new(bucket.clone(), &Fault::always("objects.list"));
        let pushed = push(&failing, vec![record(7, "align", now())], now()).await;
        let pushed = pushed.expect("stored");
        assert!(pushed.warning.is_some(), "{pushed:?}");
        assert_eq!(load(&bucket, now()).await.records.len(), 1);
    }
}
