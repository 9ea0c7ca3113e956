//! The replay of a trace: each task gets a request from the tasks before it, and is then added to
//! them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ebb_model::policy::sizing::SizingPolicy;
use ebb_sizing::memory::MemoryHistory;
use ebb_sizing::memory::run::Run;
use ebb_telemetry::units::Bytes;
use serde::{Deserialize, Serialize};

use crate::published::{self, Figure};
use crate::{read, table};

/// Number of samples from which the first request of a process should be sufficient.
const SETTLED: usize = 20;

/// The most attempts of a task; more show an error in the replay.
const MAX_ATTEMPTS: usize = 200;

const BYTES_PER_GB: f64 = 1e9;

/// A row of the trace.
#[derive(Debug, Clone, Deserialize)]
struct SizedTask {
    process: String,
    part: Part,
    order: u64,
    input_size_bytes: Option<f64>,
    rss_bytes: f64,
    requested_bytes: f64,
    realtime_ms: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Part {
    Observed,
    Replay,
}

/// The result of one policy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Outcome {
    policy: &'static str,
    wasted_gbh: f64,
    /// Attempts that failed.
    failures: usize,
    /// Tasks of which at least one attempt failed.
    failed_tasks: usize,
    /// Tasks of processes with at least [`SETTLED`] samples, the number of their failed first
    /// requests, and the number of failures that was predicted.
    settled: usize,
    settled_failed: usize,
    settled_stated: f64,
    /// Tasks with the user's own request, for lack of samples.
    not_advised: usize,
}

/// The results of all policies on one workflow.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Replay {
    workflow: String,
    tasks: usize,
    requests: Outcome,
    least_waste: Outcome,
    default_policy: Outcome,
    published: Vec<Figure>,
}

/// Replays every workflow of a folder.
///
/// # Errors
/// Names the file that cannot be read.
pub(crate) fn replay_all(folder: &Path) -> Result<Vec<Replay>> {
    let files = read::folder(folder)?;
    files
        .into_iter()
        .map(|(workflow, tasks)| {
            let why = format!("failed to replay the workflow {workflow}");
            replay(workflow, tasks).context(why)
        })
        .collect()
}

fn replay(workflow: String, mut tasks: Vec<SizedTask>) -> Result<Replay> {
    tasks.sort_by_key(|task| (task.part == Part::Replay, task.order));
    let replayed = tasks
        .iter()
        .filter(|task| task.part == Part::Replay)
        .count();
    ensure!(replayed > 0, "no rows to replay");
    let default = SizingPolicy::default();
    let least_waste = SizingPolicy {
        oom_ppm: 1_000_000,
        ..default.clone()
    };
    Ok(Replay {
        tasks: replayed,
        requests: outcome("requests of the user", &tasks, None)?,
        least_waste: outcome("least waste", &tasks, Some(&least_waste))?,
        default_policy: outcome("default policy", &tasks, Some(&default))?,
        published: published::figures(&workflow, replayed),
        workflow,
    })
}

/// Without a policy every task gets the request of its user.
fn outcome(
    name: &'static str,
    tasks: &[SizedTask],
    policy: Option<&SizingPolicy>,
) -> Result<Outcome> {
    let mut result = Outcome {
        policy: name,
        wasted_gbh: 0.0,
        failures: 0,
        failed_tasks: 0,
        settled: 0,
        settled_failed: 0,
        settled_stated: 0.0,
        not_advised: 0,
    };
    let mut histories: BTreeMap<&str, (MemoryHistory, usize)> = BTreeMap::new();
    let shipped = SizingPolicy::default();
    for task in tasks {
        let (history, earlier_tasks) = histories
            .entry(&task.process)
            .or_insert_with(|| (MemoryHistory::new(policy.unwrap_or(&shipped)), 0));
        if task.part == Part::Replay {
            let advising = policy.map(|_| &*history);
            result.replay(task, advising, *earlier_tasks)?;
        }
        history.learn(task.run());
        *earlier_tasks += 1;
    }
    Ok(result)
}

impl SizedTask {
    fn run(&self) -> Run {
        Run {
            input: self.input_size_bytes.map(|bytes| Bytes(bytes as u64)),
            peak: Bytes(self.rss_bytes as u64),
            wall: Duration::from_secs_f64(self.realtime_ms.max(0.0) / 1e3),
        }
    }
}

impl Outcome {
    fn replay(
        &mut self,
        task: &SizedTask,
        history: Option<&MemoryHistory>,
        earlier_tasks: usize,
    ) -> Result<()> {
        let run = task.run();
        let requested = Bytes(task.requested_bytes as u64);
        let advice = history.and_then(|history| history.advise(run.input).ok());
        if history.is_some() && advice.is_none() {
            self.not_advised += 1;
        }
        let first = advice.as_ref().map_or(requested, |advice| advice.first());
        if let Some(advice) = advice.as_ref().filter(|_| earlier_tasks >= SETTLED) {
            self.settled += 1;
            self.settled_failed += usize::from(first < run.peak);
            self.settled_stated += f64::from(advice.oom_ppm) / 1e6;
        }
        self.failed_tasks += usize::from(first < run.peak);
        let hours = run.wall.as_secs_f64() / 3600.0;
        let mut size = first;
        for _ in 0..MAX_ATTEMPTS {
            if size >= run.peak {
                self.wasted_gbh += (size.0 - run.peak.0) as f64 / BYTES_PER_GB * hours;
                return Ok(());
            }
            self.failures += 1;
            self.wasted_gbh += size.0 as f64 / BYTES_PER_GB * hours;
            size = match &advice {
                Some(advice) => advice.after(size),
                None => Bytes(size.0.saturating_mul(2)),
            };
        }
        anyhow::bail!(
            "task {} of {} fits no request; it needs {}",
            task.order,
            task.process,
            run.peak
        )
    }

    fn row(&self) -> Vec<String> {
        let share = |part: f64| match self.settled {
            0 => "-".to_owned(),
            all => format!("{:.2} %", 100.0 * part / all as f64),
        };
        vec![
            self.policy.to_owned(),
            format!("{:.1}", self.wasted_gbh),
            self.failures.to_string(),
            self.failed_tasks.to_string(),
            share(self.settled_stated),
            share(self.settled_failed as f64),
            self.settled.to_string(),
            self.not_advised.to_string(),
        ]
    }
}

/// One table for each workflow.
pub(crate) fn tables(replays: &[Replay]) -> String {
    let head = [
        "",
        "GBh wasted",
        "failed attempts",
        "failed tasks",
        "estimated OOM",
        "observed OOM",
        "of tasks",
        "no advice",
    ];
    let mut text = String::from(
        "Memory sizing by replay. OOM: first requests that were too small, for tasks of\nprocesses \
         with at least 20 samples.\n",
    );
    for replay in replays {
        let ours = [
            &replay.requests,
            &replay.least_waste,
            &replay.default_policy,
        ];
        let mut rows: Vec<Vec<String>> = ours.iter().map(|outcome| outcome.row()).collect();
        rows.extend(replay.published.iter().map(|figure| {
            let wasted = format!("{:.1}", figure.wasted_gbh);
            vec![
                figure.method.to_owned(),
                wasted,
                figure.failures.to_string(),
            ]
        }));
        text.push_str(&format!("\n{}, {} tasks\n", replay.workflow, replay.tasks));
        text.push_str(&table::lines(&head, &rows));
        text.push_str(&replay.verdict());
    }
    text
}

impl Replay {
    fn verdict(&self) -> String {
        let of_requests = 100.0 * self.default_policy.wasted_gbh / self.requests.wasted_gbh;
        let mut text = format!("default policy: {of_requests:.0} % of the waste of the requests\n");
        let by_waste = |a: &&Figure, b: &&Figure| a.wasted_gbh.total_cmp(&b.wasted_gbh);
        match self.published.iter().min_by(by_waste) {
            None => text.push_str("least waste: no published figure for this replay\n"),
            Some(best) => {
                let less = 100.0 * (1.0 - self.least_waste.wasted_gbh / best.wasted_gbh);
                text.push_str(&format!(
                    "least waste: {less:.0} % less than {}, the least published, with {} failed \
                     attempts to its {}\n",
                    best.method, self.least_waste.failures, best.failures,
                ));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(part: Part, order: u64, need: f64) -> SizedTask {
        SizedTask {
            process: "ALIGN".to_owned(),
            part,
            order,
            input_size_bytes: Some(1e9),
            rss_bytes: need,
            requested_bytes: 8e9,
            realtime_ms: 3.6e6,
        }
    }

    #[test]
    fn waste_is_counted_as_the_protocol_says() {
        let tasks = vec![task(Part::Replay, 0, 6e9), task(Part::Replay, 1, 12e9)];
        let requests = replay("made up".to_owned(), tasks)
            .expect("it replays")
            .requests;
        // 8 - 6, then a failed 8, then 16 - 12, each for an hour.
        assert!((requests.wasted_gbh - 14.0).abs() < 1e-9);
        assert_eq!((requests.failures, requests.failed_tasks), (1, 1));
    }

    #[test]
    fn the_order_of_the_file_is_not_the_order_of_the_replay() {
        let mut tasks: Vec<SizedTask> = (0..30).map(|i| task(Part::Observed, i, 2e9)).collect();
        tasks.extend((0..5).map(|i| task(Part::Replay, i, 2e9)));
        let forward = replay("made up".to_owned(), tasks.clone()).expect("it replays");
        tasks.reverse();
        let backward = replay("made up".to_owned(), tasks).expect("it replays");
        assert_eq!(forward, backward);
        assert!(forward.default_policy.wasted_gbh < 1.0);
        assert!((forward.requests.wasted_gbh - 30.0).abs() < 1e-9);
    }
}
