//! Pipeline runs, and the tasks of one run, as tables for a terminal and as CSV.

use std::fmt::Display;
use std::time::Duration;

use ebb_model::policy::costs::RestOfMachine;
use ebb_model::report::run_cost::{RunCost, UsualCost};
use ebb_model::report::run_costs::RunCosts;
use ebb_model::report::task_detail::{TaskDetail, TaskList};
use ebb_model::report::workflow_runs::{Runs, UNASSIGNED, WorkflowRun};
use ebb_telemetry::money::Usd;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::safe_text::{counted, one_line};
use ebb_telemetry::step::StepEnd;
use ebb_telemetry::units::{Bytes, HumanDuration};
use jiff::Timestamp;

use crate::csv::{maybe, text};
use crate::fitted_table::{self, Column, UNKNOWN};
use crate::zone::Zone;

const SIMULATED: &str = "SIMULATED: at least a part of this input was generated, not measured.\n\n";

const RUN_COLUMNS: [Column; 10] = [
    Column::name("RUN", 12),
    Column::name("PIPELINE", 10).optional(1),
    Column::new("TASKS").right(),
    Column::new("RUNNING").right(),
    Column::new("FAILED").right(),
    Column::new("CPU TIME").right(),
    Column::new("COST").right().optional(3),
    Column::new("UNUSED").right().optional(4),
    Column::new("FROM").optional(2),
    Column::new("TO"),
];

const TASK_COLUMNS: [Column; 9] = [
    Column::name("STEP", 12),
    Column::name("TASK", 16).optional(2),
    Column::name("SAMPLE", 10).optional(3),
    Column::name("NODE", 12).optional(1),
    Column::new("START"),
    Column::new("DURATION").right(),
    Column::new("STATE"),
    Column::new("CORES").right(),
    Column::new("MEMORY").right(),
];

/// Runs of a report as a table, in the order of the report: the newest first. `terminal` is the
/// number of columns of the terminal.
pub fn runs(
    (runs, costs): (&Runs, &RunCosts<'_>),
    (at, zone): (Timestamp, &Zone),
    terminal: Option<usize>,
) -> String {
    if runs.runs.is_empty() {
        return "No run was observed.\n".to_owned();
    }
    let is_simulated = runs.runs.iter().any(|run| run.origin == Origin::Simulated);
    let rows: Vec<_> = runs
        .runs
        .iter()
        .map(|run| run_row(run, costs, zone))
        .collect();
    let mut out = simulated(is_simulated);
    let table = fitted_table::table(&RUN_COLUMNS, &rows, terminal);
    out.push_str(&table.lines);
    if runs.left_out > 0 {
        let more = counted(runs.left_out, "more run", "more runs");
        out.push_str(&format!("… and {more}\n"));
    }
    let unusual: Vec<String> = runs.runs.iter().filter_map(unusual_cost).collect();
    for line in unusual.iter().take(MAX_UNUSUAL) {
        out.push_str(&fitted_table::notes(&[line], terminal));
    }
    let is_priced = runs
        .runs
        .iter()
        .any(|run| costs.cost_of(run).is_some_and(|one| one.cost.is_some()));
    let legend = match costs.rest() {
        _ if !is_priced => "",
        RestOfMachine::Apart => {
            "COST is that of `ebb costs --by run`. UNUSED is the cost of capacity that no task used or \
             reserved on its machines while it had tasks there; COST does not contain it."
        }
        RestOfMachine::Spread => {
            "COST is that of `ebb costs --by run`. It contains UNUSED: the cost of capacity that no task \
             used or reserved on its machines while it had tasks there."
        }
    };
    let is_partial =
        |run: &WorkflowRun| costs.cost_of(run).is_some_and(|cost| cost.is_partial(run));
    let partial = match runs.runs.iter().any(is_partial) {
        true => "≥: tasks before the days of the costs, or without a price, are missing.",
        false => "",
    };
    let time = format!("As of {}.", zone.minute(at));
    out.push_str(&fitted_table::notes(
        &[legend, partial, &time, &table.left_out],
        terminal,
    ));
    out
}

/// The most lines about unusual costs, of the newest runs.
const MAX_UNUSUAL: usize = 10;

/// A difference to the usual cost below both is not shown.
const UNUSUAL_PERCENT: u64 = 10;
const UNUSUAL_COST: Usd = Usd::from_micros(10_000);

/// Why a run costs more or less than usual; `None` if its cost is usual, or that is not known.
fn unusual_cost(run: &WorkflowRun) -> Option<String> {
    let cost = run.cost_breakdown.as_ref()?;
    let usual = cost.usual.as_ref()?;
    let percent = cost.percent_of_usual()?;
    let difference = (cost.total - usual.total).micros().abs();
    if percent.unsigned_abs() < UNUSUAL_PERCENT || difference < UNUSUAL_COST.micros() {
        return None;
    }
    let more = if percent < 0 { "less" } else { "more" };
    let causes = usual.causes.iter().take(2);
    let causes: Vec<String> = causes
        .map(|cause| format!("{cause} ({}{})", plus(cause.amount), cause.amount))
        .collect();
    Some(format!(
        "{} cost {}{}, {} % {more} than usual ({}, the median of {} earlier runs): {}.",
        one_line(&run.run),
        cost.total,
        with_unused(cost),
        percent.unsigned_abs(),
        usual.total,
        usual.earlier_runs,
        causes.join(", "),
    ))
}

/// The usual cost contains unused capacity, whereas the column COST may not.
fn with_unused(cost: &RunCost) -> String {
    match cost.unused {
        Usd::ZERO => String::new(),
        unused => format!(" with {unused} of unused capacity"),
    }
}

fn plus(amount: Usd) -> &'static str {
    if amount > Usd::ZERO { "+" } else { "" }
}

fn run_row(run: &WorkflowRun, costs: &RunCosts<'_>, zone: &Zone) -> [String; 10] {
    let cost = costs.cost_of(run);
    let unused = cost.and_then(|cost| cost.unused_words(run));
    let cost = cost.and_then(|cost| cost.cost_words(run));
    [
        one_line(&run.run),
        run.pipeline.as_deref().map_or_else(unknown, one_line),
        run.steps.to_string(),
        run.running.to_string(),
        run.failed.to_string(),
        run.cpu.to_string(),
        cost.unwrap_or_else(unknown),
        unused.unwrap_or_else(unknown),
        zone.short_minute(run.from),
        zone.short_minute(run.to),
    ]
}

/// Runs as CSV. An empty field is unknown.
pub fn runs_csv((runs, costs): (&Runs, &RunCosts<'_>)) -> String {
    let head = "run,pipeline,tasks,running,failed,cpu_seconds,from,to,origin,cost_usd,unused_usd,\
        total_usd,total_per_sample_usd,total_per_gb_read_usd,usual_total_usd,cause";
    csv(head, &runs.runs, |run| {
        vec![
            text(&run.run),
            maybe(run.pipeline.as_deref()),
            run.steps.to_string(),
            run.running.to_string(),
            run.failed.to_string(),
            run.cpu.as_secs_f64().to_string(),
            run.from.to_string(),
            run.to.to_string(),
            crate::csv::slug(&run.origin),
            dollars(costs.cost_of(run).and_then(|cost| cost.cost)),
            dollars(costs.cost_of(run).and_then(|cost| cost.unused)),
            dollars(run.cost_breakdown.as_ref().map(|cost| cost.total)),
            dollars(run.cost_breakdown.as_ref().and_then(|cost| cost.per_sample)),
            dollars(
                run.cost_breakdown
                    .as_ref()
                    .and_then(|cost| cost.per_gb_read),
            ),
            dollars(usual_of(run).map(|usual| usual.total)),
            usual_of(run)
                .filter(|_| unusual_cost(run).is_some())
                .and_then(|usual| usual.causes.first())
                .map_or_else(String::new, ToString::to_string),
        ]
    })
}

fn usual_of(run: &WorkflowRun) -> Option<&UsualCost> {
    run.cost_breakdown.as_ref()?.usual.as_ref()
}

fn dollars(usd: Option<Usd>) -> String {
    usd.map_or_else(String::new, Usd::to_decimal)
}

/// The name of the run of a list; `None` for a list without tasks.
pub fn run_of(list: &TaskList) -> Option<&str> {
    let first = list.tasks.first()?;
    Some(first.run.as_deref().unwrap_or(UNASSIGNED))
}

/// The tasks of a run as a table, by their start. `terminal` is the number of columns of the
/// terminal.
pub fn tasks(list: &TaskList, zone: &Zone, terminal: Option<usize>) -> String {
    let Some(run) = run_of(list) else {
        return "No task was observed.\n".to_owned();
    };
    let rows: Vec<_> = list.tasks.iter().map(|task| task_row(task, zone)).collect();
    let mut out = simulated(list.origin == Origin::Simulated);
    let tasks = counted(list.tasks.len(), "task", "tasks");
    out.push_str(&format!("Run {}: {tasks}\n\n", one_line(run)));
    if list.left_out > 0 {
        let more = counted(list.left_out, "older task", "older tasks");
        out.push_str(&format!("A limit left out {more}.\n\n"));
    }
    let table = fitted_table::table(&TASK_COLUMNS, &rows, terminal);
    out.push_str(&table.lines);
    let legend = "CORES and MEMORY: peak/request; ? is unknown.";
    let time = format!("As of {}.", zone.minute(list.at));
    out.push_str(&fitted_table::notes(
        &[legend, &time, &table.left_out],
        terminal,
    ));
    out
}

fn task_row(task: &TaskDetail, zone: &Zone) -> [String; 9] {
    let bytes = |bytes: Option<u64>| bytes.map(Bytes);
    let cores = |cores: Option<f64>| cores.map(|cores| format!("{cores:.1}"));
    [
        one_line(&task.step),
        one_line(&task.name),
        task.sample.as_deref().map_or_else(unknown, one_line),
        one_line(task.node.as_str()),
        zone.short_minute(task.started_at),
        duration(task).map_or_else(unknown, |time| HumanDuration(time).to_string()),
        state(task.end),
        used_of_requested(cores(task.peak_cores), cores(task.requested_cores)),
        used_of_requested(
            bytes(task.peak_memory_bytes),
            bytes(task.requested_memory_bytes),
        ),
    ]
}

/// The end of a task in one or two words.
fn state(end: StepEnd) -> String {
    match end {
        StepEnd::Running => "running".to_owned(),
        StepEnd::Exited(0) => "done".to_owned(),
        StepEnd::Exited(status) => format!("status {status}"),
        StepEnd::Signalled(signal) => format!("signal {signal}"),
        StepEnd::OutOfMemory => "OOM-killed".to_owned(),
        StepEnd::Unknown => "ended".to_owned(),
    }
}

/// The tasks of a run as CSV. An empty field is unknown.
pub fn tasks_csv(list: &TaskList) -> String {
    let head = "task,step,name,sample,node,job,attempt,started_at,duration_seconds,state,failed,\
        peak_cores,requested_cores,cpu_seconds,peak_memory_bytes,requested_memory_bytes";
    csv(head, &list.tasks, |task| {
        vec![
            text(&task.id),
            text(&task.step),
            text(&task.name),
            maybe(task.sample.as_deref()),
            text(task.node.as_str()),
            maybe(task.job.as_deref()),
            number(task.attempt),
            task.started_at.to_string(),
            number(duration(task).map(|time| time.as_secs_f64())),
            text(&task.end.to_string()),
            task.end.is_bad().to_string(),
            number(task.peak_cores),
            number(task.requested_cores),
            task.cpu_seconds.to_string(),
            number(task.peak_memory_bytes),
            number(task.requested_memory_bytes),
        ]
    })
}

/// From the start to the end, or to the last observation; `None` if the times are contradictory.
fn duration(task: &TaskDetail) -> Option<Duration> {
    let seconds = |at: Timestamp| at.as_second();
    let time = seconds(task.observed_at) - seconds(task.started_at);
    u64::try_from(time).ok().map(Duration::from_secs)
}

fn simulated(is_simulated: bool) -> String {
    match is_simulated {
        true => SIMULATED.to_owned(),
        false => String::new(),
    }
}

fn csv<T>(head: &str, rows: &[T], cells: impl Fn(&T) -> Vec<String>) -> String {
    let mut out = format!("{head}\r\n");
    for row in rows {
        out.push_str(&cells(row).join(","));
        out.push_str("\r\n");
    }
    out
}

fn used_of_requested<T: Display>(used: Option<T>, requested: Option<T>) -> String {
    let shown = |value: Option<T>| value.map_or_else(unknown, |value| value.to_string());
    format!("{}/{}", shown(used), shown(requested))
}

fn number<T: Display>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn unknown() -> String {
    UNKNOWN.to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ebb_model::report::workflow_runs::{JoinedBy, TaskRuntime};
    use ebb_telemetry::identity::NodeId;
    use ebb_telemetry::step::StepKind;
    use ebb_telemetry::units::CpuTime;

    use super::*;
    use ebb_model::report::cost_shares::{
        CostDimension, CostName, CostShare, CostShares, DayShare,
    };
    use ebb_model::report::run_cost::{CauseKind, CostCause};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_790_000_000 + seconds).expect("a time")
    }

    fn run(pipeline: Option<&str>) -> WorkflowRun {
        WorkflowRun {
            run: "angry_euler\u{1b}[31m".to_owned(),
            by: Some(JoinedBy::Tag),
            pipeline: pipeline.map(str::to_owned),
            steps: 12,
            running: 1,
            failed: 2,
            cpu: CpuTime(7_200_000_000_000),
            from: at(0),
            to: at(3600),
            samples: Vec::new(),
            samples_left_out: 0,
            origin: Origin::Measured,
            cost_breakdown: None,
        }
    }

    fn task(step: &str, requested_cores: Option<f64>) -> TaskDetail {
        TaskDetail {
            id: "n1/abcdef01/7".to_owned(),
            step: step.to_owned(),
            name: "=cmd()".to_owned(),
            kind: StepKind::SlurmJob,
            runtime: TaskRuntime::Slurm,
            run: Some("angry_euler".to_owned()),
            pipeline: None,
            sample: None,
            node: NodeId::new("n1").expect("a name"),
            job: None,
            attempt: Some(1),
            user_id: None,
            queued_at: None,
            started_at: at(0),
            observed_at: at(90),
            last_progress_at: at(90),
            end: StepEnd::OutOfMemory,
            typical_seconds: None,
            requested_cores,
            requested_memory_bytes: Some(4 << 30),
            peak_cores: Some(1.25),
            peak_memory_bytes: None,
            cpu_seconds: 80.5,
            disk_read_bytes: None,
            disk_written_bytes: None,
            network_received_bytes: None,
            network_sent_bytes: None,
            gpu_busy_seconds: None,
            states: BTreeMap::new(),
            tools: Vec::new(),
            points: Vec::new(),
            findings: Vec::new(),
        }
    }

    fn list(left_out: usize) -> TaskList {
        TaskList {
            schema: TaskList::SCHEMA.to_owned(),
            at: at(100),
            origin: Origin::Simulated,
            tasks: vec![task("ALIGN", Some(4.0)), task("SORT", None)],
            left_out,
        }
    }

    #[test]
    fn runs_are_a_table_with_what_is_unknown_and_left_out() {
        let all = Runs {
            runs: vec![run(Some("rna")), run(None)],
            left_out: 3,
            ..Runs::default()
        };
        let utc = (at(0), &Zone::utc());
        let costs = RunCosts::default();
        insta::assert_snapshot!(runs((&all, &costs), utc, None));
        insta::assert_snapshot!(runs((&all, &costs), utc, Some(80)));
        let none = runs((&Runs::default(), &costs), utc, None);
        assert_eq!(none, "No run was observed.\n");
        insta::assert_snapshot!(runs_csv((&all, &costs)));
    }

    #[test]
    fn an_unusual_cost_has_its_causes() {
        let check = |total: i64, usual: i64, expect: Option<&str>| {
            let amount = |kind, micros| CostCause {
                kind,
                amount: Usd::from_micros(micros),
            };
            let causes = vec![
                amount(CauseKind::Duration, total - usual + 500_000),
                amount(CauseKind::Price, -500_000),
            ];
            let mut run = run(Some("rna"));
            run.cost_breakdown = Some(RunCost {
                total: Usd::from_micros(total),
                used: Usd::from_micros(total),
                failed: Usd::ZERO,
                unused: Usd::ZERO,
                per_sample: None,
                per_gb_read: Some(Usd::from_micros(1_500)),
                usual: Some(UsualCost {
                    run: "calm_gauss".to_owned(),
                    earlier_runs: 4,
                    total: Usd::from_micros(usual),
                    causes,
                }),
            });
            let line = unusual_cost(&run);
            assert_eq!(line.as_deref().map(|line| &line[18..]), expect, "{line:?}");
            let all = Runs {
                runs: vec![run],
                ..Runs::default()
            };
            let costs = RunCosts::default();
            let csv = runs_csv((&all, &costs));
            assert!(csv.contains(",0.0015,"), "{csv}");
            let table = runs((&all, &costs), (at(0), &Zone::utc()), None);
            assert_eq!(table.contains("than usual"), expect.is_some(), "{table}");
        };
        check(
            4_000_000,
            2_000_000,
            Some(
                " cost $4.00, 100 % more than usual ($2.00, the median of 4 earlier runs): longer \
                 tasks (+$2.50), cheaper machines or smaller parts of them (-$0.50).",
            ),
        );
        check(
            1_000_000,
            4_000_000,
            Some(
                " cost $1.00, 75 % less than usual ($4.00, the median of 4 earlier runs): shorter \
                 tasks (-$2.50), cheaper machines or smaller parts of them (-$0.50).",
            ),
        );
        check(2_100_000, 2_000_000, None);
        check(12_000, 8_000, None);
        check(2_000_000, 0, None);
    }

    #[test]
    fn the_cost_of_a_run_is_that_of_the_costs_by_run_and_unused_capacity_is_next_to_it() {
        let usd = Usd::from_micros;
        let day = DayShare {
            tasks: 12,
            tasks_without_price: 0,
            used: usd(13_740_000),
            unused: usd(7_280_000),
        };
        let mut rna_run = run(Some("rna"));
        let mut shares = CostShares {
            by_run: vec![CostShare {
                names: [(CostDimension::Run, CostName::Name(rna_run.run.clone()))].into(),
                by_day: [("2026-11-25".to_owned(), day)].into(),
            }],
            ..CostShares::default()
        };
        rna_run.cost_breakdown = Some(RunCost {
            total: usd(21_020_000),
            used: usd(13_740_000),
            failed: Usd::ZERO,
            unused: usd(7_280_000),
            per_sample: None,
            per_gb_read: None,
            usual: None,
        });
        let other = WorkflowRun {
            run: "cheap".to_owned(),
            ..rna_run.clone()
        };
        let all = Runs {
            runs: vec![rna_run, other],
            ..Runs::default()
        };
        let mut check = |rest, cells: &str, fields: &str| {
            shares.rest = rest;
            let costs = RunCosts::new(&shares);
            let table = runs((&all, &costs), (at(0), &Zone::utc()), None);
            let csv = runs_csv((&all, &costs));
            assert_eq!(table.matches(cells).count(), 2, "{table}");
            assert_eq!(csv.matches(fields).count(), 2, "{csv}");
        };
        check(
            RestOfMachine::Apart,
            "  $13.74   $7.28  ",
            ",13.74,7.28,21.02,",
        );
        check(
            RestOfMachine::Spread,
            "  $21.02   $7.28  ",
            ",21.02,7.28,21.02,",
        );
    }

    #[test]
    fn tasks_are_a_table_with_peaks_and_requests() {
        insta::assert_snapshot!(tasks(&list(1), &Zone::utc(), None));
        insta::assert_snapshot!(tasks(&list(1), &Zone::utc(), Some(80)));
        insta::assert_snapshot!(tasks_csv(&list(0)));
    }
}
