//! Every kind of finding, from the bytes that probes send to the report. Two weeks of a small
//! fleet pass in memory. Each machine, task, job or volume has one planted problem, and the report
//! contains these findings and no others.

#[path = "every_kind/account.rs"]
mod account;
#[path = "every_kind/fleet.rs"]
mod fleet;
#[path = "every_kind/tasks.rs"]
mod tasks;

use std::collections::BTreeSet;
use std::time::Duration;

use ebb_cloud::documents::report_files::LATEST_JSON;
use ebb_cloud::failing::Fault;
use ebb_ingest::fold::folder::Limits;
use ebb_model::finding_kind::FindingKind;
use ebb_model::policy::Policy;
use ebb_model::report::Report;

use crate::world::World;

/// Monday noon, 14 days and 12 hours after the begin.
pub(crate) const HOURS: u64 = 14 * 24 + 12;

/// One sweep for each 12 hours.
const HOURS_A_SWEEP: u64 = 12;

#[tokio::test]
async fn every_kind_that_is_planted_is_found_and_nothing_else() {
    let mut world = World::new();
    world.limits = Limits::default();
    world.policy = Policy::parse(POLICY).expect("a policy");
    world.clock.set(fleet::at(0));
    account::fill(&mut world);
    let nodes = fleet::nodes();
    for from in (0..HOURS).step_by(usize::try_from(HOURS_A_SWEEP).expect("a few")) {
        let hours = from..from + HOURS_A_SWEEP;
        world
            .clock
            .advance(Duration::from_secs(HOURS_A_SWEEP * 3600));
        for node in &nodes {
            node.send(&world, hours.clone());
        }
        // The newest bill; an earlier sweep would see days that are not over.
        world.bill = (from + HOURS_A_SWEEP == HOURS).then(account::bill);
        world
            .sweep(&Fault::never())
            .await
            .expect("nothing fails it");
    }
    let stored = world.objects.stored(LATEST_JSON).expect("a report");
    let report: Report = serde_json::from_slice(&stored.bytes).expect("JSON");
    let found: BTreeSet<(FindingKind, String)> = report
        .findings
        .iter()
        .map(|finding| {
            let resource = &finding.resource;
            let name = resource.name.as_ref().unwrap_or(&resource.id);
            (finding.kind, name.clone())
        })
        .collect();
    let planted = planted();
    let missing: Vec<_> = planted.difference(&found).collect();
    let more: Vec<_> = found.difference(&planted).collect();
    assert!(
        missing.is_empty() && more.is_empty(),
        "not found: {missing:?}\nnot planted: {more:?}"
    );
    let kinds: BTreeSet<FindingKind> = planted.into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, FindingKind::ALL.iter().copied().collect());
}

/// Two weeks are too short for the default of unusual costs.
const POLICY: &str = "[anomaly]\nmin_history_days = 7\n\n[[budgets]]\npipeline = \"rnaseq\"\n\
                      usd_a_month = 30\n";

/// The name of the resource of each planted problem.
fn planted() -> BTreeSet<(FindingKind, String)> {
    use FindingKind::*;
    let planted = [
        (IdleNode, "idle"),
        (OffHoursNode, "office"),
        (UnderutilizedNode, "light"),
        (OverprovisionedNode, "large"),
        (OverprovisionedNode, "metered"),
        (UnderprovisionedNode, "small"),
        (OldGeneration, "old"),
        (IdleGpu, "gpu"),
        (GpuMemoryHeld, "held"),
        (StuckBatchJob, "genotype-1"),
        (LongQueuedJob, "call-6"),
        (SpotCandidate, "align"),
        (UnusedCommitment, account::COMMITMENT),
        (BudgetExceeded, account::PIPELINE),
        (CostAnomaly, account::PIPELINE),
        (UnattachedVolume, account::UNATTACHED),
        (StoppedMachinesVolume, "stopped"),
        (OldVolumeType, account::GP2),
        (OldSnapshot, account::SNAPSHOT),
        (IdleAddress, account::ADDRESS),
        (OverprovisionedStep, "trim"),
        (UnderprovisionedStep, "sort"),
        (OutOfMemoryStep, "assemble"),
        (RetryStorm, "fetch"),
        (StalledStep, "download"),
        (StarvedStep, "call"),
        (WaitingStep, "stage"),
        (SpinningStep, "fit"),
        (SlowStep, "map"),
        (MemoryPressure, "merge"),
    ];
    planted.map(|(kind, name)| (kind, name.to_owned())).into()
}
