//! The state while a sweep works on it: how far the lake is folded, which batch
//! comes next, and whether the bucket has it as it is.
//!
//! A batch number is what two sweeps race for: who wants to commit the next number
//! has folded every batch before it, so what it calls news is news. Sweeps of two numbers of
//! shards do not share numbers: such a commit is refused while the lake has one of the other
//! number that is not folded.

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

/// Sweeps overlap at most by accident; losing this often in a row is a fault.
const ATTEMPTS: usize = 5;

/// The state while a sweep works on it.
#[derive(Debug)]
pub struct Work {
    /// The state.
    pub stored: Stored,
    /// The nodes' hours, folded as far as the state.
    pub hours: Hours,
    /// Why a state that was there was not used.
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
    /// Loads the state and folds what the lake has beyond it.
    pub async fn open(folder: &Folder<'_>) -> Result<Self, FoldError> {
        let loaded = state_store::load(folder.objects, folder.shard, folder.activity).await?;
        if let Some(why) = &loaded.unusable {
            tracing::warn!(why, "the state is folded anew from the lake");
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

    /// Nodes that it knows.
    pub(crate) fn nodes(&self) -> usize {
        self.stored.fleet.nodes.len()
    }

    /// Nodes that were left out of state or hours for want of room.
    pub fn left_out(&self) -> usize {
        self.left_out.max(self.hours.left_out())
    }

    pub(crate) fn skip(&mut self, key: String) {
        self.skipped.insert(key);
    }

    pub(crate) fn is_skipped(&self, key: &str) -> bool {
        self.skipped.contains(key)
    }

    /// The number is read first: whatever is committed after that takes a later
    /// one, and a commit under `next` then fails.
    async fn catch_up_heartbeats(&mut self, folder: &Folder<'_>) -> Result<(), FoldError> {
        let last = folder
            .truth
            .last_batch(Table::Heartbeats, folder.shard)
            .await?;
        self.next_heartbeats = last.map_or(0, |number| number + 1);
        self.read_heartbeats(None, folder).await
    }

    /// Folds what the lake has beyond, up to but not with the commit `before`.
    async fn read_heartbeats(
        &mut self,
        before: Option<u64>,
        folder: &Folder<'_>,
    ) -> Result<(), FoldError> {
        loop {
            let commits = Commits {
                // What one of the two has folded before changes nothing in it.
                after: self.stored.folded.heartbeats.min(self.hours.folded()),
                before,
                shard: folder.shard,
            };
            let mut since = folder.truth.heartbeats_since(commits).await?;
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

    /// Folds rows with which all up to version `through` is folded.
    fn fold(&mut self, rows: &[Placed], through: Option<u64>, folder: &Folder<'_>) {
        let hours = self.hours.folding(through);
        fold_heartbeats(rows, (&mut self.stored.fleet, hours), folder.activity);
        let folded = &mut self.stored.folded.heartbeats;
        self.is_dirty |= through > *folded;
        *folded = through.max(*folded);
    }

    async fn catch_up_steps(&mut self, folder: &Folder<'_>) -> Result<(), FoldError> {
        let last = folder.truth.last_batch(Table::Steps, folder.shard).await?;
        self.next_steps = last.map_or(0, |number| number + 1);
        self.read_steps(None, folder).await
    }

    /// As [`Work::read_heartbeats`].
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
            let since = folder.truth.steps_since(commits).await?;
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

    /// Keeps what is folded so far, so that a lake too large for one sweep is folded
    /// by several. Where another sweep was faster, the end of catching up tells.
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

    /// After a lost race: what another sweep committed may have made the state forget what
    /// it accepted, so that one of these new rows may be in the lake already. The arrivals
    /// come again, and the next sweep refuses those that are too late.
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

    /// Steps of objects that the state does not have.
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
    /// Commits what is new among `rows` and folds it; tells how many were new.
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
            match self.truth.append_heartbeats(&rows, &batch).await? {
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

    /// Commits the steps of those objects that are new and folds them; tells how
    /// many steps that were.
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
            match self.truth.append_steps(&rows, &batch).await? {
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

    /// Sees to it that the bucket has all that `work` folded: writes it, or takes
    /// over what another sweep wrote and folds what is missing there.
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

    /// Remembers what concerns the next sweep and is not in the lake.
    ///
    /// # Errors
    /// As a fold does; people are then told again.
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
