//! CPU credits, metrics of the CloudWatch agent, and Container Insights, over the real SDK. They
//! are listed page by page, requested with all their dimensions, and counted.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use ebb_cloud::aws::AwsMetrics;
use ebb_cloud::ports::{METRICS_PER_FAMILY, METRICS_PER_NODE, MetricsSource};
use ebb_model::inventory::batch::task::TaskFamily;
use ebb_model::metric_series::Credits;
use ebb_telemetry::identity::{NodeId, Region};
use ebb_telemetry::units::{Bytes, Share};
use ebb_tests::simulated::Simulated;
use jiff::{SignedDuration, Timestamp};

use super::home;

/// The simulator returns one metric on a page: two of credits, and two sets of dimensions of memory
/// and of each GPU metric.
const PAGES: u64 = 8;

pub(crate) async fn of_agents_are_found(account: &Simulated) -> Result<()> {
    let text = |key: &str| account.result["watched"][key].as_str().context("a text");
    let (node, region) = (NodeId::new(text("node")?)?, Region::new(text("region")?)?);
    let metrics = AwsMetrics::new(&home(account).await?);
    let nobody = [NodeId::new("i-0ebb0000000000000")?];
    assert_eq!(
        metrics.list_supplementary(&region, &nobody).await?,
        BTreeMap::new()
    );
    assert_eq!(metrics.metrics_requested(), PAGES);
    let supplementary = metrics
        .list_supplementary(&region, std::slice::from_ref(&node))
        .await?;
    let to = Timestamp::now();
    let from = to - SignedDuration::from_mins(60);
    let mut by_node = metrics
        .utilization(&region, &supplementary, from, to)
        .await?;
    let streams = supplementary[&node].len() as u64;
    assert_eq!(streams, 2 + 1 + 2 + 2, "memory is asked for once");
    let expected_requests = 2 * PAGES + METRICS_PER_NODE + streams;
    assert_eq!(metrics.metrics_requested(), expected_requests);
    let series = by_node.remove(&node).context("it has data")?;
    let credits = Credits {
        left_millis: 250,
        surplus_millis: Some(0),
    };
    assert_eq!(series.credits, Some(credits));
    assert_eq!(series.gpus, Some(2));
    assert_eq!(series.gpu_held, Some(Bytes::mib(4_099)));
    assert_eq!(series.most_memory().map(Share::ppm), Some(375_000));
    let gpu: Vec<_> = series.points().filter_map(|point| point.gpu).collect();
    assert!(gpu.len() > 3, "{gpu:?}");
    assert!(gpu.iter().all(|gpu| gpu.ppm() == 800_000), "{gpu:?}");
    assert!(series.points().any(|point| point.cpu_max.is_some()));
    Ok(())
}

/// Dimensions and units as in the CloudWatch user guide, page "Amazon ECS Container Insights
/// metrics". The sums over a cluster's tasks belong to no family.
pub(crate) async fn of_tasks_are_found(account: &Simulated) -> Result<()> {
    let region = account.result["watched"]["region"].as_str();
    let region = Region::new(region.context("a region")?)?;
    let metrics = AwsMetrics::new(&home(account).await?);
    let cluster = format!("arn:aws:ecs:{region}:123456789012:cluster/web");
    let family = |name: &str| TaskFamily::new(&cluster, name);
    let to = Timestamp::now();
    let from = to - SignedDuration::from_mins(60);
    let silent = [family("silent")].into();
    let by_family = metrics.of_tasks(&region, &silent, from, to).await?;
    assert_eq!((by_family.len(), metrics.metrics_requested()), (0, 1));
    let both = [family("api"), family("silent")].into();
    let mut by_family = metrics.of_tasks(&region, &both, from, to).await?;
    assert_eq!(metrics.metrics_requested(), 2 + METRICS_PER_FAMILY);
    let series = by_family.remove(&family("api")).context("it has data")?;
    assert!(by_family.is_empty(), "{by_family:?}");
    let points: Vec<_> = series.points().collect();
    assert!(points.len() > 3, "{points:?}");
    for point in points {
        assert_eq!(point.cpu_max.map(Share::ppm), Some(500_000));
        assert_eq!(point.memory.map(Share::ppm), Some(250_000));
        assert_eq!(point.network_bytes, Some(30 * 300));
    }
    Ok(())
}
