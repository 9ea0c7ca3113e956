//! Writes single tasks and explanations to the bucket; see
//! [`task_lists`](ebb_cloud::documents::task_lists). A failed write never stops a sweep; the next one
//! writes again.

mod run_parts;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ebb_analysis::evaluate::Details;
use ebb_analysis::in_turns::first_in_turns;
use ebb_analysis::task_details::usage_points::{continue_points, thin_out};
use ebb_cloud::documents::run_tasks::{PART_TASKS, read_run, run_key};
use ebb_cloud::documents::task_lists::{
    DetailError, DetailFolder, DetailIndex, RunEntry, SHARED_SCHEMA, ShardCount, SharedDocument,
    encode, read_index, write_index, write_packed,
};
use ebb_cloud::ports::Objects;
use ebb_model::report::task_detail::TaskList;
use ebb_model::report::task_groups::{TaskGroup, TaskGroups};
use ebb_telemetry::identity::NodeId;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use serde::Serialize;
use thiserror::Error;

/// Limit on the runs in the index; the newest stay, in turns of the nodes.
const MAX_RUNS: usize = 2_000;

/// Limit on the documents of runs that a sweep writes, in turns of the nodes. Runs without a document
/// come first, then those whose document is oldest. Later sweeps write the others.
const MAX_RUNS_A_SWEEP: usize = 500;

/// Documents that are written at the same time. Each takes up to 100 MB of memory, also that of a run
/// in parts, because the parts are written one after the other.
const AT_ONCE: usize = 4;

/// Why documents were not written.
#[derive(Debug, Error)]
pub enum PublishError {
    /// The index could not be read or written, so that no document is found.
    #[error(transparent)]
    Index(DetailError),
    /// Some documents could not be written.
    #[error("failed to write {count} documents of single tasks; the first: {first}")]
    Documents {
        /// Their number.
        count: usize,
        /// The first error.
        first: DocumentError,
    },
}

/// Why a document was not written.
#[derive(Debug, Error)]
pub enum DocumentError {
    /// The bucket failed.
    #[error(transparent)]
    Cloud(#[from] DetailError),
    /// The document could not be encoded.
    #[error("failed to encode {key}")]
    Encode {
        /// The key.
        key: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The document is too large, even with one task of each name.
    #[error("{0} is too large")]
    TooLarge(String),
}

/// Writes the documents that changed, and the index.
///
/// # Errors
/// See [`PublishError`]. The other documents are written nevertheless.
pub async fn write(objects: &dyn Objects, details: &Details) -> Result<(), PublishError> {
    let groups = &details.tasks;
    let known = match read_index(objects).await {
        Ok(index) => index.map(|index| index.content.runs).unwrap_or_default(),
        // A new index replaces one that is not valid.
        Err(DetailError::Document { .. }) => BTreeMap::new(),
        Err(error) => return Err(PublishError::Index(error)),
    };
    let (runs, mut errors) = write_runs(objects, groups, known).await;
    let explanations = &details.explanations;
    let count = |groups: &BTreeMap<String, TaskGroup>| {
        let tasks = groups.values().map(|group| group.tasks.len()).sum();
        ShardCount::from_counts(groups.len(), tasks)
    };
    let mut index = DetailIndex {
        schema: DetailIndex::SCHEMA.to_owned(),
        at: groups.at,
        nodes: count(&groups.nodes),
        steps: count(&groups.steps),
        explanations: ShardCount::from_counts(explanations.by_resource.len(), 0),
        explanations_left_out: explanations.left_out,
        runs_left_out: groups.runs.len().saturating_sub(runs.len()),
        runs,
    };
    errors.extend(write_groups(objects, groups, (DetailFolder::Nodes, index.nodes)).await);
    errors.extend(write_groups(objects, groups, (DetailFolder::Steps, index.steps)).await);
    let (left_out, failed) = write_explanations(objects, details, index.explanations).await;
    index.explanations_left_out += left_out;
    errors.extend(failed);
    write_index(objects, &index)
        .await
        .map_err(PublishError::Index)?;
    let count = errors.len();
    match errors.into_iter().next() {
        None => Ok(()),
        Some(first) => Err(PublishError::Documents { count, first }),
    }
}

type RunEntries = BTreeMap<String, RunEntry>;

/// Writes the runs that changed. Returns the entries of the index, and the errors.
async fn write_runs(
    objects: &dyn Objects,
    groups: &TaskGroups,
    mut known: RunEntries,
) -> (RunEntries, Vec<DocumentError>) {
    let newest = indexed_runs(groups, &known);
    let writes: Vec<BoxFuture<'_, Result<(String, RunEntry), DocumentError>>> = due_runs(&newest)
        .into_iter()
        .map(|one| {
            let written = async move {
                write_run(objects, (one.run, one.known.is_some()), (groups, one.group)).await?;
                Ok((one.run.clone(), one.entry))
            };
            written.boxed()
        })
        .collect();
    let written: Vec<_> = stream::iter(writes)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let mut errors = Vec::new();
    let mut entries: RunEntries = newest
        .iter()
        .filter_map(|(_, one)| known.remove_entry(one.run))
        .collect();
    for result in written {
        match result {
            Ok((run, entry)) => _ = entries.insert(run, entry),
            Err(error) => errors.push(error),
        }
    }
    (entries, errors)
}

/// A run with its entry in the index.
#[derive(Clone, Copy)]
struct IndexedRun<'g> {
    run: &'g String,
    group: &'g TaskGroup,
    entry: RunEntry,
    /// The entry of the stored document; `None` without one.
    known: Option<RunEntry>,
}

/// A run with the node of all its tasks; `None` if there are several.
type RunOfNode<'g> = (Option<NodeId>, IndexedRun<'g>);

/// The runs that the index has room for.
fn indexed_runs<'g>(groups: &'g TaskGroups, known: &RunEntries) -> Vec<RunOfNode<'g>> {
    let runs = groups.runs.iter();
    let mut runs: Vec<RunOfNode<'g>> = runs
        .filter_map(|(run, group)| {
            let indexed = IndexedRun {
                run,
                group,
                entry: entry(groups, group)?,
                known: known.get(run).copied(),
            };
            Some((only_node(groups, group), indexed))
        })
        .collect();
    runs.sort_by_key(|(_, one)| (Reverse(one.entry.newest), one.run));
    first_in_turns(runs, 1, MAX_RUNS)
}

/// The runs whose documents this sweep writes.
fn due_runs<'g>(runs: &[RunOfNode<'g>]) -> Vec<IndexedRun<'g>> {
    let changed = runs.iter().filter(|(_, one)| one.known != Some(one.entry));
    let mut changed: Vec<RunOfNode<'g>> = changed.cloned().collect();
    changed.sort_by_key(|(_, one)| {
        let stored = one.known.map(|known| known.newest);
        (stored, Reverse(one.entry.newest), one.run)
    });
    let due = first_in_turns(changed, 1, MAX_RUNS_A_SWEEP);
    due.into_iter().map(|(_, one)| one).collect()
}

/// The node of all tasks of a run; `None` if there are several.
fn only_node(groups: &TaskGroups, group: &TaskGroup) -> Option<NodeId> {
    let mut nodes = groups.tasks_of(group).map(|task| &task.node);
    let first = nodes.next()?;
    nodes.all(|node| node == first).then(|| first.clone())
}

/// The values by which a changed run is recognized; `None` without tasks.
fn entry(groups: &TaskGroups, group: &TaskGroup) -> Option<RunEntry> {
    let newest = groups.tasks_of(group).map(|task| task.observed_at).max()?;
    Some(RunEntry {
        newest,
        tasks: group.tasks.len(),
        left_out: group.left_out,
    })
}

/// Writes a run as one document, or in parts if it has many tasks.
async fn write_run(
    objects: &dyn Objects,
    (run, is_known): (&str, bool),
    (groups, group): (&TaskGroups, &TaskGroup),
) -> Result<(), DocumentError> {
    let previous = match is_known {
        true => match read_run(objects, run).await {
            Ok(previous) => previous.map(|list| list.content),
            // A new document replaces one that is not valid.
            Err(DetailError::Document { .. }) => None,
            Err(error) => return Err(error.into()),
        },
        false => None,
    };
    if group.tasks.len() > PART_TASKS {
        return run_parts::write(objects, (run, previous), (groups, group)).await;
    }
    let mut list = groups.list(group);
    let earlier = run_parts::earlier_tasks(objects, previous.as_ref(), &list.tasks).await?;
    continue_points(&mut list.tasks, &earlier);
    drop((previous, earlier));
    let key = run_key(run);
    let packed = loop {
        match packed(&key, &list)? {
            Some(packed) => break packed,
            None if shorten(&mut list) => {}
            None => return Err(DocumentError::TooLarge(key)),
        }
    };
    Ok(write_packed(objects, key, packed).await?)
}

/// Writes the lists of nodes or steps. They have no points of use, which are in the documents of
/// runs.
async fn write_groups(
    objects: &dyn Objects,
    groups: &TaskGroups,
    (folder, count): (DetailFolder, ShardCount),
) -> Vec<DocumentError> {
    let of_folder = match folder {
        DetailFolder::Nodes => &groups.nodes,
        DetailFolder::Steps | DetailFolder::Explanations => &groups.steps,
    };
    let mut by_number: BTreeMap<u32, Vec<(&String, &TaskGroup)>> = BTreeMap::new();
    for (name, group) in of_folder {
        let number = count.number_of(name);
        by_number.entry(number).or_default().push((name, group));
    }
    let writes: Vec<BoxFuture<'_, Result<(), DocumentError>>> = count
        .numbers()
        .map(|number| {
            let of_number = by_number.remove(&number).unwrap_or_default();
            write_lists(objects, groups, (folder.key(number), of_number)).boxed()
        })
        .collect();
    let results: Vec<Result<(), DocumentError>> = stream::iter(writes)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    results.into_iter().filter_map(Result::err).collect()
}

/// Writes one document of nodes or steps.
async fn write_lists(
    objects: &dyn Objects,
    groups: &TaskGroups,
    (key, of_document): (String, Vec<(&String, &TaskGroup)>),
) -> Result<(), DocumentError> {
    let mut lists: BTreeMap<&String, TaskList> = of_document
        .into_iter()
        .map(|(name, group)| (name, without_points(groups.list(group))))
        .collect();
    let packed = loop {
        match packed(&key, &shared(groups, &lists))? {
            Some(packed) => break packed,
            None if lists
                .values_mut()
                .fold(false, |any, list| shorten(list) | any) => {}
            None => return Err(DocumentError::TooLarge(key)),
        }
    };
    Ok(write_packed(objects, key, packed).await?)
}

/// Writes the explanations. Returns the number of those that did not fit, and the errors.
async fn write_explanations(
    objects: &dyn Objects,
    details: &Details,
    count: ShardCount,
) -> (usize, Vec<DocumentError>) {
    let (mut left_out, mut errors) = (0, Vec::new());
    for number in count.numbers() {
        let all = details.explanations.by_resource.iter();
        let mut of_number: BTreeMap<&String, _> = all
            .filter(|(resource, _)| count.number_of(resource) == number)
            .collect();
        let key = DetailFolder::Explanations.key(number);
        let packed = loop {
            match packed(&key, &shared(&details.tasks, &of_number)) {
                Ok(None) if !of_number.is_empty() => {
                    let half = of_number.len() / 2;
                    left_out += of_number.len() - half;
                    of_number = of_number.into_iter().take(half).collect();
                }
                Ok(None) => break Err(DocumentError::TooLarge(key.clone())),
                Ok(Some(packed)) => break Ok(packed),
                Err(error) => break Err(error),
            }
        };
        let written = match packed {
            Ok(packed) => write_packed(objects, key, packed).await.map_err(Into::into),
            Err(error) => Err(error),
        };
        errors.extend(written.err());
    }
    (left_out, errors)
}

fn shared<T>(groups: &TaskGroups, entries: T) -> SharedDocument<T> {
    SharedDocument {
        schema: SHARED_SCHEMA.to_owned(),
        at: groups.at,
        entries,
    }
}

fn packed(key: &str, value: &impl Serialize) -> Result<Option<Vec<u8>>, DocumentError> {
    encode(value).map_err(|source| DocumentError::Encode {
        key: key.to_owned(),
        source,
    })
}

fn without_points(mut list: TaskList) -> TaskList {
    for task in &mut list.tasks {
        task.points = Vec::new();
    }
    list
}

/// Halves the points of use, or, if there are few, the older tasks. False if one task is left.
fn shorten(list: &mut TaskList) -> bool {
    if list.tasks.iter().any(|task| task.points.len() > 2) {
        list.tasks
            .iter_mut()
            .for_each(|task| thin_out(&mut task.points));
        return true;
    }
    let half = list.tasks.len() / 2;
    if half == 0 {
        return false;
    }
    let mut observed: Vec<_> = list.tasks.iter().map(|task| task.observed_at).collect();
    observed.sort_unstable();
    // Tasks that were observed at the same time could all stay.
    let (from, mut surplus) = (observed[half], half);
    list.tasks.retain(|task| {
        let goes = surplus > 0 && task.observed_at <= from;
        surplus -= usize::from(goes);
        !goes
    });
    list.left_out += half;
    true
}
