//! Tests of profiles: laws of merging, and values read from tasks.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_catalog::catalog::Catalogue;
use ebb_model::advice::bottleneck::{Binding, RequestedResource};
use ebb_model::policy::Policy;
use ebb_model::step_profile::{MAX_RUNS, Run, RunKey, StepProfile};
use ebb_telemetry::identity::InstanceType;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::resource_usage::{Sampled, StepDetail, TaskState};
use ebb_telemetry::step::{
    MemorySource, PeakMemory, PlacedStep, Requested, StepEnd, StepId, StepKind,
};
use ebb_telemetry::testing::{at, clock, node, placed_step};
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores, Share};
use proptest::prelude::*;

use crate::step_history::profiles;
use crate::testing::{World, instance};

fn key(n: u64) -> RunKey {
    RunKey {
        seen_on: "i-1 boot".to_owned(),
        step: StepId {
            kind: StepKind::Container,
            key: n.to_string(),
        },
    }
}

fn peak(mib: u64) -> Option<PeakMemory> {
    Some(PeakMemory {
        bytes: Bytes::mib(mib),
        source: MemorySource::CgroupSampled,
    })
}

/// A successful task of 1,000 s that starts at `seconds`. It requests half of an m5.4xlarge and
/// keeps two cores busy all the time.
pub(crate) fn run(seconds: u64) -> Run {
    Run {
        observed_at: at(seconds + 1_000),
        started_at: at(seconds),
        wall: Duration::from_secs(1_000),
        quiet: Duration::ZERO,
        end: StepEnd::Exited(0),
        cpu: Some(CpuTime::from_millis(2_000_000)),
        peak_cores: Some(MilliCores::cores(2)),
        peak_memory: peak(4_000),
        disk: Some(Bytes(0)),
        input: None,
        requested: Requested {
            cores: Some(MilliCores::cores(8)),
            memory: Some(Bytes::gib(32)),
        },
        machine: Some(InstanceType::new("m5.4xlarge").expect("a type")),
        origin: Origin::Measured,
        detail: StepDetail::default(),
        machine_cores: None,
        among_others: None,
        shares_machine: None,
        record: None,
    }
}

pub(crate) fn profile(runs: impl IntoIterator<Item = Run>) -> StepProfile {
    let mut profile = StepProfile::default();
    for (n, run) in (0..).zip(runs) {
        profile.add(key(n), run);
    }
    profile
}

fn some_profile() -> impl Strategy<Value = StepProfile> {
    // Few keys and times, so that tasks collide, and more of them than the limit.
    let record = (0_u64..400, 0_u64..50);
    prop::collection::vec(record, 0..500).prop_map(|records| {
        let mut profile = StepProfile::default();
        for (n, seconds) in records {
            profile.add(key(n), run(seconds));
        }
        profile
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn merging_is_commutative_associative_and_idempotent(
        a in some_profile(), b in some_profile(), c in some_profile(),
    ) {
        let ab = a.clone().merge(b.clone());
        prop_assert_eq!(&ab, &b.clone().merge(a.clone()));
        prop_assert_eq!(ab.clone().merge(c.clone()), a.clone().merge(b.merge(c)));
        prop_assert_eq!(&a.clone().merge(a.clone()), &a);
        prop_assert_eq!(&ab.clone().merge(a), &ab);
        prop_assert!(ab.by_time().len() <= MAX_RUNS);
    }
}

#[test]
fn the_newest_runs_are_kept() {
    let kept = profile((0..400).map(|n| run(n * 10)));
    let runs = kept.by_time();
    assert_eq!(runs.len(), MAX_RUNS);
    assert_eq!(runs.first().map(|r| r.started_at), Some(at(1_000)));
    assert_eq!(runs.last().map(|r| r.started_at), Some(at(3_990)));
}

/// A finished task that ran for so many minutes from the same start.
fn finished(n: u8, name: &str, minutes: u64) -> PlacedStep {
    let mut step = placed_step(n, minutes);
    step.usage.id.key = format!("{name}-{minutes}");
    step.usage.name = name.to_owned();
    step.usage.observed = clock(minutes * 60);
    step
}

#[test]
fn a_node_has_at_most_half_of_the_places_while_another_has_tasks_for_the_rest() {
    let check = |of_other: u64, expect: (usize, usize)| {
        let mut world = World::with([instance(1), instance(2)]);
        // The tasks of the first node are newer and have larger peaks.
        let many = (1_000..2_000).map(|minutes| (1, minutes, 900));
        let others = (1..=of_other).map(|minutes| (2, minutes, 100));
        let all = many.chain(others).map(|(n, minutes, mib)| {
            let mut step = finished(n, "sort", minutes);
            step.usage.peak_memory = peak(mib);
            step
        });
        world.finished = all.collect();
        let profiles = profiles(&world.facts(), &[]);
        let (_, step) = profiles.by_step.first_key_value().expect("a step");
        let runs = step.profile.by_time();
        let large = runs.iter().filter(|run| run.peak_memory == peak(900));
        let large = large.count();
        assert_eq!((large, runs.len() - large), expect, "{of_other}");
    };
    check(40, (260, 40));
    check(150, (150, 150));
    check(400, (150, 150));
}

#[test]
fn rules_evaluate_a_limited_number_of_the_steps_that_only_one_node_has() {
    let mut world = World::with([instance(1), instance(2)]);
    let many = (1..=400).map(|minutes| finished(1, &format!("a{minutes}"), minutes));
    let few = (1..=10).map(|minutes| finished(2, &format!("b{minutes}"), minutes));
    let of_both = [finished(1, "both", 1), finished(2, "both", 2)];
    world.finished = many.chain(few).chain(of_both).collect();
    let facts = world.facts();
    let profiles = profiles(&facts, &[]);
    let names: Vec<&str> = profiles
        .evaluated()
        .map(|(key, _)| key.name.as_str())
        .collect();
    assert_eq!(names.len(), 300 + 10 + 1);
    // Those with the longest run time.
    assert!(names.contains(&"a101") && !names.contains(&"a100") && names.contains(&"both"));
    let gap = profiles.gap().expect("steps are left out");
    assert!(
        gap.reason.starts_with("100 steps are not evaluated"),
        "{gap:?}"
    );
    assert!(gap.reason.contains(node(1).as_str()), "{gap:?}");
    world.finished.truncate(300);
    assert_eq!(
        crate::step_history::profiles(&world.facts(), &[]).gap(),
        None
    );
}

#[test]
fn runs_that_were_killed_count_with_what_they_would_have_needed() {
    let mut killed = run(0);
    killed.end = StepEnd::OutOfMemory;
    killed.requested.memory = Some(Bytes::gib(8));
    killed.peak_memory = peak(8_000);
    let check = |others: Vec<Run>, mib: u64| {
        let profile = profile(others.into_iter().chain([killed.clone()]));
        assert_eq!((profile.failed(), profile.oom_kills()), (1, 1));
        let need = crate::step_history::need::step_need(&profile, None, None, &Policy::default());
        assert_eq!(need.memory, Some(Bytes::mib(mib)));
    };
    // One and a half times the 8 GiB that were too little, and headroom.
    check(vec![run(10)], 14_848);
    let mut larger = run(10);
    larger.peak_memory = peak(9_000);
    check(vec![run(20), larger], 10_752 + 256);
    // Another limit than its own was reached.
    let mut below = killed.clone();
    below.peak_memory = peak(1_000);
    let profile = profile([below]);
    assert_eq!((profile.failed(), profile.oom_kills()), (1, 0));
}

#[test]
fn a_task_that_waited_for_cores_needs_those_that_it_waited_for() {
    // The task used two of its eight cores for 2,000 s.
    let check_with = |change: fn(&mut Run), waited: Option<u64>, requested: Option<u64>, cores| {
        let mut starved = run(0);
        change(&mut starved);
        starved.detail.run_queue = waited.map(Duration::from_secs);
        starved.requested.cores = requested.map(MilliCores::cores);
        let profile = profile([starved]);
        let need = crate::step_history::need::step_need(&profile, None, None, &Policy::default());
        assert_eq!(need.cores, Some(MilliCores::cores(cores)), "{waited:?}");
    };
    let check = |waited, requested, cores| check_with(|_| (), waited, requested, cores);
    check(None, Some(8), 2);
    check(Some(0), Some(8), 2);
    check(Some(400), Some(8), 2);
    check(Some(2_000), Some(8), 4);
    check(Some(20_000), Some(8), 8);
    // More threads than cores wait on a machine of their own too.
    check(Some(2_000), Some(2), 2);
    check(Some(2_000), None, 2);
    let on_16_cores = |run: &mut Run| run.machine_cores = Some(MilliCores::cores(16));
    check_with(on_16_cores, Some(2_000), None, 4);
    let on_3_cores = |run: &mut Run| run.machine_cores = Some(MilliCores::cores(3));
    check_with(on_3_cores, Some(2_000), None, 3);
    let alone = |run: &mut Run| run.among_others = Some(false);
    check_with(alone, Some(2_000), Some(8), 2);
    // It waits for cores for a tenth of its run time, and mostly for a disk.
    let slow = |run: &mut Run| run.wall = Duration::from_secs(20_000);
    check_with(slow, Some(2_000), Some(8), 2);
    let forged = |run: &mut Run| {
        run.cpu = Some(CpuTime(u64::MAX));
        run.peak_cores = Some(MilliCores(u64::MAX));
    };
    let certain = u64::MAX - u64::MAX / 100 * 3;
    check_with(forged, Some(u64::MAX), Some(8), certain.div_ceil(1_000));
}

fn killed_by_memory(run: &mut Run) {
    run.end = StepEnd::OutOfMemory;
    run.peak_memory = peak(20_000);
}

#[test]
fn what_binds_a_step_and_where_it_is_underused_is_read_from_its_runs() {
    let check = |change: fn(&mut Run), by: Option<Binding>, underused: &[RequestedResource]| {
        let mut one = run(0);
        change(&mut one);
        let bound = crate::advice::step::bottleneck::find_bottleneck(
            &profile([one]),
            &Policy::default(),
            Catalogue::built_in(),
        );
        assert_eq!(bound.by, by, "{bound:?}");
        assert_eq!(bound.underused, underused, "{bound:?}");
    };
    let both = [RequestedResource::Cores, RequestedResource::Memory];
    check(|_| (), Some(Binding::Compute), &both);
    check(
        |r| r.peak_memory = peak(30_000),
        Some(Binding::Memory),
        &[RequestedResource::Cores],
    );
    check(killed_by_memory, Some(Binding::Memory), &[]);
    check(
        |r| r.cpu = Some(CpuTime::from_millis(100_000)),
        Some(Binding::Waiting),
        &both,
    );
    // An m5.4xlarge sustains 4,750 Mbit/s to EBS: 594 GB in a thousand seconds.
    check(
        |r| r.disk = Some(Bytes(400_000_000_000)),
        Some(Binding::Disk),
        &both,
    );
    check(
        |r| r.peak_cores = Some(MilliCores::cores(8)),
        Some(Binding::Compute),
        &[RequestedResource::Memory],
    );
    fn mostly(run: &mut Run, state: TaskState) {
        let time = |seconds| Sampled {
            samples: seconds,
            time: Duration::from_secs(seconds),
        };
        run.detail.states = BTreeMap::from([(TaskState::Running, time(30)), (state, time(70))]);
    }
    check(|r| mostly(r, TaskState::Disk), Some(Binding::Disk), &both);
    check(
        |r| mostly(r, TaskState::Network),
        Some(Binding::Network),
        &both,
    );
    check(
        |r| mostly(r, TaskState::PageFault),
        Some(Binding::Memory),
        &both,
    );
    check(
        |r| mostly(r, TaskState::Lock),
        Some(Binding::Compute),
        &both,
    );
    check(|r| r.cpu = None, None, &both);
}

#[test]
fn a_run_that_ended_well_tells_however_short_and_one_that_goes_on_only_after_a_while() {
    let check = |end: StepEnd, seconds: u64, expect: bool| {
        let mut one = run(0);
        (one.end, one.wall) = (end, Duration::from_secs(seconds));
        assert_eq!(one.tells(&Policy::default()), expect, "{end}, {seconds} s");
        let samples = profile([one]).samples(&Policy::default());
        assert_eq!(samples.len(), usize::from(expect), "{end}, {seconds} s");
    };
    check(StepEnd::Exited(0), 5, true);
    check(StepEnd::Exited(1), 5, false);
    check(StepEnd::Exited(1), 1_000, false);
    check(StepEnd::Running, 599, false);
    check(StepEnd::Running, 600, true);
    check(StepEnd::Unknown, 5, false);
    check(StepEnd::Unknown, 600, true);
}

#[test]
fn how_parallel_a_run_was_is_kept_and_replayed() {
    let mut sampled_run = run(0);
    // Two cores on average: four for half of the time, and none in the other half.
    let busy = &mut sampled_run.detail.parallelism;
    busy.add(Duration::from_secs(500), CpuTime::from_millis(2_000_000));
    busy.add(Duration::from_secs(500), CpuTime(0));
    let phases = |run: &Run| -> Vec<(u64, u64)> {
        let works = crate::step_history::observed_work::work_by_type(&[run], Catalogue::built_in());
        let phases = works.iter().flat_map(|mean| &mean.work.phases);
        phases.map(|p| (p.cores.0, p.wall.as_secs())).collect()
    };
    assert_eq!(phases(&sampled_run), [(0, 500), (4_000, 500)]);
    assert_eq!(phases(&run(0)), [(2_000, 1_000)], "by totals");
    // Waiting and computing are separate even in the same samples.
    let bound = crate::advice::step::bottleneck::find_bottleneck(
        &profile([sampled_run]),
        &Policy::default(),
        Catalogue::built_in(),
    );
    assert_eq!(bound.computing, Some(Share::from_ppm(500_000)));
}

#[test]
fn shares_of_the_time_add_up() {
    let mut half = run(0);
    half.cpu = Some(CpuTime::from_millis(400_000));
    let bound = crate::advice::step::bottleneck::find_bottleneck(
        &profile([half]),
        &Policy::default(),
        Catalogue::built_in(),
    );
    assert_eq!(bound.computing, Some(Share::from_ppm(400_000)));
    assert_eq!(bound.waiting, Some(Share::from_ppm(600_000)));
    assert_eq!(bound.cores_used, Some(Share::from_ppm(250_000)));
}

#[test]
fn runs_that_overlap_are_counted() {
    let check = |starts: &[u64], expect: u32| {
        let profile = profile(starts.iter().map(|start| run(*start)));
        assert_eq!(profile.at_once(), expect, "{starts:?}");
    };
    check(&[], 1);
    check(&[0], 1);
    check(&[0, 1_000, 2_000], 1);
    check(&[0, 500, 999, 1_500], 3);
}

#[test]
fn a_requeued_job_of_slurm_has_one_task_for_each_attempt_and_the_request_of_its_record() {
    use ebb_model::task_record::testing::slurm_record;
    use ebb_telemetry::testing::{clock, placed_step};

    use crate::testing::{World, instance};

    let mut world = World::with([instance(1)]);
    let mut record = slurm_record("7", "align");
    record.requested.cores = Some(MilliCores::cores(2));
    world.records = vec![record];
    let attempt = |started: u64, end: StepEnd| {
        let mut step = placed_step(1, started);
        step.usage.id.kind = StepKind::SlurmJob;
        step.usage.id.key = "7.batch".to_owned();
        step.usage.name = "7.batch".to_owned();
        step.usage.started = clock(started);
        step.usage.observed = clock(started + 10);
        step.usage.end = end;
        step.usage.requested = Requested {
            cores: None,
            memory: Some(Bytes::mib(100)),
        };
        step
    };
    let check = |tasks: &[PlacedStep], expect: usize| {
        let mut world = world.clone();
        world.finished = tasks.to_vec();
        let facts = world.facts();
        let profiles = crate::step_history::profiles(&facts, &[]);
        let (key, profiled) = profiles.by_step.first_key_value().expect("a step");
        assert_eq!((key.name.as_str(), profiled.runs.len()), ("align", expect));
        assert_eq!(profiled.profile.by_time().len(), expect);
        let request = profiled.runs[0].requested();
        let memory = Some(Bytes::mib(100));
        assert_eq!(
            request,
            Requested {
                cores: Some(MilliCores::cores(2)),
                memory
            }
        );
    };
    let first = attempt(100, StepEnd::Signalled(15));
    let second = attempt(200, StepEnd::Exited(0));
    check(&[first.clone(), second.clone()], 2);
    check(&[second.clone(), first.clone(), first.clone()], 2);
    let mut killed = world.clone();
    killed.records[0].is_out_of_memory = true;
    killed.finished = vec![attempt(100, StepEnd::Signalled(9))];
    let facts = killed.facts();
    let profiles = crate::step_history::profiles(&facts, &[]);
    let (_, profiled) = profiles.by_step.first_key_value().expect("a step");
    assert_eq!(profiled.profile.oom_kills(), 1);
    // The same task, before and after its end.
    let running = attempt(195, StepEnd::Running);
    check(&[running, second], 1);
}
