//! Advice on steps for a terminal: a line of figures each, and beneath it why, how it may
//! go wrong, what it rests on, where it would run and what was taken for granted.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use ebb_domain::heartbeat::Origin;
use ebb_domain::profile::advice::StepAdvice;
use ebb_domain::profile::place::{Offered, Offers};
use ebb_domain::sizing::SizedRequest;
use ebb_domain::units::Spoken;

use super::reasons::Reasons;
use crate::render::text::{counted, one_line, wrap};

const HEAD: [&str; 5] = ["STEP", "ASKS", "SHOULD ASK", "OOM CHANCE", "SAVES/MONTH"];

/// The least that a name is cut to on a narrow terminal, and the most that it takes
/// anywhere.
const NAME: std::ops::RangeInclusive<usize> = 12..=60;

/// Where what is told of a step begins: behind `  elsewhere `.
const INDENT: usize = 12;

/// Steps as a table; `terminal` is its columns, `None` where nothing is to be cut.
pub fn table(steps: &[StepAdvice], terminal: Option<usize>) -> String {
    if steps.is_empty() {
        return "No step was seen.\n".to_owned();
    }
    let rows: Vec<[String; 5]> = steps.iter().map(row).collect();
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
    let mut names = BTreeSet::new();
    let again = steps
        .iter()
        .filter(|step| !names.insert(step.step.as_str()));
    let many: BTreeSet<&str> = again.map(|step| step.step.as_str()).collect();
    for (row, step) in rows.iter().zip(steps) {
        line(&mut out, row, &widths);
        let is_one_of_many = many.contains(step.step.as_str());
        let there = is_one_of_many.then(|| ("where", place(step)));
        for (head, text) in there.into_iter().chain(told(step)) {
            paragraph(&mut out, head, &text, terminal);
        }
    }
    out
}

fn line(out: &mut String, cells: &[String; 5], widths: &[usize; 5]) {
    let mut text = String::new();
    for (cell, width) in cells.iter().zip(widths) {
        let cell = end_of(cell, *width);
        let _ = write!(text, "{cell:<width$}  ");
    }
    out.push_str(text.trim_end());
    out.push('\n');
}

pub(super) fn paragraph(out: &mut String, head: &str, text: &str, terminal: Option<usize>) {
    let width = terminal.map_or(usize::MAX, |columns| columns.saturating_sub(INDENT));
    for (at, line) in wrap(&one_line(text), width).into_iter().enumerate() {
        let head = if at == 0 { head } else { "" };
        let _ = writeln!(out, "  {head:<10}{line}");
    }
}

/// At most `max` characters, the last ones: what sets a process of a pipeline apart
/// stands at the end of its name.
pub(super) fn end_of(text: &str, max: usize) -> String {
    let all = text.chars().count();
    match all <= max {
        true => text.to_owned(),
        false => {
            let rest = text.chars().skip(all + 1 - max);
            std::iter::once('…').chain(rest).collect()
        }
    }
}

fn row(step: &StepAdvice) -> [String; 5] {
    [
        one_line(&step.step),
        request(step.asks),
        match step.should_ask == step.asks {
            true => "the same".to_owned(),
            false => request(step.should_ask),
        },
        chance(step),
        step.saving_a_month
            .map_or_else(|| "-".to_owned(), |saving| saving.to_string()),
    ]
}

pub(super) fn request(request: SizedRequest) -> String {
    let cores = request.cores.map(|cores| format!("{cores} vCPU"));
    let memory = request.memory.map(|memory| memory.to_string());
    match (cores, memory) {
        (None, None) => "unknown".to_owned(),
        (Some(one), None) | (None, Some(one)) => one,
        (Some(cores), Some(memory)) => format!("{cores}, {memory}"),
    }
}

pub(super) fn chance(step: &StepAdvice) -> String {
    match step.risk.oom_ppm {
        Some(ppm) => format!("{:.1} %", f64::from(ppm) / 10_000.0),
        None => "unknown".to_owned(),
    }
}

/// What is told beneath a step's line, with its heads.
fn told(step: &StepAdvice) -> Vec<(&'static str, String)> {
    let reasons = Reasons::of(step);
    let mut all = vec![("why", why(step, &reasons)), ("time", time(step))];
    if step.should_ask != step.asks {
        all.push(("risk", risk(step, &reasons)));
    }
    all.push(("rests on", rests_on(step, &reasons)));
    let offers = &step.offers;
    let each = |offers: &[Offered]| offers.iter().map(offer).collect::<Vec<_>>().join("; ");
    all.push(("now on", each(offers.now.as_slice())));
    all.push(("runs on", each(&offers.best)));
    all.push(("on spot", on_spot(offers)));
    all.push(("elsewhere", elsewhere(&offers.elsewhere)));
    all.push(("try next", each(offers.try_next.as_slice())));
    all.push(("no Arm", offers.in_the_way_of_arm.join("; ")));
    if step.should_ask != step.asks {
        all.push(("assumed", reasons.assumed.join("; ")));
    }
    all.retain(|(_, text)| !text.is_empty());
    all
}

/// What tells it from others of its name.
fn place(step: &StepAdvice) -> String {
    let region = step.region.as_ref().map(ToString::to_string);
    let account = step.account.as_ref().map(|id| format!("account {id}"));
    let all: Vec<String> = region.into_iter().chain(account).collect();
    all.join(", ")
}

fn why(step: &StepAdvice, reasons: &Reasons) -> String {
    let codes = reasons.reason_codes.iter().map(|code| code.words());
    let mut all: Vec<String> = codes.map(str::to_owned).collect();
    let used = |share: Option<_>, what: &str| share.map(|share| format!("{share} of its {what}"));
    let cores = used(step.bound.cores_used, "cores");
    let memory = used(step.bound.memory_used, "memory");
    let used: Vec<String> = cores.into_iter().chain(memory).collect();
    if !used.is_empty() {
        all.push(format!("used at most {}", used.join(" and ")));
    }
    if let Some(by) = step.bound.by {
        all.push(format!("bound by {by}"));
    }
    if step.oom_kills > 0 {
        all.push(format!(
            "{} for want of memory",
            counted(step.oom_kills as usize, "kill", "kills")
        ));
    }
    all.join("; ")
}

/// What it did at how many of the samples, the most first; what is less than a
/// hundredth is left out.
fn time(step: &StepAdvice) -> String {
    let mut doing: Vec<_> = step.bound.doing.iter().collect();
    doing.retain(|(_, share)| share.ppm() >= 10_000);
    doing.sort_by_key(|(state, share)| (Reverse(share.ppm()), *state));
    let each = doing
        .iter()
        .map(|(state, share)| format!("{share} {state}"));
    each.collect::<Vec<_>>().join(", ")
}

fn risk(step: &StepAdvice, reasons: &Reasons) -> String {
    const WORDS: [&str; 5] = ["very low", "low", "medium", "high", "very high"];
    let word = match reasons.performance_risk {
        Some(risk) => WORDS[usize::from(risk).min(4)].to_owned(),
        None => "not known".to_owned(),
    };
    let sizes: Vec<String> = step.risk.attempts.iter().map(ToString::to_string).collect();
    match sizes.is_empty() {
        true => word,
        false => format!("{word}; after an OOM kill {}", sizes.join(", then ")),
    }
}

fn rests_on(step: &StepAdvice, reasons: &Reasons) -> String {
    let all = counted(step.runs as usize, "run", "runs");
    let open = step.runs.saturating_sub(step.samples + step.failed);
    let others = [(step.failed, "failed"), (open, "only begun or hanging")];
    let others: Vec<String> = others
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, words)| format!("{n} {words}"))
        .collect();
    let runs = match others.is_empty() {
        true => all,
        false => format!("{} of {all} ({})", step.samples, others.join(", ")),
    };
    let more = match step.risk.samples_needed {
        0 => String::new(),
        more => format!("; {more} more tell the chance of an OOM kill"),
    };
    format!("{runs}, {} confidence{more}", reasons.confidence)
}

/// The types, and what AWS says of the chance to get them.
fn on_spot(offers: &Offers) -> String {
    let each = offers.spot.iter().map(offer);
    let mut each = each.collect::<Vec<_>>().join("; ");
    if let Some(told) = &offers.spot_score {
        each.push_str(&format!("; {told}"));
    }
    each
}

fn elsewhere(offers: &[Offered]) -> String {
    let each = offers
        .iter()
        .map(|there| format!("{}: {}", there.region, offer(there)));
    each.collect::<Vec<_>>().join("; ")
}

fn offer(offer: &Offered) -> String {
    format!(
        "{} {}/run in {}",
        offer.instance_type,
        cents(offer.usd_a_run.micros()),
        // Seconds of an estimate that is hours long say nothing.
        Spoken(Duration::from_secs(offer.wall.as_secs()))
    )
}

/// A run costs cents and less.
fn cents(micros: i64) -> String {
    format!("${}.{:04}", micros / 1_000_000, micros % 1_000_000 / 100)
}
