//! Container Insights metrics of Fargate tasks, by task family. They exist only for clusters that
//! enable them, so they are listed before they are queried.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;

use aws_sdk_cloudwatch::Client;
use aws_sdk_cloudwatch::types::{Dimension, Metric, MetricDataQuery};
use ebb_model::inventory::batch::task::TaskFamily;
use ebb_model::metric_series::{MetricPoint, MetricSeries};
use jiff::{SignedDuration, Timestamp};

use super::supplementary::list_metrics;
use super::{Periods, bytes, percent, periods, queries_a_call, query_id, stat};
use crate::ports::{CloudResult, METRICS_PER_FAMILY, period_seconds};

const NAMESPACE: &str = "ECS/ContainerInsights";
const CLUSTER: &str = "ClusterName";
const FAMILY: &str = "TaskDefinitionFamily";

/// The metrics of each family. Each task sends a sample, so the maximum is that of the busiest
/// task. For reserved resources the minimum is used, so that a share is never too small. Network is
/// in bytes a second.
///
/// Source: CloudWatch user guide, "Amazon ECS Container Insights metrics".
const METRICS: [(&str, &str); METRICS_PER_FAMILY as usize] = [
    ("CpuUtilized", "Maximum"),
    ("CpuReserved", "Minimum"),
    ("MemoryUtilized", "Maximum"),
    ("MemoryReserved", "Minimum"),
    ("NetworkRxBytes", "Maximum"),
    ("NetworkTxBytes", "Maximum"),
];

/// 10,000 families; each page costs money.
const MAX_PAGES: usize = 20;

/// One period of one family, in the order of [`METRICS`].
type Period = [Option<f64>; METRICS.len()];

/// The series of these families, as far as Container Insights has them.
pub(super) async fn read(
    client: &Client,
    families: &BTreeSet<TaskFamily>,
    (from, to): (Timestamp, Timestamp),
    requested: &AtomicU64,
) -> CloudResult<BTreeMap<TaskFamily, MetricSeries>> {
    let listed = list(client, requested).await?;
    let known_families = families.iter().filter(|family| {
        let (cluster, name) = family.names();
        listed.contains(&(cluster.to_owned(), name.to_owned()))
    });
    let known_families: Vec<&TaskFamily> = known_families.collect();
    let mut all = BTreeMap::new();
    let period_seconds = period_seconds(from, to);
    let families_a_call = (queries_a_call((from, to)) / METRICS.len()).max(1);
    for some in known_families.chunks(families_a_call) {
        let many = |_| Some(METRICS.len());
        let queries = (NAMESPACE, queries(some, period_seconds));
        let periods = periods(client, queries, (from, to), many, requested).await?;
        all.extend(series(some, &periods, period_seconds));
    }
    Ok(all)
}

/// Cluster and family of each stream. The same metrics also exist under other dimensions, which are
/// sums over other groups.
async fn list(client: &Client, requested: &AtomicU64) -> CloudResult<BTreeSet<(String, String)>> {
    let what = (NAMESPACE, METRICS[0].0, FAMILY);
    let pages = (NAMESPACE, MAX_PAGES);
    let found = list_metrics(client, what, pages, requested, listed).await?;
    Ok(found.into_iter().collect())
}

fn listed(metric: &Metric) -> Option<(String, String)> {
    let value = |wanted: &str| {
        let mut each = metric.dimensions().iter();
        let on = each.find(|on| on.name() == Some(wanted))?;
        on.value().map(str::to_owned)
    };
    let pair = Some((value(CLUSTER)?, value(FAMILY)?));
    pair.filter(|_| metric.dimensions().len() == 2)
}

fn queries(families: &[&TaskFamily], period_seconds: u32) -> Vec<MetricDataQuery> {
    let each = families.iter().enumerate().flat_map(|(n, family)| {
        let (cluster, name) = family.names();
        let on = [(CLUSTER, cluster), (FAMILY, name)];
        let on = on.map(|(name, value)| Dimension::builder().name(name).value(value).build());
        METRICS
            .iter()
            .enumerate()
            .map(move |(m, (name, statistic))| {
                let query = MetricDataQuery::builder().id(query_id(n, m));
                let stat = stat((NAMESPACE, name, statistic), on.to_vec(), period_seconds);
                query.metric_stat(stat).build()
            })
    });
    each.collect()
}

fn series(
    families: &[&TaskFamily],
    periods: &Periods,
    period_seconds: u32,
) -> BTreeMap<TaskFamily, MetricSeries> {
    let mut all: BTreeMap<TaskFamily, MetricSeries> = BTreeMap::new();
    for ((family, begin), period) in periods {
        let Some(family) = families.get(*family) else {
            continue;
        };
        let period = period.first_chunk();
        let point = period.and_then(|period| point((*begin, period_seconds), period));
        if let Some(point) = point {
            all.entry((*family).clone()).or_default().push(point);
        }
    }
    all
}

/// A share is unknown if the reserved amount is unknown, and a sum is unknown if one part is
/// missing.
fn point((begin, period_seconds): (Timestamp, u32), period: &Period) -> Option<MetricPoint> {
    let [cpu, of_cpu, memory, of_memory, received, sent] = *period;
    let share = |used: Option<f64>, of: Option<f64>| {
        let of = of.filter(|of| *of > 0.0)?;
        percent((used? / of * 100.0).min(100.0))
    };
    let moved = |rate: Option<f64>| bytes(rate? * f64::from(period_seconds));
    let network = moved(received).zip(moved(sent));
    let length = SignedDuration::from_secs(i64::from(period_seconds));
    Some(MetricPoint {
        cpu_max: share(cpu, of_cpu),
        memory: share(memory, of_memory),
        network_bytes: network.map(|(a, b)| a.saturating_add(b)),
        ..MetricPoint::new(begin.checked_add(length).ok()?, period_seconds)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(dimensions: &[(&str, &str)]) -> Metric {
        let each = dimensions.iter();
        let each = each.map(|(name, value)| Dimension::builder().name(*name).value(*value).build());
        Metric::builder()
            .set_dimensions(Some(each.collect()))
            .build()
    }

    #[test]
    fn only_a_familys_own_figures_are_asked_for() {
        let check = |dimensions: &[(&str, &str)], expect: bool| {
            assert_eq!(listed(&metric(dimensions)).is_some(), expect);
        };
        check(&[(CLUSTER, "web"), (FAMILY, "api")], true);
        check(&[(CLUSTER, "web")], false);
        check(&[(CLUSTER, "web"), ("ServiceName", "api")], false);
        let one = [(CLUSTER, "web"), (FAMILY, "api"), ("TaskId", "t")];
        check(&one, false);
    }

    #[test]
    fn shares_are_of_what_is_reserved_and_unknown_is_not_zero() {
        let begin = Timestamp::from_second(1_700_000_000).expect("a time");
        let check =
            |period: Period, cpu: Option<u32>, memory: Option<u32>, network: Option<u64>| {
                let metric_point = point((begin, 300), &period).expect("a point");
                let shares = (
                    metric_point.cpu_max.map(|s| s.ppm()),
                    metric_point.memory.map(|s| s.ppm()),
                );
                assert_eq!(
                    (shares, metric_point.network_bytes),
                    ((cpu, memory), network)
                );
            };
        let whole = [512.0, 1024.0, 1024.0, 4096.0, 10.0, 20.0].map(Some);
        check(whole, Some(500_000), Some(250_000), Some(9_000));
        let mut part = whole;
        (part[1], part[3], part[5]) = (None, Some(0.0), None);
        check(part, None, None, None);
        check([None; 6], None, None, None);
    }
}
