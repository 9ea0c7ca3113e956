//! The whole sweep over its ports: the lake and the bucket in local folders, the other ports in memory.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ebb_cloud::fake::{FakeClock, FakeQueue};
use ebb_cloud::ports::{
    CloudResult, Etag, InventorySource, Listed, Object, Objects, PutOptions, Queue, Received,
};
use ebb_cloud::store::objects::StoreObjects;
use ebb_ingest::deadline::Deadline;
use ebb_ingest::fold::folder::Limits;
use ebb_lake::Lake;
use ebb_model::inventory::Inventory;
use ebb_model::visibility_gap::Gap;
use ebb_notify::digest::Channels;
use ebb_sweep::collect::account::Account;
use ebb_sweep::publish::ReportCopies;
use ebb_sweep::run::{self, Config, Ports};
use ebb_telemetry::identity::Region;
use ebb_telemetry::shard::Shard;
use serde::{Deserialize, Serialize};

use crate::fleet;
use crate::messages::Messages;

/// Duration and requests of one sweep.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Whole {
    pub(crate) time: Duration,
    pub(crate) peak_memory: u64,
    pub(crate) heartbeats: u64,
    pub(crate) findings: usize,
    /// SQS requests: receives and deletes, ten messages each.
    pub(crate) queue_requests: u64,
    pub(crate) puts: u64,
    pub(crate) gets: u64,
    /// Files that the lake wrote, each one PUT.
    pub(crate) lake_files: u64,
}

/// A queue that delivers the messages of the file once.
struct FileQueue {
    messages: Mutex<Messages>,
    requests: AtomicU64,
}

/// Source: SQS API reference: a call receives or deletes ten messages at most.
const A_CALL: usize = 10;

#[async_trait]
impl Queue for FileQueue {
    async fn send(&self, _body: &str) -> CloudResult<()> {
        Ok(())
    }

    async fn send_with(
        &self,
        _body: &str,
        _attributes: &std::collections::BTreeMap<String, String>,
    ) -> CloudResult<()> {
        Ok(())
    }

    async fn receive(&self, limit: usize, _wait: Duration) -> CloudResult<Vec<Received>> {
        let taken = self.messages.lock().expect("one reader").take(limit);
        let calls = taken.len().div_ceil(A_CALL).max(1) as u64;
        self.requests.fetch_add(calls, Ordering::Relaxed);
        Ok(taken)
    }

    async fn delete(&self, receipts: &[String]) -> CloudResult<()> {
        let calls = receipts.len().div_ceil(A_CALL) as u64;
        self.requests.fetch_add(calls, Ordering::Relaxed);
        Ok(())
    }
}

/// An inventory that is made when it is read, so that only the sweep holds it.
struct MadeInventory {
    nodes: u32,
}

#[async_trait]
impl InventorySource for MadeInventory {
    async fn regions(&self) -> CloudResult<Vec<Region>> {
        Ok(vec![fleet::region()])
    }

    async fn gather(&self, _region: &Region) -> CloudResult<Inventory> {
        Ok(fleet::inventory(self.nodes))
    }

    fn not_entered(&self) -> Vec<Gap> {
        Vec::new()
    }
}

/// A bucket that counts its requests.
struct Counted {
    inner: StoreObjects,
    puts: AtomicU64,
    gets: AtomicU64,
}

#[async_trait]
impl Objects for Counted {
    async fn get(&self, key: &str, max_bytes: u64) -> CloudResult<Object> {
        self.gets.fetch_add(1, Ordering::Relaxed);
        self.inner.get(key, max_bytes).await
    }

    async fn put(&self, key: &str, bytes: Vec<u8>, options: PutOptions) -> CloudResult<Etag> {
        self.puts.fetch_add(1, Ordering::Relaxed);
        self.inner.put(key, bytes, options).await
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> CloudResult<Vec<Listed>> {
        // A LIST is billed as a PUT.
        self.puts.fetch_add(1, Ordering::Relaxed);
        self.inner.list(prefix, after, limit).await
    }

    async fn delete(&self, keys: &[String]) -> CloudResult<()> {
        self.inner.delete(keys).await
    }
}

pub(crate) fn measure(nodes: u32, file: &Path) -> Whole {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(sweep(nodes, file))
}

async fn sweep(nodes: u32, file: &Path) -> Whole {
    let folder = tempfile::tempdir().expect("a folder");
    let at_path = |name: &str| format!("file://{}/{name}", folder.path().display());
    let lake = Lake::open(&at_path("lake")).await.expect("a lake");
    let at = fleet::at(fleet::MINUTES);
    let clock = FakeClock::at(at);
    let queue = FileQueue {
        messages: Mutex::new(Messages::open(file)),
        requests: AtomicU64::new(0),
    };
    let dead_letters = FakeQueue::new(clock);
    let objects = Counted {
        inner: StoreObjects::open(&at_path("bucket")).expect("a folder"),
        puts: AtomicU64::new(0),
        gets: AtomicU64::new(0),
    };
    let inventory = MadeInventory { nodes };
    let ports = Ports {
        account: Account {
            inventory: &inventory,
            metrics: None,
            bill: None,
            markets: None,
            prices: None,
            regions: &[],
        },
        queue: &queue,
        dead_letters: &dead_letters,
        objects: &objects,
        event_log: &lake,
        channels: Channels::default(),
    };
    let config = Config {
        policy: fleet::policy(),
        shard: Shard::ONLY,
        limits: Limits::default(),
        interval: None,
        copies: ReportCopies::DatedAndLatest,
        gaps: Vec::new(),
    };
    let end = at.saturating_add(Duration::from_secs(900)).expect("a time");
    let deadline = Deadline::within(at, end);
    let began = Instant::now();
    let summary = run::sweep(&ports, &config, &deadline, &|| at).await;
    let time = began.elapsed();
    let summary = summary.expect("nothing fails here");
    assert_eq!(summary.folding.refused.len(), 0, "{summary:?}");
    Whole {
        time,
        peak_memory: crate::peak_memory(),
        heartbeats: summary.folding.heartbeats,
        findings: summary.findings,
        queue_requests: queue.requests.load(Ordering::Relaxed),
        puts: objects.puts.load(Ordering::Relaxed),
        gets: objects.gets.load(Ordering::Relaxed),
        lake_files: files(&folder.path().join("lake")),
    }
}

fn files(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).expect("it is there").flatten();
    entries
        .map(|entry| match entry.path() {
            path if path.is_dir() => files(&path),
            _ => 1,
        })
        .sum()
}
