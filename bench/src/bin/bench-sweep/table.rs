//! Prints the measurements next to the goals.

use std::time::Duration;

use crate::fleet::MINUTES;
use crate::stages::Stages;
use crate::state::State;
use crate::whole::Whole;

/// List prices of us-east-1, without any free tier.
/// Source: aws.amazon.com/sqs/pricing (standard queue), /s3/pricing (S3 Standard
/// requests), /lambda/pricing (x86); August 2026.
const USD_PER_QUEUE_REQUEST: f64 = 0.40e-6;
const USD_PER_PUT: f64 = 0.005e-3;
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
        "  nodes  heartbeats  decode+place   fold  rules  render   pack  hours   total  peak MB  findings"
    );
    for (nodes, s) in rows {
        println!(
            "{nodes:>7} {:>11} {:>13} {:>6} {:>6} {:>7} {:>6} {:>6} {:>7} {:>8} {:>9}",
            s.heartbeats,
            sec(s.decode),
            sec(s.fold),
            sec(s.evaluate),
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

/// Batches of finished tasks in a month: a node sends one every 15 minutes, if tasks end in each of them.
const BATCHES_A_MONTH: f64 = 30.0 * 24.0 * 4.0;

/// Requests to SQS for a batch of finished tasks that fits a message: a send, and a tenth of a receive
/// and of a delete.
const REQUESTS_A_BATCH: f64 = 1.2;

/// The finished tasks of a node on which tasks end in each quarter of an hour.
const FINISHED_TASKS_USD_A_MONTH: f64 = BATCHES_A_MONTH * REQUESTS_A_BATCH * USD_PER_QUEUE_REQUEST;

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
    let finished = ALL * FINISHED_TASKS_USD_A_MONTH;
    println!("\nA million nodes by arithmetic, in {shards} shards of {nodes}, USD a month:\n");
    println!("  {queue:>10.2}  heartbeats over SQS: {sends} messages a shard and sweep");
    println!(
        "  {compute:>10.2}  folding on Lambda: {} and {gigabytes:.2} GB each",
        sec(folding)
    );
    println!(
        "  {finished:>10.2}  finished tasks over SQS, a message a node and quarter of an hour"
    );
    println!("  {:>10.4}  a node", (queue + compute + finished) / ALL);
}

/// A month of what a deployment costs without any node.
/// Source: aws.amazon.com/cloudwatch/pricing (alarms of standard resolution, custom metrics,
/// dashboards, logs), /cost-management pricing (a request to Cost Explorer); August 2026.
const FIXED: [(&str, f64); 4] = [
    ("eight alarms", 8.0 * 0.10),
    ("four metrics", 4.0 * 0.30),
    ("a dashboard, if the account has three others", 3.0),
    (
        "Cost Explorer: the bill twice a day, three requests each, and Ebb's own cost once",
        (2.0 * 3.0 + 1.0) * 30.0 * 0.01,
    ),
];

/// Lambda gives one CPU to a function with 1,769 MB, and the sweeper has 1,024 MB.
/// Source: AWS Lambda developer guide, "Configure Lambda function memory".
const SECONDS_ON_LAMBDA: f64 = 1769.0 / 1024.0;

/// A month of a whole deployment with the defaults of the Terraform module and everything on, in
/// USD.
struct Month {
    nodes: f64,
    heartbeats: f64,
    sweeps: f64,
    /// Tasks end in each quarter of an hour, and each batch fits a message.
    finished_tasks: f64,
}

impl Month {
    fn of(nodes: u32, w: &Whole) -> Self {
        let nodes = f64::from(nodes);
        let sends = w.heartbeats.div_ceil(HEARTBEATS_A_MESSAGE) as f64;
        // The function is billed for its memory, used or not.
        let gigabytes = gigabytes(w).max(1.0);
        let seconds = w.time.as_secs_f64() * SECONDS_ON_LAMBDA;
        let one = requests_usd(w) + gigabytes * seconds * USD_PER_GB_SECOND;
        Self {
            nodes,
            heartbeats: sends * USD_PER_QUEUE_REQUEST * SWEEPS_A_MONTH,
            sweeps: one * SWEEPS_A_MONTH,
            finished_tasks: nodes * FINISHED_TASKS_USD_A_MONTH,
        }
    }

    fn fixed() -> f64 {
        FIXED.iter().map(|(_, usd)| usd).sum()
    }

    /// A node, if no task ends.
    fn least(&self) -> f64 {
        (Self::fixed() + self.heartbeats + self.sweeps) / self.nodes
    }

    fn most(&self) -> f64 {
        self.least() + self.finished_tasks / self.nodes
    }
}

/// Prints the cost of a whole deployment by number of nodes.
pub(crate) fn running(rows: &[(u32, Whole)]) {
    println!("\nA deployment with everything on, USD a month at list prices of us-east-1:\n");
    println!(
        "  nodes  fixed  heartbeats  sweeps  finished tasks  a node, no task ends  a node, tasks end"
    );
    for (nodes, w) in rows {
        let month = Month::of(*nodes, w);
        println!(
            "{nodes:>7} {:>6.2} {:>11.2} {:>7.2} {:>15.2} {:>21.4} {:>18.4}",
            Month::fixed(),
            month.heartbeats,
            month.sweeps,
            month.finished_tasks,
            month.least(),
            month.most()
        );
    }
    println!("\nFixed:");
    for (what, usd) in FIXED {
        println!("{usd:>7.2}  {what}");
    }
    println!(
        "Finished tasks: a node on which tasks end sends a message every quarter of an hour. A batch of \
         more than 64 KiB is an object for {USD_PER_PUT} USD instead, and a task that failed is sent at \
         once.\n"
    );
    if let Some((_, w)) = rows.iter().find(|(nodes, _)| *nodes == 1_000) {
        let most = Month::of(1_000, w).most();
        goal(
            &format!("{most:.4} USD a node and month, with 1,000 nodes on which tasks end (0.02)"),
            most <= 0.02,
        );
    }
}

/// Prints the measurements of the whole sweep.
pub(crate) fn whole(rows: &[(u32, Whole)]) {
    println!("\nThe whole sweep, lake and bucket in local folders:\n");
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
fn dollars(w: &Whole) -> f64 {
    let compute = gigabytes(w) * w.time.as_secs_f64() * USD_PER_GB_SECOND;
    (requests_usd(w) + compute) * SWEEPS_A_MONTH
}

/// The requests of one sweep.
fn requests_usd(w: &Whole) -> f64 {
    w.queue_requests as f64 * USD_PER_QUEUE_REQUEST
        + (w.puts + w.lake_files) as f64 * USD_PER_PUT
        + w.gets as f64 * USD_PER_GET
}

fn gigabytes(w: &Whole) -> f64 {
    w.peak_memory as f64 / f64::from(1 << 30)
}

fn sec(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}
