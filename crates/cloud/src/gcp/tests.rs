//! Tests of the real clients with a server that answers as documented.

use std::collections::BTreeMap;

use ebb_model::inventory::instance::{Controller, InstanceState, Market, Provider};
use ebb_telemetry::identity::{NodeId, Region};
use ebb_telemetry::units::{Bytes, MilliCores, Share};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::server::{Answer, Server, refusal};
use super::{GcpConfig, GcpInventory, GcpMetrics};
use crate::ports::{CloudError, InventorySource, MetricsSource};

fn region(name: &str) -> Region {
    Region::new(name).expect("a region")
}

/// An instance as in the reference of `instances.aggregatedList`, shortened.
fn instance(id: &str, name: &str, machine: &str) -> Value {
    let zone = "https://www.googleapis.com/compute/v1/projects/lab/zones/europe-west6-a";
    json!({
        "kind": "compute#instance",
        "id": id,
        "name": name,
        "status": "RUNNING",
        "zone": zone,
        "machineType": format!("{zone}/machineTypes/{machine}"),
        "creationTimestamp": "2026-09-01T04:00:00.000-07:00",
        "lastStartTimestamp": "2026-09-10T04:00:00.000-07:00",
        "labels": {"owner": "ada"},
        "scheduling": {"provisioningModel": "STANDARD", "preemptible": false},
    })
}

fn with(mut instance: Value, key: &str, value: Value) -> Value {
    instance[key] = value;
    instance
}

fn page(zone: &str, instances: &[Value], next: Option<&str>) -> Answer {
    let items = json!({
        format!("zones/{zone}"): {"instances": instances},
        "zones/us-central1-f": {"warning": {
            "code": "NO_RESULTS_ON_PAGE",
            "message": "There are no results for scope 'zones/us-central1-f' on this page.",
        }},
    });
    let mut body = json!({"kind": "compute#instanceAggregatedList", "items": items});
    if let Some(next) = next {
        body["nextPageToken"] = json!(next);
    }
    (200, body.to_string())
}

fn compute(target: &str) -> Answer {
    if let Some((_, name)) = target.split_once("/machineTypes/") {
        let name = name.split('?').next().unwrap_or_default();
        if name == "gone-1" {
            return refusal(404, "NOT_FOUND", "The resource was not found");
        }
        let gpus = json!([{"guestAcceleratorType": "nvidia-l4", "guestAcceleratorCount": 1}]);
        let accelerators = if name.starts_with("g2") {
            gpus
        } else {
            json!([])
        };
        let body = json!({
            "name": name, "guestCpus": 8, "memoryMb": 32768, "accelerators": accelerators,
        });
        return (200, body.to_string());
    }
    let spot = json!({"provisioningModel": "SPOT", "preemptible": true});
    let group = "projects/1/zones/europe-west6-a/instanceGroupManagers/workers";
    let made = json!({"items": [
        {"key": "startup-script", "value": "not ours to read"},
        {"key": "created-by", "value": group},
    ]});
    let accelerator = json!([{"acceleratorType": "x/nvidia-tesla-t4", "acceleratorCount": 2}]);
    match target.contains("pageToken=second") {
        false => page(
            "europe-west6-a",
            &[
                instance("11", "build", "n2-standard-8"),
                with(instance("12", "gpu", "g2-standard-8"), "scheduling", spot),
                with(instance("13", "worker", "n2-standard-8"), "metadata", made),
            ],
            Some("second"),
        ),
        true => page(
            "us-east1-b",
            &[
                with(
                    instance("14", "t4", "n1-standard-8"),
                    "guestAccelerators",
                    accelerator,
                ),
                with(
                    instance("15", "off", "gone-1"),
                    "status",
                    json!("TERMINATED"),
                ),
                with(
                    instance("16", "odd", "n2-standard-8"),
                    "status",
                    json!("MELTED"),
                ),
            ],
            None,
        ),
    }
}

#[tokio::test]
async fn instances_of_all_pages_have_the_properties_of_their_types() {
    let server = Server::start(compute);
    let inventory = GcpInventory::new(&server.config());
    let everywhere = inventory.regions().await.expect("one");
    let project_inventory = inventory.gather(&everywhere[0]).await.expect("it answers");
    let of = |id: &str| &project_inventory.instances[&NodeId::new(id).expect("an id")];
    assert_eq!(project_inventory.instances.len(), 5);

    let build = of("11");
    assert_eq!((build.name(), build.owner()), (Some("build"), Some("ada")));
    assert_eq!(build.region, region("europe-west6"));
    assert_eq!(build.instance_type.as_str(), "n2-standard-8");
    let provider = Provider::Gcp {
        project: "lab".to_owned(),
        zone: "europe-west6-a".to_owned(),
    };
    assert_eq!(build.provider, provider);
    assert_eq!(
        (build.state, build.market),
        (InstanceState::Running, Market::OnDemand)
    );
    let started = "2026-09-10T11:00:00Z".parse().expect("a time");
    assert_eq!(build.launched_at, Some(started));
    let hardware = build.hardware.expect("the type is known");
    assert_eq!(
        (hardware.cores, hardware.memory),
        (MilliCores::cores(8), Bytes::gib(32))
    );

    let gpus = |id: &str| of(id).hardware.and_then(|hardware| hardware.gpus);
    assert_eq!(
        [gpus("11"), gpus("12"), gpus("14"), gpus("15")],
        [Some(0), Some(1), Some(2), None]
    );
    assert_eq!(of("12").market, Market::Spot);
    let group = Controller::InstanceGroup("workers".to_owned());
    assert_eq!(of("13").controller, Some(group));
    assert_eq!(
        (of("15").state, of("14").region.as_str()),
        (InstanceState::Stopped, "us-east1")
    );

    let gaps: Vec<_> = project_inventory
        .gaps
        .iter()
        .map(|g| (g.scope.as_str(), g.reason.as_str()))
        .collect();
    let unknown = "odd: unknown status MELTED";
    let gone = "compute.machineTypes.get: gone-1 does not exist";
    assert_eq!(
        gaps,
        [
            ("lab: compute.instances.list", unknown),
            ("lab: compute.machineTypes.get", gone)
        ]
    );
    let targets = server.targets();
    let lists = targets
        .iter()
        .filter(|target| target.contains("/aggregated/instances"));
    assert_eq!(lists.count(), 2, "{targets:#?}");
}

#[tokio::test]
async fn one_region_is_a_part_of_the_project() {
    let server = Server::start(compute);
    let inventory = GcpInventory::new(&server.config());
    let region_inventory = inventory
        .gather(&region("us-east1"))
        .await
        .expect("it answers");
    assert_eq!(region_inventory.instances.len(), 2);
}

/// The kind, operation and message of an error.
fn describe_error(error: &CloudError) -> (&'static str, String) {
    let kind = match error {
        CloudError::Denied { .. } => "denied",
        CloudError::Missing { .. } => "missing",
        CloudError::Conflict { .. } => "conflict",
        CloudError::Failed { .. } => "failed",
    };
    (kind, error.to_string())
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_error_keeps_its_kind() {
    let check = async |answer: Answer, kind: &str, words: &str, attempts: usize| {
        let server = Server::start(move |_| answer.clone());
        let inventory = GcpInventory::new(&server.config());
        let refused = inventory.gather(&region("global")).await.expect_err(words);
        let (is, says) = describe_error(&refused);
        assert_eq!(is, kind, "{says}");
        assert!(
            says.starts_with("compute.instances.list") && says.contains(words),
            "{says}"
        );
        assert_eq!(server.targets().len(), attempts, "{says}");

        let metrics = GcpMetrics::new(&server.config());
        let node = BTreeMap::from([(NodeId::new("11").expect("an id"), Vec::new())]);
        let (from, to) = (
            Timestamp::UNIX_EPOCH,
            Timestamp::from_second(900).expect("a time"),
        );
        let refused = metrics
            .utilization(&region("europe-west6"), &node, from, to)
            .await;
        let (is, says) = describe_error(&refused.expect_err(words));
        assert_eq!(is, kind, "{says}");
        assert!(says.starts_with("monitoring.timeSeries.list"), "{says}");
    };
    let refused = |code, status| refusal(code, status, "the service's words");
    check(refused(401, "UNAUTHENTICATED"), "denied", "gcloud auth", 1).await;
    check(
        refused(403, "PERMISSION_DENIED"),
        "denied",
        "403 the service's words",
        1,
    )
    .await;
    check(
        refused(404, "NOT_FOUND"),
        "missing",
        "lab does not exist",
        1,
    )
    .await;
    check(refused(429, "RESOURCE_EXHAUSTED"), "failed", "429", 4).await;
    check(
        refused(500, "INTERNAL"),
        "failed",
        "500 the service's words",
        1,
    )
    .await;
    check(refused(503, "UNAVAILABLE"), "failed", "503", 4).await;
    check((200, "{\"items\": [".to_owned()), "failed", "", 1).await;
    check(
        (502, "<html>Bad Gateway</html>".to_owned()),
        "failed",
        "",
        1,
    )
    .await;
}

#[test]
fn what_is_no_project_id_is_refused() {
    let check = |project: &str, expect: bool| {
        assert_eq!(GcpConfig::new(project).is_ok(), expect, "{project}");
    };
    check("lab-1", true);
    check("example.com:lab", true);
    check("", false);
    check("../lab", false);
    check("a b", false);
}

/// One series with points at these period ends, newest first as in the API.
fn series(id: &str, values: &[(i64, Value)]) -> Value {
    let points = values.iter().rev().map(|(end, value)| {
        let end = Timestamp::from_second(*end).expect("a time").to_string();
        json!({"interval": {"startTime": end, "endTime": end}, "value": value})
    });
    json!({
        "resource": {"type": "gce_instance", "labels": {"instance_id": id, "project_id": "lab"}},
        "metricKind": "GAUGE",
        "valueType": "DOUBLE",
        "points": points.collect::<Vec<_>>(),
    })
}

fn monitoring(target: &str) -> Answer {
    let double = |value: f64| json!({"doubleValue": value});
    let int = |value: i64| json!({"int64Value": value.to_string()});
    let body = match target {
        // CPU in two pages, the second with a gap and another machine.
        t if t.contains("utilization") && t.contains("pageToken=next") => json!({
            "timeSeries": [series("11", &[(1_500, double(0.9))]), series("99", &[(300, double(0.1))])],
        }),
        t if t.contains("utilization") => json!({
            "timeSeries": [series("11", &[(300, double(0.02)), (600, double(1.4))])],
            "nextPageToken": "next",
        }),
        t if t.contains("received") => {
            json!({"timeSeries": [series("11", &[(300, int(1_000)), (600, int(5))])]})
        }
        t if t.contains("sent") => json!({"timeSeries": [series("11", &[(300, int(500))])]}),
        t if t.contains("percent_used") => {
            json!({"timeSeries": [series("11", &[(300, double(62.5))])]})
        }
        _ => json!({}),
    };
    (200, body.to_string())
}

#[tokio::test]
async fn series_of_all_pages_are_joined_by_period_and_a_gap_stays_one() {
    let server = Server::start(monitoring);
    let metrics = GcpMetrics::new(&server.config());
    let node = NodeId::new("11").expect("an id");
    let (from, to) = (
        Timestamp::UNIX_EPOCH,
        Timestamp::from_second(1_800).expect("a time"),
    );
    let nodes = [node.clone(), NodeId::new("12").expect("an id")];
    let nodes = nodes.map(|node| (node, Vec::new())).into();
    let by_node = metrics
        .utilization(&region("europe-west6"), &nodes, from, to)
        .await;
    let by_node = by_node.expect("it answers");
    assert_eq!(by_node.keys().collect::<Vec<_>>(), [&node]);
    let points = by_node[&node].points().map(|p| {
        let cpu = p.cpu_max.map(Share::ppm);
        (
            p.end.as_second(),
            cpu,
            p.network_bytes,
            p.disk_bytes,
            p.memory.map(Share::ppm),
        )
    });
    assert_eq!(
        points.collect::<Vec<_>>(),
        [
            (300, Some(20_000), Some(1_500), None, Some(625_000)),
            (600, Some(1_000_000), None, None, None),
            (1_500, Some(900_000), None, None, None),
        ]
    );
    assert_eq!(metrics.pages_requested(), 7);
    let targets = server.targets();
    let first = &targets[0];
    for part in [
        "/v3/projects/lab/timeSeries?",
        // Enumerations are encoded as numbers: ALIGN_MAX and REDUCE_SUM.
        "perSeriesAligner=11&",
        "crossSeriesReducer=4&",
        "europe-west6-",
    ] {
        assert!(first.contains(part), "{first}");
    }
}

#[tokio::test]
async fn an_answer_that_says_it_is_not_complete_is_none() {
    let partial = json!({"timeSeries": [], "executionErrors": [{"code": 4, "message": "late"}]});
    let server = Server::start(move |_| (200, partial.to_string()));
    let metrics = GcpMetrics::new(&server.config());
    let (from, to) = (
        Timestamp::UNIX_EPOCH,
        Timestamp::from_second(900).expect("a time"),
    );
    let refused = metrics
        .utilization(&region("europe-west6"), &BTreeMap::new(), from, to)
        .await;
    let (kind, says) = describe_error(&refused.expect_err("it is not complete"));
    assert_eq!(kind, "failed");
    assert!(says.ends_with("incomplete response: late"), "{says}");
}
