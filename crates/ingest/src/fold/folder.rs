//! One fold: receive, commit to the lake, merge into the state, delete from the queue.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use ebb_cloud::ports::{CloudError, CloudResult, Objects, Queue, Received, Unread};
use ebb_lake::LakeError;
use ebb_model::visibility_gap::{Gap, INGESTION};
use ebb_telemetry::activity::ActivityPolicy;
use ebb_telemetry::arrival::Placed;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::money::grouped;
use ebb_telemetry::safe_text::counted;
use ebb_telemetry::shard::Shard;
use jiff::Timestamp;
use serde::Serialize;
use thiserror::Error;

use crate::authenticate::Opened;
use crate::deadline::Deadline;
use crate::event_log::EventLog;
use crate::fold::guard::Guard;
use crate::fold::intake::{Excesses, Intake, Quotas};
use crate::fold::receive::Taken;
use crate::fold::working_state::Work;
use crate::fold::{BATCHES_A_STATE, MAX_OTHERS_NODES, dead_letter, receive, shared_name};
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
    pub event_log: &'a dyn EventLog,
    /// Thresholds between active and idle.
    pub activity: &'a ActivityPolicy,
    /// Shard of the nodes.
    pub shard: Shard,
    /// Limits on one batch.
    pub limits: Limits,
}

/// Maximum number of nodes in [`Folding::refused_steps_by_node`].
const MAX_NAMED_NODES: usize = 100;

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
    /// Those by node, for at most [`MAX_NAMED_NODES`] nodes.
    #[serde(skip)]
    pub refused_steps_by_node: BTreeMap<String, u64>,
    /// Arrivals above the quotas of their senders.
    pub over_quota: Excesses,
    /// Nodes whose heartbeats come from several machines, for at most [`MAX_NAMED_NODES`] nodes.
    pub shared_names: BTreeSet<NodeId>,
    /// Nodes for which the state had no room; those with the oldest heartbeats are left out.
    pub left_out_nodes: u64,
    /// Messages and objects that could not be read, moved or deleted; they stay in place.
    pub left: u64,
    /// Contents of the folder that nobody reads. The gaps of the report name it.
    #[serde(skip)]
    pub unread: Unread,
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
        gaps.extend(self.refused_gap());
        gaps.extend(unread_gaps(&self.unread));
        gaps.extend(self.invalid_tasks_gap());
        gaps.extend(self.shared_names_gap());
        gaps.extend(self.unfinished_gaps());
        gaps
    }

    /// Counts tasks with an invalid field; `node` is `None` if nothing of their message was accepted.
    pub(crate) fn refuse_steps(&mut self, node: Option<&NodeId>, count: u32) {
        if count == 0 {
            return;
        }
        self.refused_steps += u64::from(count);
        let by_node = &mut self.refused_steps_by_node;
        if let Some(node) = node
            && (by_node.len() < MAX_NAMED_NODES || by_node.contains_key(node.as_str()))
        {
            *by_node.entry(node.to_string()).or_default() += u64::from(count);
        }
    }

    fn invalid_tasks_gap(&self) -> Option<Gap> {
        if self.refused_steps == 0 {
            return None;
        }
        let mut nodes: Vec<(&String, &u64)> = self.refused_steps_by_node.iter().collect();
        nodes.sort_by_key(|(node, count)| (Reverse(**count), *node));
        let nodes: Vec<String> = nodes
            .iter()
            .take(MAX_NAMED)
            .map(|(node, count)| format!("{node} ({})", grouped(**count)))
            .collect();
        let of = match nodes.is_empty() {
            true => String::new(),
            false => format!("; most are of {}", nodes.join(", ")),
        };
        let count = counted(to_usize(self.refused_steps), "task", "tasks");
        Some(Gap::new(
            INGESTION,
            format!("dropped {count} with invalid fields{of}"),
        ))
    }

    /// Finds the nodes of a batch that are several machines.
    fn find_shared_names(&mut self, rows: &[Placed]) {
        let room = MAX_NAMED_NODES.saturating_sub(self.shared_names.len());
        let found = shared_name::of_several_machines(rows);
        self.shared_names.extend(found.into_iter().take(room));
    }

    fn shared_names_gap(&self) -> Option<Gap> {
        let more = self.shared_names.len().saturating_sub(MAX_NAMED);
        let named = self.shared_names.iter().take(MAX_NAMED);
        let mut named: Vec<String> = named.map(NodeId::to_string).collect();
        if more > 0 {
            named.push(counted(more, "further name", "further names"));
        }
        (!named.is_empty()).then(|| {
            Gap::new(
                INGESTION,
                format!(
                    "several machines send under one name and are mixed: {}; give each machine its own \
                     host name (`hostnamectl set-hostname NAME`), and start its probe again",
                    named.join(", ")
                ),
            )
        })
    }

    /// Arrivals that wait for the next sweep.
    fn unfinished_gaps(&self) -> Vec<Gap> {
        let mut reasons = Vec::new();
        if self.stopped_early {
            reasons.push(
                "a limit of time or size ended the reading of messages and objects; the next sweep continues, and the \
                 newest activity is missing here"
                    .to_owned(),
            );
        }
        // Another gap names the folders of denied files.
        if self.left > 0 && self.unread.denied.is_empty() {
            let count = counted(
                to_usize(self.left),
                "message or object",
                "messages or objects",
            );
            reasons.push(format!(
                "{count} could not be read, moved or deleted; the log of the sweep names each, and the next \
                 sweep tries again"
            ));
        }
        let gaps = reasons.into_iter();
        gaps.map(|reason| Gap::new(INGESTION, reason)).collect()
    }

    /// Keeps what nobody reads in the folder. Its files may be counted as left already.
    fn keep_unread(&mut self, unread: Unread) {
        let files = unread.denied.iter().filter(|key| !key.ends_with('/'));
        self.left = self.left.max(files.count() as u64);
        self.unread = unread;
    }

    fn refused_gap(&self) -> Option<Gap> {
        let count: u64 = self.refused.values().sum();
        let kinds: Vec<String> = self
            .refused
            .iter()
            .map(|(kind, count)| format!("{kind} {count}"))
            .collect();
        (count > 0).then(|| {
            Gap::new(
                INGESTION,
                format!(
                    "{} refused: {}; the dead-letter location has them with the reason",
                    counted(
                        to_usize(count),
                        "message or object was",
                        "messages or objects were"
                    ),
                    kinds.join(", ")
                ),
            )
        })
    }
}

/// Number of folders or nodes that a gap names.
const MAX_NAMED: usize = 3;

fn to_usize(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Files of other users in a folder hide their nodes.
fn unread_gaps(unread: &Unread) -> Vec<Gap> {
    let folder = |key: &String| {
        key.rsplit_once('/')
            .map_or("", |(folder, _)| folder)
            .to_owned()
    };
    let folders: BTreeSet<String> = unread.denied.iter().map(folder).collect();
    let mut gaps = Vec::new();
    if !folders.is_empty() {
        let named: Vec<&str> = folders.iter().take(MAX_NAMED).map(String::as_str).collect();
        let more = folders.len() - named.len();
        let more = match more {
            0 => String::new(),
            more => format!(
                " and {}",
                counted(more, "further folder", "further folders")
            ),
        };
        gaps.push(Gap::new(
            INGESTION,
            format!(
                "the sweep may not read or delete files in {}{more}, so their nodes may be missing; \
                 make the user of the sweep their owner, and run the probe as this user",
                named.join(", ")
            ),
        ));
    }
    if unread.skipped > 0 {
        let what = counted(to_usize(unread.skipped), "entry", "entries");
        gaps.push(Gap::new(
            INGESTION,
            format!("skipped {what} of the folder: links, devices, or names that no probe writes"),
        ));
    }
    gaps
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
        let mut intake = Intake::new(self.limits.quotas, guard, began);
        let is_over = || deadline.has_passed(now());
        let all = self.fold_all(&mut work, (&mut intake, &mut folding), (began, &is_over));
        let result = all.await;
        // An error is not a crash: it has a known cause, and the next sweep tries everything again.
        intake.guard.end(self.objects).await;
        result?;
        folding.keep_unread(self.objects.unread());
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

    /// Arrivals that may not be deleted stay in place. They arrive again, and are duplicates then.
    pub(crate) fn leave_denied(
        &self,
        folding: &mut Folding,
        count: usize,
        deleted: CloudResult<()>,
    ) -> CloudResult<()> {
        let Err(error @ CloudError::Denied { .. }) = deleted else {
            return deleted;
        };
        tracing::warn!(%error, "failed to delete arrivals; they stay in place");
        // A folder names its files, and the others of the batch are deleted.
        if self.objects.unread().denied.is_empty() {
            folding.left += count as u64;
        }
        Ok(())
    }

    async fn batch(
        &self,
        (work, others): (&mut Work, &mut BTreeMap<Shard, Work>),
        mut taken: Taken,
        folding: &mut Folding,
    ) -> Result<(), FoldError> {
        let rows = std::mem::take(&mut taken.heartbeats);
        folding.find_shared_names(&rows);
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
            let deleted = self.queue.delete(&taken.receipts).await;
            self.leave_denied(folding, taken.receipts.len(), deleted)?;
        }
        if !taken.keys.is_empty() {
            let deleted = self.objects.delete(&taken.keys).await;
            self.leave_denied(folding, taken.keys.len(), deleted)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_names_what_was_not_read_and_whose_it_is() {
        let node = |name: &str| NodeId::new(name).expect("a name");
        let mut folding = Folding::default();
        assert_eq!(folding.gaps(), []);
        folding.refuse_steps(Some(&node("b")), 2);
        folding.refuse_steps(Some(&node("a")), 1);
        folding.refuse_steps(None, 1);
        folding.refuse_steps(Some(&node("c")), 0);
        folding.shared_names = ["a", "b", "c", "d"].map(node).into();
        folding.refused = BTreeMap::from([("another_role", 1), ("unreadable", 2)]);
        let folders = ["a/", "b/", "c/1.msg", "c/2.msg", "d/"];
        folding.keep_unread(Unread {
            denied: folders
                .iter()
                .map(|key| format!("heartbeats/v1/AROA:{key}"))
                .collect(),
            skipped: 1,
        });
        let reasons: Vec<String> = folding.gaps().into_iter().map(|gap| gap.reason).collect();
        assert_eq!(
            reasons,
            [
                "3 messages or objects were refused: another_role 1, unreadable 2; the dead-letter \
                 location has them with the reason",
                "the sweep may not read or delete files in heartbeats/v1/AROA:a, \
                 heartbeats/v1/AROA:b, heartbeats/v1/AROA:c and 1 further folder, so their nodes \
                 may be missing; make the user of the sweep their owner, and run the probe as this \
                 user",
                "skipped 1 entry of the folder: links, devices, or names that no probe writes",
                "dropped 4 tasks with invalid fields; most are of b (2), a (1)",
                "several machines send under one name and are mixed: a, b, c, 1 further name; give each \
                 machine its own host name (`hostnamectl set-hostname NAME`), and start its probe again",
            ]
        );
        assert_eq!(folding.left, 2, "files, not folders");
    }

    #[test]
    fn the_report_says_that_arrivals_wait_for_the_next_sweep() {
        let folding = Folding {
            stopped_early: true,
            left: 1,
            ..Folding::default()
        };
        let gaps = folding.gaps();
        let reasons: Vec<&str> = gaps.iter().map(|gap| &*gap.reason).collect();
        assert_eq!(
            reasons,
            [
                "a limit of time or size ended the reading of messages and objects; the next sweep continues, and the \
                 newest activity is missing here",
                "1 message or object could not be read, moved or deleted; the log of the sweep names each, and \
                 the next sweep tries again",
            ]
        );
    }
}
