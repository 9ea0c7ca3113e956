//! Arrivals of one sweep: batches with a memory limit, taking turns between senders, with a quota
//! for each sender. After a crash the arrivals of the crashed batch come last; see [`Guard`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use ebb_cloud::ports::{CloudResult, Listed, Received};
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::identity::attested;
use ebb_wire::is_steps_message;
use jiff::Timestamp;
use serde::Serialize;

use crate::fold::folder::{Folder, Folding};
use crate::fold::guard::Guard;
use crate::fold::working_state::Work;
use crate::object_key::{INGEST_PREFIX, StepKey};
use crate::refusal::Refusal;

/// With a wait the queue queries all its servers, so it does not report an empty queue while
/// messages wait.
const WAIT: Duration = Duration::from_secs(1);

/// Number of messages in one request, and the total size of bodies after which requests stop. One
/// request of the largest messages takes 32 MB.
const PORTION: usize = 500;

const MAX_WAITING_BYTES: usize = 64 << 20;

/// Entries in one request, and the maximum number of pages in one fold.
const PAGE: usize = 1_000;

const MAX_PAGES: usize = 1_000;

/// Limit on senders whose excess is counted by name; further senders are summed up.
const MAX_NAMED_SENDERS: usize = 100;

/// Limits on the arrivals of one sender in one sweep. No heartbeat older than 14 days is accepted.
/// Heartbeats of 14 days are 4,032 messages of five minutes, which take about 150 MB once decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quotas {
    /// Maximum number of messages.
    pub messages: u64,
    /// Maximum memory of decoded heartbeats.
    pub decoded_bytes: u64,
    /// Maximum number of objects of finished tasks.
    pub objects: u64,
    /// Maximum number of rows of finished tasks, plus at most one object or one batch of messages. The
    /// busiest nodes finish
    /// about a thousand tasks in ten minutes.
    pub step_rows: u64,
    /// Maximum number of messages above the quota that stay in the queue for the next sweep.
    /// Further messages are dropped, because they would leave no room for other senders.
    pub left_messages: u64,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            messages: 4_100,
            decoded_bytes: 192 << 20,
            objects: 1_000,
            step_rows: 20_000,
            left_messages: 20_000,
        }
    }
}

/// Arrivals of a sender above its quotas.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Excess {
    /// Messages and listings of objects that wait for the next sweep.
    pub left: u64,
    /// Messages that were deleted unread.
    pub dropped: u64,
}

/// The senders that exceeded their quotas.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Excesses {
    /// Excess by node; all senders that are not nodes count as one.
    pub by_sender: BTreeMap<String, Excess>,
    /// Total of the senders without a name.
    pub others: Excess,
}

impl Excesses {
    fn entry(&mut self, user: &str) -> &mut Excess {
        let name = display_name(user);
        let is_named = self.by_sender.contains_key(&name);
        if !is_named && self.by_sender.len() >= MAX_NAMED_SENDERS {
            return &mut self.others;
        }
        self.by_sender.entry(name).or_default()
    }
}

impl Excesses {
    /// The senders as gaps of the report.
    pub(crate) fn gaps(&self) -> Vec<Gap> {
        let mut gaps: Vec<Gap> = self
            .by_sender
            .iter()
            .map(|(name, excess)| excess.gap(name))
            .collect();
        if self.others != Excess::default() {
            gaps.push(self.others.gap("other nodes"));
        }
        gaps
    }
}

impl Excess {
    fn gap(&self, name: &str) -> Gap {
        Gap::new(
            Gap::of_sender(name),
            format!(
                "a sender exceeded its quota: {} messages or objects wait for the next sweep, {} \
                 messages were deleted unread",
                self.left, self.dropped
            ),
        )
    }
}

/// Used quotas of one sender.
#[derive(Debug, Default)]
struct Used {
    messages: u64,
    decoded_bytes: u64,
    objects: u64,
    step_rows: u64,
    left_messages: u64,
}

/// Decision about a message.
enum Admission {
    Open,
    Leave,
    Drop,
}

/// Arrivals of one batch.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    pub(crate) messages: Vec<Received>,
    pub(crate) objects: Vec<Listed>,
}

impl Arrivals {
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.objects.is_empty()
    }

    pub(crate) fn names(&self) -> BTreeSet<String> {
        let messages = self.messages.iter().map(|message| message.id.clone());
        let objects = self.objects.iter().map(|object| object.key.clone());
        messages.chain(objects).collect()
    }
}

/// One arrival of a crashed batch.
enum Suspect {
    Message(Received),
    Object(Listed),
}

impl Suspect {
    fn name(&self) -> &str {
        match self {
            Self::Message(message) => &message.id,
            Self::Object(object) => &object.key,
        }
    }
}

/// Days after which an arrival is refused. Longer pauses of the sweep than a month are rare, and each
/// arrival of another day makes a folder in the lake. In a folder, senders set the time of their files.
const MAX_ARRIVAL_DAYS: u64 = 35;

/// Arrivals that wait to be opened.
pub(crate) struct Intake {
    pub(crate) guard: Guard,
    /// Arrivals before this time are refused.
    oldest_arrival: Timestamp,
    quotas: Quotas,
    used: BTreeMap<String, Used>,
    messages: VecDeque<Received>,
    objects: VecDeque<Listed>,
    suspects: Vec<Suspect>,
    /// Last listed key; `None` before the first page.
    cursor: Option<String>,
    pages: usize,
    is_queue_empty: bool,
    is_listed: bool,
}

impl Intake {
    /// No arrivals yet, at the start of a sweep.
    pub(crate) fn new(quotas: Quotas, guard: Guard, began: Timestamp) -> Self {
        let age = Duration::from_secs(MAX_ARRIVAL_DAYS * 86_400);
        Self {
            guard,
            oldest_arrival: began.checked_sub(age).unwrap_or(Timestamp::MIN),
            quotas,
            used: BTreeMap::new(),
            messages: VecDeque::new(),
            objects: VecDeque::new(),
            suspects: Vec::new(),
            cursor: None,
            pages: 0,
            is_queue_empty: false,
            is_listed: false,
        }
    }

    /// Why an arrival is refused before it is opened; `None` if it is not.
    pub(crate) fn refusal(&self, name: &str, arrived: Option<Timestamp>) -> Option<Refusal> {
        if self.guard.refuses(name) {
            return Some(Refusal::Crashes);
        }
        let at = arrived.filter(|at| *at < self.oldest_arrival)?;
        Some(Refusal::Expired {
            at,
            days: MAX_ARRIVAL_DAYS,
        })
    }

    /// Whether arrivals were received and not opened yet.
    pub(crate) fn has_waiting(&self) -> bool {
        !(self.messages.is_empty() && self.objects.is_empty() && self.suspects.is_empty())
    }

    /// Whether all arrivals were opened.
    pub(crate) fn is_done(&self) -> bool {
        self.has_only_suspects() && self.suspects.is_empty()
    }

    /// Next arrivals to open; empty if all were opened, left or dropped.
    pub(crate) async fn next(
        &mut self,
        folder: &Folder<'_>,
        work: &Work,
        folding: &mut Folding,
    ) -> CloudResult<Arrivals> {
        let mut next = Arrivals::default();
        while next.is_empty() && !self.has_only_suspects() {
            self.receive(folder, folding).await?;
            self.list(folder, work, folding).await?;
            let dropped = self.admit(folder.limits.messages, &mut next.messages, folding);
            if !dropped.is_empty() {
                let deleted = folder.queue.delete(&dropped).await;
                folder.leave_denied(folding, dropped.len(), deleted)?;
            }
            let objects = self.objects.len().min(folder.limits.objects);
            next.objects.extend(self.objects.drain(..objects));
            self.set_suspects_aside(&mut next);
        }
        if next.is_empty() {
            next = self.suspects();
        }
        Ok(next)
    }

    fn has_only_suspects(&self) -> bool {
        self.is_queue_empty && self.is_listed && self.messages.is_empty() && self.objects.is_empty()
    }

    /// Receives messages up to the limit, if none wait.
    async fn receive(&mut self, folder: &Folder<'_>, folding: &mut Folding) -> CloudResult<()> {
        if self.is_queue_empty || !self.messages.is_empty() {
            return Ok(());
        }
        let (limit, mut received, mut bytes) = (folder.limits.messages, Vec::new(), 0);
        while received.len() < limit && bytes < MAX_WAITING_BYTES {
            let requested = PORTION.min(limit - received.len());
            let portion = folder.queue.receive(requested, WAIT).await?;
            let is_last = portion.len() < requested;
            bytes += portion.iter().map(|one| one.body.len()).sum::<usize>();
            received.extend(portion);
            if is_last {
                break;
            }
        }
        folding.messages += received.len() as u64;
        self.is_queue_empty = received.is_empty();
        self.messages = in_turns(received);
        Ok(())
    }

    /// Moves admitted messages to `open`; returns the receipts of messages to delete unread.
    fn admit(
        &mut self,
        limit: usize,
        open: &mut Vec<Received>,
        folding: &mut Folding,
    ) -> Vec<String> {
        let mut dropped = Vec::new();
        while open.len() < limit
            && let Some(message) = self.messages.pop_front()
        {
            match self.admission(&message) {
                Admission::Open => open.push(message),
                Admission::Leave => folding.over_quota.entry(sender(&message)).left += 1,
                Admission::Drop => {
                    folding.over_quota.entry(sender(&message)).dropped += 1;
                    dropped.push(message.receipt);
                }
            }
        }
        dropped
    }

    fn admission(&mut self, message: &Received) -> Admission {
        let used = self.used.entry(sender(message).to_owned()).or_default();
        let quotas = &self.quotas;
        let has_rows = used.step_rows < quotas.step_rows || !is_steps_message(&message.body);
        if used.messages < quotas.messages && used.decoded_bytes < quotas.decoded_bytes && has_rows
        {
            used.messages += 1;
            return Admission::Open;
        }
        used.left_messages += 1;
        match used.left_messages <= quotas.left_messages {
            true => Admission::Leave,
            false => Admission::Drop,
        }
    }

    /// Returns messages for which the batch had no room.
    pub(crate) fn put_back_messages(&mut self, messages: Vec<Received>) {
        for message in messages.into_iter().rev() {
            self.guard.put_back(&message.id);
            if self.guard.limit_of(&message.id).is_some() {
                self.suspects.push(Suspect::Message(message));
                continue;
            }
            if let Some(used) = self.used.get_mut(sender(&message)) {
                used.messages = used.messages.saturating_sub(1);
            }
            self.messages.push_front(message);
        }
    }

    /// Returns objects for which the batch had no room.
    pub(crate) fn put_back_objects(&mut self, objects: Vec<Listed>) {
        for object in objects.into_iter().rev() {
            self.guard.put_back(&object.key);
            match self.guard.limit_of(&object.key) {
                Some(_) => self.suspects.push(Suspect::Object(object)),
                None => self.objects.push_front(object),
            }
        }
    }

    /// Adds the rows of an object to the used quota of its sender.
    pub(crate) fn opened_object(&mut self, key: &str, rows: usize) {
        if let Some(used) = self.used.get_mut(user_of(key)) {
            used.step_rows = used.step_rows.saturating_add(rows as u64);
        }
    }

    /// Whether the sender of an object has used its quota of rows.
    pub(crate) fn has_no_rows_left(&self, key: &str, folding: &mut Folding) -> bool {
        let user = user_of(key);
        let rows = self.used.get(user).map_or(0, |used| used.step_rows);
        let is_over = rows >= self.quotas.step_rows;
        if is_over {
            folding.over_quota.entry(user).left += 1;
        }
        is_over
    }

    /// Adds the memory and the finished tasks of a message to the used quotas of its sender.
    pub(crate) fn opened(&mut self, message: &Received, bytes: usize, step_rows: usize) {
        if let Some(used) = self.used.get_mut(sender(message)) {
            used.decoded_bytes = used.decoded_bytes.saturating_add(bytes as u64);
            used.step_rows = used.step_rows.saturating_add(step_rows as u64);
        }
    }

    /// Lists objects of this shard, if none wait. All shards share one prefix, so a page may
    /// contain no object of this shard.
    async fn list(
        &mut self,
        folder: &Folder<'_>,
        work: &Work,
        folding: &mut Folding,
    ) -> CloudResult<()> {
        while !self.is_listed && self.objects.len() < folder.limits.objects {
            if self.pages == MAX_PAGES {
                self.is_listed = true;
                folding.stopped_early = true;
                break;
            }
            self.pages += 1;
            let after = self.cursor.as_deref();
            let page = folder.objects.list(INGEST_PREFIX, after, PAGE).await?;
            self.is_listed = page.len() < PAGE;
            for entry in page {
                self.cursor = Some(entry.key.clone());
                if !is_own(folder, &entry) || work.is_skipped(&entry.key) {
                    continue;
                }
                let user = user_of(&entry.key);
                let used = self.used.entry(user.to_owned()).or_default();
                if used.objects < self.quotas.objects {
                    used.objects += 1;
                    self.objects.push_back(entry);
                    continue;
                }
                folding.over_quota.entry(user).left += 1;
                // `0` follows `/` in ASCII, so the listing skips the other keys of this sender.
                self.cursor = Some(format!("{INGEST_PREFIX}{user}0"));
                self.is_listed = false;
                break;
            }
        }
        Ok(())
    }

    fn set_suspects_aside(&mut self, next: &mut Arrivals) {
        let guard = &self.guard;
        let messages = next
            .messages
            .extract_if(.., |one| guard.limit_of(&one.id).is_some())
            .map(Suspect::Message);
        self.suspects.extend(messages);
        let objects = next
            .objects
            .extract_if(.., |one| guard.limit_of(&one.key).is_some())
            .map(Suspect::Object);
        self.suspects.extend(objects);
    }

    /// Suspects that may be opened together. Those with the largest limit come first, because the
    /// culprit is less likely among them.
    fn suspects(&mut self) -> Arrivals {
        let guard = &self.guard;
        let limit = |suspect: &Suspect| guard.limit_of(suspect.name()).unwrap_or(1);
        let largest = self.suspects.iter().map(limit).max().unwrap_or_default();
        let mut room = largest;
        let is_next = |suspect: &mut Suspect| {
            let is_next = room > 0 && limit(suspect) == largest;
            room -= usize::from(is_next);
            is_next
        };
        let chosen: Vec<Suspect> = self.suspects.extract_if(.., is_next).collect();
        let mut next = Arrivals::default();
        for suspect in chosen {
            match suspect {
                Suspect::Message(message) => next.messages.push(message),
                Suspect::Object(object) => next.objects.push(object),
            }
        }
        next
    }
}

/// Orders messages in turns of the senders, so that many messages of one sender do not delay
/// others.
fn in_turns(received: Vec<Received>) -> VecDeque<Received> {
    let mut by_sender: BTreeMap<String, VecDeque<Received>> = BTreeMap::new();
    for message in received {
        let of = by_sender.entry(sender(&message).to_owned()).or_default();
        of.push_back(message);
    }
    let mut turns = VecDeque::new();
    while !by_sender.is_empty() {
        by_sender.retain(|_, messages| {
            turns.extend(messages.pop_front());
            !messages.is_empty()
        });
    }
    turns
}

/// Role and session of the sender; empty if the cloud did not report them.
fn sender(message: &Received) -> &str {
    message.sender.as_deref().unwrap_or_default()
}

/// Name of a sender in reports.
fn display_name(user: &str) -> String {
    let node = attested(user).map(|attested| attested.node.to_string());
    node.unwrap_or_else(|_| "senders that are not a node".to_owned())
}

fn user_of(key: &str) -> &str {
    let rest = key.strip_prefix(INGEST_PREFIX).unwrap_or(key);
    rest.split('/').next().unwrap_or(rest)
}

fn is_own(folder: &Folder<'_>, entry: &Listed) -> bool {
    match StepKey::parse(&entry.key) {
        Ok(key) => folder.shard.holds(&key.node),
        Err(_) => folder.shard.reports(),
    }
}
