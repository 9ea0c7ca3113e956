//! The tasks of a run, written by each sweep that has news of it and read by the API.
//!
//! A run of at most [`PART_TASKS`] tasks is one document, `details/runs/DIGEST.json.zst`. A larger run has
//! a head at that key with its tasks in brief, and parts with so many whole tasks each,
//! `details/runs/DIGEST/N-SIDE.json.zst`. A sweep writes changed parts first, each to its other side,
//! and then the head. The parts of the previous head stay readable until the next sweep. A head begins
//! with the [opening](crate::documents::run_opening) of its run, as a compressed frame of its own.
//!
//! Documents are data from outside: their size, schema, run and tasks are checked.

use ebb_model::report::task_brief::{BriefList, TaskBrief, TaskColumns};
use ebb_model::report::task_detail::{TaskDetail, TaskList};
use ebb_model::report::workflow_runs::UNASSIGNED;
use ebb_telemetry::origin::Origin;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::documents::inflate::split_frames;
use crate::documents::run_opening::encode_opening;
use crate::documents::task_lists::{
    DetailError, MAX_DOCUMENT_BYTES, MAX_PACKED_BYTES, SizedDocument, check_schema, digest, encode,
    get_packed, invalid, parse, unpack,
};
use crate::ports::Objects;

/// Number of tasks in each part but the last.
pub const PART_TASKS: usize = 1_000;

/// Maximum size of a part as text: 8 KB a task.
pub const MAX_PART_BYTES: u64 = 8 << 20;

const PART_SCHEMA: &str = "ebb.run_part/1";

/// All tasks of a run in brief, and where the whole tasks are.
#[derive(Debug, Clone, PartialEq)]
pub struct RunTasks {
    /// The tasks in brief.
    pub list: BriefList,
    run: String,
    whole: WholeTasks,
}

#[derive(Debug, Clone, PartialEq)]
enum WholeTasks {
    /// In the same document.
    Here(Vec<TaskDetail>),
    /// In parts, by start.
    Parts(Vec<PartEntry>),
}

/// One part of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartEntry {
    /// The number of the part, from 0.
    pub number: usize,
    /// Number of its tasks.
    pub tasks: usize,
    /// The side that contains it.
    pub side: PartSide,
    /// The digest of its document, by which a changed part is recognized.
    pub digest: String,
}

impl PartEntry {
    /// The entry of the part `number` with so many tasks.
    pub fn new((number, tasks): (usize, usize), packed: &[u8], previous: Option<&Self>) -> Self {
        let digest = hex(digest(packed));
        let side = match previous {
            Some(previous) if previous.digest == digest => previous.side,
            Some(previous) => previous.side.other(),
            None => PartSide::A,
        };
        Self {
            number,
            tasks,
            side,
            digest,
        }
    }
}

/// One of the two keys of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartSide {
    /// The first.
    A,
    /// The second.
    B,
}

impl PartSide {
    fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// The document of a run: a [`TaskList`], or a head.
#[derive(Deserialize)]
struct RunDocument {
    schema: String,
    at: Timestamp,
    origin: Origin,
    left_out: usize,
    #[serde(default)]
    tasks: Vec<TaskDetail>,
    #[serde(default)]
    run: String,
    #[serde(default)]
    columns: TaskColumns,
    #[serde(default)]
    parts: Vec<PartEntry>,
}

/// The head of a run in parts.
#[derive(Debug, Serialize)]
struct RunHead<'a> {
    schema: &'static str,
    at: Timestamp,
    origin: Origin,
    left_out: usize,
    run: &'a str,
    columns: TaskColumns,
    parts: &'a [PartEntry],
}

impl<'a> RunHead<'a> {
    const SCHEMA: &'static str = "ebb.run_head/1";

    /// The head of a run with these parts.
    fn new(run: &'a str, list: &BriefList, parts: &'a [PartEntry]) -> Self {
        Self {
            schema: Self::SCHEMA,
            at: list.at,
            origin: list.origin,
            left_out: list.left_out,
            run,
            columns: list.tasks.iter().collect(),
            parts,
        }
    }
}

/// The document of a run with these parts, compressed; `None` if it is larger than a reader accepts. It
/// has no opening if that is too large.
///
/// # Errors
/// If the document cannot be encoded.
pub fn encode_head(
    run: &str,
    list: &BriefList,
    parts: &[PartEntry],
) -> Result<Option<Vec<u8>>, std::io::Error> {
    let Some(head) = encode(&RunHead::new(run, list, parts))? else {
        return Ok(None);
    };
    Ok(Some(match encode_opening(run, list)? {
        Some(opening) if (opening.len() + head.len()) as u64 <= MAX_PACKED_BYTES => {
            [opening, head].concat()
        }
        _ => head,
    }))
}

/// A part, borrowed to write and owned to read.
#[derive(Serialize, Deserialize)]
struct PartDocument<T> {
    schema: String,
    tasks: T,
}

/// The content of a part to write.
pub fn part_document(tasks: &[TaskDetail]) -> impl Serialize + '_ {
    PartDocument {
        schema: PART_SCHEMA.to_owned(),
        tasks,
    }
}

/// A part of a known run with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunPart {
    /// The key of its document.
    pub key: String,
    /// The digest of its document.
    pub digest: String,
    /// The positions of its tasks in the list.
    pub positions: std::ops::Range<usize>,
}

impl RunTasks {
    /// The tasks of a list, all in one document.
    pub fn new(list: TaskList, run: &str) -> Self {
        Self {
            list: BriefList::from(&list),
            run: run.to_owned(),
            whole: WholeTasks::Here(list.tasks),
        }
    }

    /// The whole tasks, if they are not in parts.
    pub fn whole(&self) -> Option<&[TaskDetail]> {
        match &self.whole {
            WholeTasks::Here(tasks) => Some(tasks),
            WholeTasks::Parts(_) => None,
        }
    }

    /// The entries of the parts; empty if there are none.
    pub fn entries(&self) -> &[PartEntry] {
        match &self.whole {
            WholeTasks::Here(_) => &[],
            WholeTasks::Parts(parts) => parts,
        }
    }

    /// The parts in order.
    pub fn parts(&self) -> impl Iterator<Item = RunPart> + '_ {
        let mut from = 0;
        self.entries().iter().map(move |entry| {
            let positions = from..from + entry.tasks;
            from = positions.end;
            RunPart {
                key: part_key(&self.run, entry.number, entry.side),
                digest: entry.digest.clone(),
                positions,
            }
        })
    }
}

/// The key of the document of a run.
pub fn run_key(run: &str) -> String {
    format!("details/runs/{}.json.zst", short_digest(run))
}

/// The key of a part of a run.
pub fn part_key(run: &str, number: usize, side: PartSide) -> String {
    let side = match side {
        PartSide::A => 'a',
        PartSide::B => 'b',
    };
    format!(
        "details/runs/{}/{number}-{side}.json.zst",
        short_digest(run)
    )
}

fn short_digest(run: &str) -> String {
    hex(digest(run.as_bytes()))[..16].to_owned()
}

fn hex(digest: [u8; 32]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads what is known of all tasks of a run; `None` if no sweep wrote them.
///
/// # Errors
/// If the bucket fails, or the document is not valid.
pub async fn read_run(
    objects: &dyn Objects,
    run: &str,
) -> Result<Option<SizedDocument<RunTasks>>, DetailError> {
    let key = run_key(run);
    let Some(object) = get_packed(objects, &key).await? else {
        return Ok(None);
    };
    let frames = split_frames(&object.bytes).map_err(|reason| invalid(&key, &reason))?;
    let frame = match frames {
        (only, []) => only,
        (_, after_opening) => after_opening,
    };
    let text = unpack(&key, (frame, MAX_DOCUMENT_BYTES))?;
    let bytes = text.len();
    let document: RunDocument = parse(&key, &text)?;
    drop(text);
    let content = match document.schema.as_str() {
        RunHead::SCHEMA => of_head(&key, run, document)?,
        _ => of_list(&key, run, document)?,
    };
    Ok(Some(SizedDocument {
        content,
        bytes,
        modified_at: object.modified_at,
    }))
}

fn of_list(key: &str, run: &str, document: RunDocument) -> Result<RunTasks, DetailError> {
    check_schema(key, &document.schema, TaskList::SCHEMA)?;
    check_run(key, run, &document.tasks)?;
    let list = TaskList {
        schema: document.schema,
        at: document.at,
        origin: document.origin,
        tasks: document.tasks,
        left_out: document.left_out,
    };
    Ok(RunTasks::new(list, run))
}

fn of_head(key: &str, run: &str, document: RunDocument) -> Result<RunTasks, DetailError> {
    if document.run != run {
        return Err(invalid(key, "it contains tasks of another run"));
    }
    let of_tasks = Some(run).filter(|run| *run != UNASSIGNED);
    let tasks = document.columns.tasks(of_tasks);
    let tasks = tasks.map_err(|reason| invalid(key, &reason))?;
    let sizes = document.parts.iter();
    let in_parts = sizes.fold(0, |sum: usize, part| sum.saturating_add(part.tasks));
    if in_parts != tasks.len() {
        return Err(invalid(key, "its parts have another number of tasks"));
    }
    Ok(RunTasks {
        list: BriefList {
            at: document.at,
            origin: document.origin,
            tasks,
            left_out: document.left_out,
        },
        run: document.run,
        whole: WholeTasks::Parts(document.parts),
    })
}

fn check_run(key: &str, run: &str, tasks: &[TaskDetail]) -> Result<(), DetailError> {
    let of_task = |task: &TaskDetail| task.run.as_deref().unwrap_or(UNASSIGNED) == run;
    match tasks.iter().all(of_task) {
        true => Ok(()),
        false => Err(invalid(key, "it contains tasks of another run")),
    }
}

/// Reads the whole tasks of a part.
///
/// # Errors
/// If the bucket fails, the document is not valid, or a newer sweep replaced it.
pub async fn read_part(
    objects: &dyn Objects,
    (tasks, part): (&RunTasks, &RunPart),
) -> Result<SizedDocument<Vec<TaskDetail>>, DetailError> {
    let key = &part.key;
    let replaced = || DetailError::Replaced(key.clone());
    let object = get_packed(objects, key).await?.ok_or_else(replaced)?;
    let text = unpack(key, (&object.bytes, MAX_PART_BYTES))?;
    let document: PartDocument<Vec<TaskDetail>> = parse(key, &text)?;
    check_schema(key, &document.schema, PART_SCHEMA)?;
    check_run(key, &tasks.run, &document.tasks)?;
    let briefs = tasks.list.tasks.get(part.positions.clone());
    let briefs = briefs.unwrap_or_default();
    let is_it = |(brief, task): (&TaskBrief, &TaskDetail)| {
        brief.id == task.id && brief.started_at == task.started_at
    };
    let is_same =
        briefs.len() == document.tasks.len() && briefs.iter().zip(&document.tasks).all(is_it);
    match is_same {
        true => Ok(SizedDocument {
            content: document.tasks,
            bytes: text.len(),
            modified_at: object.modified_at,
        }),
        false => Err(replaced()),
    }
}

/// Reads all whole tasks of a run. 100,000 take a few hundred megabytes of memory.
///
/// # Errors
/// If the bucket fails, a document is not valid, or a newer sweep replaced a part.
pub async fn read_whole_run(
    objects: &dyn Objects,
    run: &str,
) -> Result<Option<TaskList>, DetailError> {
    let Some(found) = read_run(objects, run).await? else {
        return Ok(None);
    };
    let found = found.content;
    let mut tasks = match &found.whole {
        WholeTasks::Here(tasks) => tasks.clone(),
        WholeTasks::Parts(_) => Vec::with_capacity(found.list.tasks.len()),
    };
    for part in found.parts() {
        tasks.extend(read_part(objects, (&found, &part)).await?.content);
    }
    Ok(Some(TaskList {
        schema: TaskList::SCHEMA.to_owned(),
        at: found.list.at,
        origin: found.list.origin,
        tasks,
        left_out: found.list.left_out,
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::documents::sample_run::{bucket, list, task};
    use crate::documents::task_lists::encode_within;
    use crate::fake::objects::FakeObjects;
    use crate::fake::run_parts::insert_run;

    use super::*;

    fn put(bucket: &FakeObjects, key: String, value: &impl Serialize) {
        let packed = encode(value).expect("it encodes").expect("it fits");
        bucket.insert(key, packed);
    }

    /// The run `r` in parts of two tasks.
    fn in_parts(tasks: usize) -> (FakeObjects, TaskList) {
        let (bucket, list) = (bucket(), list(tasks));
        insert_run(&bucket, ("r", &list), 2);
        (bucket, list)
    }

    #[tokio::test]
    async fn a_run_is_read_back_from_one_document_or_from_parts() {
        let name = run_key("nextflow i-1/0123abcd/7");
        assert_eq!(name.len(), "details/runs/0123456789abcdef.json.zst".len());
        assert_eq!(read_run(&bucket(), "r").await.expect("no error"), None);
        let one = bucket();
        put(&one, run_key("r"), &list(3));
        let (parts, whole) = in_parts(3);
        for (bucket, count) in [(one, 0), (parts, 2)] {
            let read = read_run(&bucket, "r").await.expect("no error");
            let read = read.expect("a run").content;
            assert_eq!(read.list, BriefList::from(&whole));
            assert_eq!(read.parts().count(), count);
            let all = read_whole_run(&bucket, "r").await.expect("no error");
            assert_eq!(all, Some(whole.clone()));
        }
    }

    #[test]
    fn a_changed_part_gets_the_other_side() {
        let first = PartEntry::new((0, 1), b"a", None);
        assert_eq!(PartEntry::new((0, 1), b"a", Some(&first)), first);
        let second = PartEntry::new((0, 1), b"b", Some(&first));
        assert_eq!((first.side, second.side), (PartSide::A, PartSide::B));
        assert_eq!(
            PartEntry::new((0, 1), b"c", Some(&second)).side,
            PartSide::A
        );
    }

    #[tokio::test]
    async fn a_part_that_was_replaced_is_not_taken_for_the_old_one() {
        let check = async |tasks: Option<Vec<TaskDetail>>, expect: &str| {
            let (bucket, _) = in_parts(3);
            let key = part_key("r", 1, PartSide::A);
            match tasks {
                Some(tasks) => put(&bucket, key.clone(), &part_document(&tasks)),
                None => {
                    let deleted = bucket.delete(std::slice::from_ref(&key)).await;
                    deleted.expect("deleted");
                }
            }
            let error = read_whole_run(&bucket, "r").await.expect_err(expect);
            let error = error.to_string();
            assert!(error.contains(expect) && error.contains(&key), "{error}");
        };
        check(None, "replaced by a newer sweep").await;
        check(Some(vec![task(7)]), "replaced by a newer sweep").await;
        check(Some(vec![task(2), task(3)]), "replaced by a newer sweep").await;
        let of_another = TaskDetail {
            run: None,
            ..task(2)
        };
        check(Some(vec![of_another]), "another run").await;
    }

    #[tokio::test]
    async fn what_no_sweep_wrote_is_refused_with_its_key() {
        let check = async |bytes: Vec<u8>, expect: &str| {
            let bucket = bucket();
            bucket.insert(run_key("r"), bytes);
            let error = read_run(&bucket, "r").await.expect_err(expect).to_string();
            assert!(
                error.contains(expect) && error.contains(&run_key("r")),
                "{error}"
            );
            assert!(!error.contains(char::is_control), "{error:?}");
        };
        let packed = |text: &[u8]| zstd::bulk::compress(text, 1).expect("it packs");
        check(b"no zstd".to_vec(), "failed to decompress").await;
        check(packed(b"{"), "EOF").await;
        check(packed(b"\x1b[2J"), "expected value").await;
        let json = |value: Value| packed(value.to_string().as_bytes());
        let mut other = serde_json::to_value(list(1)).expect("JSON");
        other["schema"] = format!("ebb.tasks/\u{1b}{}", "9".repeat(1_000)).into();
        check(json(other.clone()), "not ebb.tasks/1").await;
        other["schema"] = TaskList::SCHEMA.into();
        other["tasks"][0]["run"] = Value::Null;
        check(json(other), "another run").await;
        let briefs = BriefList::from(&list(2));
        let head = |run, entries: &[PartEntry]| {
            json(serde_json::to_value(RunHead::new(run, &briefs, entries)).expect("JSON"))
        };
        check(head("q", &[]), "another run").await;
        check(head("r", &[]), "another number").await;
        let many = |tasks| PartEntry::new((0, tasks), b"", None);
        check(head("r", &[many(usize::MAX), many(3)]), "another number").await;
        let mut bad = serde_json::to_value(RunHead::new("r", &briefs, &[])).expect("JSON");
        bad["columns"]["step"] = json!([0, 99]);
        check(json(bad), "invalid value").await;
        let bomb = vec![b' '; usize::try_from(MAX_DOCUMENT_BYTES).expect("a size") + 1];
        assert!(
            encode(&String::from_utf8_lossy(&bomb))
                .expect("it encodes")
                .is_none()
        );
        assert!(encode_within(&"12345", 6).expect("it encodes").is_none());
        check(packed(&bomb), "more than").await;
        let large = vec![0; (16 << 20) + 1];
        check(large, "failed to read").await;
    }
}
