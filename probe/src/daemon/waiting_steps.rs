//! A file with the finished tasks that wait for their batch, so that a kill of the probe loses
//! none of them. Each line is a part of the batch. The file is not synced: it survives the end of
//! the process, and a power loss costs at most the batch.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ebb_telemetry::step::StepBatch;

use super::report::Report;
use crate::durable::{self, DiskError, failed};
use crate::node;
use crate::push::{Outbox, StoredBatch};

/// The file's name in the state folder.
const NAME: &str = "waiting-steps.jsonl";

/// Limit when reading the file. A batch takes about 2 MB.
const MAX_BYTES: u64 = 8 << 20;

/// The waiting tasks of this run.
#[derive(Debug)]
pub(super) struct WaitingSteps {
    path: PathBuf,
    /// `None` after an error.
    file: Option<File>,
    /// Number of waiting tasks in the file.
    written: usize,
}

impl WaitingSteps {
    /// Adds the waiting tasks of the previous run to the outbox, and begins with an empty file.
    pub(super) fn begin(folder: &Path, outbox: &mut Outbox) -> Self {
        let path = folder.join(NAME);
        recover(&path, outbox);
        let file = durable::create_file(&path);
        if let Err(error) = &file {
            tracing::warn!(error = %error.source, "{error}; a kill of the probe loses finished tasks");
        }
        Self {
            path,
            file: file.ok(),
            written: 0,
        }
    }

    /// Writes the waiting tasks that are not in the file yet.
    pub(super) fn keep(&mut self, report: &Report) {
        let Some(file) = &mut self.file else { return };
        let waiting = report.waiting(self.written);
        if waiting.steps.is_empty() {
            return;
        }
        let count = waiting.steps.len();
        let part = StoredBatch {
            stored: Some(node::sent(&waiting.boot)),
            batch: waiting,
        };
        let line = serde_json::to_vec(&part).map_err(io::Error::from);
        let written = line.and_then(|mut line| {
            line.push(b'\n');
            file.write_all(&line)
        });
        match written {
            Ok(()) => self.written += count,
            Err(error) => self.fails(&error),
        }
    }

    /// Empties the file after its tasks went to the outbox.
    pub(super) fn clear(&mut self) {
        self.written = 0;
        let emptied = self.file.as_mut().map_or(Ok(()), |file| file.set_len(0));
        if let Err(error) = emptied {
            self.fails(&error);
        }
    }

    /// Uses the file no more, so that it cannot contain tasks that were sent.
    fn fails(&mut self, error: &io::Error) {
        self.file = None;
        let removed = std::fs::remove_file(&self.path).is_ok();
        tracing::warn!(%error, removed, "failed to write {}; a kill of the probe loses finished tasks", self.path.display());
    }
}

/// Adds the batch in the file to the outbox, unless a kill between the two writes left it in both.
fn recover(path: &Path, outbox: &mut Outbox) {
    let batch = match read(path) {
        Ok(batch) => batch,
        Err(error) => {
            tracing::warn!(error = %error.source, "{error}; finished tasks of the previous run are lost");
            return;
        }
    };
    let newest = outbox.newest_steps();
    let is_new = |stored: &StoredBatch| {
        let newest = newest.as_ref();
        newest.is_none_or(|newest| !is_same(newest, &stored.batch))
    };
    if let Some(stored) = batch.filter(is_new) {
        tracing::info!(
            tasks = stored.batch.steps.len(),
            "the previous run left finished tasks"
        );
        outbox.add_steps(&stored);
    }
}

/// The batch in the file, with the clocks of its newest line; `None` if it has none. A line that a kill
/// cut off ends the batch.
fn read(path: &Path) -> Result<Option<StoredBatch>, DiskError> {
    let Some(bytes) = durable::read_file(path, MAX_BYTES)? else {
        return Ok(None);
    };
    let mut batch: Option<StoredBatch> = None;
    for line in bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        let part = match StoredBatch::from_json(line) {
            Ok(part) => part,
            Err(error) if line.len() < bytes.len() && bytes.ends_with(line) => {
                tracing::warn!(%error, "the last finished tasks of the previous run are incomplete");
                break;
            }
            Err(error) => return Err(failed(path, "read")(error.into())),
        };
        match &mut batch {
            None => batch = Some(part),
            Some(whole) if is_same(&whole.batch, &part.batch) => {
                whole.batch.steps.extend(part.batch.steps);
                whole.stored = part.stored;
            }
            Some(_) => {
                let error = io::Error::other("it has parts of two batches");
                return Err(failed(path, "read")(error));
            }
        }
    }
    Ok(batch)
}

fn is_same(one: &StepBatch, other: &StepBatch) -> bool {
    (&one.node, &one.boot, &one.probe_start, one.sequence)
        == (&other.node, &other.boot, &other.probe_start, other.sequence)
}

#[cfg(test)]
mod tests {
    use ebb_telemetry::units::Bytes;

    use super::*;
    use crate::daemon::report::testing::{at, finished, report};
    use crate::spool::Spool;

    fn outbox(folder: &Path) -> Outbox {
        let open = |name| Spool::open(folder.join(name), Bytes::mib(1));
        let run = crate::daemon::report::testing::run();
        Outbox::new(
            open("heartbeats"),
            open("steps"),
            run.node,
            "sender".to_owned(),
        )
    }

    fn keys(batch: Option<StepBatch>) -> Vec<String> {
        let steps = batch.into_iter().flat_map(|batch| batch.steps);
        steps.map(|step| step.id.key).collect()
    }

    #[test]
    fn a_kill_loses_no_finished_task_and_doubles_none() {
        let root = tempfile::tempdir().expect("a folder");
        let after_kill = || {
            let mut outbox = outbox(root.path());
            WaitingSteps::begin(root.path(), &mut outbox);
            keys(outbox.newest_steps())
        };
        let mut report = report();
        let mut first = outbox(root.path());
        let mut waiting = WaitingSteps::begin(root.path(), &mut first);
        report.finish(finished(&["a"]), at(0));
        waiting.keep(&report);
        report.finish(finished(&["b", "c"]), at(1));
        waiting.keep(&report);
        waiting.keep(&report);
        let copy = std::fs::read(root.path().join(NAME)).expect("it is there");
        assert_eq!(after_kill(), ["a", "b", "c"]);
        // The batch is in the outbox now, and the file has it again: killed before it was emptied.
        std::fs::write(root.path().join(NAME), &copy).expect("written");
        let mut outbox = outbox(root.path());
        let records = outbox.held();
        WaitingSteps::begin(root.path(), &mut outbox);
        assert_eq!(outbox.held(), records);
    }

    #[test]
    fn a_line_that_was_cut_off_costs_only_its_own_tasks() {
        let root = tempfile::tempdir().expect("a folder");
        let path = root.path().join(NAME);
        let mut report = report();
        let mut waiting = WaitingSteps::begin(root.path(), &mut outbox(root.path()));
        for key in ["a", "b"] {
            report.finish(finished(&[key]), at(0));
            waiting.keep(&report);
        }
        let whole = std::fs::read(&path).expect("it is there");
        let check = |bytes: &[u8], expect: Result<&[&str], ()>| {
            std::fs::write(&path, bytes).expect("written");
            let found = read(&path).map_err(|_| ());
            let found = found.map(|whole| keys(whole.map(|whole| whole.batch)));
            assert_eq!(
                found,
                expect.map(|keys| keys.iter().map(|key| (*key).to_owned()).collect())
            );
        };
        check(&whole, Ok(&["a", "b"]));
        check(&whole[..whole.len() - 9], Ok(&["a"]));
        check(b"", Ok(&[]));
        check(b"nonsense\n", Err(()));
        waiting.clear();
        waiting.keep(&report);
        let whole = read(&path).expect("it reads").expect("it has a batch");
        assert!(
            whole
                .stored
                .is_some_and(|stored| stored.boot == whole.batch.boot)
        );
        assert_eq!(keys(Some(whole.batch)), ["a", "b"]);
    }
}
