//! Test cases of the overprovisioned rule.

use crate::explain;
use ebb_model::confidence::Level;
use ebb_model::finding::Finding;
use ebb_model::inventory::batch::job::JobStatus;
use ebb_telemetry::step::resource_usage::StepGpu;
use ebb_telemetry::step::{MemorySource, PeakMemory, Requested, StepEnd, StepUsage};
use ebb_telemetry::testing::{at, clock, placed_step};
use ebb_telemetry::units::{Bytes, MilliCores, Share};

use crate::rules::trace::{Check, Speaks};
use crate::testing::{World, instance, requested, step};

fn peak(mib: u64) -> Option<PeakMemory> {
    Some(PeakMemory {
        bytes: Bytes::mib(mib),
        source: MemorySource::CgroupSampled,
    })
}

/// A world whose jobs request `requested` on an m5.4xlarge. One job has run for half an hour; two
/// jobs of the same definition ended before.
fn world(requested: Requested, change: impl Fn(&mut StepUsage)) -> World {
    let mut machine = instance(1);
    machine.instance_type =
        ebb_telemetry::identity::InstanceType::new("m5.4xlarge").expect("a type");
    let mut world = World::with([machine]).with_job(JobStatus::Running, requested);
    world.watch(1, 0, 30, |minute, h| {
        h.steps = vec![step(minute * 60 + 60, |s| {
            s.peak_cores = Some(MilliCores(1_900));
            s.peak_memory = peak(2_000);
            change(s);
        })];
    });
    add_ended(&mut world, requested, change);
    world
}

/// Two successful tasks of the same definition, each of one minute.
fn add_ended(world: &mut World, requested: Requested, change: impl Fn(&mut StepUsage)) {
    for n in 0..2 {
        let mut ended = placed_step(1, 100 + 10 * n);
        (ended.started_at, ended.observed_at) = (at(0), at(60));
        (ended.usage.started, ended.usage.observed) = (clock(0), clock(60));
        ended.usage.requested = requested;
        ended.usage.name = "align-def".into();
        ended.usage.peak_cores = Some(MilliCores(1_900));
        ended.usage.peak_memory = peak(2_000);
        change(&mut ended.usage);
        ended.usage.end = StepEnd::Exited(0);
        world.finished.push(ended);
    }
}

#[test]
fn a_step_is_overprovisioned_only_when_cores_and_memory_are_far_below_its_request() {
    let check = |requested: Requested, change: fn(&mut StepUsage), expect: &str| {
        let got = match world(requested, change).verdict() {
            Ok(finding) => format!("{} {}", finding.evidence, finding.remedy.advice),
            Err(reason) => reason,
        };
        assert!(got.contains(expect), "'{got}' should say '{expect}'");
    };
    let all = |_: &mut StepUsage| ();
    check(
        requested(16, 32),
        all,
        "requested 16 vCPU and 32.0 GiB, used at most 1.9 cores and 2.0 GiB",
    );
    check(
        requested(16, 32),
        all,
        "Request 2 vCPU and 3.0 GiB instead.",
    );
    check(requested(16, 4), all, "well");
    check(requested(2, 32), all, "well");
    check(requested(16, 32), |s| s.peak_memory = None, "well");
    check(requested(16, 32), |s| s.peak_cores = None, "well");
    check(
        requested(16, 32),
        |s| s.end = StepEnd::OutOfMemory,
        "1 of 3 tasks were OOM-killed",
    );
    check(requested(16, 32), |s| s.started = s.observed, "well");
    check(Requested::default(), all, "well");
}

#[test]
fn a_step_that_hangs_says_nothing_about_what_it_needs() {
    let report = world(requested(16, 32), |s| s.last_progress = clock(0)).evaluate();
    let kinds: Vec<_> = report
        .findings
        .iter()
        .map(|finding| finding.kind.slug())
        .collect();
    assert_eq!(kinds, ["stuck_batch_job"]);
}

#[test]
fn the_saving_is_the_part_of_the_machine_that_is_freed() {
    let finding = world(requested(16, 32), |_| ())
        .verdict()
        .expect("it is overprovisioned");
    let cost = finding.cost.expect("m5.4xlarge has a price");
    // 16 of 16 vCPU before, 2 of 16 after: 14/16 of 0.768 USD/h for 32 minutes, in a known time of
    // one day.
    assert_eq!(cost.per_hour.to_string(), "$0.0149/h");
    assert_eq!(cost.spent.to_string(), "$0.36");
    let advice = finding.recommendation.expect("it says what to ask for");
    assert_eq!(advice.samples, 3);
    let placed = advice.placement.expect("something fits");
    assert!(
        placed.per_hour < ebb_telemetry::money::UsdPerHour::from_micros(150_000),
        "{placed:?}"
    );
    assert_eq!(finding.confidence.level, Level::Low);
}

#[test]
fn a_month_is_as_the_time_since_the_first_run_and_never_as_less_than_a_day() {
    let check = |hours: i64, expect: &str| {
        let mut world = world(requested(16, 32), |_| ());
        // The duration of the tasks is the same; only the time since the first is longer.
        world.now = at(0) + jiff::SignedDuration::from_hours(hours);
        let found = world.evaluate().findings;
        let mut costs = found
            .iter()
            .filter(|f| f.kind == crate::rules::step::oversized::KIND);
        let cost = costs.next().and_then(|finding| finding.cost.clone());
        let cost = cost.expect("it is overprovisioned");
        assert_eq!(cost.saving_a_month.to_string(), expect, "{hours} h");
        assert_eq!(cost.spent.to_string(), "$0.36");
    };
    check(1, "$10.90");
    check(24, "$10.90");
    check(48, "$5.45");
}

#[test]
fn runs_that_ended_count_once_and_make_it_surer() {
    let mut world = world(requested(16, 32), |_| ());
    for n in 0..25 {
        let mut run = placed_step(1, 1_000 + n * 10);
        run.usage.requested = requested(16, 32);
        run.usage.name = "align-def".into();
        run.usage.peak_cores = Some(MilliCores(900));
        run.usage.peak_memory = peak(100);
        world.finished.push(run.clone());
        world.finished.push(run);
    }
    let finding = world.verdict().expect("it is overprovisioned");
    assert_eq!(finding.steps.len(), Finding::MAX_STEPS);
    assert_eq!(finding.recommendation.expect("advice").samples, 28);
    assert_eq!(finding.confidence.level, Level::Medium);
}

#[test]
fn the_last_question_about_a_step_is_the_one_that_decides() {
    let check = |requested: Requested, question: &str, speaks: Speaks| {
        let world = world(requested, |_| ());
        let explained = explain::explain(&world.facts(), "align-def");
        let of_rule = |check: &&Check| check.rule == crate::rules::step::oversized::KIND;
        let last = explained.checks.iter().rfind(of_rule);
        let last = last.expect("a check");
        assert_eq!((&*last.question, last.speaks), (question, speaks));
        let is_found = !explained.findings.is_empty();
        assert_eq!(is_found, speaks == Speaks::ForWaste);
    };
    let much = "What is the saving per month?";
    check(requested(16, 32), much, Speaks::ForWaste);
    let need = "How much does the step need, with headroom, of its request?";
    check(requested(16, 4), need, Speaks::Against);
    let runs = "How many of its tasks have a request and a measured demand?";
    check(Requested::default(), runs, Speaks::Unknown);
}

#[test]
fn a_step_that_holds_the_gpus_of_its_machine_saves_nothing_by_fewer_cores() {
    let check = |sees: bool, devices: Option<u32>, expect: bool| {
        let mut machine = instance(1);
        machine.instance_type =
            ebb_telemetry::identity::InstanceType::new("g5.4xlarge").expect("a type");
        let mut world = World::with([machine]).with_job(JobStatus::Running, requested(16, 32));
        world.watch(1, 0, 30, |minute, h| {
            h.coverage.gpu = sees.then_some(Share::ALL);
            h.steps = vec![step(minute * 60 + 60, |s| {
                s.peak_cores = Some(MilliCores(1_900));
                s.peak_memory = peak(2_000);
                s.detail.gpu = devices.map(|devices| StepGpu {
                    devices,
                    ..StepGpu::default()
                });
            })];
        });
        add_ended(&mut world, requested(16, 32), |_| ());
        let found = world.evaluate().findings.into_iter();
        let found = found
            .filter(|found| found.kind == crate::rules::step::oversized::KIND)
            .count()
            == 1;
        assert_eq!(found, expect, "{sees} {devices:?}");
    };
    check(true, None, true);
    check(true, Some(1), false);
    check(false, None, false);
}
