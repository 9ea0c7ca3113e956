//! Idle by metrics of the cloud, for nodes without a probe: weaker evidence, a
//! longer wait, lower confidence.

use super::{KIND, Quiet, Verdict, found};
use crate::finding::{Confidence, IdleNode, Level, SeenBy, Window};
use crate::fleet::Instance;
use crate::judge::{Facts, MetricPoint, MetricSeries};
use crate::units::{Share, Spoken};

pub(super) fn judge(facts: &Facts<'_>, instance: &Instance) -> Option<Verdict> {
    let undetermined = |reason: String| {
        Some(Verdict::undetermined(
            KIND,
            instance.id.as_str(),
            instance.name(),
            reason,
        ))
    };
    let Some(series) = facts.metrics.get(&instance.id).filter(|s| !s.is_empty()) else {
        return undetermined("no probe on it, and no metrics".into());
    };
    if has_gpu(facts, instance) == Some(true) {
        return undetermined("undetermined: metrics say nothing of its GPU".into());
    }
    match quiet(facts, instance, series) {
        Ok(Some(quiet)) => Some(Verdict::Waste(Box::new(found(facts, instance, quiet)))),
        Ok(None) => None,
        Err(reason) => undetermined(reason),
    }
}

fn quiet(
    facts: &Facts<'_>,
    instance: &Instance,
    series: &MetricSeries,
) -> Result<Option<Quiet>, String> {
    let after = facts.policy.metrics.idle_after();
    let Some(window) = quiet_window(facts, instance, series) else {
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
    let coverage = coverage(series, window);
    if coverage < facts.policy.idle.min_coverage() {
        return Err(format!(
            "undetermined: metrics cover only {coverage} of the last {}",
            Spoken(window.length())
        ));
    }
    Ok(Some(Quiet {
        window,
        coverage,
        evidence: IdleNode {
            idle_for: window.length(),
            never_active: None,
            background_cores: None,
            kept_alive_by: None,
            seen_by: SeenBy::Metrics,
        },
        origin: crate::judge::labelled(&instance.tags),
        confidence: Confidence {
            level: Level::Low,
            reason: reason(facts, instance, series),
        },
    }))
}

/// Or another accelerator; `None` where neither the catalogue nor the cloud tells.
fn has_gpu(facts: &Facts<'_>, instance: &Instance) -> Option<bool> {
    let spec = facts.catalogue.spec(&instance.instance_type);
    let by_type = spec.map(|spec| spec.gpus.is_some() || spec.accelerators.is_some());
    let told = || Some(instance.hardware?.gpus? > 0);
    by_type.or_else(told)
}

fn reason(facts: &Facts<'_>, instance: &Instance, series: &MetricSeries) -> String {
    let mut said = "no probe: metrics do not tell a monitoring agent from work".to_owned();
    if let Some(peak) = series.hourly_peak() {
        said += &format!("; its hours' CPU peaks at {peak} on average");
    }
    if let Some(memory) = series.points().filter_map(|point| point.memory).max() {
        said += &format!("; at most {memory} of its memory is in use");
    }
    if has_gpu(facts, instance).is_none() {
        said += "; whether it has a GPU is not known";
    }
    said
}

/// From the end of the last busy point to the newest point.
fn quiet_window(facts: &Facts<'_>, instance: &Instance, series: &MetricSeries) -> Option<Window> {
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
        from: from.max(instance.launched_at.unwrap_or(from)),
        to,
    })
}

fn begin(point: MetricPoint) -> Option<jiff::Timestamp> {
    point
        .end
        .checked_sub(std::time::Duration::from_secs(point.period_seconds.into()))
        .ok()
}

/// Floors as for a probe, but CPU is of the whole machine. What is unknown is
/// not busy; coverage leaves such a point out.
fn is_busy(facts: &Facts<'_>, point: &MetricPoint) -> bool {
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

/// The share of the window with both CPU and network known.
fn coverage(series: &MetricSeries, window: Window) -> Share {
    let known: u64 = series
        .points()
        .filter(|p| p.end > window.from && p.cpu_max.is_some() && p.network_bytes.is_some())
        .map(|point| u64::from(point.period_seconds))
        .sum();
    Share::of(known, window.length().as_secs()).unwrap_or(Share::NONE)
}
