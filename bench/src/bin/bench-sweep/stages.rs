//! Each stage of a sweep without queue, bucket and lake: decode and place, fold, evaluate, render,
//! compress.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use ebb_analysis::evaluate::evaluate;
use ebb_analysis::facts::Facts;
use ebb_catalog::catalog::Catalogue;
use ebb_ingest::state_store::fold_batch::{fold_heartbeats, keep_new};
use ebb_ingest::state_store::format::Stored;
use ebb_ingest::state_store::hourly_activity::Hours;
use ebb_model::sweep_memory::Memory;

use ebb_telemetry::shard::Shard;
use futures::executor::block_on;
use serde::{Deserialize, Serialize};

use crate::messages::Messages;
use crate::{fleet, fortnight};
use ebb_ingest::authenticate;
use ebb_report::{csv, html, json, zone};

/// The number of messages that a sweep receives at once.
const A_BATCH: usize = 5_000;

#[derive(Serialize, Deserialize)]
pub(crate) struct Stages {
    pub(crate) heartbeats: u64,
    pub(crate) bytes: u64,
    /// CPU time to decode and place on one thread, so that other load does not count.
    pub(crate) decode_one_core: Duration,
    /// The same on all cores, as a sweep does it.
    pub(crate) decode: Duration,
    pub(crate) fold: Duration,
    pub(crate) evaluate: Duration,
    pub(crate) render: Duration,
    pub(crate) pack: Duration,
    /// Time to read the earlier hours of the nodes and to write them.
    pub(crate) hours: Duration,
    pub(crate) findings: usize,
    pub(crate) report_bytes: usize,
    pub(crate) peak_memory: u64,
}

impl Stages {
    pub(crate) fn total(&self) -> Duration {
        self.decode + self.fold + self.evaluate + self.render + self.pack + self.hours
    }
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("a Linux kernel");
    let nanos = text.split(' ').next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanos.expect("nanoseconds on a CPU"))
}

fn timed<T>(sum: &mut Duration, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let done = work();
    *sum += began.elapsed();
    done
}

#[expect(
    clippy::too_many_lines,
    reason = "one scenario, read from top to bottom"
)]
pub(crate) fn measure(nodes: u32, file: &Path) -> Stages {
    let policy = fleet::policy();
    let inventory = fleet::inventory(nodes);
    let mut messages = Messages::open(file);
    let mut stored = Stored::empty(&policy.activity);
    let bucket = fortnight::bucket(nodes);
    let none = Duration::ZERO;
    let (mut one_core, mut decode, mut fold) = (none, none, none);
    let (mut judging, mut rendering, mut pack, mut kept) = (none, none, none, none);
    let mut hours = timed(&mut kept, || {
        let loaded = block_on(Hours::load(&bucket, Shard::ONLY, &policy.activity));
        loaded.expect("it is there")
    });
    let mut heartbeats = 0;
    loop {
        let batch = messages.take(A_BATCH);
        if batch.is_empty() {
            break;
        }
        let began = cpu_time();
        for message in &batch {
            black_box(authenticate::message(message));
        }
        one_core += cpu_time() - began;
        let opened = timed(&mut decode, || authenticate::messages(&batch, usize::MAX));
        // As in the fold: rows that were accepted before are left out.
        timed(&mut fold, || {
            let mut rows = Vec::with_capacity(opened.iter().map(|o| o.rows.len()).sum());
            rows.extend(opened.into_iter().flat_map(|o| o.rows));
            keep_new(&stored.fleet, &mut rows);
            heartbeats += rows.len() as u64;
            let hours = hours.folding(Some(heartbeats));
            fold_heartbeats(&rows, (&mut stored.fleet, hours), &policy.activity);
        });
    }
    let (metrics, bill) = (BTreeMap::new(), BTreeMap::new());
    let memory = Memory::default();
    let facts = Facts {
        now: fleet::at(fleet::MINUTES),
        state: &stored.fleet,
        hours: hours.fleet(),
        inventory: &inventory,
        metrics: &metrics,
        bill: &bill,
        billed: &[],
        finished: &[],
        left_out: &[],
        records: &[],
        memory: &memory,
        policy: &policy,
        catalogue: Catalogue::built_in(),
    };
    let report = timed(&mut judging, || evaluate(&facts));
    let report_bytes = timed(&mut rendering, || {
        html::html(&report, &zone::Zone::utc()).len()
            + csv::csv(&report).len()
            + json::json(&report).len()
    });
    timed(&mut pack, || black_box(stored.pack().expect("it fits")));
    timed(&mut kept, || {
        block_on(hours.keep(&bucket, Shard::ONLY)).expect("it fits")
    });
    Stages {
        heartbeats,
        bytes: messages.bytes,
        decode_one_core: one_core,
        decode,
        fold,
        evaluate: judging,
        render: rendering,
        pack,
        hours: kept,
        findings: report.findings.len(),
        report_bytes,
        peak_memory: crate::peak_memory(),
    }
}
