//! Idle nodes without a probe, by their metrics. The evidence is weaker, so the wait is longer and
//! the confidence lower. The saving does not exceed what the metrics show.

use std::time::Duration;

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::evidence::idle::IdleNode;
use ebb_model::inventory::instance::Instance;
use ebb_model::metric_series::MetricSeries;
use ebb_telemetry::time::Window;
use ebb_telemetry::units::{HumanDuration, Share};
use jiff::{SignedDuration, Timestamp};

use crate::activity_history::ActivityHistory;
use crate::facts::Facts;
use crate::metric_activity::{
    DAY, MetricActivity, Pause, Signal, WEEK, cores, coverage, gpus, holds_back, memory_in_use,
};
use crate::rules::node::idle::idle_time::{Projection, Quiet};
use crate::rules::node::recurring_idle;
use crate::rules::trace::RuleTrace;

/// Metrics over a shorter time do not show every hour of two weeks, at any time of the day.
const ALMOST_A_FORTNIGHT: SignedDuration = SignedDuration::from_hours(13 * 24);

/// Evidence of a time without work.
pub(crate) struct IdleTime {
    pub(crate) window: Window,
    pub(crate) coverage: Share,
    /// Time that the metrics cover.
    pub(crate) shown: Duration,
    pub(crate) worked_before: bool,
}

/// Result of the metrics.
pub(crate) enum Outcome {
    Idle(IdleTime),
    /// The machine works or pauses as usual; the text shows which.
    InUse(String),
    /// Reason why the metrics give no result.
    Unknown(String),
}

/// Whether the metrics show an idle instance. Other rules then leave the instance to this rule.
pub(crate) fn is_idle(facts: &Facts<'_>, instance: &Instance) -> bool {
    let mut questions = RuleTrace::unwritten(crate::rules::node::idle::KIND);
    matches!(quiet(facts, instance, &mut questions), Ok(Some(_)))
}

/// `None` for an instance in use. The error is the reason why it was not evaluated.
pub(crate) fn quiet(
    facts: &Facts<'_>,
    instance: &Instance,
    q: &mut RuleTrace,
) -> Result<Option<Quiet>, String> {
    let series = see_everything(facts, instance, q)?;
    let Some(activity) = MetricActivity::new(facts, instance, series) else {
        return Ok(None);
    };
    let history = ActivityHistory::from_metrics(&activity);
    let usual = recurring_idle::find_idle_pattern(facts, instance, &history);
    let outcome = match usual {
        Some(usual) => Outcome::InUse(usual.words().to_owned()),
        None => idle_time(facts, &activity, instance.launched_at),
    };
    let policy = &facts.policy.metrics;
    let (shown, speaks) = match &outcome {
        Outcome::Idle(idle) => (HumanDuration(idle.window.length()).to_string(), Some(true)),
        Outcome::InUse(why) => (why.clone(), Some(false)),
        Outcome::Unknown(why) => (why.clone(), None),
    };
    let bound = format_args!(
        "at least {}; at least {} and longer than all earlier pauses if it was active before",
        HumanDuration(policy.idle_after()),
        HumanDuration(policy.worked_before())
    );
    q.holds(
        "How long do its metrics show no activity, and is that unusual?",
        (shown, bound),
        speaks,
    );
    match outcome {
        Outcome::Idle(idle) => Ok(Some(make_finding(
            facts,
            (instance, series),
            &activity,
            idle,
        ))),
        Outcome::InUse(_) => Ok(None),
        Outcome::Unknown(why) => Err(why),
    }
}

fn make_finding(
    facts: &Facts<'_>,
    (instance, series): (&Instance, &MetricSeries),
    activity: &MetricActivity<'_>,
    idle: IdleTime,
) -> Quiet {
    let is_a_week = idle.shown >= WEEK.unsigned_abs();
    Quiet {
        window: idle.window,
        coverage: idle.coverage,
        evidence: IdleNode::by_metrics(idle.window, (!idle.worked_before).then_some(idle.shown)),
        origin: ebb_telemetry::origin::labelled(&instance.tags),
        confidence: Confidence {
            level: level(facts, (instance, series), activity, &idle),
            reason: reason(facts, (instance, series), activity, &idle),
        },
        projection: match is_a_week {
            true => Projection::Month,
            false => Projection::WindowOnly,
        },
    }
}

/// Medium for a week without work in almost 14 days of metrics, if no signal contradicts it.
fn level(
    facts: &Facts<'_>,
    (instance, series): (&Instance, &MetricSeries),
    activity: &MetricActivity<'_>,
    idle: &IdleTime,
) -> Level {
    let is_long = idle.window.length() >= WEEK.unsigned_abs();
    let is_known = idle.shown >= ALMOST_A_FORTNIGHT.unsigned_abs();
    let is_pure =
        activity.housekeeping().bursts == 0 && memory_in_use(facts, series, idle.window).is_none();
    let may_work = may_be_work(facts, (instance, series), idle);
    match is_long && is_known && is_pure && !may_work {
        true => Level::Medium,
        false => Level::Low,
    }
}

/// Whether the CPU use is no housekeeping if the machine, whose size is unknown, has many cores.
fn may_be_work(
    facts: &Facts<'_>,
    (instance, series): (&Instance, &MetricSeries),
    idle: &IdleTime,
) -> bool {
    let half = Share::from_ppm(facts.policy.metrics.cpu_floor_ppm / 2);
    let peak = series.hourly_peak_since(idle.window.from);
    cores(facts, instance).is_none() && peak.is_some_and(|peak| peak >= half)
}

/// Asks for metrics of all signals of a machine. The error is the missing signal.
pub(crate) fn see_everything<'a>(
    facts: &Facts<'a>,
    instance: &Instance,
    q: &mut RuleTrace,
) -> Result<&'a MetricSeries, String> {
    let series = facts.metrics.get(&instance.id).filter(|s| !s.is_empty());
    let points = series.map_or(0, |series| series.points().len());
    q.holds(
        "No probe: are there metrics?",
        (format_args!("{points} points"), "at least 1"),
        series.map(|_| true),
    );
    let series = series.ok_or("no probe and no metrics")?;
    let missing = missing_signal(facts, instance, series);
    q.holds(
        "Do the metrics cover all signals of the node?",
        (missing.as_deref().unwrap_or("yes"), ""),
        missing.is_none().then_some(true),
    );
    match missing {
        Some(missing) => Err(missing),
        None => Ok(series),
    }
}

/// Idle time of a machine, and whether it is long enough.
pub(crate) fn idle_time(
    facts: &Facts<'_>,
    activity: &MetricActivity<'_>,
    launched_at: Option<Timestamp>,
) -> Outcome {
    let after = facts.policy.metrics.idle_after();
    let (span, worked_until) = (activity.span(), activity.worked_until());
    let silent = Duration::try_from(facts.now.duration_since(span.to)).unwrap_or_default();
    if silent > after {
        return Outcome::Unknown(format!("its metrics end {} ago", HumanDuration(silent)));
    }
    let since = worked_until
        .unwrap_or(span.from)
        .max(launched_at.unwrap_or(span.from));
    let quiet = Window {
        from: since,
        to: span.to,
    };
    if quiet.length() < after {
        let quiet = HumanDuration(quiet.length());
        return match worked_until {
            Some(_) => Outcome::InUse(format!("{quiet}: active before that")),
            None => Outcome::Unknown(format!(
                "metrics cover only {quiet}; at least {} are required",
                HumanDuration(after)
            )),
        };
    }
    let (window, coverage) = match covered(facts, activity, quiet) {
        Ok(covered) => covered,
        Err(why) => return Outcome::Unknown(why),
    };
    if let Some(why) = holds_back(facts, activity.series(), window) {
        return Outcome::Unknown(why);
    }
    let (quiet, shown) = (HumanDuration(window.length()), span.length());
    let longest = activity.longest_pause().unsigned_abs();
    match activity.pause(facts, window.from) {
        Pause::Unusual => Outcome::Idle(IdleTime {
            window,
            coverage,
            shown,
            worked_before: worked_until.is_some(),
        }),
        Pause::Usual => Outcome::InUse(format!(
            "{quiet}, and earlier pauses took up to {}",
            HumanDuration(longest)
        )),
        Pause::Unknown => Outcome::Unknown(format!(
            "last active {quiet} ago, and {} of metrics are too short to show the usual pause",
            HumanDuration(shown)
        )),
        Pause::MonthEnd => Outcome::Unknown(format!(
            "in {} of metrics, the node was active only around the end of a month, and may be \
             needed again",
            HumanDuration(shown)
        )),
    }
}

/// The longest end of a window with enough coverage, and that coverage. The error lists the missing
/// signals.
fn covered(
    facts: &Facts<'_>,
    activity: &MetricActivity<'_>,
    window: Window,
) -> Result<(Window, Share), String> {
    let (signals, series) = (activity.signals(), activity.series());
    let least = facts.policy.idle.min_coverage();
    let of = |window: Window, signals: &[Signal]| {
        coverage(series, window, |point| {
            signals.iter().all(|(_, is_known)| is_known(point))
        })
    };
    let after = facts.policy.metrics.idle_after();
    let shorter = [WEEK, DAY * 2, DAY].map(SignedDuration::unsigned_abs);
    let shorter = shorter.into_iter().chain([after]).filter_map(|length| {
        let from = window.to.checked_sub(length).ok()?;
        (from > window.from).then_some(Window { from, ..window })
    });
    let mut windows = std::iter::once(window).chain(shorter);
    let known = windows.find_map(|window| {
        let known = of(window, signals);
        (known >= least).then_some((window, known))
    });
    known.ok_or_else(|| {
        let lacks = |signal: &&Signal| of(window, std::slice::from_ref(signal)) < least;
        let lacking: Vec<&str> = signals
            .iter()
            .filter(lacks)
            .map(|(name, _)| *name)
            .collect();
        // Each signal may have enough coverage, while all signals together do not.
        let what = match lacking.is_empty() {
            true => "all required signals".to_owned(),
            false => lacking.join(" and "),
        };
        format!(
            "metrics of {what} cover only {} of the last {}",
            of(window, signals).compared_with(least),
            HumanDuration(window.length())
        )
    })
}

/// Hardware of the machine without metrics.
fn missing_signal(facts: &Facts<'_>, instance: &Instance, series: &MetricSeries) -> Option<String> {
    let spec = facts.catalogue.spec(&instance.instance_type);
    if spec.is_some_and(|spec| spec.accelerators.is_some()) {
        return Some("there are no metrics of its accelerator".to_owned());
    }
    if is_unknown_accelerator(facts, instance) {
        return Some(format!(
            "instance type {} is not in the catalogue, and its family has GPUs or accelerators",
            instance.instance_type
        ));
    }
    missing_gpu_metrics(gpus(facts, instance).filter(|gpus| *gpus > 0)?, series)
}

/// Whether only the name of its type shows that the machine has GPUs or accelerators.
pub(crate) fn is_unknown_accelerator(facts: &Facts<'_>, instance: &Instance) -> bool {
    let is_in_catalogue = facts.catalogue.spec(&instance.instance_type).is_some();
    let gpus = instance.hardware.and_then(|hardware| hardware.gpus);
    !is_in_catalogue && gpus.is_none() && instance.instance_type.is_accelerated_by_name()
}

/// Reason why metrics do not cover all GPUs of a machine; `None` if they do.
pub(crate) fn missing_gpu_metrics(gpus: u32, series: &MetricSeries) -> Option<String> {
    if !series.points().any(|point| point.gpu.is_some()) {
        return Some("there are no metrics of its GPU".to_owned());
    }
    let covered = series.gpus.filter(|covered| *covered < gpus)?;
    Some(format!("metrics cover only {covered} of its {gpus} GPUs"))
}

fn reason(
    facts: &Facts<'_>,
    (instance, series): (&Instance, &MetricSeries),
    activity: &MetricActivity<'_>,
    idle: &IdleTime,
) -> String {
    let mut text =
        "no probe, and metrics cannot distinguish a monitoring agent from work".to_owned();
    if idle.shown < ALMOST_A_FORTNIGHT.unsigned_abs() {
        text += &format!("; metrics cover only {}", HumanDuration(idle.shown));
    }
    if idle.shown < WEEK.unsigned_abs() && facts.price_of(instance).is_some() {
        text += ", and the saving covers only this time";
    }
    if let Some(peak) = series.hourly_peak_since(idle.window.from) {
        text += &format!("; CPU maximum per hour: {peak} (mean over all hours)");
    }
    if may_be_work(facts, (instance, series), idle) {
        text += ", which may be work if the node has many cores";
    }
    let housekeeping = activity.housekeeping();
    if housekeeping.bursts > 0 {
        text += &format!(
            "; {} short bursts of at most {} CPU are treated as system maintenance",
            housekeeping.bursts, housekeeping.cpu
        );
    }
    if let Some(memory) = series.most_memory_since(idle.window.from) {
        text += &format!("; memory usage is at most {memory}");
    }
    let owed = series.credits.and_then(|credits| credits.surplus_millis);
    if let Some(owed) = owed.filter(|owed| *owed > 0) {
        text += &format!(
            "; {} surplus CPU credits from earlier work are not yet paid back",
            owed / 1_000
        );
    }
    match gpus(facts, instance) {
        None => text += "; it is unknown whether the node has a GPU",
        Some(0) => {}
        Some(_) => text += "; the GPU metrics show no activity",
    }
    text
}
