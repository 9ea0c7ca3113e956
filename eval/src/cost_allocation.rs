//! Compares the shipped division of a machine among its tasks with AWS split cost allocation data.
//!
//! Protocol: a folder contains for each run a trace `NAME.trace.txt[.gz]`, the machines of its tasks
//! `NAME.machines.csv[.gz]` and their cost by AWS `NAME.split-cost.csv[.gz]`. The trace does not
//! contain which tasks shared a machine, so they are placed on machines first. The cost of AWS is
//! used for the comparison only.

mod machines;
mod run_files;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use ebb_analysis::cost_allocation::machine_split::{Claim, TaskShare, occupied, split_machine};
use ebb_model::policy::costs::AllocationMethod;
use serde::Serialize;

use crate::cost_allocation::machines::PlacedMachine;
use crate::cost_allocation::run_files::{BilledTask, RunFiles};
use crate::table;

/// One run, or all runs together.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct CostComparison {
    run: String,
    machines: usize,
    /// Tasks without a cost in the data of AWS, a time or a machine in the trace.
    left_out: usize,
    /// Tasks on machines of unknown size or price.
    without_price: usize,
    all: Agreement,
    /// Without the tasks that AWS did not charge at all or in part. A Spot machine is free if AWS
    /// takes it back in its first hour, which a trace does not contain.
    charged: Agreement,
}

/// How well our costs agree with those of AWS.
#[derive(Debug, Clone, Serialize)]
struct Agreement {
    tasks: usize,
    processes: usize,
    /// Spearman's rank correlation of the unused cost; `None` with fewer than two values.
    unused_by_task: Option<f64>,
    unused_by_process: Option<f64>,
    used_by_task: Option<f64>,
    used_by_process: Option<f64>,
    unused_usd: Sums,
    used_usd: Sums,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Sums {
    ours: f64,
    aws: f64,
}

/// A task with both costs.
struct Pair<'a> {
    task: &'a BilledTask,
    ours: TaskShare,
}

/// Compares each run, and all runs together.
///
/// # Errors
/// Names the file that cannot be read.
pub(crate) fn compare_all(folder: &Path) -> Result<Vec<CostComparison>> {
    let runs = run_files::read_all(folder)?;
    let mut compared = Vec::new();
    let mut every = Vec::new();
    for run in &runs {
        let machines = machines::place(&run.tasks);
        let pairs = pairs(&run.tasks, &machines);
        compared.push(compare(run, machines.len(), &pairs));
        every.extend(pairs);
    }
    if let [_, _, ..] = &compared[..] {
        let sum = |count: fn(&CostComparison) -> usize| compared.iter().map(count).sum();
        compared.push(CostComparison {
            run: "all runs".to_owned(),
            machines: sum(|one| one.machines),
            left_out: sum(|one| one.left_out),
            without_price: sum(|one| one.without_price),
            all: agreement(&every, |_| true),
            charged: agreement(&every, |task| !task.aws.is_partly_free),
        });
    }
    Ok(compared)
}

fn compare(run: &RunFiles, machines: usize, pairs: &[Pair<'_>]) -> CostComparison {
    CostComparison {
        run: run.name.clone(),
        machines,
        left_out: run.left_out,
        without_price: run.tasks.len() - pairs.len(),
        all: agreement(pairs, |_| true),
        charged: agreement(pairs, |task| !task.aws.is_partly_free),
    }
}

/// The costs of the tasks on machines with a known price.
fn pairs<'a>(tasks: &'a [BilledTask], machines: &[PlacedMachine]) -> Vec<Pair<'a>> {
    let prices = machines::prices(tasks);
    let mut pairs = Vec::new();
    for machine in machines {
        let Some(Some(price)) = prices.get(&machine.key) else {
            continue;
        };
        let claims = machine.tasks.iter().map(|at| {
            let task = &tasks[*at];
            let method = AllocationMethod::default();
            Claim {
                window: task.window,
                occupied: occupied(method, task.reserved, task.used, 0, machine.size),
            }
        });
        let claims: Vec<Claim> = claims.collect();
        let cost = price.over(machine.lived.length());
        let split = split_machine(cost, machine.size, &[machine.lived], &claims);
        let of_tasks = machine.tasks.iter().zip(split.tasks);
        pairs.extend(of_tasks.map(|(at, ours)| Pair {
            task: &tasks[*at],
            ours,
        }));
    }
    pairs
}

fn agreement(pairs: &[Pair<'_>], is_wanted: impl Fn(&BilledTask) -> bool) -> Agreement {
    let wanted: Vec<_> = pairs.iter().filter(|pair| is_wanted(pair.task)).collect();
    let mut processes: BTreeMap<&str, (Sums, Sums)> = BTreeMap::new();
    let mut by_task = Vec::new();
    for pair in &wanted {
        let dollars = |micros: i64| micros as f64 / 1e6;
        let unused = Sums {
            ours: dollars(pair.ours.unused.micros()),
            aws: pair.task.aws.unused,
        };
        let used = Sums {
            ours: dollars(pair.ours.used.micros()),
            aws: pair.task.aws.used,
        };
        by_task.push((unused, used));
        let of_process = processes.entry(&pair.task.process).or_default();
        of_process.0.add(unused);
        of_process.1.add(used);
    }
    let by_process: Vec<(Sums, Sums)> = processes.into_values().collect();
    let mut total = (Sums::default(), Sums::default());
    for (unused, used) in &by_task {
        total.0.add(*unused);
        total.1.add(*used);
    }
    let unused = |all: &[(Sums, Sums)]| spearman(all.iter().map(|(unused, _)| *unused));
    let used = |all: &[(Sums, Sums)]| spearman(all.iter().map(|(_, used)| *used));
    Agreement {
        tasks: by_task.len(),
        processes: by_process.len(),
        unused_by_task: unused(&by_task),
        unused_by_process: unused(&by_process),
        used_by_task: used(&by_task),
        used_by_process: used(&by_process),
        unused_usd: total.0,
        used_usd: total.1,
    }
}

impl Sums {
    fn add(&mut self, other: Self) {
        self.ours += other.ours;
        self.aws += other.aws;
    }

    /// Our sum minus that of AWS, in per cent of that of AWS.
    fn difference(self) -> String {
        match self.aws > 0.0 {
            true => format!("{:+.1} %", 100.0 * (self.ours / self.aws - 1.0)),
            false => "-".to_owned(),
        }
    }
}

/// Spearman's rank correlation. Equal values have the mean of their ranks.
fn spearman(pairs: impl Iterator<Item = Sums>) -> Option<f64> {
    let (ours, aws): (Vec<f64>, Vec<f64>) = pairs.map(|pair| (pair.ours, pair.aws)).unzip();
    let (ours, aws) = (ranks(&ours), ranks(&aws));
    let mean = (ours.len() as f64 + 1.0) / 2.0;
    let sum = |a: &[f64], b: &[f64]| -> f64 {
        let products = a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean));
        products.sum()
    };
    let both = (sum(&ours, &ours) * sum(&aws, &aws)).sqrt();
    (both > 0.0).then(|| sum(&ours, &aws) / both)
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut from = 0;
    for equal in order.chunk_by(|a, b| values[*a] == values[*b]) {
        // The ranks from + 1 to from + length.
        let rank = from as f64 + (equal.len() as f64 + 1.0) / 2.0;
        equal.iter().for_each(|at| ranks[*at] = rank);
        from += equal.len();
    }
    ranks
}

/// The results as text.
pub(crate) fn tables(compared: &[CostComparison]) -> String {
    let mut text = String::from(
        "Cost of each task by Ebb, compared with AWS split cost allocation data. The machines of \
         the\ntasks are reconstructed, because a trace does not contain them.\n",
    );
    for (title, of) in [
        (
            "All tasks",
            (|one| &one.all) as fn(&CostComparison) -> &Agreement,
        ),
        ("Tasks that AWS charged for all their time", |one| {
            &one.charged
        }),
    ] {
        text.push_str(&format!("\n{title}\n"));
        let head = [
            "run",
            "tasks",
            "machines",
            "rank correlation of unused cost: by task",
            "by process",
            "of used cost: by task",
            "by process",
        ];
        let rows: Vec<_> = compared.iter().map(|one| ranks_row(one, of(one))).collect();
        text.push_str(&table::lines(&head, &rows));
        text.push('\n');
        let head = [
            "run",
            "unused USD",
            "by AWS",
            "difference",
            "used USD",
            "by AWS",
            "difference",
        ];
        let rows: Vec<_> = compared.iter().map(|one| sums_row(one, of(one))).collect();
        text.push_str(&table::lines(&head, &rows));
    }
    for one in compared {
        if one.left_out + one.without_price > 0 {
            text.push_str(&format!(
                "\n{}: {} tasks without a cost by AWS, a time or a machine; {} without a price\n",
                one.run, one.left_out, one.without_price
            ));
        }
    }
    text
}

fn ranks_row(one: &CostComparison, agreement: &Agreement) -> Vec<String> {
    let rho = |rho: Option<f64>| rho.map_or_else(|| "-".to_owned(), |rho| format!("{rho:.3}"));
    vec![
        one.run.clone(),
        agreement.tasks.to_string(),
        one.machines.to_string(),
        rho(agreement.unused_by_task),
        rho(agreement.unused_by_process),
        rho(agreement.used_by_task),
        rho(agreement.used_by_process),
    ]
}

fn sums_row(one: &CostComparison, agreement: &Agreement) -> Vec<String> {
    let usd = |usd: f64| format!("{usd:.2}");
    vec![
        one.run.clone(),
        usd(agreement.unused_usd.ours),
        usd(agreement.unused_usd.aws),
        agreement.unused_usd.difference(),
        usd(agreement.used_usd.ours),
        usd(agreement.used_usd.aws),
        agreement.used_usd.difference(),
    ]
}
