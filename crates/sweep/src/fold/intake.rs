//! What one sweep takes in: bounded by the memory that arrivals take once they are read, by
//! quotas for each sender, and after a crash by smaller batches that name what they hold.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use ebb_cloud::ports::{CloudResult, Listed, Queue, Received};
use ebb_domain::identity::attested_node;

use super::{Folder, Folding, Work};
use crate::fold::guard::Guard;
use crate::place::{INGEST_PREFIX, StepKey};

/// With a wait the queue asks all its servers, and so does not call itself empty
/// while something waits.
const WAIT: Duration = Duration::from_secs(1);

/// Messages asked for at a time, and the bytes of bodies after which no more are: of the
/// largest kind a portion takes 32 MB.
const PORTION: usize = 500;
const MAX_WAITING_BYTES: usize = 64 << 20;

/// Entries asked for at a time.
const PAGE: usize = 1_000;

/// Bounds on what one sender may have read in one sweep. A fortnight of heartbeats a minute,
/// after which nothing more is accepted, is 4,032 messages and about 150 MB once read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quotas {
    /// Messages.
    pub messages: u64,
    /// Memory that their heartbeats take once they are read.
    pub decoded_bytes: u64,
    /// Objects of finished steps.
    pub objects: u64,
    /// Messages beyond those that are left in the queue. More than that no probe has to
    /// say, and a queue that holds them has no room for others: they are dropped.
    pub left_messages: u64,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            messages: 4_100,
            decoded_bytes: 192 << 20,
            objects: 1_000,
            left_messages: 20_000,
        }
    }
}

/// What one sender has used of its quotas.
#[derive(Debug, Default)]
struct Used {
    messages: u64,
    decoded_bytes: u64,
    objects: u64,
    left_messages: u64,
}

/// What may happen to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    Open,
    /// It stays in the queue; the next sweep takes it.
    Leave,
    Drop,
}

/// What has arrived and waits to be opened.
pub(super) struct Intake {
    waiting: VecDeque<Received>,
    quotas: Quotas,
    used: BTreeMap<String, Used>,
    /// The last key that was dealt with.
    cursor: Option<String>,
    pub(super) guard: Guard,
}

impl Intake {
    pub(super) fn new(quotas: Quotas, guard: Guard) -> Self {
        Self {
            waiting: VecDeque::new(),
            quotas,
            used: BTreeMap::new(),
            cursor: None,
            guard,
        }
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Receives what there is room for, where nothing waits, in turns of its senders.
    pub(super) async fn receive(&mut self, queue: &dyn Queue, limit: usize) -> CloudResult<usize> {
        if self.has_waiting() {
            return Ok(0);
        }
        let (mut received, mut bytes) = (Vec::new(), 0);
        while received.len() < limit && bytes < MAX_WAITING_BYTES {
            let asked = PORTION.min(limit - received.len());
            let portion = queue.receive(asked, WAIT).await?;
            let is_last = portion.len() < asked;
            bytes += portion.iter().map(|one| one.body.len()).sum::<usize>();
            received.extend(portion);
            if is_last {
                break;
            }
        }
        let count = received.len();
        self.waiting = in_turns(received);
        Ok(count)
    }

    /// The messages that may be opened next, at most `limit`; those that are over their
    /// sender's quota are left or dropped.
    pub(super) fn admit(&mut self, limit: usize, folding: &mut Folding) -> Admitted {
        let mut admitted = Admitted::default();
        while admitted.open.len() < limit {
            let Some(message) = self.waiting.pop_front() else {
                break;
            };
            match self.admission(&message) {
                Admission::Open => admitted.open.push(message),
                Admission::Leave => folding.over_quota(sender(&message), 0),
                Admission::Drop => {
                    folding.over_quota(sender(&message), 1);
                    admitted.dropped.push(message.receipt);
                }
            }
        }
        admitted
    }

    fn admission(&mut self, message: &Received) -> Admission {
        let used = self.used.entry(sender(message).to_owned()).or_default();
        let quotas = &self.quotas;
        if used.messages < quotas.messages && used.decoded_bytes < quotas.decoded_bytes {
            used.messages += 1;
            return Admission::Open;
        }
        used.left_messages += 1;
        match used.left_messages <= quotas.left_messages {
            true => Admission::Leave,
            false => Admission::Drop,
        }
    }

    /// Puts back what was admitted and not opened.
    pub(super) fn put_back(&mut self, messages: Vec<Received>) {
        for message in messages.into_iter().rev() {
            if let Some(used) = self.used.get_mut(sender(&message)) {
                used.messages = used.messages.saturating_sub(1);
            }
            self.waiting.push_front(message);
        }
    }

    /// Notes how much memory a sender's message took.
    pub(super) fn opened(&mut self, message: &Received, bytes: usize) {
        if let Some(used) = self.used.get_mut(sender(message)) {
            used.decoded_bytes = used.decoded_bytes.saturating_add(bytes as u64);
        }
    }

    /// The next objects of this shard's nodes, at most `limit`.
    pub(super) async fn list(
        &mut self,
        folder: &Folder<'_>,
        work: &Work,
        limit: usize,
        folding: &mut Folding,
    ) -> CloudResult<Vec<Listed>> {
        let mut own = Vec::new();
        let mut after = self.cursor.clone();
        loop {
            let asked = PAGE.min(limit.saturating_mul(2).max(1));
            let page = folder.objects.list(INGEST_PREFIX, after.as_deref(), asked).await?;
            let is_last = page.len() < asked;
            after = page.last().map(|entry| entry.key.clone()).or(after);
            for entry in page {
                if own.len() == limit {
                    return Ok(own);
                }
                match self.is_own(folder, work, &entry) {
                    Entry::Own => own.push(entry),
                    Entry::Other => {}
                    Entry::OverQuota(user) => {
                        folding.over_quota(&user, 0);
                        // Nothing more of that sender is looked at.
                        after = Some(format!("{INGEST_PREFIX}{user}0"));
                        break;
                    }
                }
            }
            if is_last && after.as_deref() <= own.last().map(|entry| entry.key.as_str()) {
                return Ok(own);
            }
            if is_last && own.is_empty() && !self.skips(&after) {
                return Ok(own);
            }
            if is_last {
                return Ok(own);
            }
        }
    }

    fn skips(&self, _: &Option<String>) -> bool {
        false
    }

    fn is_own(&mut self, folder: &Folder<'_>, work: &Work, entry: &Listed) -> Entry {
        let is_of_shard = match StepKey::parse(&entry.key) {
            Ok(key) => folder.shard.holds(&key.node),
            Err(_) => folder.shard.reports(),
        };
        if !is_of_shard || work.is_skipped(&entry.key) {
            return Entry::Other;
        }
        let user = user_of(&entry.key);
        let used = self.used.entry(user.to_owned()).or_default();
        if used.objects >= self.quotas.objects {
            return Entry::OverQuota(user.to_owned());
        }
        used.objects += 1;
        Entry::Own
    }

    /// Everything up to `key` has been dealt with.
    pub(super) fn dealt_with(&mut self, key: &str) {
        self.cursor = self.cursor.take().max(Some(key.to_owned()));
    }
}
