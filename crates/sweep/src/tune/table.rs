//! Advice on steps as a table for a terminal.

use std::fmt::Write;

use ebb_domain::heartbeat::Origin;
use ebb_domain::profile::advice::StepAdvice;
use ebb_domain::sizing::SizedRequest;

use crate::render::text::one_line;

const HEAD: [&str; 8] = [
    "STEP",
    "ASKS",
    "SHOULD ASK",
    "OOM CHANCE",
    "SAMPLES",
    "BOUND BY",
    "SAVING/MONTH",
    "MACHINE",
];

/// The least that a name is cut to on a narrow terminal, and the most that it takes
/// anywhere.
const NAME: std::ops::RangeInclusive<usize> = 12..=60;

/// Steps as a table; `terminal` is its columns, `None` where nothing is to be cut.
pub fn table(steps: &[StepAdvice], terminal: Option<usize>) -> String {
    if steps.is_empty() {
        return "No step was seen.\n".to_owned();
    }
    let rows: Vec<[String; 8]> = steps.iter().map(row).collect();
    let mut widths = HEAD.map(|name| name.chars().count());
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let others: usize = widths.iter().skip(1).map(|width| width + 2).sum();
    let room = terminal.map_or(usize::MAX, |columns| columns.saturating_sub(others));
    widths[0] = widths[0].min(room.clamp(*NAME.start(), *NAME.end()));
    let mut out = String::new();
    if steps.iter().any(|step| step.origin == Origin::Simulated) {
        out.push_str("SIMULATED: a generator made runs of these steps.\n\n");
    }
    line(&mut out, &HEAD.map(str::to_owned), &widths);
    for row in &rows {
        line(&mut out, row, &widths);
    }
    notes(&mut out, steps);
    out
}

fn line(out: &mut String, cells: &[String; 8], widths: &[usize; 8]) {
    let mut text = String::new();
    for (cell, width) in cells.iter().zip(widths) {
        let cell = end_of(cell, *width);
        let _ = write!(text, "{cell:<width$}  ");
    }
    out.push_str(text.trim_end());
    out.push('\n');
}

/// At most `max` characters, the last ones: what sets a process of a pipeline apart
/// stands at the end of its name.
fn end_of(text: &str, max: usize) -> String {
    let all = text.chars().count();
    match all <= max {
        true => text.to_owned(),
        false => {
            let rest = text.chars().skip(all + 1 - max);
            std::iter::once('…').chain(rest).collect()
        }
    }
}

fn row(step: &StepAdvice) -> [String; 8] {
    let dash = || "-".to_owned();
    let best = step.offers.best.first();
    [
        one_line(&step.step),
        request(step.asks),
        match step.should_ask == step.asks {
            true => "the same".to_owned(),
            false => request(step.should_ask),
        },
        chance(step),
        match step.risk.samples_needed {
            0 => step.samples.to_string(),
            more => format!("{} (+{more})", step.samples),
        },
        step.bound.by.map_or_else(dash, |by| by.to_string()),
        step.saving_a_month
            .map_or_else(dash, |saving| saving.to_string()),
        best.map_or_else(dash, |offer| {
            format!(
                "{} {}/run",
                offer.instance_type,
                cents(offer.usd_a_run.micros())
            )
        }),
    ]
}

/// A run costs cents and less.
fn cents(micros: i64) -> String {
    format!("${}.{:04}", micros / 1_000_000, micros % 1_000_000 / 100)
}

fn request(request: SizedRequest) -> String {
    let cores = request.cores.map(|cores| format!("{cores} vCPU"));
    let memory = request.memory.map(|memory| memory.to_string());
    match (cores, memory) {
        (None, None) => "unknown".to_owned(),
        (Some(one), None) | (None, Some(one)) => one,
        (Some(cores), Some(memory)) => format!("{cores}, {memory}"),
    }
}

fn chance(step: &StepAdvice) -> String {
    match step.risk.oom_ppm {
        Some(ppm) => format!("{:.1} %", f64::from(ppm) / 10_000.0),
        None => "unknown".to_owned(),
    }
}

fn notes(out: &mut String, steps: &[StepAdvice]) {
    if steps.iter().any(|step| step.risk.samples_needed > 0) {
        out.push_str(
            "\n(+n): runs still needed before the chance of an OOM kill is told; until then \
             memory is the\ngreatest peak with headroom.\n",
        );
    }
    for step in steps.iter().filter(|step| step.oom_kills > 0) {
        let _ = writeln!(
            out,
            "{}: {} of {} runs were killed for want of memory.",
            one_line(&step.step),
            step.oom_kills,
            step.runs
        );
    }
}
