//! A run in parts, as a sweep writes it.

use ebb_model::report::task_brief::BriefList;
use ebb_model::report::task_detail::TaskList;

use crate::documents::run_tasks::{
    PartEntry, PartSide, encode_head, part_document, part_key, run_key,
};
use crate::documents::task_lists::encode;
use crate::fake::objects::FakeObjects;

/// Stores a run in parts of `part_tasks` tasks.
///
/// # Panics
/// If a document cannot be encoded or is too large.
pub fn insert_run(bucket: &FakeObjects, (run, list): (&str, &TaskList), part_tasks: usize) {
    let mut entries = Vec::new();
    for (number, part) in list.tasks.chunks(part_tasks).enumerate() {
        let packed = encode(&part_document(part));
        let packed = packed.expect("it encodes").expect("it fits");
        entries.push(PartEntry::new((number, part.len()), &packed, None));
        bucket.insert(part_key(run, number, PartSide::A), packed);
    }
    let briefs = BriefList::from(list);
    let head = encode_head(run, &briefs, &entries);
    bucket.insert(run_key(run), head.expect("it encodes").expect("it fits"));
}
