//! Writes a run in parts; see [`run_tasks`](ebb_cloud::documents::run_tasks). Only one part of the run
//! is in memory as whole tasks.

use ebb_analysis::task_details::usage_points::continue_points;
use ebb_cloud::documents::run_tasks::{
    MAX_PART_BYTES, PART_TASKS, PartEntry, PartSide, RunPart, RunTasks, encode_head, part_document,
    part_key, read_part, run_key,
};
use ebb_cloud::documents::task_lists::{DetailError, encode_within, write_packed};
use ebb_cloud::ports::Objects;
use ebb_model::report::task_brief::{BriefList, TaskBrief};
use ebb_model::report::task_detail::{TaskDetail, TaskList};
use ebb_model::report::task_groups::{TaskGroup, TaskGroups};

use super::{DocumentError, shorten};

/// Writes the parts that changed, then the head.
pub(super) async fn write(
    objects: &dyn Objects,
    (run, previous): (&str, Option<RunTasks>),
    (groups, group): (&TaskGroups, &TaskGroup),
) -> Result<(), DocumentError> {
    let mut entries = Vec::new();
    let mut list = BriefList {
        at: groups.at,
        origin: group.origin,
        tasks: Vec::with_capacity(group.tasks.len()),
        left_out: group.left_out,
    };
    for (number, positions) in group.tasks.chunks(PART_TASKS).enumerate() {
        let mut part = groups.list(&TaskGroup {
            origin: group.origin,
            tasks: positions.to_vec(),
            left_out: 0,
        });
        let earlier = earlier_tasks(objects, previous.as_ref(), &part.tasks).await?;
        continue_points(&mut part.tasks, &earlier);
        drop(earlier);
        let known = previous.iter().flat_map(RunTasks::entries);
        let before = known.into_iter().find(|entry| entry.number == number);
        let (entry, packed) = pack((run, number), (&mut part, before))?;
        if before != Some(&entry) {
            let key = part_key(run, number, entry.side);
            write_packed(objects, key, packed).await?;
        }
        list.tasks.extend(part.tasks.iter().map(TaskBrief::from));
        list.left_out += part.left_out;
        entries.push(entry);
    }
    drop(previous);
    let key = run_key(run);
    let packed = loop {
        let packed = encode_head(run, &list, &entries);
        match packed.map_err(|source| DocumentError::Encode {
            key: key.clone(),
            source,
        })? {
            Some(packed) => break packed,
            None if entries.len() > 1 => drop_older_half(&mut list, &mut entries),
            None => return Err(DocumentError::TooLarge(key)),
        }
    };
    Ok(write_packed(objects, key, packed).await?)
}

/// The document of a part, which loses points of use or older tasks until it fits, and its entry.
fn pack(
    (run, number): (&str, usize),
    (part, before): (&mut TaskList, Option<&PartEntry>),
) -> Result<(PartEntry, Vec<u8>), DocumentError> {
    let key = || part_key(run, number, PartSide::A);
    let packed = loop {
        let packed = encode_within(&part_document(&part.tasks), MAX_PART_BYTES);
        match packed.map_err(|source| DocumentError::Encode { key: key(), source })? {
            Some(packed) => break packed,
            None if shorten(part) => {}
            None => return Err(DocumentError::TooLarge(key())),
        }
    };
    let entry = PartEntry::new((number, part.tasks.len()), &packed, before);
    Ok((entry, packed))
}

/// Leaves out the parts with the tasks that started first.
pub(super) fn drop_older_half(list: &mut BriefList, entries: &mut Vec<PartEntry>) {
    let dropped = entries.drain(..entries.len() / 2);
    let tasks: usize = dropped.map(|entry| entry.tasks).sum();
    list.tasks.drain(..tasks);
    list.left_out += tasks;
}

/// The previous tasks of the same run that started from the first to the last of these tasks. A
/// document that is not valid has none; the new one replaces it.
pub(super) async fn earlier_tasks(
    objects: &dyn Objects,
    previous: Option<&RunTasks>,
    tasks: &[TaskDetail],
) -> Result<Vec<TaskDetail>, DocumentError> {
    let (Some(previous), Some(first), Some(last)) = (previous, tasks.first(), tasks.last()) else {
        return Ok(Vec::new());
    };
    let order = |task: &TaskBrief, other: &TaskDetail| {
        (task.started_at, task.id.as_str()).cmp(&(other.started_at, other.id.as_str()))
    };
    let briefs = &previous.list.tasks;
    let from = briefs.partition_point(|task| order(task, first).is_lt());
    let to = briefs.partition_point(|task| order(task, last).is_le());
    if let Some(whole) = previous.whole() {
        return Ok(whole.get(from..to).unwrap_or_default().to_vec());
    }
    let mut earlier = Vec::new();
    for part in previous.parts() {
        let RunPart { positions, .. } = &part;
        let (from, to) = (from.max(positions.start), to.min(positions.end));
        if from >= to {
            continue;
        }
        match read_part(objects, (previous, &part)).await {
            Ok(tasks) => {
                let tasks = tasks.content.into_iter();
                earlier.extend(tasks.skip(from - positions.start).take(to - from));
            }
            Err(DetailError::Document { .. } | DetailError::Replaced(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(earlier)
}
