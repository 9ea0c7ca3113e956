//! Metrics that only some nodes have: CPU credits of burstable types, and memory and GPU metrics of
//! the CloudWatch agent. Their dimensions are only known from a list of metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_sdk_cloudwatch::Client;
use aws_sdk_cloudwatch::types::{Dimension, DimensionFilter, Metric, MetricStat, RecentlyActive};
use ebb_model::metric_series::{Credits, MetricSeries};
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::units::{Bytes, Share};

use super::{CALLS_AT_ONCE, bytes, percent};
use crate::aws::error::cloud_error;
use crate::permissions::LIST_METRICS;
use crate::ports::{CloudError, CloudResult, NodeMetrics, Stream, Tells};
use crate::turns::in_turns_of;

/// The listed metrics: namespace, name, and statistic of a period.
///
/// Sources: EC2 user guide, "CPU credit metrics"; CloudWatch user guide, "Metrics collected
/// by the CloudWatch agent on Linux and macOS instances" and "Collect NVIDIA GPU metrics";
/// `CWAgent` is the agent's namespace unless its configuration names another.
pub(super) const LISTED: [(Tells, &str, &str, &str); 5] = [
    (Tells::CreditsLeft, "AWS/EC2", "CPUCreditBalance", "Minimum"),
    (
        Tells::CreditsOwed,
        "AWS/EC2",
        "CPUSurplusCreditBalance",
        "Maximum",
    ),
    (Tells::Memory, "CWAgent", "mem_used_percent", "Maximum"),
    (
        Tells::Gpu,
        "CWAgent",
        "nvidia_smi_utilization_gpu",
        "Maximum",
    ),
    (
        Tells::GpuMemory,
        "CWAgent",
        "nvidia_smi_memory_used",
        "Maximum",
    ),
];

pub(super) const INSTANCE: &str = "InstanceId";

/// The dimension with the number of a GPU.
const INDEX: &str = "index";

/// Maximum number of GPUs of a machine; each stream costs money.
const MAX_GPUS: usize = 16;

/// 100,000 streams of each metric; each page costs money.
const MAX_PAGES: usize = 200;

/// Lists the metrics that these nodes sent within three hours.
pub(super) async fn list(
    client: &Client,
    nodes: &[NodeId],
    requested: &Arc<AtomicU64>,
) -> CloudResult<NodeMetrics> {
    let calls = LISTED.map(|(tells, namespace, name, _)| {
        let (client, requested) = (client.clone(), Arc::clone(requested));
        async move { list_one(&client, (tells, namespace, name), &requested).await }
    });
    let nodes: BTreeSet<&NodeId> = nodes.iter().collect();
    let mut all: BTreeMap<NodeId, Vec<Stream>> = BTreeMap::new();
    for found in in_turns_of(CALLS_AT_ONCE, calls).await {
        for (node, stream) in found? {
            if nodes.contains(&node) {
                all.entry(node).or_default().push(stream);
            }
        }
    }
    let all = all.into_iter();
    Ok(all.map(|(node, found)| (node, chosen(found))).collect())
}

async fn list_one(
    client: &Client,
    (tells, namespace, name): (Tells, &str, &str),
    requested: &AtomicU64,
) -> CloudResult<Vec<(NodeId, Stream)>> {
    let read = |metric: &Metric| stream(tells, metric);
    let what = (namespace, name, INSTANCE);
    list_metrics(client, what, (name, MAX_PAGES), requested, read).await
}

/// The metrics with this namespace, name and dimension that were sent within three hours; metrics
/// that `read` rejects are left out. Errors are about `what`.
pub(super) async fn list_metrics<T>(
    client: &Client,
    (namespace, name, dimension): (&str, &str, &str),
    (what, max_pages): (&str, usize),
    requested: &AtomicU64,
    read: impl Fn(&Metric) -> Option<T>,
) -> CloudResult<Vec<T>> {
    let by = DimensionFilter::builder().name(dimension).build();
    let call = client.list_metrics().namespace(namespace).metric_name(name);
    let call = call.dimensions(by).recently_active(RecentlyActive::Pt3H);
    let mut pages = call.into_paginator().send();
    let mut found = Vec::new();
    for _ in 0..max_pages {
        requested.fetch_add(1, Ordering::Relaxed);
        let Some(page) = pages.next().await else {
            break;
        };
        let page = page.map_err(|e| cloud_error(LIST_METRICS, what, &e))?;
        found.extend(page.metrics().iter().filter_map(&read));
        if page.next_token().is_none() {
            return Ok(found);
        }
    }
    Err(CloudError::Failed {
        operation: LIST_METRICS.to_owned(),
        message: format!("{what} has more than {max_pages} pages"),
    })
}

fn stream(tells: Tells, metric: &Metric) -> Option<(NodeId, Stream)> {
    let dimensions = metric.dimensions().iter();
    let dimensions = dimensions.map(|on| Some((on.name()?.to_owned(), on.value()?.to_owned())));
    let dimensions: Vec<(String, String)> = dimensions.collect::<Option<_>>()?;
    let node = dimensions.iter().find(|(name, _)| name == INSTANCE)?;
    let node = NodeId::new(&node.1).ok()?;
    Some((node, Stream { tells, dimensions }))
}

/// Selects the streams to query. An agent can send the same metric under several sets of
/// dimensions; the smallest set is used. If possible, each GPU is queried separately, because only
/// then it is known that all GPUs are included.
fn chosen(mut found: Vec<Stream>) -> Vec<Stream> {
    found.sort_by_key(|stream| (stream.tells, stream.dimensions.len()));
    let mut kept: BTreeMap<(Tells, Option<String>), Stream> = BTreeMap::new();
    let by_one: BTreeSet<Tells> = found
        .iter()
        .filter(|stream| index(stream).is_some())
        .map(|stream| stream.tells)
        .collect();
    for stream in found {
        let index = index(&stream).map(str::to_owned);
        if index.is_some() || !by_one.contains(&stream.tells) {
            kept.entry((stream.tells, index)).or_insert(stream);
        }
    }
    let mut count: BTreeMap<Tells, usize> = BTreeMap::new();
    let bounded = kept.into_values().filter(|stream| {
        let count = count.entry(stream.tells).or_default();
        *count += 1;
        *count <= MAX_GPUS
    });
    bounded.collect()
}

fn index(stream: &Stream) -> Option<&str> {
    let is_gpus = matches!(stream.tells, Tells::Gpu | Tells::GpuMemory);
    let mut names = stream.dimensions.iter();
    let index = names.find(|(name, _)| is_gpus && name == INDEX)?;
    Some(&index.1)
}

/// The query for a stream.
pub(super) fn stat(stream: &Stream, period_seconds: u32) -> MetricStat {
    let on = stream.dimensions.iter().map(|(name, value)| {
        let on = Dimension::builder().name(name);
        on.value(value).build()
    });
    let listed = LISTED.iter().find(|(tells, ..)| *tells == stream.tells);
    let (_, namespace, name, statistic) = listed.unwrap_or(&LISTED[0]);
    super::stat((namespace, name, statistic), on.collect(), period_seconds)
}

/// The optional values of one period.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SupplementaryMetrics {
    pub(super) memory: Option<Share>,
    /// Utilization of the busiest GPU; `None` unless all GPUs reported it.
    pub(super) gpu: Option<Share>,
    gpus: Option<u32>,
    held: Option<Bytes>,
    left: Option<f64>,
    owed: Option<f64>,
}

impl SupplementaryMetrics {
    pub(super) fn from_streams(streams: &[Stream], values: &[Option<f64>]) -> Self {
        let of = |tells: Tells| {
            let pairs = streams.iter().zip(values);
            pairs.filter(move |(stream, _)| stream.tells == tells)
        };
        let one = |tells| of(tells).find_map(|(_, value)| *value);
        let all = |tells| {
            of(tells)
                .map(|(_, value)| *value)
                .collect::<Option<Vec<f64>>>()
        };
        let busiest = all(Tells::Gpu).and_then(|shares| shares.into_iter().reduce(f64::max));
        let held = all(Tells::GpuMemory).filter(|amounts| !amounts.is_empty());
        let mib = held.and_then(|amounts| amounts.into_iter().map(bytes).sum::<Option<u64>>());
        let by_one = of(Tells::Gpu).filter(|(stream, _)| index(stream).is_some());
        Self {
            memory: one(Tells::Memory).and_then(percent),
            gpu: busiest.and_then(percent),
            gpus: u32::try_from(by_one.count()).ok().filter(|gpus| *gpus > 0),
            held: mib.map(Bytes::mib),
            left: one(Tells::CreditsLeft),
            owed: one(Tells::CreditsOwed),
        }
    }

    /// Stores the values of the last period that has them.
    pub(super) fn last_into(&self, series: &mut MetricSeries) {
        let millis = |credits: f64| bytes(credits * 1_000.0);
        series.gpus = self.gpus.or(series.gpus);
        series.gpu_held = self.held.or(series.gpu_held);
        if let Some(left_millis) = self.left.and_then(millis) {
            series.credits = Some(Credits {
                left_millis,
                surplus_millis: self.owed.and_then(millis),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_stream(tells: Tells, dimensions: &[(&str, &str)]) -> Stream {
        let dimensions = dimensions.iter();
        let dimensions = dimensions.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Stream {
            tells,
            dimensions: dimensions.collect(),
        }
    }

    const HOST: (&str, &str) = (INSTANCE, "i-1");

    #[test]
    fn of_several_sets_of_dimensions_the_smallest_is_asked_for_and_of_gpus_each_one() {
        let check = |found: &[Stream], expect: &[&Stream]| {
            let got = chosen(found.to_vec());
            assert_eq!(got.iter().collect::<Vec<_>>(), expect);
        };
        let plain = make_stream(Tells::Memory, &[HOST]);
        let whole = make_stream(
            Tells::Memory,
            &[HOST, ("ImageId", "ami-1"), ("InstanceType", "m5.large")],
        );
        check(&[whole.clone(), plain.clone()], &[&plain]);
        check(std::slice::from_ref(&whole), &[&whole]);
        let rolled = make_stream(Tells::Gpu, &[HOST]);
        let one = make_stream(Tells::Gpu, &[HOST, ("index", "0"), ("name", "Tesla T4")]);
        let other = make_stream(Tells::Gpu, &[HOST, ("index", "1"), ("name", "Tesla T4")]);
        let wide = make_stream(
            Tells::Gpu,
            &[HOST, ("index", "1"), ("name", "x"), ("arch", "Turing")],
        );
        check(std::slice::from_ref(&rolled), &[&rolled]);
        let all = [wide, rolled, other.clone(), one.clone()];
        check(&all, &[&one, &other]);
    }

    #[test]
    fn a_gpu_that_did_not_tell_leaves_the_period_unknown() {
        let streams = [
            make_stream(Tells::CreditsLeft, &[HOST]),
            make_stream(Tells::CreditsOwed, &[HOST]),
            make_stream(Tells::Memory, &[HOST]),
            make_stream(Tells::Gpu, &[HOST, ("index", "0")]),
            make_stream(Tells::Gpu, &[HOST, ("index", "1")]),
            make_stream(Tells::GpuMemory, &[HOST, ("index", "0")]),
            make_stream(Tells::GpuMemory, &[HOST, ("index", "1")]),
        ];
        let mut series = MetricSeries::default();
        let full = [0.5, 0.0, 12.5, 0.0, 40.0, 100.0, 28.0].map(Some);
        let supplementary = SupplementaryMetrics::from_streams(&streams, &full);
        assert_eq!(supplementary.memory.map(Share::ppm), Some(125_000));
        assert_eq!(supplementary.gpu.map(Share::ppm), Some(400_000));
        supplementary.last_into(&mut series);
        let part = [None, None, None, Some(40.0), None, Some(1.0), None];
        let supplementary = SupplementaryMetrics::from_streams(&streams, &part);
        assert_eq!((supplementary.memory, supplementary.gpu), (None, None));
        supplementary.last_into(&mut series);
        assert_eq!(series.gpus, Some(2));
        assert_eq!(series.gpu_held, Some(Bytes::mib(128)));
        let credits = Credits {
            left_millis: 500,
            surplus_millis: Some(0),
        };
        assert_eq!(series.credits, Some(credits));
        assert!(SupplementaryMetrics::from_streams(&[], &[]).gpu.is_none());
    }
}
