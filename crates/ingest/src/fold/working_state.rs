//! The state during a sweep: the folded version of the lake, the next batch number, and whether the
//! bucket has the same state.
//!
//! Two sweeps compete for a batch number. A sweep that commits the next number has folded every
//! earlier batch, so its new rows are really new. Sweeps with different numbers of shards do not
//! share batch numbers. Such a commit is refused while the lake has an unfolded commit of the other
//! number.

use std::collections::BTreeSet;

use ebb_cloud::ports::PutIf;
use ebb_lake::Appended;
use ebb_lake::Table;
use ebb_lake::{Batch, Commits};
use ebb_model::sweep_memory::Memory;
use ebb_telemetry::arrival::Placed;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::step::PlacedStep;
use jiff::Timestamp;

use crate::fold::folder::{FoldError, Folder};
use crate::state_store;
use crate::state_store::Saved;
use crate::state_store::fold_batch::{fold_heartbeats, keep_new};
use crate::state_store::format::Stored;
use crate::state_store::hourly_activity::Hours;

/// Sweeps overlap only by accident; more lost races in a row are a fault.
const ATTEMPTS: usize = 5;

/// The state during a sweep.
#[derive(Debug)]
pub struct Work {
    /// The state.
    pub stored: Stored,
    /// Hourly activity of the nodes, folded as far as the state.
    pub hours: Hours,
    /// Reason why an existing state was not used; `None` if it was used.
    pub(crate) unusable: Option<String>,
    replaces: PutIf,
    is_dirty: bool,
    left_out: usize,
    next_heartbeats: u64,
    next_steps: u64,
    /// Keys that could not be read or moved in this sweep.
    skipped: BTreeSet<String>,
}

impl Work {
    /// Loads the state and folds later commits of the lake.
    pub async fn open(folder: &Folder<'_>) -> Result<Self, FoldError> {
        let loaded = state_store::load(folder.objects, folder.shard, folder.activity).await?;
        if let Some(why) = &loaded.unusable {
            tracing::warn!(why, "rebuilding the state from the lake");
        }
        let mut work = Self {
            is_dirty: loaded.unusable.is_some(),
            stored: loaded.stored,
            hours: Hours::load(folder.objects, folder.shard, folder.activity).await?,
            unusable: loaded.unusable,
            replaces: loaded.replaces,
            left_out: 0,
            next_heartbeats: 0,
            next_steps: 0,
            skipped: BTreeSet::new(),
        };
        work.catch_up_heartbeats(folder).await?;
        work.catch_up_steps(folder).await?;
        Ok(work)
    }

    /// Number of nodes in the state.
    pub(crate) fn nodes(&self) -> usize {
        self.stored.fleet.nodes.len()
    }

    /// Number of nodes that were left out of the state or the hourly activity for lack of room.
    pub fn left_out(&self) -> usize {
        self.left_out.max(self.hours.left_out())
    }

    pub(crate) fn skip(&mut self, key: String) {
        self.skipped.insert(key);
    }

    pub(crate) fn is_skipped(&self, key: &str) -> bool {
        self.skipped.contains(key)
    }

    /// Reads the batch number first. A commit of another sweep after that takes this number, and
    /// the commit under `next_heartbeats` then fails.
    async fn catch_up_heartbeats(&mut self, folder: &Folder<'_>) -> Result<(), FoldError> {
        let last = folder
            .event_log
            .last_batch(Table::Heartbeats, folder.shard)
            .await?;
        self.next_heartbeats = last.map_or(0, |number| number + 1);
        self.read_heartbeats(None, folder).await
    }

    /// Folds later commits of the lake, up to but not including the commit `before`.
    async fn read_heartbeats(
        &mut self,
        before: Option<u64>,
        folder: &Folder<'_>,
    ) -> Result<(), FoldError> {
        loop {
            let commits = Commits {
                // Folding the same commit again does not change the state or the hourly activity.
                after: self.stored.folded.heartbeats.min(self.hours.folded()),
                before,
                shard: folder.shard,
            };
            let mut since = folder.event_log.heartbeats_since(commits).await?;
            since.rows.retain(|placed| folder.shard.holds(&placed.node));
            self.fold(&since.rows, since.through, folder);
            if since.is_complete() {
                return Ok(());
            }
            if self.is_dirty {
                self.checkpoint(folder).await?;
            }
            self.hours.keep(folder.objects, folder.shard).await?;
        }
    }

    /// Folds rows; afterwards all commits up to version `through` are folded.
    fn fold(&mut self, rows: &[Placed], through: Option<u64>, folder: &Folder<'_>) {
        let hours = self.hours.folding(through);
        fold_heartbeats(rows, (&mut self.stored.fleet, hours), folder.activity);
        let folded = &mut self.stored.folded.heartbeats;
        self.is_dirty |= through > *folded;
        *folded = through.max(*folded);
    }

    async fn catch_up_steps(&mut self, folder: &Folder<'_>) -> Result<(), FoldError> {
        let last = folder
            .event_log
            .last_batch(Table::Steps, folder.shard)
            .await?;
        self.next_steps = last.map_or(0, |number| number + 1);
        self.read_steps(None, folder).await
    }

    /// Same as [`Work::read_heartbeats`], for finished tasks.
    async fn read_steps(
        &mut self,
        before: Option<u64>,
        folder: &Folder<'_>,
    ) -> Result<(), FoldError> {
        loop {
            let commits = Commits {
                after: self.stored.folded.steps,
                before,
                shard: folder.shard,
            };
            let since = folder.event_log.steps_since(commits).await?;
            let is_complete = since.is_complete();
            let own = since
                .rows
                .iter()
                .filter(|step| folder.shard.holds(&step.node));
            own.for_each(|step| self.stored.fleet.fold_step(step));
            self.is_dirty |= since.through != commits.after;
            self.stored.folded.steps = since.through;
            if is_complete {
                return Ok(());
            }
            self.checkpoint(folder).await?;
        }
    }

    /// Stores the progress, so that several sweeps can fold a lake that is too large for one. If
    /// another sweep was faster, the end of the catch-up detects it.
    async fn checkpoint(&mut self, folder: &Folder<'_>) -> Result<(), FoldError> {
        let saved = state_store::save(
            folder.objects,
            folder.shard,
            &mut self.stored,
            &self.replaces,
        );
        if let Saved::Done { replaces, left_out } = saved.await? {
            self.replaces = replaces;
            self.is_dirty = false;
            self.left_out += left_out;
        }
        Ok(())
    }

    /// Check after a lost race. Commits of another sweep may have removed old entries from the
    /// state, so a new row may already be in the lake. The arrivals arrive again, and the next
    /// sweep refuses those that are too late.
    fn check_still_in_time<'a>(
        &self,
        mut new: impl Iterator<Item = (&'a NodeId, Timestamp)>,
        what: &'static str,
    ) -> Result<(), FoldError> {
        let fleet = &self.stored.fleet;
        match new.any(|(node, at)| fleet.check_age(node, at).is_err()) {
            true => Err(contended(what)),
            false => Ok(()),
        }
    }

    /// Tasks of objects that the state does not have.
    fn new_steps(&self, objects: &[Vec<PlacedStep>]) -> Vec<PlacedStep> {
        let mut seen = BTreeSet::new();
        let mut new = Vec::new();
        for steps in objects {
            let Some(first) = steps.first() else { continue };
            let (node, boot, start) = (&first.node, &first.boot, &first.probe_start);
            let sequence = first.sequence;
            if !self
                .stored
                .fleet
                .accepted_steps(node, boot, start, sequence)
                && seen.insert((node, boot, start, sequence))
            {
                new.extend_from_slice(steps);
            }
        }
        new
    }
}

impl Folder<'_> {
    /// Commits and folds the new rows; returns their number.
    pub(crate) async fn commit_heartbeats(
        &self,
        work: &mut Work,
        mut rows: Vec<Placed>,
    ) -> Result<usize, FoldError> {
        for _ in 0..ATTEMPTS {
            keep_new(&work.stored.fleet, &mut rows);
            if rows.is_empty() {
                return Ok(0);
            }
            let batch = Batch {
                shard: self.shard,
                number: work.next_heartbeats,
                known: work.stored.folded.heartbeats,
            };
            match self.event_log.append_heartbeats(&rows, &batch).await? {
                Appended::Committed(version) => {
                    work.read_heartbeats(Some(version), self).await?;
                    work.fold(&rows, Some(version), self);
                    work.next_heartbeats += 1;
                    return Ok(rows.len());
                }
                Appended::AlreadyThere(_) => {
                    work.catch_up_heartbeats(self).await?;
                    keep_new(&work.stored.fleet, &mut rows);
                    let ends = rows.iter().map(|placed| (&placed.node, placed.end));
                    work.check_still_in_time(ends, "heartbeats")?;
                }
            }
        }
        Err(contended("heartbeats"))
    }

    /// Commits and folds the tasks of new objects; returns the number of tasks.
    pub(crate) async fn commit_steps(
        &self,
        work: &mut Work,
        objects: &[Vec<PlacedStep>],
    ) -> Result<usize, FoldError> {
        for _ in 0..ATTEMPTS {
            let rows = work.new_steps(objects);
            if rows.is_empty() {
                return Ok(0);
            }
            let batch = Batch {
                shard: self.shard,
                number: work.next_steps,
                known: work.stored.folded.steps,
            };
            match self.event_log.append_steps(&rows, &batch).await? {
                Appended::Committed(version) => {
                    work.read_steps(Some(version), self).await?;
                    for step in &rows {
                        work.stored.fleet.fold_step(step);
                    }
                    work.stored.folded.steps = Some(version);
                    work.next_steps += 1;
                    work.is_dirty = true;
                    return Ok(rows.len());
                }
                Appended::AlreadyThere(_) => {
                    work.catch_up_steps(self).await?;
                    let new = work.new_steps(objects);
                    let times = new.iter().map(|step| (&step.node, step.observed_at));
                    work.check_still_in_time(times, "steps")?;
                }
            }
        }
        Err(contended("steps"))
    }

    /// Ensures that the bucket has everything that `work` folded. It writes the state, or loads the
    /// state of another sweep and folds what is missing there.
    pub(crate) async fn settle(&self, work: &mut Work) -> Result<(), FoldError> {
        for _ in 0..ATTEMPTS {
            if !work.is_dirty {
                return Ok(());
            }
            work.checkpoint(self).await?;
            if work.is_dirty {
                let skipped = std::mem::take(&mut work.skipped);
                *work = Work::open(self).await?;
                work.skipped = skipped;
            }
        }
        match work.is_dirty {
            true => Err(contended("the state")),
            false => Ok(()),
        }
    }

    /// Stores data for the next sweep that is not in the lake.
    ///
    /// # Errors
    /// Same as a fold; users are then notified again.
    pub async fn remember(&self, work: &mut Work, memory: Memory) -> Result<(), FoldError> {
        for _ in 0..ATTEMPTS {
            if work.stored.memory == memory && !work.is_dirty {
                return Ok(());
            }
            work.stored.memory = memory.clone();
            work.is_dirty = true;
            work.checkpoint(self).await?;
            if !work.is_dirty {
                return Ok(());
            }
            *work = Work::open(self).await?;
        }
        Err(contended("the state"))
    }
}

fn contended(what: &'static str) -> FoldError {
    FoldError::Contended {
        what,
        attempts: ATTEMPTS,
    }
}
