//! Idle by metrics of the cloud, for nodes without a probe: weaker evidence, a
//! longer wait, lower confidence.

use jiff::Timestamp;

use super::{Questions, Quiet};
use crate::catalogue::TypeSpec;
use crate::finding::{Confidence, IdleNode, Level, Window};
use crate::fleet::Instance;
use crate::judge::{Facts, MetricPoint, MetricSeries};
use crate::units::{Share, Spoken};

/// What a verdict takes of each point, by its name; the last only of a machine that has
/// GPUs.
pub(in crate::rules) type Signal = (&'static str, fn(&MetricPoint) -> bool);
const SIGNALS: [Signal; 3] = [
    ("CPU", |point| point.cpu_max.is_some()),
    ("network", |point| point.network_bytes.is_some()),
    ("GPUs", |point| point.gpu.is_some()),
];
pub(in crate::rules) const CPU_AND_NETWORK: &[Signal] = SIGNALS.split_at(2).0;

/// `None` where it is in use; errs with the reason why that cannot be told.
pub(super) fn quiet(
    facts: &Facts<'_>,
    instance: &Instance,
    q: &mut Questions,
) -> Result<Option<Quiet>, String> {
    let series = facts.metrics.get(&instance.id).filter(|s| !s.is_empty());
    let points = series.map_or(0, |series| series.points().len());
    q.holds(
        "without a probe: are there metrics of it?",
        (format_args!("{points} points"), "at least 1"),
        series.map(|_| true),
    );
    let series = series.ok_or("no probe on it, and no metrics")?;
    let unseen = unseen(facts, instance, series);
    q.holds(
        "do they tell of all that it could do?",
        (unseen.as_deref().unwrap_or("yes"), ""),
        unseen.is_none().then_some(true),
    );
    if let Some(unseen) = unseen {
        return Err(format!("undetermined: {unseen}"));
    }
    let has_gpus = gpus(facts, instance).is_some_and(|gpus| gpus > 0);
    let needed = if has_gpus { &SIGNALS } else { CPU_AND_NETWORK };
    let quiet = quiet_for_long(facts, series, (instance.launched_at, needed));
    let policy = &facts.policy.metrics;
    let (after, floor) = (Spoken(policy.idle_after()), policy.cpu_floor());
    let (shown, speaks) = match &quiet {
        Ok(Some((window, _))) => (Spoken(window.length()).to_string(), Some(true)),
        Ok(None) => ("not for long enough".to_owned(), Some(false)),
        Err(why) => (why.clone(), None),
    };
    q.holds(
        "for how long were they quiet?",
        (shown, format_args!("at least {after} below {floor}")),
        speaks,
    );
    Ok(quiet?.map(|(window, coverage)| Quiet {
        window,
        coverage,
        evidence: IdleNode::by_metrics(window),
        origin: crate::judge::labelled(&instance.tags),
        confidence: Confidence {
            level: Level::Low,
            reason: reason(facts, instance, series),
        },
    }))
}

/// For how long nothing has moved, where that is long enough for a verdict, and how much of
/// it was told; or why nothing can be said.
pub(in crate::rules) fn quiet_for_long(
    facts: &Facts<'_>,
    series: &MetricSeries,
    (launched_at, needed): (Option<Timestamp>, &[Signal]),
) -> Result<Option<(Window, Share)>, String> {
    let after = facts.policy.metrics.idle_after();
    let Some(window) = quiet_window(facts, launched_at, series) else {
        return Ok(None);
    };
    if window.length() < after {
        let busy = series.points().any(|point| is_busy(facts, &point));
        return match busy {
            true => Ok(None),
            false => Err(format!(
                "metrics reach back only {}; a verdict takes {}",
                Spoken(window.length()),
                Spoken(after)
            )),
        };
    }
    let all = |p: &MetricPoint| needed.iter().all(|(_, is_known)| is_known(p));
    let (known, least) = (
        coverage(series, window, all),
        facts.policy.idle.min_coverage(),
    );
    if known < least {
        let lacks = |(_, is_known): &&Signal| coverage(series, window, is_known) < least;
        let lacking: Vec<&str> = needed.iter().filter(lacks).map(|(name, _)| *name).collect();
        // Each alone may be told of enough, and all together not.
        let of = match lacking.is_empty() {
            true => "all that it takes".to_owned(),
            false => lacking.join(" and "),
        };
        return Err(format!(
            "undetermined: metrics of {of} cover only {known} of the last {}",
            Spoken(window.length())
        ));
    }
    match holds_back(facts, series, window) {
        Some(why) => Err(format!("undetermined: {why}")),
        None => Ok(Some((window, known))),
    }
}

/// How many GPUs it has; `None` where neither the catalogue nor the cloud tells.
pub(in crate::rules) fn gpus(facts: &Facts<'_>, instance: &Instance) -> Option<u32> {
    let spec = facts.catalogue.spec(&instance.instance_type);
    let by_type = spec.map(TypeSpec::gpu_count);
    by_type.or_else(|| instance.hardware?.gpus)
}

/// Hardware that it has and that its metrics say nothing of.
fn unseen(facts: &Facts<'_>, instance: &Instance, series: &MetricSeries) -> Option<String> {
    let spec = facts.catalogue.spec(&instance.instance_type);
    if spec.is_some_and(|spec| spec.accelerators.is_some()) {
        return Some("metrics say nothing of its accelerator".to_owned());
    }
    unseen_gpus(gpus(facts, instance).filter(|gpus| *gpus > 0)?, series)
}

/// Why metrics do not tell of all of a machine's GPUs; `None` where they do.
pub(in crate::rules) fn unseen_gpus(gpus: u32, series: &MetricSeries) -> Option<String> {
    if !series.points().any(|point| point.gpu.is_some()) {
        return Some("metrics say nothing of its GPU".to_owned());
    }
    let told = series.gpus.filter(|told| *told < gpus)?;
    Some(format!("its agent tells of {told} of its {gpus} GPUs"))
}

/// What speaks against idleness although nothing moves.
fn holds_back(facts: &Facts<'_>, series: &MetricSeries, window: Window) -> Option<String> {
    if series.credits.is_some_and(|credits| credits.are_spent()) {
        return Some("its CPU credits are spent, so that it is throttled to its baseline".into());
    }
    let within = series.points().filter(|point| point.end > window.from);
    let memory = within.filter_map(|point| point.memory).max();
    let much = memory.filter(|memory| *memory >= facts.policy.metrics.memory_floor())?;
    Some(format!(
        "up to {much} of its memory is in use, and what holds it may be needed"
    ))
}

fn reason(facts: &Facts<'_>, instance: &Instance, series: &MetricSeries) -> String {
    let mut said = "no probe: metrics do not tell a monitoring agent from work".to_owned();
    if let Some(peak) = series.hourly_peak() {
        said += &format!("; its hours' CPU peaks at {peak} on average");
    }
    if let Some(memory) = series.most_memory() {
        said += &format!("; at most {memory} of its memory is in use");
    }
    let owed = series.credits.and_then(|credits| credits.surplus_millis);
    if let Some(owed) = owed.filter(|owed| *owed > 0) {
        said += &format!("; {} CPU credits are owed for earlier work", owed / 1_000);
    }
    match gpus(facts, instance) {
        None => said += "; whether it has a GPU is not known",
        Some(0) => {}
        Some(_) => said += "; its agent saw its GPUs rest",
    }
    said
}

/// From the end of the last busy point, or the launch, to the newest point.
fn quiet_window(
    facts: &Facts<'_>,
    launched_at: Option<Timestamp>,
    series: &MetricSeries,
) -> Option<Window> {
    let to = series.points().map(|point| point.end).max()?;
    let busy = series
        .points()
        .filter(|point| is_busy(facts, point))
        .map(|point| point.end);
    let from = match busy.max() {
        Some(end) => end,
        None => series.points().filter_map(begin).min()?,
    };
    Some(Window {
        from: from.max(launched_at.unwrap_or(from)),
        to,
    })
}

pub(in crate::rules) fn begin(point: MetricPoint) -> Option<Timestamp> {
    point
        .end
        .checked_sub(std::time::Duration::from_secs(point.period_seconds.into()))
        .ok()
}

fn is_busy(facts: &Facts<'_>, point: &MetricPoint) -> bool {
    works(facts, point) || computes(facts, point)
}

/// Floors as for a probe, but CPU is of the whole machine. What is unknown is
/// not busy; coverage leaves such a point out.
pub(in crate::rules) fn works(facts: &Facts<'_>, point: &MetricPoint) -> bool {
    let policy = facts.policy;
    let beyond = |bytes: Option<u64>, a_minute: u64| {
        bytes.is_some_and(|bytes| bytes >= a_minute * u64::from(point.period_seconds) / 60)
    };
    point
        .cpu_max
        .is_some_and(|cpu| cpu >= policy.metrics.cpu_floor())
        || beyond(point.network_bytes, policy.activity.network_floor_bytes)
        || beyond(point.disk_bytes, policy.activity.disk_floor_bytes)
}

/// Whether a GPU computed; not where it is unknown.
pub(in crate::rules) fn computes(facts: &Facts<'_>, point: &MetricPoint) -> bool {
    let floor = facts.policy.activity.gpu_floor();
    point.gpu.is_some_and(|gpu| gpu >= floor)
}

/// The share of the window in which enough is known.
pub(in crate::rules) fn coverage(
    series: &MetricSeries,
    window: Window,
    is_known: impl Fn(&MetricPoint) -> bool,
) -> Share {
    let known: u64 = series
        .points()
        .filter(|point| point.end > window.from && is_known(point))
        .map(|point| u64::from(point.period_seconds))
        .sum();
    Share::of(known, window.length().as_secs()).unwrap_or(Share::NONE)
}
