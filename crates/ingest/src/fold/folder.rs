//! One fold: receive, commit to the lake, merge into the state, delete from the queue.

use std::collections::BTreeMap;

use ebb_cloud::ports::{CloudError, Objects, Queue, Received};
use ebb_lake::LakeError;
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::activity::ActivityPolicy;
use ebb_telemetry::shard::Shard;
use jiff::Timestamp;
use serde::Serialize;
use thiserror::Error;

use crate::authenticate::Opened;
use crate::deadline::Deadline;
use crate::event_log::Truth;
use crate::fold::guard::Guard;
use crate::fold::intake::{Excesses, Intake, Quotas};
use crate::fold::receive::Taken;
use crate::fold::working_state::Work;
use crate::fold::{BATCHES_A_STATE, MAX_OTHERS_NODES, dead_letter, receive};
use crate::refusal::Refusal;
use crate::state_store::format::StoredError;

/// Error that ends a fold. Unfinished arrivals arrive again.
#[derive(Debug, Error)]
pub enum FoldError {
    /// Error of the queue or the bucket.
    #[error("failed to receive messages and objects")]
    Cloud(#[from] CloudError),
    /// Error of the lake.
    #[error("failed to access the lake")]
    Lake(#[from] LakeError),
    /// Error of the state.
    #[error("failed to access the state")]
    Stored(#[from] StoredError),
    /// Other sweeps won the race in every attempt.
    #[error("gave up after {attempts} attempts: another sweep wrote {what} first each time")]
    Contended {
        /// The data that was to be written.
        what: &'static str,
        /// Number of attempts.
        attempts: usize,
    },
}

/// Limits on one batch, and thereby on memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of messages. A queue allows 120,000 messages in flight; 5,000 of the largest
    /// size take 320 MB.
    pub messages: usize,
    /// Maximum number of objects of finished tasks.
    pub objects: usize,
    /// Maximum memory of decoded rows, plus at most one arrival for each core. 5,000 messages with
    /// one heartbeat each take a quarter of this limit.
    pub batch_bytes: usize,
    /// Limits on each sender in one sweep.
    pub quotas: Quotas,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            messages: 5_000,
            objects: 200,
            batch_bytes: 96 << 20,
            quotas: Quotas::default(),
        }
    }
}

/// Resources of a fold.
#[derive(Clone, Copy)]
pub struct Folder<'a> {
    /// Queue of heartbeats and finished tasks.
    pub queue: &'a dyn Queue,
    /// Queue for refused messages.
    pub dead_letters: &'a dyn Queue,
    /// The bucket.
    pub objects: &'a dyn Objects,
    /// The lake.
    pub truth: &'a dyn Truth,
    /// Thresholds between active and idle.
    pub activity: &'a ActivityPolicy,
    /// Shard of the nodes.
    pub shard: Shard,
    /// Limits on one batch.
    pub limits: Limits,
}

/// Result of a fold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Folding {
    /// Batches with new data.
    pub batches: u64,
    /// Processed messages.
    pub messages: u64,
    /// Processed objects.
    pub objects: u64,
    /// Accepted heartbeats.
    pub heartbeats: u64,
    /// Accepted finished tasks.
    pub steps: u64,
    /// Heartbeats, and objects and messages of finished tasks, that were accepted before.
    pub duplicates: u64,
    /// Messages and objects moved to the dead-letter queue or prefix, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// Tasks with an invalid field that were removed from messages and objects.
    pub refused_steps: u64,
    /// Arrivals above the quotas of their senders.
    pub over_quota: Excesses,
    /// Nodes for which the state had no room; those with the oldest heartbeats are left out.
    pub left_out_nodes: u64,
    /// Messages and objects that could not be read or moved; they stay in place.
    pub left: u64,
    /// Reason why the state was rebuilt from the lake; `None` if it was not.
    pub rebuilt_because: Option<String>,
    /// Whether time ran out before all arrivals were read; the next sweep continues.
    pub stopped_early: bool,
}

impl Folding {
    fn refuse(&mut self, refusal: &Refusal) {
        *self.refused.entry(refusal.kind()).or_default() += 1;
    }

    /// Counts heartbeats, of which `new` were new.
    fn count(&mut self, heartbeats: usize, new: usize) {
        self.heartbeats += new as u64;
        self.duplicates += (heartbeats - new) as u64;
    }

    /// Arrivals that the report does not include.
    pub fn gaps(&self) -> Vec<Gap> {
        let mut gaps = self.over_quota.gaps();
        let crashed = self.refused.get(Refusal::Crashes.kind());
        gaps.extend(crashed.map(|count| {
            Gap::new(
                "ingestion",
                format!(
                    "{count} messages or objects crashed a sweep; they are in the dead-letter \
                     location"
                ),
            )
        }));
        if self.refused_steps > 0 {
            gaps.push(Gap::new(
                "ingestion",
                format!("dropped {} tasks with invalid fields", self.refused_steps),
            ));
        }
        gaps
    }
}

impl Folder<'_> {
    /// Reads and folds all waiting arrivals, as far as time allows. Arrivals after the start belong
    /// to the next sweep, because new heartbeats never stop.
    ///
    /// # Errors
    /// See [`FoldError`]; all arrivals that were read and not folded arrive again.
    pub async fn fold(
        &self,
        deadline: &Deadline,
        now: &(dyn Fn() -> Timestamp + Send + Sync),
    ) -> Result<(Work, Folding), FoldError> {
        let began = now();
        let mut folding = Folding::default();
        let mut work = Work::open(self).await?;
        folding.rebuilt_because = work.unusable.clone();
        self.settle(&mut work).await?;
        let guard = Guard::load(self.objects, self.shard).await;
        let mut intake = Intake::new(self.limits.quotas, guard);
        let is_over = || deadline.has_passed(now());
        let all = self.fold_all(&mut work, (&mut intake, &mut folding), (began, &is_over));
        let result = all.await;
        // An error is not a crash: it has a known cause, and the next sweep tries everything again.
        intake.guard.end(self.objects).await;
        result?;
        work.stored.roles.forget(began);
        self.settle(&mut work).await?;
        work.hours.keep(self.objects, self.shard).await?;
        folding.left_out_nodes = work.left_out() as u64;
        Ok((work, folding))
    }

    async fn fold_all(
        &self,
        work: &mut Work,
        (intake, folding): (&mut Intake, &mut Folding),
        (began, is_over): (Timestamp, &(dyn Fn() -> bool + Send + Sync)),
    ) -> Result<(), FoldError> {
        let mut others = BTreeMap::new();
        loop {
            if is_over() {
                folding.stopped_early = true;
                return Ok(());
            }
            let taken = receive::take(self, work, (intake, folding)).await?;
            if taken.is_empty() {
                if intake.is_done() {
                    return Ok(());
                }
                continue;
            }
            let all_is_news = taken.oldest.is_some_and(|oldest| oldest > began);
            self.batch((work, &mut others), taken, folding).await?;
            intake.guard.folded();
            if folding.batches.is_multiple_of(BATCHES_A_STATE) {
                self.settle(work).await?;
            }
            if all_is_news && !intake.has_waiting() {
                return Ok(());
            }
        }
    }

    /// Reads messages for nodes of another shard and compares them with its state. New messages are
    /// committed as the sweep of that shard would commit them, so each sweep sees the commits of
    /// the other. The state of that shard is only read; its next sweep folds the missing commits
    /// from the lake.
    async fn take_for(
        &self,
        (shard, messages): (Shard, Vec<(Received, Opened)>),
        others: &mut BTreeMap<Shard, Work>,
        folding: &mut Folding,
    ) -> Result<Taken, FoldError> {
        let theirs = Folder { shard, ..*self };
        let mut work = match others.remove(&shard) {
            Some(work) => work,
            None => Work::open(&theirs).await?,
        };
        let mut taken = Taken::default();
        for (message, opened) in messages {
            receive::take_message(message, opened, (&mut work.stored, &mut taken));
        }
        let rows = std::mem::take(&mut taken.heartbeats);
        folding.count(rows.len(), theirs.commit_heartbeats(&mut work, rows).await?);
        folding.steps += theirs.commit_steps(&mut work, &taken.steps).await? as u64;
        folding.duplicates += taken.old_objects;
        let held: usize = others.values().map(Work::nodes).sum();
        if held + work.nodes() > MAX_OTHERS_NODES {
            others.clear();
        }
        others.insert(shard, work);
        Ok(taken)
    }

    async fn batch(
        &self,
        (work, others): (&mut Work, &mut BTreeMap<Shard, Work>),
        mut taken: Taken,
        folding: &mut Folding,
    ) -> Result<(), FoldError> {
        let rows = std::mem::take(&mut taken.heartbeats);
        folding.count(rows.len(), self.commit_heartbeats(work, rows).await?);
        for theirs in std::mem::take(&mut taken.elsewhere) {
            let theirs = self.take_for(theirs, others, folding).await?;
            taken.receipts.extend(theirs.receipts);
            taken.bad_messages.extend(theirs.bad_messages);
        }
        let steps = self.commit_steps(work, &taken.steps).await?;
        folding.batches += 1;
        folding.steps += steps as u64;
        folding.duplicates += taken.old_objects;
        if !taken.receipts.is_empty() {
            self.queue.delete(&taken.receipts).await?;
        }
        if !taken.keys.is_empty() {
            self.objects.delete(&taken.keys).await?;
        }
        for bad in taken.bad_messages {
            match dead_letter::message(self, &bad).await {
                Ok(()) => folding.refuse(&bad.refusal),
                Err(error) => left(folding, &bad.received.id, &error),
            }
        }
        for bad in taken.bad_objects {
            match dead_letter::object(self, &bad).await {
                Ok(()) => folding.refuse(&bad.refusal),
                Err(error) => {
                    left(folding, &bad.listed.key, &error);
                    work.skip(bad.listed.key);
                }
            }
        }
        Ok(())
    }
}

/// Skips an arrival after an error, so that the error does not block other arrivals.
pub(crate) fn left(folding: &mut Folding, what: &str, error: &CloudError) {
    folding.left += 1;
    tracing::warn!(what, %error, "failed to move it; it stays in place");
}
