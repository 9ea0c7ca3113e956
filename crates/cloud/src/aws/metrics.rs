//! Utilization from CloudWatch, for nodes without a probe.

mod insights;
mod supplementary;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use aws_sdk_cloudwatch::Client;
use aws_sdk_cloudwatch::primitives::DateTime;
use aws_sdk_cloudwatch::types::{
    Dimension, Metric, MetricDataQuery, MetricDataResult, MetricStat, ScanBy,
};
use ebb_model::inventory::batch::task::TaskFamily;
use ebb_model::metric_series::{MetricPoint, MetricSeries};
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::identity::{NodeId, Region};
use ebb_telemetry::units::Share;
use jiff::{SignedDuration, Timestamp};
use supplementary::SupplementaryMetrics;

use super::config::AwsConfig;
use super::error::cloud_error;
use super::time::timestamp;
use crate::permissions::GET_METRIC_DATA;
use crate::ports::{
    CloudResult, METRICS_PER_NODE, MetricsSource, NodeMetrics, Stream, period_seconds,
};
use crate::turns::in_turns_of;

/// Maximum number of queries in one call.
const QUERIES_A_CALL: usize = 500;

/// Number of parallel calls for an account and region. CloudWatch allows 50 calls a second, and
/// each takes some tenths of a second.
///
/// Source: "CloudWatch service quotas", `GetMetricData`.
const CALLS_AT_ONCE: usize = 8;

/// Maximum number of points in one page. A second page costs as much as another request of all its
/// metrics.
///
/// Source: API reference, `GetMetricData`, `MaxDatapoints`.
const POINTS_A_PAGE: i64 = 100_800;

/// The metrics of each node, with the statistic of a period. The maximum is used because an average
/// hides a short burst of work.
const METRICS: [(&str, &str); METRICS_PER_NODE as usize] = [
    ("CPUUtilization", "Maximum"),
    ("NetworkIn", "Sum"),
    ("NetworkOut", "Sum"),
    ("EBSReadBytes", "Sum"),
    ("EBSWriteBytes", "Sum"),
    ("DiskReadBytes", "Sum"),
    ("DiskWriteBytes", "Sum"),
];

/// A node and its optional metrics.
type Node = (NodeId, Vec<Stream>);

/// The values by the position of the node, as in [`query_id`], and the start of the period, in the
/// order of the queries.
type Periods = BTreeMap<(usize, Timestamp), Vec<Option<f64>>>;

/// CloudWatch in every region of the account.
#[derive(Debug, Clone)]
pub struct AwsMetrics {
    config: AwsConfig,
    requested: Arc<AtomicU64>,
}

impl AwsMetrics {
    /// For the account of `config`.
    pub fn new(config: &AwsConfig) -> Self {
        Self {
            config: config.clone(),
            requested: Arc::default(),
        }
    }
}

#[async_trait]
impl MetricsSource for AwsMetrics {
    async fn list_supplementary(
        &self,
        region: &Region,
        nodes: &[NodeId],
    ) -> CloudResult<NodeMetrics> {
        let client = client!(aws_sdk_cloudwatch, self.config, region);
        supplementary::list(&client, nodes, &self.requested).await
    }

    async fn utilization(
        &self,
        region: &Region,
        nodes: &NodeMetrics,
        from: Timestamp,
        to: Timestamp,
    ) -> CloudResult<BTreeMap<NodeId, MetricSeries>> {
        let client = client!(aws_sdk_cloudwatch, self.config, region);
        let queries = queries_a_call((from, to));
        let calls = calls(nodes, queries).into_iter().map(|some| {
            let requested = Arc::clone(&self.requested);
            ask(client.clone(), some, (from, to), requested)
        });
        let mut all = BTreeMap::new();
        for answer in in_turns_of(CALLS_AT_ONCE, calls.collect::<Vec<_>>()).await {
            all.extend(answer?);
        }
        Ok(all)
    }

    async fn of_tasks(
        &self,
        region: &Region,
        families: &BTreeSet<TaskFamily>,
        from: Timestamp,
        to: Timestamp,
    ) -> CloudResult<BTreeMap<TaskFamily, MetricSeries>> {
        let client = client!(aws_sdk_cloudwatch, self.config, region);
        insights::read(&client, families, (from, to), &self.requested).await
    }

    fn least_pages(&self) -> u64 {
        supplementary::LISTED.len() as u64
    }

    fn metrics_requested(&self) -> u64 {
        self.requested.load(Ordering::Relaxed)
    }

    fn take_gaps(&self) -> Vec<Gap> {
        Vec::new()
    }
}

/// Number of queries in one call such that the answer is one page.
fn queries_a_call((from, to): (Timestamp, Timestamp)) -> usize {
    let period = i64::from(period_seconds(from, to));
    let points = (to.as_second() - from.as_second())
        .div_euclid(period)
        .max(0)
        + 1;
    let queries = usize::try_from(POINTS_A_PAGE / points).unwrap_or(QUERIES_A_CALL);
    queries.clamp(1, QUERIES_A_CALL)
}

/// Divides the nodes into calls of at most `queries_a_call` queries, with at least one node in
/// each.
fn calls(nodes: &NodeMetrics, queries_a_call: usize) -> Vec<Vec<Node>> {
    let mut calls: Vec<Vec<Node>> = Vec::new();
    let mut left = 0;
    for (node, supplementary) in nodes {
        let queries = METRICS.len() + supplementary.len();
        if calls.is_empty() || queries > left {
            calls.push(Vec::new());
            left = queries_a_call;
        }
        left = left.saturating_sub(queries);
        let last = calls.last_mut();
        last.into_iter()
            .for_each(|call| call.push((node.clone(), supplementary.clone())));
    }
    calls
}

/// The result of one call for these nodes, with all its pages.
async fn ask(
    client: Client,
    nodes: Vec<Node>,
    (from, to): (Timestamp, Timestamp),
    requested: Arc<AtomicU64>,
) -> CloudResult<BTreeMap<NodeId, MetricSeries>> {
    let many = |node| metrics_of(&nodes, node);
    let period_seconds = period_seconds(from, to);
    let queries = ("metrics", queries(&nodes, period_seconds));
    let periods = periods(&client, queries, (from, to), many, &requested).await?;
    Ok(series(&nodes, &periods, period_seconds))
}

/// Number of metrics of a node: the common metrics and its optional ones.
fn metrics_of(nodes: &[Node], node: usize) -> Option<usize> {
    Some(METRICS.len() + nodes.get(node)?.1.len())
}

/// All pages of one call about `what`; `many` returns the number of metrics at a position.
async fn periods(
    client: &Client,
    (what, queries): (&str, Vec<MetricDataQuery>),
    (from, to): (Timestamp, Timestamp),
    many: impl Fn(usize) -> Option<usize>,
    requested: &AtomicU64,
) -> CloudResult<Periods> {
    let query_count = queries.len() as u64;
    let mut pages = client
        .get_metric_data()
        .set_metric_data_queries(Some(queries))
        .start_time(DateTime::from_millis(from.as_millisecond()))
        .end_time(DateTime::from_millis(to.as_millisecond()))
        .scan_by(ScanBy::TimestampAscending)
        .into_paginator()
        .send();
    let mut periods = Periods::new();
    // Each page requests every metric again, and counts as such.
    requested.fetch_add(query_count, Ordering::Relaxed);
    while let Some(page) = pages.next().await {
        let page = page.map_err(|e| cloud_error(GET_METRIC_DATA, what, &e))?;
        for result in page.metric_data_results() {
            collect(result, &many, &mut periods);
        }
        if page.next_token().is_some() {
            requested.fetch_add(query_count, Ordering::Relaxed);
        }
    }
    Ok(periods)
}

fn queries(nodes: &[Node], period_seconds: u32) -> Vec<MetricDataQuery> {
    let each = nodes
        .iter()
        .enumerate()
        .flat_map(|(n, (node, supplementary))| {
            let of_all = METRICS.iter().map(|(name, statistic)| {
                let on = Dimension::builder().name(supplementary::INSTANCE);
                let on = vec![on.value(node.as_str()).build()];
                stat(("AWS/EC2", name, statistic), on, period_seconds)
            });
            let supplementary = supplementary.iter();
            let supplementary =
                supplementary.map(|stream| supplementary::stat(stream, period_seconds));
            let stats = of_all.chain(supplementary).enumerate();
            let queries = stats.map(move |(m, stat)| {
                let query = MetricDataQuery::builder().id(query_id(n, m));
                query.metric_stat(stat).build()
            });
            queries.collect::<Vec<_>>()
        });
    each.collect()
}

fn stat(
    (namespace, name, statistic): (&str, &str, &str),
    on: Vec<Dimension>,
    period_seconds: u32,
) -> MetricStat {
    let metric = Metric::builder().namespace(namespace).metric_name(name);
    let metric = metric.set_dimensions(Some(on)).build();
    let stat = MetricStat::builder().metric(metric).stat(statistic);
    stat.period(period_seconds.cast_signed()).build()
}

/// CloudWatch requires an id that begins with a lower-case letter.
fn query_id(node: usize, metric: usize) -> String {
    format!("n{node}m{metric}")
}

fn of_query_id(id: &str) -> Option<(usize, usize)> {
    let (node, metric) = id.strip_prefix('n')?.split_once('m')?;
    Some((node.parse().ok()?, metric.parse().ok()?))
}

/// Stores the values of one query in their positions.
fn collect(
    result: &MetricDataResult,
    many: impl Fn(usize) -> Option<usize>,
    periods: &mut Periods,
) {
    let place = result.id().and_then(of_query_id);
    let place = place.and_then(|(whose, metric)| Some((whose, metric, many(whose)?)));
    let Some((whose, metric, metric_count)) = place else {
        return;
    };
    for (at, value) in result.timestamps().iter().zip(result.values()) {
        let Some(begin) = timestamp(at) else { continue };
        let period = periods.entry((whose, begin));
        let period = period.or_insert_with(|| vec![None; metric_count]);
        if let Some(place) = period.get_mut(metric) {
            *place = Some(*value);
        }
    }
}

fn series(
    nodes: &[Node],
    periods: &Periods,
    period_seconds: u32,
) -> BTreeMap<NodeId, MetricSeries> {
    let mut by_node: BTreeMap<NodeId, MetricSeries> = BTreeMap::new();
    for ((node, begin), period) in periods {
        let Some((node, streams)) = nodes.get(*node) else {
            continue;
        };
        let Some((common_values, supplementary)) = period.split_first_chunk() else {
            continue;
        };
        let Some(point) = point((*begin, period_seconds), common_values) else {
            continue;
        };
        let supplementary = SupplementaryMetrics::from_streams(streams, supplementary);
        let series = by_node.entry(node.clone()).or_default();
        supplementary.last_into(series);
        series.push(MetricPoint {
            memory: supplementary.memory,
            gpu: supplementary.gpu,
            ..point
        });
    }
    by_node
}

/// If one part of a sum is missing, the sum is unknown. Instance storage is missing on most types,
/// so it is added to EBS only if it exists.
fn point(
    (begin, period_seconds): (Timestamp, u32),
    common_values: &[Option<f64>; METRICS.len()],
) -> Option<MetricPoint> {
    let [
        cpu,
        net_in,
        net_out,
        ebs_read,
        ebs_write,
        disk_read,
        disk_write,
    ] = *common_values;
    let both = |a: Option<f64>, b: Option<f64>| Some(bytes(a?)?.saturating_add(bytes(b?)?));
    let disk = [both(ebs_read, ebs_write), both(disk_read, disk_write)];
    let length = SignedDuration::from_secs(i64::from(period_seconds));
    Some(MetricPoint {
        cpu_max: cpu.and_then(percent),
        network_bytes: both(net_in, net_out),
        disk_bytes: disk.into_iter().flatten().reduce(u64::saturating_add),
        ..MetricPoint::new(begin.checked_add(length).ok()?, period_seconds)
    })
}

fn bytes(value: f64) -> Option<u64> {
    (value.is_finite() && value >= 0.0).then_some(value as u64)
}

fn percent(value: f64) -> Option<Share> {
    let real = value.is_finite() && value >= 0.0;
    real.then(|| Share::from_ppm((value * 10_000.0).round() as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: i64 = 1_700_000_000;

    fn result(id: &str, value: f64) -> MetricDataResult {
        MetricDataResult::builder()
            .id(id)
            .timestamps(DateTime::from_secs(BEGIN))
            .values(value)
            .build()
    }

    fn nodes() -> Vec<Node> {
        let ids = ["i-1", "i-2"];
        ids.map(|id| (NodeId::new(id).expect("a node"), Vec::new()))
            .to_vec()
    }

    #[test]
    fn every_node_is_asked_for_every_metric_once() {
        let requests = queries(&nodes(), 300);
        assert_eq!(requests.len() as u64, 2 * METRICS_PER_NODE);
        let ids: std::collections::BTreeSet<_> = requests.iter().filter_map(|q| q.id()).collect();
        assert_eq!(ids.len(), requests.len());
        assert_eq!(of_query_id(&query_id(12, 3)), Some((12, 3)));
        assert_eq!(of_query_id("q1"), None);
    }

    #[test]
    fn no_call_asks_for_more_metrics_than_it_may() {
        let stream = Stream {
            tells: crate::ports::Tells::Gpu,
            dimensions: Vec::new(),
        };
        let nodes = (0..200).map(|n| {
            let node = NodeId::new(format!("i-{n}")).expect("a node");
            (node, vec![stream.clone(); n % 19])
        });
        let nodes: NodeMetrics = nodes.collect();
        for most in [QUERIES_A_CALL, 300] {
            let calls = calls(&nodes, most);
            assert!(calls.iter().all(|call| queries(call, 300).len() <= most));
            assert_eq!(calls.concat().len(), nodes.len());
        }
    }

    #[test]
    fn no_call_asks_for_more_points_than_a_page_holds() {
        let check = |hours: i64, expect: usize| {
            let to = Timestamp::from_second(BEGIN).expect("a time");
            let from = to - SignedDuration::from_hours(hours);
            assert_eq!(queries_a_call((from, to)), expect, "{hours} h");
        };
        check(12, 500);
        check(24, 348);
        // 323 hours of 14 days remain, in addition to twelve with five-minute periods.
        check(323, 311);
        check(90 * 24, 46);
    }

    #[test]
    fn missing_metrics_are_unknown_and_a_node_without_data_is_left_out() {
        let check = |results: &[(&str, f64)], cpu_ppm, network_bytes, disk_bytes| {
            let mut periods = BTreeMap::new();
            for (id, value) in results {
                let many = |node| metrics_of(&nodes(), node);
                collect(&result(id, *value), many, &mut periods);
            }
            let by_node = series(&nodes(), &periods, 300);
            assert_eq!(by_node.len(), 1);
            let got = by_node[&nodes()[1].0].points().next().expect("a point");
            assert_eq!(got.end.as_second(), BEGIN + 300);
            assert_eq!(got.cpu_max.map(Share::ppm), cpu_ppm);
            assert_eq!(
                (got.network_bytes, got.disk_bytes),
                (network_bytes, disk_bytes)
            );
        };
        check(&[("n1m0", 12.5)], Some(125_000), None, None);
        check(&[("n1m1", 7.0), ("n1m2", 8.0)], None, Some(15), None);
        check(&[("n1m1", 7.0)], None, None, None);
        check(&[("n1m3", 1.0), ("n1m4", 2.0)], None, None, Some(3));
        check(
            &[("n1m3", 1.0), ("n1m4", 2.0), ("n1m5", 4.0), ("n1m6", 8.0)],
            None,
            None,
            Some(15),
        );
    }
}
