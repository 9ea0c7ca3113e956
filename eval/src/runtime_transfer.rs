//! Predicts the duration of a task on a machine on which it has not run. The task is known from one
//! other machine, and other tasks are known on both machines.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ebb_sizing::run_time::{ObservedRunTime, Pair, Transfer};
use ebb_telemetry::units::MilliCores;
use serde::{Deserialize, Serialize};

use crate::{read, table};

/// A row of the trace.
#[derive(Debug, Clone, Deserialize)]
struct RunTimeRow {
    #[serde(rename = "Label")]
    label: String,
    #[serde(rename = "Task")]
    task: String,
    #[serde(rename = "NumberSequences")]
    sequences: String,
    #[serde(rename = "TaskInputSize")]
    input: String,
    /// Milliseconds.
    #[serde(rename = "Realtime")]
    realtime: f64,
    /// Per cent of one core.
    #[serde(rename = "%cpu")]
    cpu_percent: f64,
}

/// Identifies the same work on any machine.
type Work = (String, String, String, String);
type MachineRunTimes = BTreeMap<Work, ObservedRunTime>;

/// Relative errors of one method.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Errors {
    method: &'static str,
    predictions: usize,
    median: f64,
    p90: f64,
}

/// The errors on one pipeline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct TransferScore {
    pipeline: String,
    machines: usize,
    /// The task was never observed on the target.
    task_held_out: Vec<Errors>,
    /// The task was observed on the target with other inputs.
    input_held_out: Vec<Errors>,
}

/// Scores every pipeline of a folder.
///
/// # Errors
/// Names the file that cannot be read.
pub(crate) fn score_all(folder: &Path) -> Result<Vec<TransferScore>> {
    let mut pipelines: BTreeMap<String, Vec<MachineRunTimes>> = BTreeMap::new();
    for (name, rows) in read::folder::<RunTimeRow>(folder)? {
        let (pipeline, _) = name
            .split_once('-')
            .with_context(|| format!("{name}: expected a file name PIPELINE-MACHINE.csv.gz"))?;
        pipelines
            .entry(pipeline.to_owned())
            .or_default()
            .push(machine(rows));
    }
    pipelines
        .into_iter()
        .map(|(pipeline, machines)| score(pipeline, &machines))
        .collect()
}

/// Repetitions of the same work count once, with their means.
fn machine(rows: Vec<RunTimeRow>) -> MachineRunTimes {
    let mut sums: BTreeMap<Work, (f64, f64, f64)> = BTreeMap::new();
    for row in rows {
        let sum = sums
            .entry((row.task, row.label, row.sequences, row.input))
            .or_default();
        *sum = (sum.0 + 1.0, sum.1 + row.realtime, sum.2 + row.cpu_percent);
    }
    let mean = |(n, ms, percent): (f64, f64, f64)| ObservedRunTime {
        wall: Duration::from_secs_f64((ms / n).max(0.0) / 1e3),
        cores: MilliCores((percent / n * 10.0) as u64),
    };
    sums.into_iter()
        .map(|(work, sum)| (work, mean(sum)))
        .collect()
}

fn score(pipeline: String, machines: &[MachineRunTimes]) -> Result<TransferScore> {
    ensure!(
        machines.len() > 1,
        "{pipeline}: at least two machines are required"
    );
    let (mut held_out, mut input_held_out) = (Tally::default(), Tally::default());
    for (i, from) in machines.iter().enumerate() {
        for (j, to) in machines.iter().enumerate() {
            if i != j {
                score_pair(from, to, &mut held_out, &mut input_held_out);
            }
        }
    }
    Ok(TransferScore {
        pipeline,
        machines: machines.len(),
        task_held_out: held_out.errors(),
        input_held_out: input_held_out.errors(),
    })
}

fn score_pair(
    from: &MachineRunTimes,
    to: &MachineRunTimes,
    held_out: &mut Tally,
    input_held_out: &mut Tally,
) {
    let both: Vec<(&Work, Pair)> = from
        .iter()
        .filter_map(|(work, here)| {
            let there = to.get(work)?.wall;
            (!here.wall.is_zero() && !there.is_zero())
                .then_some((work, Pair { here: *here, there }))
        })
        .collect();
    let tasks: BTreeSet<&str> = both.iter().map(|(work, _)| work.0.as_str()).collect();
    for task in tasks {
        let (its, others): (Vec<_>, Vec<_>) =
            both.iter().copied().partition(|(work, _)| work.0 == task);
        let others: Vec<Pair> = others.into_iter().map(|(_, pair)| pair).collect();
        let its: Vec<Pair> = its.into_iter().map(|(_, pair)| pair).collect();
        let known = Known::from(&others);
        for (i, pair) in its.iter().enumerate() {
            held_out.count(&known, pair);
            let mut same_task = its.clone();
            same_task.remove(i);
            input_held_out.count(&Known::from(&same_task), pair);
        }
    }
}

/// The known ratios from the allowed pairs.
struct Known {
    mean_ratio: Option<f64>,
    transfer: Option<Transfer>,
}

impl Known {
    fn from(pairs: &[Pair]) -> Self {
        let ratio = |pair: &Pair| pair.there.as_secs_f64() / pair.here.wall.as_secs_f64();
        let sum: f64 = pairs.iter().map(ratio).sum();
        Self {
            mean_ratio: (!pairs.is_empty()).then(|| sum / pairs.len() as f64),
            transfer: Transfer::fit(pairs),
        }
    }
}

#[derive(Default)]
struct Tally {
    same: Vec<f64>,
    scaled: Vec<f64>,
    ours: Vec<f64>,
}

impl Tally {
    /// A prediction counts for all methods or for none.
    fn count(&mut self, known: &Known, pair: &Pair) {
        let (Some(ratio), Some(transfer)) = (known.mean_ratio, known.transfer) else {
            return;
        };
        let (here, there) = (pair.here.wall.as_secs_f64(), pair.there.as_secs_f64());
        let error = |predicted: f64| (predicted - there).abs() / there;
        self.same.push(error(here));
        self.scaled.push(error(here * ratio));
        self.ours
            .push(error(transfer.predict(&pair.here).as_secs_f64()));
    }

    fn errors(self) -> Vec<Errors> {
        let all = [
            ("the same time", self.same),
            ("scaled by the mean ratio", self.scaled),
            ("ebb", self.ours),
        ];
        let errors = all.into_iter().map(|(method, mut errors)| {
            errors.sort_by(f64::total_cmp);
            let at = |share: f64| {
                let i = (errors.len() as f64 * share) as usize;
                errors.get(i.min(errors.len().saturating_sub(1))).copied()
            };
            Errors {
                method,
                predictions: errors.len(),
                median: at(0.5).unwrap_or(f64::NAN),
                p90: at(0.9).unwrap_or(f64::NAN),
            }
        });
        errors.collect()
    }
}

/// Two tables for each pipeline.
pub(crate) fn tables(scores: &[TransferScore]) -> String {
    let mut text = String::from(
        "Wall time on another machine: relative error, over all ordered pairs of machines.\n",
    );
    for score in scores {
        let parts = [
            (
                "the task was never observed on the target",
                &score.task_held_out,
            ),
            (
                "the task was observed there with other inputs",
                &score.input_held_out,
            ),
        ];
        for (title, errors) in parts {
            text.push_str(&format!(
                "\n{}, {} machines: {title}\n",
                score.pipeline, score.machines
            ));
            let rows: Vec<Vec<String>> = errors.iter().map(Errors::row).collect();
            text.push_str(&table::lines(&["", "median", "p90", "predictions"], &rows));
            text.push_str(&against_better(errors));
        }
    }
    text
}

impl Errors {
    fn row(&self) -> Vec<String> {
        vec![
            self.method.to_owned(),
            format!("{:.1} %", 100.0 * self.median),
            format!("{:.1} %", 100.0 * self.p90),
            self.predictions.to_string(),
        ]
    }
}

fn against_better(errors: &[Errors]) -> String {
    let Some((ours, baselines)) = errors.split_last() else {
        return String::new();
    };
    let better = baselines
        .iter()
        .map(|e| e.median)
        .fold(f64::INFINITY, f64::min);
    let below = 100.0 * (1.0 - ours.median / better);
    format!("median {below:.0} % below the better baseline\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(here: f64, there: f64) -> Pair {
        Pair {
            here: ObservedRunTime {
                wall: Duration::from_secs_f64(here),
                cores: MilliCores::cores(1),
            },
            there: Duration::from_secs_f64(there),
        }
    }

    #[test]
    fn a_machine_that_is_twice_as_fast_is_predicted_without_error() {
        let pairs: Vec<Pair> = (1..20)
            .map(|i| pair(f64::from(i), f64::from(i) / 2.0))
            .collect();
        let mut tally = Tally::default();
        tally.count(&Known::from(&pairs), &pair(100.0, 50.0));
        let [same, scaled, ours] = &tally.errors()[..] else {
            panic!("three methods are compared");
        };
        assert!((same.median - 1.0).abs() < 1e-9);
        assert!(scaled.median < 1e-9);
        assert!(ours.median < 1e-6);
    }

    #[test]
    fn what_cannot_be_fitted_counts_for_no_method() {
        let mut tally = Tally::default();
        tally.count(&Known::from(&[pair(1.0, 2.0)]), &pair(1.0, 2.0));
        assert_eq!(tally.errors()[0].predictions, 0);
    }
}
