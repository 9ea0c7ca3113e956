//! Advice on steps for a terminal: a line of figures for each step. The lines below contain
//! reasons, failures, risk, evidence, machine types and assumptions.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use ebb_model::advice::bottleneck::{Binding, RequestedResource};
use ebb_model::advice::offer::{Assumed, Offered, Offers};
use ebb_model::advice::sized_request::SizedRequest;
use ebb_model::advice::step::{MemoryUse, StepAdvice};
use ebb_model::step_profile::tasks::{PresentRequest, RequestBasis};
use ebb_model::step_profile::{LARGEST_OLDER, MAX_RUNS};
use ebb_telemetry::identity::InstanceType;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::safe_text::{counted, one_line, wrap};
use ebb_telemetry::units::{HumanDuration, MilliCores, Share};

use crate::page::money::bounded;
use crate::plain_table;
use crate::reason_codes::Reasons;

const HEAD: [&str; 5] = ["STEP", "REQUEST", "RECOMMENDED", "OOM RISK", "SAVING/MONTH"];

/// The text without any step.
const NO_STEPS: &str = "\
The report contains no steps. A scan of an account reads no probe data. Use --bucket NAME or
--lake URL of a deployment, or `ebb import` with records of Nextflow, Snakemake or Slurm.
";

/// Minimum width of a name on a narrow terminal, and maximum width on any terminal.
const NAME: std::ops::RangeInclusive<usize> = 12..=60;

/// Column where the text of a line below a step starts, after `  elsewhere `.
const INDENT: usize = 12;

/// Number of listed types that a step ran on.
const SHOWN_TYPES: usize = 3;

/// Number of listed requests of first attempts.
const SHOWN_REQUESTS: usize = 5;

/// Steps as a table; `terminal` is the number of columns, `None` for a table without truncation.
pub fn table(steps: &[StepAdvice], terminal: Option<usize>) -> String {
    if steps.is_empty() {
        return NO_STEPS.to_owned();
    }
    let mut rows: Vec<[String; 5]> = steps.iter().map(row).collect();
    let width = |n: usize| {
        let cells = rows.iter().map(|row| row[n].chars().count());
        cells.max().unwrap_or(0).max(HEAD[n].len()) + 2
    };
    let others: usize = (1..HEAD.len()).map(width).sum();
    if let Some(columns) = terminal {
        let room = columns.saturating_sub(others);
        let names: BTreeSet<&str> = rows.iter().map(|row| row[0].as_str()).collect();
        let width = width_of_names(&names, room.clamp(*NAME.start(), *NAME.end()));
        for [name, ..] in &mut rows {
            *name = end_of(name, width);
        }
    }
    let mut out = String::new();
    if steps.iter().any(|step| step.origin == Origin::Simulated) {
        out.push_str("SIMULATED: at least a part of this input was generated, not measured.\n\n");
    }
    let mut lines = plain_table::lines(&HEAD, rows, &[]).into_iter();
    out.extend(lines.next());
    out.push('\n');
    let mut names = BTreeSet::new();
    let again = steps
        .iter()
        .filter(|step| !names.insert(step.step.as_str()));
    let many: BTreeSet<&str> = again.map(|step| step.step.as_str()).collect();
    for (line, step) in lines.zip(steps) {
        out.push_str(&line);
        out.push('\n');
        let is_one_of_many = many.contains(step.step.as_str());
        let there = is_one_of_many.then(|| ("where", place(step)));
        for (head, text) in there.into_iter().chain(text_lines(step)) {
            paragraph(&mut out, head, &text, terminal);
        }
    }
    out
}

pub(crate) fn paragraph(out: &mut String, head: &str, text: &str, terminal: Option<usize>) {
    let width = terminal.map_or(usize::MAX, |columns| columns.saturating_sub(INDENT));
    for (at, line) in wrap(&one_line(text), width).into_iter().enumerate() {
        let head = if at == 0 { head } else { "" };
        let _ = writeln!(out, "  {head:<10}{line}");
    }
}

/// The least width, at least `min`, that leaves different names different.
fn width_of_names(names: &BTreeSet<&str>, min: usize) -> usize {
    let lengths = names.iter().map(|name| name.chars().count());
    let longest = lengths.max().unwrap_or(min).max(min);
    let is_enough = |width: &usize| {
        let shown: BTreeSet<String> = names.iter().map(|name| end_of(name, *width)).collect();
        shown.len() == names.len()
    };
    (min..longest).find(is_enough).unwrap_or(longest)
}

/// At most `max` characters from the end, because the end of a name distinguishes the processes of
/// a pipeline.
pub(crate) fn end_of(text: &str, max: usize) -> String {
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
        advice(step),
        chance(step),
        saving(step),
    ]
}

/// Saving in a month; "at most" for an upper bound.
fn saving(step: &StepAdvice) -> String {
    match (step.saving_a_month, step.saving_at_most_a_month) {
        (Some(saving), _) => bounded(saving, false),
        (None, Some(bound)) => bounded(bound, true),
        (None, None) => "-".to_owned(),
    }
}

/// Recommended request as text of a table.
pub(crate) fn advice(step: &StepAdvice) -> String {
    match step.should_ask {
        advised if advised == SizedRequest::default() => "unknown".to_owned(),
        advised if advised == step.asks => match new_limit(step) {
            Some((_, limit)) => format!("time limit {}", HumanDuration(limit)),
            None => "no change".to_owned(),
        },
        advised => match new_limit(step) {
            Some((_, limit)) => {
                format!("{}, time limit {}", request(advised), HumanDuration(limit))
            }
            None => request(advised),
        },
    }
}

/// The present and the recommended time limit, if they differ.
fn new_limit(step: &StepAdvice) -> Option<(Duration, Duration)> {
    let limit = step.time_limit?;
    (limit.should_ask != limit.asks).then_some((limit.asks, limit.should_ask))
}

pub(crate) fn request(request: SizedRequest) -> String {
    let cores = request.cores.map(|cores| format!("{cores} vCPU"));
    let memory = request.memory.map(|memory| memory.to_string());
    match (cores, memory) {
        (None, None) => "unknown".to_owned(),
        (Some(one), None) | (None, Some(one)) => one,
        (Some(cores), Some(memory)) => format!("{cores}, {memory}"),
    }
}

/// Above this upper bound in ppm, a range shows missing data, so the number of tasks is shown too.
const WIDEST_SHOWN: u32 = 200_000;

/// Chance that a task is killed with the recommended request: one figure if it is well known,
/// otherwise a range.
pub(crate) fn chance(step: &StepAdvice) -> String {
    if let Some(ppm) = step.risk.oom_ppm {
        return percent(ppm);
    }
    match step.risk.oom_between {
        None => "unknown".to_owned(),
        Some(range) if range.from_ppm >= 5_000 => {
            format!("{} to {}", percent(range.from_ppm), percent(range.to_ppm))
        }
        Some(range) if range.to_ppm <= WIDEST_SHOWN => {
            format!("at most {}", percent(range.to_ppm))
        }
        Some(range) => {
            let tasks = step.risk.basis.map(|basis| basis.tasks as usize);
            let tasks = tasks.map(|tasks| format!(", {}", counted(tasks, "task", "tasks")));
            format!(
                "0 to {}{}",
                percent(range.to_ppm),
                tasks.unwrap_or_default()
            )
        }
    }
}

/// Parts per million as percent: one decimal below 1 %, otherwise none.
fn percent(ppm: u32) -> String {
    match ppm {
        0..10_000 => format!("{:.1} %", f64::from(ppm) / 10_000.0),
        _ => format!("{:.0} %", f64::from(ppm) / 10_000.0),
    }
}

/// The lines below the figures of a step, with their headings.
fn text_lines(step: &StepAdvice) -> Vec<(&'static str, String)> {
    let reasons = Reasons::from_step(step);
    let changes = step.should_ask != step.asks;
    let mut all = vec![
        ("why", why(step, &reasons)),
        ("requests", requests(step)),
        ("failed", failures(step)),
        ("limit", time_limit(step)),
        ("time", time(step)),
    ];
    if changes {
        all.push(("risk", risk(step)));
    }
    all.push(("by input", by_input(step)));
    all.push(("based on", based_on(step, &reasons)));
    let offers = &step.offers;
    let each = |offers: &[Offered]| offers.iter().map(offer).collect::<Vec<_>>().join("; ");
    let same_type = offers.now.as_ref();
    all.push(("today", today(step)));
    all.push((
        "same type",
        same_type.map(offer_of_same_type).unwrap_or_default(),
    ));
    all.push(("suitable", each(&offers.best)));
    all.push(("on spot", on_spot(offers)));
    all.push(("elsewhere", elsewhere(&offers.elsewhere)));
    all.push(("try next", each(offers.try_next.as_slice())));
    if !offers.in_the_way_of_arm.is_empty() {
        let names = offers.in_the_way_of_arm.join("; ");
        all.push(("no Arm", format!("not known to run on Arm: {names}")));
    }
    if changes {
        all.push(("assumes", reasons.assumed.join("; ")));
    }
    all.retain(|(_, text)| !text.is_empty());
    all
}

/// Region and account, which distinguish the step from others of the same name.
fn place(step: &StepAdvice) -> String {
    let region = step.region.as_ref().map(ToString::to_string);
    let account = step.account.as_ref().map(|id| format!("account {id}"));
    let all: Vec<String> = region.into_iter().chain(account).collect();
    all.join(", ")
}

fn why(step: &StepAdvice, reasons: &Reasons) -> String {
    let codes = reasons.reason_codes.iter().map(|code| code.words());
    let mut all: Vec<String> = codes.map(str::to_owned).collect();
    all.extend(first_attempts(&step.present));
    let used = |share: Option<_>, what: &str| share.map(|share| format!("{share} of its {what}"));
    let cores = used(step.bound.cores_used, "cores");
    let exceeded = exceeded_memory(step);
    let memory = used(step.bound.memory_used, "memory").filter(|_| exceeded.is_none());
    let used: Vec<String> = cores.into_iter().chain(memory).collect();
    if !used.is_empty() {
        all.push(format!("used at most {}", used.join(" and ")));
    }
    all.extend(exceeded);
    all.extend(more_cores(step));
    all.extend(full_memory(step));
    if let Some(by) = step.bound.by {
        all.push(few_busy_cores(step, by).unwrap_or_else(|| format!("limited by {by}")));
    }
    all.join("; ")
}

/// A note if a step computes all the time, but only on a part of its cores.
fn few_busy_cores(step: &StepAdvice, by: Binding) -> Option<String> {
    let requested_cores = step.asks.cores?.0;
    let used = u128::from(step.bound.cores_used?.ppm()) * u128::from(requested_cores) / 1_000_000;
    let is_few = step.bound.underused.contains(&RequestedResource::Cores);
    let used = MilliCores(u64::try_from(used).ok()?);
    (by == Binding::Compute && is_few)
        .then(|| format!("CPU-bound on at most {used} cores, so more cores do not help"))
}

/// A note if a task used more memory than it requested for certain.
pub(crate) fn exceeded_memory(step: &StepAdvice) -> Option<String> {
    let MemoryUse { used, requested } = step.fullest?;
    let is_more = used > requested;
    is_more.then(|| format!("used {used} of memory, more than it requested ({requested})"))
}

/// A note if the tasks used more cores on average than they requested. The number is not raised: a
/// limit on their threads is the other remedy.
fn more_cores(step: &StepAdvice) -> Option<String> {
    let (asks, used) = (step.asks.cores?, step.mean_cores?);
    let is_more =
        used.0 > asks.0.saturating_add(asks.0 / 10) && step.should_ask.cores == Some(asks);
    is_more.then(|| {
        format!("used {used} cores on average and requested {asks}: request as many, or limit its threads")
    })
}

/// From this share of the request, the next task may need more.
const FULL_MEMORY_PPM: u128 = 950_000;

/// A note if a task needed the whole request for memory, and it stays the same.
fn full_memory(step: &StepAdvice) -> Option<String> {
    let is_full = step.fullest?.share() >= FULL_MEMORY_PPM
        && step.should_ask.memory == step.asks.memory
        && step.oom_kills == 0;
    is_full.then(|| "a larger input may run out of memory".to_owned())
}

/// `33 % of first attempts with 8.0 GiB run out of memory (10 of 30)`; for different requests, those
/// with such attempts.
pub(crate) fn first_attempts(present: &PresentRequest) -> Option<String> {
    if present.basis == RequestBasis::Median {
        let counts = present
            .counts
            .iter()
            .filter(|count| count.out_of_memory > 0);
        let each: Vec<String> = counts
            .take(SHOWN_REQUESTS)
            .map(|count| {
                let (failed, tasks) = (count.out_of_memory, count.tasks);
                format!("{failed} of {tasks} with {}", request(count.request))
            })
            .collect();
        return (!each.is_empty())
            .then(|| format!("first attempts that ran out of memory: {}", each.join(", ")));
    }
    let (tasks, failed) = (present.tasks(), present.out_of_memory());
    let share = Share::from_parts(failed.into(), tasks.into()).filter(|_| failed > 0)?;
    let request = (present.request.memory).map_or_else(
        || "the current request".to_owned(),
        |memory| memory.to_string(),
    );
    Some(format!(
        "{share} of first attempts with {request} run out of memory ({failed} of {tasks})"
    ))
}

/// Requests of first attempts; empty if they are the same.
fn requests(step: &StepAdvice) -> String {
    let basis = match step.present.basis {
        RequestBasis::Same => return String::new(),
        RequestBasis::Most => "the table shows the most frequent request",
        RequestBasis::Median => "the table shows the median",
    };
    let counts = step.present.counts.iter().take(SHOWN_REQUESTS);
    let mut counts: Vec<String> = counts
        .map(|count| {
            let tasks = counted(count.tasks as usize, "task", "tasks");
            format!("{} ({tasks})", request(count.request))
        })
        .collect();
    let more = step.present.counts.len().saturating_sub(SHOWN_REQUESTS);
    if more > 0 {
        counts.push(format!("{more} others"));
    }
    let unchanged = match step.should_ask == step.asks {
        true => "; one value for all is recommended only if it raises none of them",
        false => "",
    };
    let counts = counts.join(", ");
    format!("first attempts request {counts}; {basis}{unchanged}")
}

fn failures(step: &StepAdvice) -> String {
    let kinds: Vec<String> = step
        .failures
        .iter()
        .map(|count| {
            let lost = HumanDuration(Duration::from_secs(count.lost_seconds));
            let retried = match count.retried {
                0 => String::new(),
                retried => format!(", {retried} retried"),
            };
            format!("{count}{retried}, {lost} lost")
        })
        .collect();
    kinds.join("; ")
}

/// The change of the time limit; empty without one.
fn time_limit(step: &StepAdvice) -> String {
    let Some((now, then)) = new_limit(step) else {
        return String::new();
    };
    let why = match then < now {
        true => "three times the longest task, at least an hour",
        false => "tasks took more than half of it, or reached it",
    };
    let (then, now) = (HumanDuration(then), HumanDuration(now));
    format!("request a time limit of {then} instead of {now}: {why}")
}

/// Share of samples in each state, the greatest first; shares below 1 % are left out.
fn time(step: &StepAdvice) -> String {
    let mut doing: Vec<_> = step.bound.doing.iter().collect();
    doing.retain(|(_, share)| share.ppm() >= 10_000);
    doing.sort_by_key(|(state, share)| (Reverse(share.ppm()), *state));
    let each = doing
        .iter()
        .map(|(state, share)| format!("{share} {state}"));
    each.collect::<Vec<_>>().join(", ")
}

fn risk(step: &StepAdvice) -> String {
    let mut all = vec![format!("OOM kill: {}", chance(step))];
    let sizes: Vec<String> = step.risk.attempts.iter().map(ToString::to_string).collect();
    if !sizes.is_empty() {
        all.push(format!(
            "after an OOM kill request {}",
            sizes.join(", then ")
        ));
    }
    if let Some(ppm) = step.slowdown_ppm {
        all.push(format!("at most {} slower with fewer cores", percent(ppm)));
    }
    all.join("; ")
}

/// Memory by input size; empty if the input does not explain the need.
fn by_input(step: &StepAdvice) -> String {
    let sizes = step.by_input.iter();
    let sizes: Vec<String> = sizes
        .map(|sized| format!("{} for inputs up to {}", sized.memory, sized.input))
        .collect();
    sizes.join(", ")
}

fn based_on(step: &StepAdvice, reasons: &Reasons) -> String {
    let all = counted(step.runs as usize, "attempt", "attempts");
    let open = step.runs.saturating_sub(step.samples + step.failed);
    let others = [
        (step.failed, "failed"),
        (open, "just started or without progress"),
    ];
    let others: Vec<String> = others
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, words)| format!("{n} {words}"))
        .collect();
    let mut text = match others.is_empty() {
        true => all,
        false => format!("{} of {all} ({})", step.samples, others.join(", ")),
    };
    if let Some(basis) = step.risk.basis {
        text.push_str(&format!(
            "; {} of {} in {}",
            counted(basis.tasks as usize, "task", "tasks"),
            counted(basis.samples as usize, "sample", "samples"),
            counted(basis.runs as usize, "run", "runs"),
        ));
    }
    if step.runs as usize == MAX_RUNS {
        text.push_str(&format!(
            "; the newest {} and the {LARGEST_OLDER} older ones with the largest peaks",
            MAX_RUNS - LARGEST_OLDER
        ));
    }
    format!("{text}; {} confidence", reasons.confidence)
}

/// The types, and the spot placement score of AWS.
fn on_spot(offers: &Offers) -> String {
    let each = offers.spot.iter().map(offer);
    let mut each = each.collect::<Vec<_>>().join("; ");
    if let Some(score) = &offers.spot_score {
        each.push_str(&format!("; {score}"));
    }
    each
}

fn elsewhere(offers: &[Offered]) -> String {
    let each = offers
        .iter()
        .map(|there| format!("{}: {}", there.region, offer(there)));
    each.collect::<Vec<_>>().join("; ")
}

/// The observed types and mean duration; empty without a known type or duration.
fn today(step: &StepAdvice) -> String {
    let (types, Some(mean)) = (&step.machines, step.mean_wall) else {
        return String::new();
    };
    let names: Vec<&str> = types
        .iter()
        .take(SHOWN_TYPES)
        .map(InstanceType::as_str)
        .collect();
    let more = match types.len().saturating_sub(SHOWN_TYPES) {
        0 => String::new(),
        more => format!(" and {}", counted(more, "more type", "more types")),
    };
    match names.is_empty() {
        true => String::new(),
        false => format!(
            "{}{more}, {} on average",
            names.join(", "),
            HumanDuration(Duration::from_secs(mean.as_secs()))
        ),
    }
}

/// The offer of the present type. It is an estimate as the others, not the observed duration.
fn offer_of_same_type(same: &Offered) -> String {
    let with = match same.assumed.contains(&Assumed::RequestShare) {
        true => "its part of a machine that other steps use too".to_owned(),
        false => {
            let tasks = counted(same.runs_a_machine as usize, "task", "tasks");
            format!("{tasks} on the machine")
        }
    };
    format!(
        "{}, an estimate with the recommended request and {with}",
        offer(same)
    )
}

fn offer(offer: &Offered) -> String {
    format!(
        "{} {}/task in {}",
        offer.instance_type,
        cents(offer.usd_a_run.micros()),
        // Fractions of a second are not significant in an estimate.
        HumanDuration(Duration::from_secs(offer.wall.as_secs()))
    )
}

/// Dollars with four decimals, because a task costs cents or less.
fn cents(micros: i64) -> String {
    format!("${}.{:04}", micros / 1_000_000, micros % 1_000_000 / 100)
}
