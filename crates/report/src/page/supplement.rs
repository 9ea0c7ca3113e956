//! Sections in addition to the findings, one line for each entry. They contain the bill, the runs,
//! the advice of the cloud about the same machines, and the age of prices.

use std::cmp::Reverse;
use std::fmt;

use ebb_model::inventory::second_opinion::SecondOpinion;
use ebb_model::report::Report;
use ebb_model::report::workflow_runs::{Runs, TaskLabels, UNASSIGNED, WorkflowRun};
use ebb_telemetry::safe_text::{clip, counted, one_line};
use serde::Serialize;

use crate::page::bill::Bars;
use crate::page::wording::LINE_CHARS;
use crate::page::{bill, fargate_jobs, price_ages};
use crate::zone::Zone;

/// Number of shown opinions; the JSON report contains all.
const MAX_OPINIONS: usize = 20;

/// Number of shown runs, and of shown tasks with labels.
const MAX_RUNS: usize = 5;

/// A small section.
#[derive(Debug, Serialize)]
pub struct Supplement {
    /// Title.
    pub title: &'static str,
    /// Lines.
    pub lines: Vec<String>,
    /// Bars above the lines on a page; other forms show only the lines.
    pub drawn: Option<Bars>,
}

impl Supplement {
    fn of_lines(title: &'static str, lines: Vec<String>) -> Self {
        Self {
            title,
            lines,
            drawn: None,
        }
    }
}

/// Sections that are not empty.
pub fn supplements(report: &Report, zone: &Zone) -> Vec<Supplement> {
    let mut opinions: Vec<_> = report
        .second_opinions
        .iter()
        .take(MAX_OPINIONS)
        .map(opinion)
        .collect();
    let more = report.second_opinions.len().saturating_sub(MAX_OPINIONS);
    if more > 0 {
        opinions.push(format!(
            "and {}",
            counted(more, "more entry", "more entries")
        ));
    }
    let sections = [
        Supplement {
            title: "Cost allocation",
            lines: bill::lines(&report.ledger),
            drawn: bill::bars(&report.ledger),
        },
        Supplement::of_lines("Runs", runs(&report.runs, zone)),
        Supplement::of_lines("Labels from schedulers", scheduler_labels(&report.runs)),
        Supplement::of_lines("Advice of other services", opinions),
        Supplement::of_lines("Jobs on Fargate", fargate_jobs::lines(report)),
        Supplement::of_lines("Age of prices", price_ages::lines(report, zone)),
    ];
    sections
        .into_iter()
        .filter(|section| !section.lines.is_empty())
        .collect()
}

/// Share of tasks that are assigned to a run, and the newest runs.
fn runs(runs: &Runs, zone: &Zone) -> Vec<String> {
    if runs.steps == 0 {
        return Vec::new();
    }
    let by = by_source(runs.joined.iter());
    let assigned: usize = runs.joined.values().sum();
    let tasks = counted(runs.steps, "task", "tasks");
    let joined = format!("{assigned} of {tasks} assigned to a run{by}");
    let known = || runs.runs.iter().filter(|run| run.by.is_some());
    let more = (known().count() + runs.left_out).saturating_sub(MAX_RUNS);
    let more = (more > 0).then(|| format!("and {}", counted(more, "more run", "more runs")));
    let shown = known().take(MAX_RUNS).map(|one| run(one, zone));
    let unassigned = runs.runs.iter().find(|run| run.by.is_none());
    let unassigned = unassigned.map(|one| run(one, zone));
    let lines = [joined].into_iter().chain(named(runs));
    let lines = lines.chain(named_by_runtime(runs));
    lines.chain(shown).chain(more).chain(unassigned).collect()
}

/// Share of tasks whose step has a name from a person or program. `None` for a report of an earlier
/// release.
fn named(runs: &Runs) -> Option<String> {
    let total: usize = runs.named.values().sum();
    let counts = || runs.named.iter().filter(|(source, _)| source.is_given());
    let given: usize = counts().map(|(_, tasks)| *tasks).sum();
    let others = match given < total {
        true => "; executables or ids name the others",
        false => "",
    };
    let (tasks, by) = (counted(total, "task", "tasks"), by_source(counts()));
    (total > 0).then(|| format!("{given} of {tasks} have a step name{by}{others}"))
}

/// Share of tasks with such a name for each runtime, the one with most tasks first. `None` for a
/// report of an earlier release, and if all tasks have one runtime, which the line before shows.
fn named_by_runtime(runs: &Runs) -> Option<String> {
    let mut runtimes: Vec<_> = runs.named_by_runtime.iter().collect();
    runtimes.sort_by_key(|(_, tasks)| Reverse(tasks.tasks));
    let shares: Vec<String> = runtimes
        .iter()
        .map(|(runtime, tasks)| format!("{runtime} {} of {}", tasks.named, tasks.tasks))
        .collect();
    (shares.len() > 1).then(|| format!("tasks with a step name, by runtime: {}", shares.join(", ")))
}

/// Number of tasks by source, in brackets; the source of most tasks comes first.
fn by_source<'c, T: fmt::Display + 'c>(counts: impl Iterator<Item = (&'c T, &'c usize)>) -> String {
    let mut counts: Vec<_> = counts.collect();
    counts.sort_by_key(|(_, tasks)| Reverse(**tasks));
    let by: Vec<String> = counts
        .iter()
        .map(|(by, tasks)| format!("{tasks} by {by}"))
        .collect();
    match by.is_empty() {
        true => String::new(),
        false => format!(" ({})", by.join(", ")),
    }
}

fn run(run: &WorkflowRun, zone: &Zone) -> String {
    let name = clip(&run.run, LINE_CHARS);
    let mut line = match &run.pipeline {
        Some(pipeline) => format!(
            "{} (pipeline {})",
            one_line(&name),
            one_line(&clip(pipeline, LINE_CHARS))
        ),
        None => one_line(&name),
    };
    line.push_str(&format!(": {}", counted(run.steps, "task", "tasks")));
    let parts = [(run.running, "running"), (run.failed, "failed")];
    for (steps, how) in parts.into_iter().filter(|(steps, _)| *steps > 0) {
        line.push_str(&format!(", {steps} {how}"));
    }
    let samples = run.samples.len() + run.samples_left_out;
    if samples > 0 {
        line.push_str(&format!(", {}", counted(samples, "sample", "samples")));
    }
    let span = zone.short_span(run.from, run.to);
    line.push_str(&format!(", {} of CPU time, {span}", run.cpu));
    line
}

/// Labels that schedulers passed to the newest tasks.
fn scheduler_labels(runs: &Runs) -> Vec<String> {
    let shown = runs.task_labels.iter().take(MAX_RUNS).map(labels);
    let more = (runs.task_labels.len() + runs.task_labels_left_out).saturating_sub(MAX_RUNS);
    let more = (more > 0).then(|| format!("and {}", counted(more, "more task", "more tasks")));
    shown.chain(more).collect()
}

fn labels(step: &TaskLabels) -> String {
    let mut line = format!("{} on {}", step.step, step.node);
    if step.run != UNASSIGNED {
        line.push_str(&format!(", run {}", step.run));
    }
    if let Some(trace_id) = &step.scheduler_labels.trace_id {
        line.push_str(&format!(", trace {trace_id}"));
    }
    for (key, value) in &step.scheduler_labels.labels {
        line.push_str(&format!(", {key}={value}"));
    }
    one_line(&clip(&line, LINE_CHARS))
}

fn opinion(advice: &SecondOpinion) -> String {
    let mut line = format!(
        "{}: {} {}",
        advice.adviser,
        one_line(&advice.resource),
        one_line(&advice.finding)
    );
    if let Some(instead) = &advice.instead {
        line.push_str(&format!(", recommends {}", one_line(instead)));
    }
    if let Some(saving) = advice.saving_a_month {
        line.push_str(&format!(", saves {saving} a month"));
    }
    line.push_str(match advice.ours {
        Some(_) => "; Ebb also has a finding about it",
        None => "; Ebb has no finding about it",
    });
    line
}

#[cfg(test)]
mod tests {
    use ebb_model::inventory::second_opinion::Adviser;
    use ebb_model::report::workflow_runs::{JoinedBy, NamedTasks, StepNameSource, TaskRuntime};
    use ebb_telemetry::identity::NodeId;
    use ebb_telemetry::money::Usd;
    use ebb_telemetry::step::resource_usage::SchedulerLabels;
    use ebb_telemetry::units::CpuTime;

    use super::*;
    use crate::testing;

    #[test]
    fn second_opinions_are_a_line_each() {
        assert!(supplements(&testing::small(), &Zone::utc()).is_empty());
        let mut report = testing::small();
        let advice = SecondOpinion {
            adviser: Adviser::ComputeOptimizer,
            resource: "i-1".to_owned(),
            finding: "Overprovisioned".to_owned(),
            instead: Some("t3.large".to_owned()),
            saving_a_month: Some(Usd::from_micros(9_250_000)),
            ours: None,
        };
        report.second_opinions = vec![advice; 22];
        let shown = supplements(&report, &Zone::utc());
        insta::assert_snapshot!(shown[0].lines[0], @"Compute Optimizer: i-1 Overprovisioned, recommends t3.large, saves $9.25 a month; Ebb has no finding about it");
        assert_eq!(shown[0].lines[20], "and 2 more entries");
    }

    #[test]
    fn runs_are_told_with_the_share_that_is_joined_and_nothing_of_them_leaves_its_line() {
        let mut report = testing::small();
        let make_run = |run: &str, by| WorkflowRun {
            run: run.to_owned(),
            by,
            pipeline: by.map(|_| "rna".to_owned()),
            steps: 3,
            running: 1,
            failed: 2,
            cpu: CpuTime::from_millis(1_250),
            from: report.at,
            to: report.at,
            samples: vec!["S1".to_owned()],
            samples_left_out: 1,
            origin: report.origin,
            cost_breakdown: None,
        };
        let mut runs = vec![make_run("r7\nx\u{1b}", Some(JoinedBy::Tag)); 12];
        runs.push(make_run(UNASSIGNED, None));
        let label = ("<b>\u{1b}".to_owned(), "v\n".to_owned());
        let step = TaskLabels {
            node: NodeId::new("i-1").expect("a node id"),
            step: "align".to_owned(),
            key: "t1".to_owned(),
            at: report.at,
            run: "r7".to_owned(),
            sample: None,
            scheduler_labels: SchedulerLabels {
                trace_id: Some("4bf9".to_owned()),
                labels: [label].into(),
            },
        };
        report.runs = Runs {
            steps: 39,
            joined: [(JoinedBy::Tag, 36)].into(),
            named: [
                (StepNameSource::Tag, 2),
                (StepNameSource::Record, 30),
                (StepNameSource::Executables, 7),
            ]
            .into(),
            named_by_runtime: [(TaskRuntime::Batch, (2, 2)), (TaskRuntime::Slurm, (30, 37))]
                .map(|(runtime, (named, tasks))| (runtime, NamedTasks { tasks, named }))
                .into(),
            runs,
            left_out: 5,
            task_labels: vec![step; 11],
            task_labels_left_out: 0,
        };
        let shown = supplements(&report, &Zone::utc());
        let lines = &shown[0].lines;
        insta::assert_snapshot!(lines[0], @"36 of 39 tasks assigned to a run (36 by tag)");
        insta::assert_snapshot!(lines[1], @"32 of 39 tasks have a step name (30 by record, 2 by tag); executables or ids name the others");
        insta::assert_snapshot!(lines[2], @"tasks with a step name, by runtime: Slurm 30 of 37, Batch 2 of 2");
        insta::assert_snapshot!(lines[3], @"r7 x� (pipeline rna): 3 tasks, 1 running, 2 failed, 2 samples, 1.25 s of CPU time, 4 Mar 12:00 to 4 Mar 12:00 UTC");
        insta::assert_snapshot!(lines[8], @"and 12 more runs");
        insta::assert_snapshot!(lines[9], @"unassigned: 3 tasks, 1 running, 2 failed, 2 samples, 1.25 s of CPU time, 4 Mar 12:00 to 4 Mar 12:00 UTC");
        insta::assert_snapshot!(shown[1].lines[0], @"align on i-1, run r7, trace 4bf9, <b>�=v");
        assert_eq!(shown[1].lines[5], "and 6 more tasks");
    }
}
