//! Steps of imported records as one table: totals, the steps with the greatest saving, then a line
//! for each step.

use std::cmp::Reverse;
use std::fmt::Write;

use ebb_model::advice::sized_request::SizedRequest;
use ebb_model::advice::step::{StepAdvice, StepTotals};
use ebb_model::step_profile::failure::FailureCount;
use ebb_telemetry::money::grouped;
use ebb_telemetry::safe_text::{counted, one_line};
use ebb_telemetry::units::{MilliCores, Share};
use serde_json::json;

use crate::plain_table;
use crate::step_advice::Reasoned;
use crate::step_table::{advice, chance, end_of, request};

/// Number of steps listed with the greatest saving.
const TOP: usize = 10;

/// Maximum width of a step name.
const NAME_WIDTH: usize = 48;

/// Price of a core in GiB of memory, which defines the order of steps. Source: the prices of
/// Fargate, whose ratio is similar in all regions.
const CORE_IN_GIB: f64 = 9.1;

/// Totals of the records of all steps.
#[derive(Debug)]
pub struct Summary<'a> {
    /// The pipeline runs, or days if no run is known.
    pub runs: &'a [String],
    /// Totals of all steps.
    pub totals: StepTotals,
    /// Failures of attempts.
    pub failures: Vec<FailureCount>,
    /// Number of skipped lines.
    pub skipped: u64,
}

/// The order of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The greatest saving first.
    Saving,
    /// By name.
    Name,
    /// The most requested core hours first.
    Cpu,
    /// The most requested memory hours first.
    Memory,
    /// The most lost time first.
    Failures,
}

/// Sorts steps; equal steps by name.
pub fn sort(steps: &mut [StepAdvice], by: Order) {
    let usage = |step: &StepAdvice| step.usage.unwrap_or_default();
    steps.sort_by(|a, b| {
        let order = match by {
            Order::Saving => Saving::from_step(b)
                .weight()
                .total_cmp(&Saving::from_step(a).weight()),
            Order::Name => std::cmp::Ordering::Equal,
            Order::Cpu => {
                Reverse(usage(a).asked_core_seconds).cmp(&Reverse(usage(b).asked_core_seconds))
            }
            Order::Memory => {
                Reverse(usage(a).asked_gib_seconds).cmp(&Reverse(usage(b).asked_gib_seconds))
            }
            Order::Failures => Reverse(usage(a).lost_seconds).cmp(&Reverse(usage(b).lost_seconds)),
        };
        order.then_with(|| a.step.cmp(&b.step))
    });
}

/// Reduction of reserved cores and memory by the recommended requests, in hours.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Saving {
    core_hours: f64,
    gib_hours: f64,
}

impl Saving {
    fn from_step(step: &StepAdvice) -> Self {
        let Some(usage) = step.usage else {
            return Self::default();
        };
        let cores = |request: &SizedRequest| Some(request.cores?.as_cores());
        let gib = |request: &SizedRequest| Some(request.memory?.0 as f64 / (1_u64 << 30) as f64);
        Self {
            core_hours: hours(usage.core_wall_seconds) * saved_a_task(step, cores),
            gib_hours: hours(usage.memory_wall_seconds) * saved_a_task(step, gib),
        }
    }

    /// Reduction by smaller requests; 0 for larger ones.
    fn gain(self) -> Self {
        Self {
            core_hours: self.core_hours.max(0.0),
            gib_hours: self.gib_hours.max(0.0),
        }
    }

    /// Increase by larger requests; 0 for smaller ones.
    fn loss(self) -> Self {
        Self {
            core_hours: (-self.core_hours).max(0.0),
            gib_hours: (-self.gib_hours).max(0.0),
        }
    }

    fn weight(self) -> f64 {
        self.core_hours * CORE_IN_GIB + self.gib_hours
    }

    fn plus(self, other: Self) -> Self {
        Self {
            core_hours: self.core_hours + other.core_hours,
            gib_hours: self.gib_hours + other.gib_hours,
        }
    }
}

/// The amount of the present request that the advice saves; negative if it adds. First attempts may
/// have different requests, of which the mean counts.
fn saved_a_task(step: &StepAdvice, of: impl Fn(&SizedRequest) -> Option<f64>) -> f64 {
    let (Some(now), Some(then)) = (of(&step.asks), of(&step.should_ask)) else {
        return 0.0;
    };
    let counts = step.present.counts.iter();
    let (mut sum, mut tasks) = (0.0, 0.0);
    for count in counts {
        if let Some(request) = of(&count.request) {
            sum += request * f64::from(count.tasks);
            tasks += f64::from(count.tasks);
        }
    }
    let mean = if tasks > 0.0 { sum / tasks } else { now };
    match now == then {
        true => 0.0,
        false => mean - then,
    }
}

fn hours(seconds: u64) -> f64 {
    seconds as f64 / 3600.0
}

/// Totals, the steps with the greatest saving, and a line for each step.
pub fn table(summary: &Summary<'_>, steps: &[StepAdvice]) -> String {
    let mut out = String::new();
    head(&mut out, summary, steps.len());
    sums(&mut out, summary, steps);
    failures(&mut out, summary);
    top(&mut out, steps);
    out.push_str(&lines(steps));
    out.push_str("\n\nReasons for one step: add --step NAME\n");
    out
}

fn head(out: &mut String, summary: &Summary<'_>, steps: usize) {
    let totals = &summary.totals;
    let _ = writeln!(
        out,
        "{} of {} in {}; {}",
        counted(totals.tasks as usize, "task", "tasks"),
        counted(steps, "step", "steps"),
        counted(summary.runs.len(), "run", "runs"),
        match totals.failed {
            0 => "no attempt failed".to_owned(),
            failed => format!(
                "{} of {} failed",
                grouped(failed),
                counted(totals.attempts as usize, "attempt", "attempts")
            ),
        }
    );
    if summary.skipped > 0 {
        let skipped = counted(summary.skipped as usize, "line was", "lines were");
        let _ = writeln!(out, "{skipped} skipped");
    }
}

fn sums(out: &mut String, summary: &Summary<'_>, steps: &[StepAdvice]) {
    let totals = &summary.totals;
    let all = || steps.iter().map(Saving::from_step);
    let saved = all()
        .map(Saving::gain)
        .fold(Saving::default(), Saving::plus);
    let more = all()
        .map(Saving::loss)
        .fold(Saving::default(), Saving::plus);
    let rows = [
        (
            "CPU",
            "core-h",
            totals.asked_core_seconds,
            totals.used_core_seconds,
            [saved.core_hours, more.core_hours],
        ),
        (
            "memory",
            "GiB-h",
            totals.asked_gib_seconds,
            totals.used_gib_seconds,
            [saved.gib_hours, more.gib_hours],
        ),
    ];
    let rows = rows.map(|(what, unit, requested, used, [saved, added])| {
        if requested == 0 {
            return [what, "unknown", "", "", "", ""].map(str::to_owned);
        }
        let share = used_share(used, requested);
        [
            what.to_owned(),
            format!("{} {unit}", amount(hours(requested))),
            format!("{} {unit}", amount(hours(used))),
            share,
            format!("{} {unit}", amount(saved)),
            format!("{} {unit}", amount(added)),
        ]
    });
    let header = ["", "REQUESTED", "USED", "SHARE", "SAVED", "ADDED"];
    let lines = plain_table::lines(&header, rows, &[]);
    let _ = writeln!(out, "\n{}", lines.join("\n"));
    let without = [
        ("cores", totals.core_attempts),
        ("memory", totals.memory_attempts),
    ];
    for (what, counted_attempts) in without {
        let rest = totals.attempts.saturating_sub(counted_attempts);
        if rest > 0 && counted_attempts > 0 {
            let rest = counted(rest as usize, "attempt", "attempts");
            let _ = writeln!(out, "{what} without {rest} whose request or use is unknown");
        }
    }
    out.push('\n');
}

/// The share of the requested amount that was used; more than 100 % if the use exceeds the request.
fn used_share(used: u64, requested: u64) -> String {
    match Share::from_parts(used, requested) {
        None => String::new(),
        Some(_) if used > requested => {
            format!("{} %", grouped(used.saturating_mul(100) / requested))
        }
        Some(share) => share.to_string(),
    }
}

fn failures(out: &mut String, summary: &Summary<'_>) {
    if summary.failures.is_empty() {
        return;
    }
    let kinds: Vec<String> = summary.failures.iter().map(ToString::to_string).collect();
    let _ = writeln!(
        out,
        "Failed attempts: {}; {} h lost\n",
        kinds.join(", "),
        amount(hours(summary.totals.lost_seconds))
    );
}

fn top(out: &mut String, steps: &[StepAdvice]) {
    let mut saving: Vec<(Saving, &StepAdvice)> = steps
        .iter()
        .map(|step| (Saving::from_step(step), step))
        .filter(|(saving, _)| saving.weight() > 0.0)
        .collect();
    saving.sort_by(|a, b| {
        b.0.weight()
            .total_cmp(&a.0.weight())
            .then_with(|| a.1.step.cmp(&b.1.step))
    });
    if saving.is_empty() {
        return;
    }
    let _ = writeln!(out, "Steps with the greatest saving:");
    for (saving, step) in saving.iter().take(TOP) {
        let (now, then) = changed(step.asks, step.should_ask);
        let _ = writeln!(
            out,
            "  {}: request {} instead of {}, saves {}",
            end_of(&one_line(&step.step), NAME_WIDTH),
            request(then),
            request(now),
            saved(*saving)
        );
    }
    out.push('\n');
}

/// The parts of a request that change, before and after.
fn changed(now: SizedRequest, then: SizedRequest) -> (SizedRequest, SizedRequest) {
    let (cores, memory) = (now.cores != then.cores, now.memory != then.memory);
    let part = |of: SizedRequest| SizedRequest {
        cores: of.cores.filter(|_| cores),
        memory: of.memory.filter(|_| memory),
    };
    (part(now), part(then))
}

fn saved(saving: Saving) -> String {
    let cores = (saving.core_hours > 0.0).then(|| format!("{} core-h", amount(saving.core_hours)));
    let memory = (saving.gib_hours > 0.0).then(|| format!("{} GiB-h", amount(saving.gib_hours)));
    let all: Vec<String> = cores.into_iter().chain(memory).collect();
    match all.is_empty() {
        true => "-".to_owned(),
        false => all.join(", "),
    }
}

fn lines(steps: &[StepAdvice]) -> String {
    let header = [
        "STEP", "TASKS", "FAILED", "CORES", "USED", "MEMORY", "PEAK", "ADVICE", "OOM RISK",
    ];
    let rows = steps.iter().map(|step| {
        let usage = step.usage.unwrap_or_default();
        let unknown = || "-".to_owned();
        [
            end_of(&one_line(&step.step), NAME_WIDTH),
            grouped(usage.tasks),
            grouped(usage.failed),
            step.asks
                .cores
                .map_or_else(unknown, |cores| cores.to_string()),
            step.mean_cores.map_or_else(unknown, shown_cores),
            step.asks
                .memory
                .map_or_else(unknown, |memory| memory.to_string()),
            peak(step).unwrap_or_else(unknown),
            advice(step),
            chance(step),
        ]
    });
    plain_table::lines(&header, rows, &[1, 2, 3, 4, 5, 6]).join("\n")
}

/// The largest peak memory. A task that was OOM-killed needed more than its request.
fn peak(step: &StepAdvice) -> Option<String> {
    match (step.peak_memory, step.exhausted_memory) {
        (peak, Some(exhausted)) if peak <= Some(exhausted) => Some(format!("over {exhausted}")),
        (Some(peak), _) if step.peak_is_upper_bound => Some(format!("at most {peak}")),
        (peak, _) => peak.map(|peak| peak.to_string()),
    }
}

/// Average busy cores with one decimal.
fn shown_cores(cores: MilliCores) -> String {
    format!("{:.1}", cores.as_cores())
}

/// Hours; amounts below 10 have one decimal.
fn amount(hours: f64) -> String {
    match hours {
        hours if hours < 10.0 => format!("{hours:.1}"),
        hours => grouped(hours.round() as u64),
    }
}

/// The same as JSON.
pub fn json(summary: &Summary<'_>, steps: &[StepAdvice]) -> String {
    let steps: Vec<Reasoned<'_>> = steps.iter().map(Reasoned::from).collect();
    let value = json!({
        "schema": "ebb.tune/2",
        "runs": summary.runs,
        "totals": summary.totals,
        "failures": summary.failures,
        "skipped_lines": summary.skipped,
        "steps": steps,
    });
    format!("{value:#}\n")
}
