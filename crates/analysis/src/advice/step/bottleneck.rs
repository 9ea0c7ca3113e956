//! The bottleneck of a step with its share of the run time, and the underused parts of its request.

use std::collections::BTreeMap;

use ebb_catalog::catalog::Catalogue;
use ebb_model::advice::bottleneck::{Binding, Boundness, RequestedResource};
use ebb_model::policy::Policy;
use ebb_model::step_profile::{Run, StepProfile};
use ebb_telemetry::step::resource_usage::TaskState;
use ebb_telemetry::units::Share;

use crate::step_history::observed_work::work;

/// At this share of its memory a step has no headroom left.
const FULL: Share = Share::from_ppm(900_000);

/// A resource that takes at least this share of the run time is the bottleneck.
const MOST: Share = Share::from_ppm(500_000);

/// Evaluates only the tasks that represent the step.
pub fn find_bottleneck(profile: &StepProfile, policy: &Policy, catalogue: &Catalogue) -> Boundness {
    let all = profile.by_time();
    let runs: Vec<&Run> = all.into_iter().filter(|run| run.tells(policy)).collect();
    let computing = computing(&runs);
    let waiting = computing.map(|share| Share::from_ppm(1_000_000 - share.ppm()));
    let doing = doing(&runs);
    let share_in =
        |state| (!doing.is_empty()).then(|| doing.get(&state).copied().unwrap_or(Share::NONE));
    let disk = disk(&runs, catalogue).max(share_in(TaskState::Disk));
    let paging = share_in(TaskState::PageFault);
    let remote = share_in(TaskState::RemoteFileSystem);
    let network = share_in(TaskState::Network).zip(remote);
    let network = network.map(|(network, remote)| Share::from_ppm(network.ppm() + remote.ppm()));
    let cores_used = most(&runs, |run| {
        Share::from_parts(run.peak_cores?.0, run.requested.cores?.0)
    });
    let memory = |run: &Run| Share::from_parts(run.peak_memory?.bytes.0, run.requested.memory?.0);
    let memory_used = most(&runs, memory).max(exhausted(profile));
    let measured = most(&runs, |run| {
        memory(run).filter(|_| run.peak_memory.is_some_and(|p| !p.source.is_upper_bound()))
    });
    let reaches = |share: Option<Share>, bound| share.is_some_and(|share| share >= bound);
    let full = reaches(measured, FULL) || reaches(paging, MOST);
    let by = if profile.oom_kills() > 0 || full {
        Some(Binding::Memory)
    } else if reaches(disk, MOST) {
        Some(Binding::Disk)
    } else if reaches(network, MOST) {
        Some(Binding::Network)
    } else if reaches(waiting, MOST) {
        Some(unless_for_cores(&doing))
    } else {
        computing.map(|_| Binding::Compute)
    };
    let far_less = Share::from_ppm(policy.overprovisioned.needed_share_ppm);
    let is_little = |used: Option<Share>| used.is_some_and(|used| used <= far_less);
    let underused = [
        (RequestedResource::Cores, cores_used),
        (RequestedResource::Memory, memory_used),
    ];
    Boundness {
        by,
        computing,
        waiting,
        disk,
        network,
        doing,
        cores_used,
        memory_used,
        underused: underused
            .into_iter()
            .filter(|(_, used)| is_little(*used))
            .map(|(resource, _)| resource)
            .collect(),
    }
}

/// The limit of a step that computes less than half of its time. A step that waits for cores only
/// would compute with free cores.
fn unless_for_cores(doing: &BTreeMap<TaskState, Share>) -> Binding {
    let of = |state| doing.get(&state).map_or(0, |share: &Share| share.ppm());
    let (runs, waits) = (of(TaskState::Running), of(TaskState::Runnable));
    match runs + waits >= MOST.ppm() {
        true if waits > runs => Binding::BusyCores,
        true => Binding::Compute,
        false => Binding::Waiting,
    }
}

/// The share of the present request that a task used up before it ran out of memory; `None` if no
/// task did.
fn exhausted(profile: &StepProfile) -> Option<Share> {
    let exhausted = profile.exhausted_request()?;
    Share::from_parts(exhausted.0, profile.present_request().request.memory?.0)
}

fn most(runs: &[&Run], used: impl Fn(&Run) -> Option<Share>) -> Option<Share> {
    runs.iter().filter_map(|run| used(run)).max()
}

/// Share of time spent computing, from CPU time and parallelism, weighted by the duration of each
/// task.
fn computing(runs: &[&Run]) -> Option<Share> {
    let (mut busy, mut all) = (0.0, 0.0);
    for run in runs {
        let work = work(run);
        for phase in work.iter().flat_map(|work| &work.phases) {
            let wall = phase.wall.as_secs_f64();
            busy += wall * phase.cores.as_cores().min(1.0);
            all += wall;
        }
    }
    share(busy, all)
}

/// Share of time in each state, from the samples of all tasks, weighted by duration.
fn doing(runs: &[&Run]) -> BTreeMap<TaskState, Share> {
    let mut seconds: BTreeMap<TaskState, f64> = BTreeMap::new();
    for (state, samples) in runs.iter().flat_map(|run| &run.detail.states) {
        *seconds.entry(*state).or_default() += samples.time.as_secs_f64();
    }
    let all = seconds.values().sum();
    let shares = seconds.into_iter();
    shares
        .filter_map(|(state, seconds)| Some((state, share(seconds, all)?)))
        .collect()
}

fn disk(runs: &[&Run], catalogue: &Catalogue) -> Option<Share> {
    let (mut least, mut all) = (0.0, 0.0);
    for run in runs {
        let spec = run.machine.as_ref().and_then(|name| catalogue.spec(name));
        let mbps = spec.and_then(|spec| spec.ebs_baseline_mbps);
        if let (Some(bytes), Some(mbps)) = (run.disk, mbps.filter(|mbps| *mbps > 0)) {
            least += bytes.0 as f64 * 8.0 / (f64::from(mbps) * 1e6);
            all += run.wall.as_secs_f64();
        }
    }
    share(least, all)
}

fn share(part: f64, whole: f64) -> Option<Share> {
    let ppm = (part / whole).clamp(0.0, 1.0) * 1e6;
    (whole > 0.0).then(|| Share::from_ppm(ppm.round() as u32))
}
