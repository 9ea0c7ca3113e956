//! Utilization of instances from Cloud Monitoring, aligned to periods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use ebb_model::inventory::batch::task::TaskFamily;
use ebb_model::metric_series::{MetricPoint, MetricSeries};
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::identity::{NodeId, Region};
use ebb_telemetry::units::Share;
use google_cloud_monitoring_v3::client::MetricService;
use google_cloud_monitoring_v3::model::aggregation::{Aligner, Reducer};
use google_cloud_monitoring_v3::model::typed_value::Value;
use google_cloud_monitoring_v3::model::{Aggregation, Point, TimeInterval, TimeSeries};
use jiff::Timestamp;

use super::GcpConfig;
use super::error::cloud_error;
use crate::ports::{CloudError, CloudResult, MetricsSource, NodeMetrics, period_seconds};

const LIST: &str = "monitoring.timeSeries.list";

/// Number of points in a page; larger pages take long.
const PAGE: i32 = 50_000;

/// Maximum number of pages.
const MAX_PAGES: usize = 1_000;

const INSTANCE: &str = "instance_id";

/// One value of a period, and its metric. The values of all interfaces and disks of an instance are
/// summed.
struct MetricRequest {
    metric: &'static str,
    /// An additional filter for the series.
    only: &'static str,
    aligner: Aligner,
}

/// In the order of [`GcpPeriod`].
///
/// Source: "Google Cloud metrics: compute" and "Ops Agent metrics: agent/memory". Memory is
/// available only if the agent runs.
static METRICS: [MetricRequest; NUMBERS] = [
    of_instance(
        "compute.googleapis.com/instance/cpu/utilization",
        Aligner::AlignMax,
    ),
    of_instance(
        "compute.googleapis.com/instance/network/received_bytes_count",
        Aligner::AlignDelta,
    ),
    of_instance(
        "compute.googleapis.com/instance/network/sent_bytes_count",
        Aligner::AlignDelta,
    ),
    of_instance(
        "compute.googleapis.com/instance/disk/read_bytes_count",
        Aligner::AlignDelta,
    ),
    of_instance(
        "compute.googleapis.com/instance/disk/write_bytes_count",
        Aligner::AlignDelta,
    ),
    MetricRequest {
        metric: "agent.googleapis.com/memory/percent_used",
        only: " AND metric.labels.state = \"used\"",
        aligner: Aligner::AlignMax,
    },
];

const fn of_instance(metric: &'static str, aligner: Aligner) -> MetricRequest {
    MetricRequest {
        metric,
        only: "",
        aligner,
    }
}

/// Number of values in a period.
const NUMBERS: usize = 6;

type GcpPeriod = [Option<f64>; NUMBERS];

/// Metrics from Cloud Monitoring.
#[derive(Debug)]
pub struct GcpMetrics {
    config: GcpConfig,
    pages: AtomicU64,
}

impl GcpMetrics {
    /// For a project.
    pub fn new(config: &GcpConfig) -> Self {
        Self {
            config: config.clone(),
            pages: AtomicU64::new(0),
        }
    }

    /// Number of pages requested so far.
    pub fn pages_requested(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }

    /// All series of one metric in a region.
    async fn ask(
        &self,
        client: &MetricService,
        (region, metric_request): (&Region, &MetricRequest),
        (from, to): (Timestamp, Timestamp),
        take: &mut impl FnMut(&TimeSeries),
    ) -> CloudResult<()> {
        let filter = format!(
            "metric.type = \"{}\" AND resource.type = \"gce_instance\" AND resource.labels.zone \
             = starts_with(\"{region}-\"){}",
            metric_request.metric, metric_request.only
        );
        let period = i64::from(period_seconds(from, to));
        let period = google_cloud_wkt::Duration::clamp(period, 0);
        let aligned = Aggregation::new()
            .set_alignment_period(period)
            .set_per_series_aligner(metric_request.aligner.clone())
            .set_cross_series_reducer(Reducer::ReduceSum)
            .set_group_by_fields(["resource.labels.instance_id"]);
        let interval = TimeInterval::new()
            .set_start_time(google_cloud_wkt::Timestamp::clamp(from.as_second(), 0))
            .set_end_time(google_cloud_wkt::Timestamp::clamp(to.as_second(), 0));
        let mut page = String::new();
        for _ in 0..MAX_PAGES {
            self.pages.fetch_add(1, Ordering::Relaxed);
            let call = client
                .list_time_series()
                .set_name(format!("projects/{}", self.config.project()))
                .set_filter(&filter)
                .set_interval(interval.clone())
                .set_aggregation(aligned.clone())
                .set_page_size(PAGE)
                .set_page_token(page);
            let answer = call.send().await;
            let answer =
                answer.map_err(|error| cloud_error(LIST, self.config.project(), &error))?;
            if let Some(error) = answer.execution_errors.first() {
                return Err(incomplete(&error.message));
            }
            answer.time_series.iter().for_each(&mut *take);
            page = answer.next_page_token;
            if page.is_empty() {
                return Ok(());
            }
        }
        Err(incomplete("too many pages"))
    }
}

/// The error of an incomplete answer. Missing data could be activity, so nothing is evaluated.
fn incomplete(why: &str) -> CloudError {
    CloudError::Failed {
        operation: LIST.to_owned(),
        message: format!("incomplete response: {}", crate::ports::bounded(why)),
    }
}

#[async_trait]
impl MetricsSource for GcpMetrics {
    async fn utilization(
        &self,
        region: &Region,
        nodes: &NodeMetrics,
        from: Timestamp,
        to: Timestamp,
    ) -> CloudResult<BTreeMap<NodeId, MetricSeries>> {
        let client = self.config.monitoring().await?;
        let mut periods: BTreeMap<(NodeId, Timestamp), GcpPeriod> = BTreeMap::new();
        for (place, metric_request) in METRICS.iter().enumerate() {
            let mut take = |series: &TimeSeries| {
                let Some(node) = node(series).filter(|node| nodes.contains_key(node)) else {
                    return;
                };
                for (end, value) in series.points.iter().filter_map(number) {
                    let period = periods.entry((node.clone(), end)).or_default();
                    period[place] = Some(value);
                }
            };
            self.ask(&client, (region, metric_request), (from, to), &mut take)
                .await?;
        }
        let mut by_node: BTreeMap<NodeId, MetricSeries> = BTreeMap::new();
        for ((node, end), period) in periods {
            let series = by_node.entry(node).or_default();
            series.push(point((end, period_seconds(from, to)), &period));
        }
        Ok(by_node)
    }

    /// Metrics are not charged individually: a project can read a million series a month for free.
    ///
    /// Source: "Google Cloud Observability pricing", Monitoring API calls.
    fn metrics_requested(&self) -> u64 {
        0
    }

    async fn list_supplementary(
        &self,
        _region: &Region,
        _nodes: &[NodeId],
    ) -> CloudResult<NodeMetrics> {
        Ok(NodeMetrics::new())
    }

    async fn of_tasks(
        &self,
        _region: &Region,
        _families: &BTreeSet<TaskFamily>,
        _from: Timestamp,
        _to: Timestamp,
    ) -> CloudResult<BTreeMap<TaskFamily, MetricSeries>> {
        Ok(BTreeMap::new())
    }

    fn take_gaps(&self) -> Vec<Gap> {
        Vec::new()
    }

    fn least_pages(&self) -> u64 {
        0
    }
}

fn node(series: &TimeSeries) -> Option<NodeId> {
    let labels = &series.resource.as_ref()?.labels;
    NodeId::new(labels.get(INSTANCE)?.as_str()).ok()
}

fn number(point: &Point) -> Option<(Timestamp, f64)> {
    let end = point.interval.as_ref()?.end_time?;
    let value = match point.value.as_ref()?.value.as_ref()? {
        Value::DoubleValue(value) => *value,
        Value::Int64Value(value) => *value as f64,
        _ => return None,
    };
    let real = value.is_finite() && value >= 0.0;
    let end = Timestamp::new(end.seconds(), end.nanos()).ok()?;
    real.then_some((end, value))
}

/// If one part of a sum is missing, the sum is unknown.
fn point((end, seconds): (Timestamp, u32), period: &GcpPeriod) -> MetricPoint {
    let [cpu, received, sent, read, written, memory] = *period;
    let share = |whole: f64| move |value: f64| Share::from_ppm((value / whole * 1e6) as u32);
    let both = |a: Option<f64>, b: Option<f64>| Some((a? + b?) as u64);
    MetricPoint {
        cpu_max: cpu.map(share(1.0)),
        network_bytes: both(received, sent),
        disk_bytes: both(read, written),
        memory: memory.map(share(100.0)),
        ..MetricPoint::new(end, seconds)
    }
}
