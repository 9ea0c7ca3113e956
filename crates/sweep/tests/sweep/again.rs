//! Findings that need more than one sweep.

use std::time::Duration;

use ebb_cloud::documents::report_files::LATEST_JSON;
use ebb_cloud::failing::Fault;
use ebb_model::finding::Finding;
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::batch::container_instances::ContainerInstance;
use ebb_model::inventory::batch::task::Task;
use ebb_model::report::Report;

use crate::sample;
use crate::world::World;

/// The stuck container that a sweep finds one minute after the sweep before.
async fn stuck(world: &World, sequence: u64) -> Option<Finding> {
    world.clock.advance(Duration::from_secs(60));
    world.send(1, &sample::running(1, sequence));
    let swept = world.sweep(&Fault::never()).await;
    swept.expect("nothing fails it");
    let report = world.objects.stored(LATEST_JSON).expect("a report");
    let report: Report = serde_json::from_slice(&report.bytes).expect("a report");
    let mut findings = report.findings.into_iter();
    findings.find(|finding| finding.kind == FindingKind::StuckBatchJob)
}

#[tokio::test]
async fn a_container_that_nobody_knows_is_an_orphan_when_two_sweeps_in_a_row_find_it_so() {
    let world = World::new();
    let region = sample::region();
    let mut inventory = sample::inventory(&[1, 2]).remove(&region).expect("it");
    let cluster = "arn:aws:ecs:eu-central-1:1:cluster/c";
    let worker = ContainerInstance::new(sample::node(1), cluster, region.clone());
    let workers = &mut inventory.batch.container_instances;
    workers.insert("arn:worker".to_owned(), worker);
    let other = "arn:aws:ecs:eu-central-1:1:task/c/other";
    inventory
        .batch
        .tasks
        .insert(other.to_owned(), Task::default());
    world.inventory.set(region, Ok(inventory));

    assert_eq!(stuck(&world, 0).await, None, "the first only remembers");
    let first = world.clock.now();
    let orphan = stuck(&world, 1).await.expect("the second decides");
    assert_eq!(orphan.window.from, first);
    assert!(orphan.window.to > first);
}
