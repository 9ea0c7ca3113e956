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

/// Why a fold could not go on. What it had not finished comes again.
#[derive(Debug, Error)]
pub enum FoldError {
    /// Queue or bucket.
    #[error("taking what arrived")]
    Cloud(#[from] CloudError),
    /// The lake.
    #[error("the lake")]
    Lake(#[from] LakeError),
    /// The state.
    #[error("remembering")]
    Stored(#[from] StoredError),
    /// Other sweeps were faster every time.
    #[error("gave up after {attempts} attempts: another sweep wrote {what} first each time")]
    Contended {
        /// What was to be written.
        what: &'static str,
        /// How often.
        attempts: usize,
    },
}

/// Bounds on one batch, and so on memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Messages. A queue lets 120,000 be in flight; of the largest kind, 5,000
    /// take 320 MB.
    pub messages: usize,
    /// Objects of finished steps.
    pub objects: usize,
    /// Memory that its rows may take once decoded, give or take one arrival a core. A
    /// quarter of it is what 5,000 messages of one heartbeat take.
    pub batch_bytes: usize,
    /// Bounds on each sender in one sweep.
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

/// What a fold works on.
#[derive(Clone, Copy)]
pub struct Folder<'a> {
    /// Where heartbeats arrive.
    pub queue: &'a dyn Queue,
    /// Where refused messages go.
    pub dead_letters: &'a dyn Queue,
    /// The bucket.
    pub objects: &'a dyn Objects,
    /// The lake.
    pub truth: &'a dyn Truth,
    /// What tells active from idle.
    pub activity: &'a ActivityPolicy,
    /// Which shard of the nodes.
    pub shard: Shard,
    /// Bounds on one batch.
    pub limits: Limits,
}

/// What a fold did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Folding {
    /// Batches that brought something.
    pub batches: u64,
    /// Messages taken.
    pub messages: u64,
    /// Objects taken.
    pub objects: u64,
    /// Heartbeats accepted.
    pub heartbeats: u64,
    /// Finished steps accepted.
    pub steps: u64,
    /// Heartbeats and objects that had been accepted before.
    pub duplicates: u64,
    /// Messages and objects moved to the dead-letter place, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// Steps that were left out of messages and objects because a field of theirs was wrong.
    pub refused_steps: u64,
    /// What senders sent beyond their quotas.
    pub over_quota: Excesses,
    /// Nodes that the state had no room for, those heard of longest ago.
    pub left_out_nodes: u64,
    /// Messages and objects that could not be read or moved, and stay.
    pub left: u64,
    /// Why the state was folded anew from the lake, where it was.
    pub rebuilt_because: Option<String>,
    /// True when time ran out before everything was taken; the next goes on.
    pub stopped_early: bool,
}

impl Folding {
    fn refuse(&mut self, refusal: &Refusal) {
        *self.refused.entry(refusal.kind()).or_default() += 1;
    }

    /// Counts heartbeats of which some were new.
    fn count(&mut self, heartbeats: usize, new: usize) {
        self.heartbeats += new as u64;
        self.duplicates += (heartbeats - new) as u64;
    }

    /// What arrived and is not in the report.
    pub fn gaps(&self) -> Vec<Gap> {
        let mut gaps = self.over_quota.gaps();
        let crashed = self.refused.get(Refusal::Crashes.kind());
        gaps.extend(crashed.map(|count| {
            Gap::new(
                "ingestion",
                format!("{count} arrivals made the sweep crash; they are in the dead-letter place"),
            )
        }));
        if self.refused_steps > 0 {
            gaps.push(Gap::new(
                "ingestion",
                format!(
                    "{} steps had invalid fields and were left out",
                    self.refused_steps
                ),
            ));
        }
        gaps
    }
}

impl Folder<'_> {
    /// Takes and folds everything that waits, or what the time allows. What
    /// arrives meanwhile is the next sweep's: a fleet is never silent.
    ///
    /// # Errors
    /// See [`FoldError`]; all that was taken and not folded comes again.
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
        // An error is no crash: it names its cause, and the next sweep tries all again.
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

    /// Takes messages of another shard's nodes by its state, and commits what is new as its
    /// own sweep would: whoever of the two is first, the other knows it then. The state is
    /// only looked at: that shard's next sweep folds from the lake what it lacks.
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

/// One arrival that cannot be dealt with must not hold up the others.
pub(crate) fn left(folding: &mut Folding, what: &str, error: &CloudError) {
    folding.left += 1;
    tracing::warn!(what, %error, "it stays where it is");
}
