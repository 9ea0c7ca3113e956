//! Ports that crash, fail or pause a sweep at a chosen call. A crashed sweep gets no error: its
//! future is dropped like a killed process.

use std::collections::BTreeMap;
use std::future::{Future, pending, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use ebb_cloud::fake::FakeQueue;
use ebb_cloud::ports::{
    CloudError, CloudResult, Etag, Events, InventorySource, Listed, Object, Objects, PutIf,
    PutOptions, Queue, Received, Topic,
};
use ebb_lake::{Appended, Batch, Commits, EvaluatedFinding, LakeError, Since, Table, Window};
use ebb_lake::{Upkeep, UpkeepCounts};
use ebb_model::inventory::Inventory;
use ebb_model::visibility_gap::Gap;

use ebb_ingest::event_log::EventLog;
use ebb_model::cost_record::CostRecord;
use ebb_model::node_hour::NodeHourRecord;
use ebb_telemetry::activity::ActivityPolicy;
use ebb_telemetry::arrival::Placed;
use ebb_telemetry::identity::Region;
use ebb_telemetry::shard::Shard;
use ebb_telemetry::step::PlacedStep;
use jiff::civil::Date;

use crate::flaw::Flaw;
use crate::lake::MemoryLake;
use ebb_ingest::state_store;
use ebb_notify::delivery_state;

/// Where in a call a sweep crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Nothing was done.
    Before,
    /// Half of the work was done if the service can do half; otherwise nothing.
    During,
    /// All was done.
    After,
}

/// The fault of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// It ends at this call, counted from 0.
    Crash {
        call: u32,
        moment: Moment,
    },
    /// This number of calls is refused, from this call on. With [`Moment::After`] the work was done
    /// although the answer is an error.
    Throttle {
        call: u32,
        calls: u32,
        moment: Moment,
    },
    /// Other programs and the topic cannot be reached.
    ChannelsDown,
}

#[derive(Debug)]
struct Progress {
    calls: u32,
    has_crashed: bool,
    has_yielded: bool,
}

/// The fault of one sweep, which all its ports share.
#[derive(Debug, Clone)]
pub(crate) struct Control {
    fault: Fault,
    pub(crate) flaw: Flaw,
    progress: Arc<Mutex<Progress>>,
}

enum Fate {
    Work,
    Crash(Moment),
    Fail(Moment),
}

/// Whether a call is one that the sweep tries again after a pause in real time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Report,
    Channel,
}

impl Control {
    pub(crate) fn new(fault: Fault, flaw: Flaw) -> Self {
        Self {
            fault,
            flaw,
            progress: Arc::new(Mutex::new(Progress {
                calls: 0,
                has_crashed: false,
                has_yielded: false,
            })),
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn has_crashed(&self) -> bool {
        self.progress().has_crashed
    }

    /// Whether the sweep stopped at a port and may go on at once.
    pub(crate) fn take_yield(&self) -> bool {
        std::mem::take(&mut self.progress().has_yielded)
    }

    fn next(&self, kind: Kind) -> Fate {
        let mut progress = self.progress();
        let this = progress.calls;
        progress.calls += 1;
        match self.fault {
            Fault::Crash { call, moment } if call == this => Fate::Crash(moment),
            Fault::Throttle {
                call,
                calls,
                moment,
            } if kind == Kind::Plain && (call..call.saturating_add(calls)).contains(&this) => {
                Fate::Fail(moment)
            }
            Fault::ChannelsDown if kind == Kind::Channel => Fate::Fail(Moment::Before),
            _ => Fate::Work,
        }
    }

    /// Lets another sweep go first.
    async fn pause(&self) {
        let mut is_second = false;
        poll_fn(|context| {
            if std::mem::replace(&mut is_second, true) {
                return Poll::Ready(());
            }
            self.progress().has_yielded = true;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    async fn crash(&self) -> ! {
        self.progress().has_crashed = true;
        pending::<()>().await;
        unreachable!("a crashed sweep is dropped")
    }

    /// `half` is the part of `work` that may be done before a crash in the middle.
    async fn around<T, E>(
        &self,
        kind: Kind,
        failed: impl Fn() -> E,
        half: impl Future<Output = ()>,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.pause().await;
        match self.next(kind) {
            Fate::Work => work.await,
            Fate::Crash(Moment::Before) => self.crash().await,
            Fate::Crash(Moment::During) => {
                half.await;
                self.crash().await
            }
            Fate::Crash(Moment::After) => {
                let _ = work.await;
                self.crash().await
            }
            Fate::Fail(Moment::After) => {
                let _ = work.await;
                Err(failed())
            }
            Fate::Fail(_) => Err(failed()),
        }
    }

    async fn cloud<T>(
        &self,
        kind: Kind,
        work: impl Future<Output = CloudResult<T>>,
    ) -> CloudResult<T> {
        self.around(kind, throttled, async {}, work).await
    }

    async fn lake<T>(
        &self,
        work: impl Future<Output = Result<T, LakeError>>,
    ) -> Result<T, LakeError> {
        self.around(Kind::Plain, lake_failed, async {}, work).await
    }
}

fn throttled() -> CloudError {
    CloudError::Failed {
        operation: "simulated".to_owned(),
        message: "throttled".to_owned(),
    }
}

fn lake_failed() -> LakeError {
    LakeError::TooManyRows {
        table: Table::Heartbeats,
        rows: 0,
    }
}

/// A port under the control of a sweep's fault.
pub(crate) struct Port<T> {
    pub(crate) inner: T,
    pub(crate) control: Control,
}

fn first_half<T>(all: &[T]) -> &[T] {
    &all[..all.len() / 2]
}

#[async_trait]
impl Queue for Port<FakeQueue> {
    async fn send(&self, body: &str) -> CloudResult<()> {
        self.send_with(body, &BTreeMap::new()).await
    }

    async fn send_with(
        &self,
        body: &str,
        attributes: &BTreeMap<String, String>,
    ) -> CloudResult<()> {
        if self.control.flaw == Flaw::DropRefused {
            return Ok(());
        }
        let work = self.inner.send_with(body, attributes);
        self.control.cloud(Kind::Plain, work).await
    }

    async fn receive(&self, limit: usize, wait: Duration) -> CloudResult<Vec<Received>> {
        let work = async {
            let received = self.inner.receive(limit, wait).await?;
            if self.control.flaw == Flaw::DeleteBeforeCommit {
                let receipts: Vec<String> = received.iter().map(|m| m.receipt.clone()).collect();
                self.inner.delete(&receipts).await?;
            }
            Ok(received)
        };
        self.control.cloud(Kind::Plain, work).await
    }

    async fn delete(&self, receipts: &[String]) -> CloudResult<()> {
        let half = async {
            let _ = self.inner.delete(first_half(receipts)).await;
        };
        let work = self.inner.delete(receipts);
        self.control
            .around(Kind::Plain, throttled, half, work)
            .await
    }
}

/// Whether a store that writes in place may leave half of an object. The delivery state is
/// excluded: its store writes all or nothing.
fn may_tear(key: &str) -> bool {
    key.starts_with("state/") && !is_notifications(key)
}

fn is_notifications(key: &str) -> bool {
    key == delivery_state::key(0)
}

fn is_state(key: &str) -> bool {
    key.starts_with("state/v1/") && key.contains("shard=") && !is_notifications(key)
}

fn kind_of(key: &str) -> Kind {
    match key.starts_with("reports/") {
        true => Kind::Report,
        false => Kind::Plain,
    }
}

impl<T: Objects> Port<T> {
    async fn write(&self, key: &str, bytes: Vec<u8>, options: PutOptions) -> CloudResult<Etag> {
        let is_forgotten = match self.control.flaw {
            Flaw::ForgetStateWrite => is_state(key),
            Flaw::ForgetNotifications => is_notifications(key),
            _ => false,
        };
        if is_forgotten {
            return Ok(Etag("forgotten".to_owned()));
        }
        self.inner.put(key, bytes, options).await
    }

    async fn read(&self, key: &str, max_bytes: u64) -> CloudResult<Object> {
        let mut object = self.inner.get(key, max_bytes).await?;
        if self.control.flaw == Flaw::EvictEarly && is_state(key) && !key.contains("hours") {
            object.bytes = without_newest_node(&self.inner, key)
                .await
                .unwrap_or(object.bytes);
        }
        Ok(object)
    }
}

/// The state as it is stored, without one of its nodes.
async fn without_newest_node(objects: &impl Objects, key: &str) -> Option<Vec<u8>> {
    let shard = (1..=Shard::MOST)
        .flat_map(|of| Shard { index: 0, of }.all())
        .find(|shard| state_store::key(*shard) == key)?;
    let activity = ActivityPolicy::default();
    let loaded = state_store::load(objects, shard, &activity).await.ok()?;
    let mut state = loaded.stored;
    state.fleet.nodes.pop_last()?;
    Some(state.pack().ok()?.0)
}

#[async_trait]
impl<T: Objects> Objects for Port<T> {
    async fn get(&self, key: &str, max_bytes: u64) -> CloudResult<Object> {
        let work = self.read(key, max_bytes);
        self.control.cloud(Kind::Plain, work).await
    }

    async fn put(&self, key: &str, bytes: Vec<u8>, options: PutOptions) -> CloudResult<Etag> {
        let torn = match may_tear(key) && options.condition != PutIf::Absent {
            true => first_half(&bytes).to_vec(),
            false => Vec::new(),
        };
        let half = async {
            if !torn.is_empty() {
                let _ = self.inner.put(key, torn, options.clone()).await;
            }
        };
        let work = self.write(key, bytes, options.clone());
        self.control
            .around(kind_of(key), throttled, half, work)
            .await
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> CloudResult<Vec<Listed>> {
        let work = self.inner.list(prefix, after, limit);
        self.control.cloud(Kind::Plain, work).await
    }

    async fn delete(&self, keys: &[String]) -> CloudResult<()> {
        let half = async {
            let _ = self.inner.delete(first_half(keys)).await;
        };
        let work = self.inner.delete(keys);
        self.control
            .around(Kind::Plain, throttled, half, work)
            .await
    }
}

#[async_trait]
impl<T: InventorySource> InventorySource for Port<T> {
    async fn regions(&self) -> CloudResult<Vec<Region>> {
        let work = self.inner.regions();
        self.control.cloud(Kind::Plain, work).await
    }

    async fn gather(&self, region: &Region) -> CloudResult<Inventory> {
        let work = self.inner.gather(region);
        self.control.cloud(Kind::Plain, work).await
    }

    fn not_entered(&self) -> Vec<Gap> {
        self.inner.not_entered()
    }
}

#[async_trait]
impl<T: Topic> Topic for Port<T> {
    async fn publish(&self, subject: &str, body: &str) -> CloudResult<()> {
        let work = self.inner.publish(subject, body);
        self.control.cloud(Kind::Channel, work).await
    }
}

#[async_trait]
impl<T: Events> Events for Port<T> {
    async fn send(&self, id: &str, body: &str) -> CloudResult<()> {
        let work = self.inner.send(id, body);
        self.control.cloud(Kind::Channel, work).await
    }
}

#[async_trait]
impl EventLog for Port<MemoryLake> {
    async fn last_batch(&self, table: Table, shard: Shard) -> Result<Option<u64>, LakeError> {
        let work = self.inner.last_batch(table, shard);
        self.control.lake(work).await
    }

    async fn append_heartbeats(
        &self,
        rows: &[Placed],
        batch: &Batch,
    ) -> Result<Appended, LakeError> {
        let work = self.inner.append_heartbeats(rows, batch);
        self.control.lake(work).await
    }

    async fn append_steps(
        &self,
        rows: &[PlacedStep],
        batch: &Batch,
    ) -> Result<Appended, LakeError> {
        let work = self.inner.append_steps(rows, batch);
        self.control.lake(work).await
    }

    async fn append_findings(
        &self,
        rows: &[EvaluatedFinding],
        batch: &Batch,
    ) -> Result<Appended, LakeError> {
        let work = self.inner.append_findings(rows, batch);
        self.control.lake(work).await
    }

    async fn append_costs(
        &self,
        rows: &[CostRecord],
        batch: &Batch,
    ) -> Result<Appended, LakeError> {
        let work = self.inner.append_costs(rows, batch);
        self.control.lake(work).await
    }

    async fn append_node_hours(
        &self,
        rows: &[NodeHourRecord],
        batch: &Batch,
    ) -> Result<Appended, LakeError> {
        let work = self.inner.append_node_hours(rows, batch);
        self.control.lake(work).await
    }

    async fn costs_between(&self, from: Date, to: Date) -> Result<Window<CostRecord>, LakeError> {
        let work = self.inner.costs_between(from, to);
        self.control.lake(work).await
    }

    async fn heartbeats_since(&self, commits: Commits) -> Result<Since<Placed>, LakeError> {
        let work = async {
            let mut since = self.inner.heartbeats_since(commits).await?;
            if self.control.flaw == Flaw::SkipCatchUp {
                since.rows.clear();
            }
            Ok(since)
        };
        self.control.lake(work).await
    }

    async fn steps_since(&self, commits: Commits) -> Result<Since<PlacedStep>, LakeError> {
        let work = self.inner.steps_since(commits);
        self.control.lake(work).await
    }

    async fn steps_between(&self, from: Date, to: Date) -> Result<Window<PlacedStep>, LakeError> {
        let work = self.inner.steps_between(from, to);
        self.control.lake(work).await
    }

    async fn keep_up(&self, table: Table, upkeep: &Upkeep<'_>) -> Result<UpkeepCounts, LakeError> {
        let work = self.inner.keep_up(table, upkeep);
        self.control.lake(work).await
    }
}
