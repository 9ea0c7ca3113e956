//! Prints the measurements next to the goals.

use std::time::Duration;

use crate::fleet::MINUTES;
use crate::stages::Stages;
use crate::state::State;
#[cfg(feature = "lake")]
use crate::whole::Whole;

/// List prices of us-east-1, without any free tier.
/// Source: aws.amazon.com/sqs/pricing (standard queue), /s3/pricing (S3 Standard
/// requests), /lambda/pricing (x86); August 2026.
const USD_PER_QUEUE_REQUEST: f64 = 0.40e-6;
const USD_PER_PUT: f64 = 0.005e-3;
#[cfg(feature = "lake")]
const USD_PER_GET: f64 = 0.000_4e-3;
const USD_PER_GB_SECOND: f64 = 0.000_016_666_7;

const HEARTBEATS_A_MESSAGE: u64 = 5;

const SWEEPS_A_MONTH: f64 = 30.0 * 24.0 * 60.0 / MINUTES as f64;

const MAX_SECONDS: f64 = 10.0;
const MAX_BYTES: u64 = 1 << 30;
const MIN_DECODED_A_SECOND: f64 = 500_000.0;
const MAX_STATE_MEMORY: u64 = 1 << 10;
const MAX_STATE_STORED: u64 = 256;

pub(crate) fn print(rows: &[(u32, Stages)], state: &State) {
    println!(
        "A sweep over ten minutes of heartbeats of 60 s; made-up input, {} cores.",
        cores()
    );
    println!("From received bytes to rendered report, network and lake excluded:\n");
    println!(
        "  nodes  heartbeats  decode+place   fold  judge  render   pack  hours   total  peak MB  findings"
    );
    for (nodes, s) in rows {
        println!(
            "{nodes:>7} {:>11} {:>13} {:>6} {:>6} {:>7} {:>6} {:>6} {:>7} {:>8} {:>9}",
            s.heartbeats,
            sec(s.decode),
            sec(s.fold),
            sec(s.judge),
            sec(s.render),
            sec(s.pack),
            sec(s.hours),
            sec(s.total()),
            s.peak_memory >> 20,
            s.findings
        );
    }
    println!(
        "\nState after a day of heartbeats, {} nodes: {} B a node in memory (median; greatest \
         {} B), {} B stored; the hours of a fortnight, {} B stored.\n",
        state.nodes, state.memory, state.memory_max, state.stored, state.hours_stored
    );
    goals(rows, state);
    requests(rows);
    if let Some((nodes, s)) = rows.last() {
        million(*nodes, s);
    }
}

/// The monthly cost of the requests whose number depends only on the number of messages.
fn requests(rows: &[(u32, Stages)]) {
    println!(
        "\nRequests to SQS, ten messages a receive and a delete, at list prices of us-east-1:\n"
    );
    println!("  nodes  sends a sweep  receives+deletes  USD a month  USD a node and month");
    for (nodes, s) in rows {
        let sends = s.heartbeats.div_ceil(HEARTBEATS_A_MESSAGE);
        let taken = 2 * sends.div_ceil(10);
        let usd = (sends + taken) as f64 * USD_PER_QUEUE_REQUEST * SWEEPS_A_MONTH;
        let a_node = usd / f64::from(*nodes);
        println!("{nodes:>7} {sends:>14} {taken:>17} {usd:>12.2} {a_node:>21.4}");
    }
}

/// The most objects in a month: a node sends finished tasks at most every 15 minutes.
const OBJECTS_A_MONTH: f64 = 30.0 * 24.0 * 4.0;

/// An estimate for a million nodes: as many shards as the largest measured fleet requires, with the
/// same cost each. The common report is not included.
fn million(nodes: u32, s: &Stages) {
    const ALL: f64 = 1e6;
    let shards = (ALL / f64::from(nodes)).ceil();
    let sends = s.heartbeats.div_ceil(HEARTBEATS_A_MESSAGE);
    let requests = (sends + 2 * sends.div_ceil(10)) as f64;
    let queue = shards * requests * USD_PER_QUEUE_REQUEST * SWEEPS_A_MONTH;
    let folding = s.decode + s.fold + s.pack + s.hours;
    let gigabytes = s.peak_memory as f64 / f64::from(1 << 30);
    let seconds = shards * folding.as_secs_f64() * SWEEPS_A_MONTH;
    let compute = seconds * gigabytes * USD_PER_GB_SECOND;
    let objects = ALL * OBJECTS_A_MONTH * USD_PER_PUT;
    println!("\nA million nodes by arithmetic, in {shards} shards of {nodes}, USD a month:\n");
    println!("  {queue:>10.2}  heartbeats over SQS: {sends} messages a shard and sweep");
    println!(
        "  {compute:>10.2}  folding on Lambda: {} and {gigabytes:.2} GB each",
        sec(folding)
    );
    println!(
        "  {objects:>10.2}  objects of finished steps at most, one a node and quarter of an hour"
    );
    println!(
        "  {:>10.4}  a node, at most",
        (queue + compute + objects) / ALL
    );
}

/// Prints the measurements of the whole sweep.
#[cfg(feature = "lake")]
pub(crate) fn whole(rows: &[(u32, Whole)]) {
    println!("\nThe whole sweep, lake written to a local folder:\n");
    println!(
        "  nodes    time  peak MB  SQS requests  S3 PUT+LIST  S3 GET  lake files  USD a month"
    );
    for (nodes, w) in rows {
        println!(
            "{nodes:>7} {:>7} {:>8} {:>13} {:>12} {:>7} {:>11} {:>12.2}",
            sec(w.time),
            w.peak_memory >> 20,
            w.queue_requests,
            w.puts,
            w.gets,
            w.lake_files,
            dollars(w)
        );
    }
    println!("\nUSD a month: what {SWEEPS_A_MONTH} sweeps ask for and compute; reads of the lake");
    println!("and the nodes' own sends are not in it.");
}

fn goals(rows: &[(u32, Stages)], state: &State) {
    if let Some((nodes, s)) = rows.last() {
        let total = s.total().as_secs_f64();
        let rate = s.heartbeats as f64 / s.decode_one_core.as_secs_f64();
        goal(
            &format!("{nodes} nodes in {total:.2} s (at most {MAX_SECONDS} s)"),
            total <= MAX_SECONDS,
        );
        goal(
            &format!("{} MB of memory at most (1,024 MB)", s.peak_memory >> 20),
            s.peak_memory <= MAX_BYTES,
        );
        goal(
            &format!("{rate:.0} heartbeats a second decoded on one core (500,000)"),
            rate >= MIN_DECODED_A_SECOND,
        );
    }
    if let [.., (few, small), (many, large)] = rows {
        let growth = large.total().as_secs_f64() / small.total().as_secs_f64();
        let factor = f64::from(*many) / f64::from(*few);
        goal(
            &format!(
                "{factor} times the nodes take {growth:.1} times as long (linear or better, 10 % noise)"
            ),
            growth <= 1.1 * factor,
        );
    }
    goal(
        &format!(
            "{} B a node in memory (at most {MAX_STATE_MEMORY} B)",
            state.memory
        ),
        state.memory <= MAX_STATE_MEMORY,
    );
    goal(
        &format!(
            "{} B a node stored (at most {MAX_STATE_STORED} B)",
            state.stored
        ),
        state.stored <= MAX_STATE_STORED,
    );
}

fn goal(what: &str, is_met: bool) {
    let word = if is_met { "met   " } else { "MISSED" };
    println!("{word}  {what}");
}

/// The monthly cost of the sweeper's requests and compute.
#[cfg(feature = "lake")]
fn dollars(w: &Whole) -> f64 {
    let gigabytes = w.peak_memory as f64 / f64::from(1 << 30);
    let one = w.queue_requests as f64 * USD_PER_QUEUE_REQUEST
        + (w.puts + w.lake_files) as f64 * USD_PER_PUT
        + w.gets as f64 * USD_PER_GET
        + gigabytes * w.time.as_secs_f64() * USD_PER_GB_SECOND;
    one * SWEEPS_A_MONTH
}

fn sec(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}
