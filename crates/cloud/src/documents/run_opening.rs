//! The opening of a large run: the first frame of its [head](crate::documents::run_tasks). The first
//! view of the run needs no other document. Both frames are one object, so they are of the same sweep.
//!
//! Documents are data from outside: their size, schema, run and tasks are checked.

use std::collections::BTreeMap;

use ebb_model::report::run_opening::{NodeUse, RunOpening};
use ebb_model::report::task_brief::{BriefList, TaskBrief, TaskColumns};
use ebb_model::report::workflow_runs::UNASSIGNED;
use ebb_telemetry::origin::Origin;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::documents::inflate::split_frames;
use crate::documents::run_tasks::run_key;
use crate::documents::task_lists::{
    DetailError, SizedDocument, check_schema, encode_within, get_packed, invalid, parse, unpack,
};
use crate::ports::Objects;

/// Maximum size of an opening as text: 20,000 nodes, and 6,000 tasks that run.
const MAX_OPENING_BYTES: u64 = 2 << 20;

const OPENING_SCHEMA: &str = "ebb.run_opening/1";

/// The stored form of a [`RunOpening`].
#[derive(Serialize, Deserialize)]
struct OpeningDocument {
    schema: String,
    run: String,
    at: Timestamp,
    origin: Origin,
    left_out: usize,
    tasks: usize,
    steps: BTreeMap<String, usize>,
    node_use: Vec<NodeUse>,
    first: TaskColumns,
    retries: TaskColumns,
    newest: TaskColumns,
    unfinished: TaskColumns,
}

impl OpeningDocument {
    fn new(run: &str, opening: RunOpening) -> Self {
        Self {
            schema: OPENING_SCHEMA.to_owned(),
            run: run.to_owned(),
            at: opening.at,
            origin: opening.origin,
            left_out: opening.left_out,
            tasks: opening.tasks,
            steps: opening.steps,
            node_use: opening.node_use,
            first: opening.first.iter().collect(),
            retries: opening.retries.iter().collect(),
            newest: opening.newest.iter().collect(),
            unfinished: opening.unfinished.iter().collect(),
        }
    }

    fn opening(self, key: &str) -> Result<RunOpening, DetailError> {
        let of_tasks = Some(self.run.as_str()).filter(|run| *run != UNASSIGNED);
        let tasks = |columns: &TaskColumns| -> Result<Vec<TaskBrief>, DetailError> {
            let tasks = columns.tasks(of_tasks);
            tasks.map_err(|reason| invalid(key, &reason))
        };
        let opening = RunOpening {
            first: tasks(&self.first)?,
            retries: tasks(&self.retries)?,
            newest: tasks(&self.newest)?,
            unfinished: tasks(&self.unfinished)?,
            at: self.at,
            origin: self.origin,
            left_out: self.left_out,
            tasks: self.tasks,
            steps: self.steps,
            node_use: self.node_use,
        };
        let lists = [&opening.first, &opening.newest, &opening.unfinished];
        match lists.iter().all(|list| list.len() <= opening.tasks) {
            true => Ok(opening),
            false => Err(invalid(key, "a list has more tasks than the run")),
        }
    }
}

/// The compressed opening of a run; `None` if it has none, or if it is too large.
pub(super) fn encode_opening(
    run: &str,
    list: &BriefList,
) -> Result<Option<Vec<u8>>, std::io::Error> {
    let Some(opening) = RunOpening::from_list(list) else {
        return Ok(None);
    };
    encode_within(&OpeningDocument::new(run, opening), MAX_OPENING_BYTES)
}

/// Reads the opening of a run; `None` if its document has none, or no sweep wrote one.
///
/// # Errors
/// If the bucket fails, or the document is not valid.
pub async fn read_opening(
    objects: &dyn Objects,
    run: &str,
) -> Result<Option<SizedDocument<RunOpening>>, DetailError> {
    let key = run_key(run);
    let Some(object) = get_packed(objects, &key).await? else {
        return Ok(None);
    };
    let frames = split_frames(&object.bytes).map_err(|reason| invalid(&key, &reason))?;
    let (opening, [_, ..]) = frames else {
        return Ok(None);
    };
    let text = unpack(&key, (opening, MAX_OPENING_BYTES))?;
    let document: OpeningDocument = parse(&key, &text)?;
    check_schema(&key, &document.schema, OPENING_SCHEMA)?;
    if document.run != run {
        return Err(invalid(&key, "it contains tasks of another run"));
    }
    Ok(Some(SizedDocument {
        content: document.opening(&key)?,
        bytes: text.len(),
        modified_at: object.modified_at,
    }))
}

#[cfg(test)]
mod tests {
    use ebb_model::report::task_detail::TaskList;
    use serde_json::{Value, json};

    use crate::documents::run_tasks::read_run;
    use crate::documents::sample_run::{bucket, list};
    use crate::fake::run_parts::insert_run;

    use super::*;

    #[tokio::test]
    async fn the_opening_and_the_list_are_read_from_one_document() {
        let (bucket, list) = (bucket(), list(5));
        insert_run(&bucket, ("r", &list), 2);
        let briefs = BriefList::from(&list);
        let opening = read_opening(&bucket, "r").await.expect("no error");
        let opening = opening.expect("an opening").content;
        assert_eq!(Some(opening), RunOpening::from_list(&briefs));
        let read = read_run(&bucket, "r").await.expect("no error");
        assert_eq!(read.expect("a run").content.list, briefs);
    }

    #[tokio::test]
    async fn a_document_of_one_frame_has_no_opening() {
        let check = async |document: Option<&TaskList>| {
            let bucket = bucket();
            if let Some(list) = document {
                let packed = encode_within(list, 1 << 20).expect("it encodes");
                bucket.insert(run_key("r"), packed.expect("it fits"));
            }
            let opening = read_opening(&bucket, "r").await.expect("no error");
            assert_eq!(opening, None);
        };
        check(None).await;
        check(Some(&list(3))).await;
        let (bucket, mut unsorted) = (bucket(), list(3));
        unsorted.tasks.swap(0, 2);
        insert_run(&bucket, ("r", &unsorted), 2);
        assert_eq!(read_opening(&bucket, "r").await.expect("no error"), None);
        let read = read_run(&bucket, "r").await.expect("no error");
        assert_eq!(read.expect("a run").content.list.tasks.len(), 3);
    }

    #[tokio::test]
    async fn an_opening_that_no_sweep_wrote_is_refused_with_its_key() {
        let check = async |frames: Vec<u8>, expect: &str| {
            let bucket = bucket();
            bucket.insert(run_key("r"), frames);
            let read = read_opening(&bucket, "r").await;
            let error = read.expect_err(expect).to_string();
            assert!(
                error.contains(expect) && error.contains(&run_key("r")),
                "{error}"
            );
        };
        let packed = |text: &[u8]| zstd::bulk::compress(text, 1).expect("it packs");
        let opening = RunOpening::from_list(&BriefList::from(&list(2))).expect("an opening");
        let document = OpeningDocument::new("r", opening);
        let good = serde_json::to_value(&document).expect("JSON");
        let changed = |field: &str, value: Value| {
            let mut bad = good.clone();
            bad[field] = value;
            [packed(bad.to_string().as_bytes()), packed(b"{}")].concat()
        };
        check(b"no zstd".to_vec(), "failed to decompress").await;
        let bomb = vec![b' '; usize::try_from(MAX_OPENING_BYTES).expect("a size") + 1];
        check([packed(&bomb), packed(b"{}")].concat(), "more than").await;
        check(changed("schema", json!("ebb.run_opening/9")), "its schema").await;
        check(changed("run", json!("q")), "another run").await;
        check(changed("tasks", json!(1)), "more tasks").await;
        check(changed("first", json!({"step": [0]})), "missing field").await;
        let mut columns = good["first"].clone();
        columns["step"] = json!([0, 99]);
        check(changed("first", columns), "invalid value").await;
        check(
            changed("node_use", json!([["i-1", -1, null, 1.0]])),
            "length",
        )
        .await;
    }
}
