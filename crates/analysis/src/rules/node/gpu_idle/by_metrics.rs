//! GPUs of a machine without a probe, from the metrics of a monitoring agent.

use std::time::Duration;

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::evidence::idle::SeenBy;
use ebb_model::inventory::instance::{Instance, InstanceState};
use ebb_model::metric_series::MetricPoint;
use ebb_telemetry::origin::labelled;
use ebb_telemetry::time::Window;
use ebb_telemetry::units::HumanDuration;

use crate::facts::Facts;

use crate::rules::node::gpu_idle::idle_gpus::{Resting, is_waste, make_finding, patience};

use crate::metric_activity;
use crate::rules::node::idle::by_metrics;
use crate::rules::trace::RuleTrace;
use crate::rules::verdict::Verdict;

/// `None` if no agent reports the GPUs. The idle rule reports such a machine as not evaluated.
pub(crate) fn evaluate(
    facts: &Facts<'_>,
    instance: &Instance,
    q: &mut RuleTrace,
) -> Option<Verdict> {
    let series = facts.metrics.get(&instance.id)?;
    let gpus = metric_activity::gpus(facts, instance).filter(|gpus| *gpus > 0)?;
    let gpu_points = || series.points().filter(|point| point.gpu.is_some());
    let (first, last) = (gpu_points().next()?, gpu_points().next_back()?);
    let since = |from| Duration::try_from(last.end.duration_since(from)).unwrap_or_default();
    let fresh = Duration::try_from(facts.now.duration_since(last.end)).unwrap_or_default();
    let computed = gpu_points().filter(|point| metric_activity::computes(facts, point));
    let from = computed.map(|point| point.end).max();
    let from = from.or_else(|| metric_activity::begin(first))?;
    let window = Window {
        from: from.max(instance.launched_at.unwrap_or(from)),
        to: last.end,
    };
    let cpu_floor = metric_activity::cpu_floor(facts, instance);
    let works = series
        .points()
        .filter(|point| metric_activity::works(facts, point, cpu_floor));
    let worked = works.map(|point| since(point.end)).min();
    let works = worked.is_some_and(|ago| ago < patience(facts) / 2);
    let is_known = |point: &MetricPoint| point.gpu.is_some();
    let coverage = metric_activity::coverage(series, window, is_known);
    let missing = by_metrics::missing_gpu_metrics(gpus, series);
    let late = facts.policy.metrics.idle_after();
    let goes_on = q.holds(
        "Is the instance running, and how old are its GPU metrics?",
        (
            HumanDuration(fresh),
            format_args!("at most {}", HumanDuration(late)),
        ),
        instance.state == InstanceState::Running && fresh <= late,
    ) && q.holds(
        "Do the metrics cover all GPUs?",
        (missing.as_deref().unwrap_or("yes"), ""),
        missing.is_none().then_some(true),
    ) && is_waste(facts, instance, q, (works, Some(window.length()), coverage));
    if !goes_on {
        return None;
    }
    let resting = Resting {
        window,
        coverage,
        gpus,
        held: series.gpu_held,
        holders: Vec::new(),
        observed_by: SeenBy::Metrics,
        origin: labelled(&instance.tags),
        confidence: Confidence {
            level: Level::Medium,
            reason: format!(
                "no probe; the CloudWatch agent reported GPU metrics for {coverage} of that time"
            ),
        },
    };
    Some(make_finding(facts, instance, resting))
}

#[cfg(test)]
mod tests {
    use crate::testing::{World, instance};
    use ebb_model::metric_series::MetricSeries;
    use ebb_telemetry::identity::InstanceType;
    use ebb_telemetry::testing::{at, node};
    use ebb_telemetry::units::{Bytes, Share};

    use super::*;

    /// A machine with one GPU and busy cores for `hours` hours; the GPU is busy for `busy` hours.
    fn machine(hours: u64, busy: u64, change: impl FnOnce(&mut MetricSeries)) -> World {
        let mut machine = instance(1);
        machine.instance_type = InstanceType::new("g4dn.xlarge").expect("a type");
        let mut world = World::with([machine]);
        world.now = at(hours * 3600 + 60);
        let points = (0..hours * 12).map(|n| MetricPoint {
            cpu_max: Some(Share::from_ppm(400_000)),
            network_bytes: Some(0),
            gpu: Some(Share::from_ppm(if n < busy * 12 { 500_000 } else { 0 })),
            ..MetricPoint::new(at((n + 1) * 300), 300)
        });
        let mut series: MetricSeries = points.collect();
        series.gpus = Some(1);
        change(&mut series);
        world.metrics.insert(node(1), series);
        world
    }

    #[test]
    fn a_gpu_is_idle_by_its_agents_figures_where_the_cores_work() {
        let check = |name: &str, world: World, expect: Option<&str>| {
            let found = world.evaluate().findings;
            let outcome = found
                .first()
                .map(|f| (f.evidence.to_string(), f.confidence.level));
            let expect = expect.map(|text| (text.to_owned(), Level::Medium));
            assert_eq!(outcome, expect, "{name}");
        };
        let idle = "1 GPU idle for 3 h 00 min, according to the CloudWatch agent";
        check("it rests", machine(4, 1, |_| ()), Some(idle));
        check("it computes", machine(4, 4, |_| ()), None);
        check("not for long", machine(4, 3, |_| ()), None);
        let held = |series: &mut MetricSeries| series.gpu_held = Some(Bytes::gib(10));
        let words = "1 GPU idle for 3 h 00 min, 10.0 GiB of GPU memory in use, according to the \
                     CloudWatch agent";
        check("it is held", machine(4, 1, held), Some(words));
        let none = |series: &mut MetricSeries| series.gpus = Some(0);
        check("it is not told of", machine(4, 1, none), None);
        let gaps = |series: &mut MetricSeries| {
            let points = series
                .points()
                .filter(|point| point.end.as_second() % 600 == 0);
            *series = points.collect();
        };
        check("half is not seen", machine(4, 1, gaps), None);
        let quiet = |series: &mut MetricSeries| {
            let points = series.points();
            let points = points.map(|point| MetricPoint {
                cpu_max: Some(Share::NONE),
                ..point
            });
            *series = points.collect();
        };
        check("all of it rests", machine(4, 1, quiet), None);
    }
}
