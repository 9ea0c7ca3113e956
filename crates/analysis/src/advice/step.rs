//! Advice on one step: its current and recommended request, their risk, its bottleneck and its
//! offers.

pub mod bottleneck;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ebb_catalog::catalog::Catalogue;
use ebb_model::advice::offer::Offers;
use ebb_model::advice::self_sizing::SelfSizing;
use ebb_model::advice::sized_request::{Risk, SizedRequest};
use ebb_model::advice::step::{MemoryUse, NameForm, StepAdvice, TimeLimit};
use ebb_model::finding::Finding;
use ebb_model::finding_kind::FindingKind::OverprovisionedStep;
use ebb_model::policy::Policy;
use ebb_model::policy::sizing::SizingPolicy;
use ebb_model::step_profile::failure::FailureKind;
use ebb_model::step_profile::tasks::{AttemptRecord, PresentRequest, RECENT_TASKS, RequestBasis};
use ebb_model::step_profile::{Run, StepProfile};
use ebb_sizing::cheapest_type::usable;
use ebb_sizing::need::Need;
use ebb_telemetry::identity::{InstanceType, NodeId};
use ebb_telemetry::money::Usd;
use ebb_telemetry::step::{MemorySource, PeakMemory, StepKind};
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores};

use crate::advice::placement;
use crate::advice::step::bottleneck::find_bottleneck;
use crate::facts::Facts;
use crate::in_turns::first_in_turns;
use crate::step_history::by_step::{Profiles, StepHistory, StepKey};

/// Limit on reported steps. They usually take 1.6 MB of a report.
pub const MAX_STEPS: usize = 1_000;

/// Limit on their size as JSON. The API answers with reports of at most 4 MiB, and the other parts of
/// the report need the rest.
const MAX_STEPS_BYTES: usize = 2 << 20;

/// Limit on the kinds of failures of a step. A node could report 255 of them.
const MAX_FAILURES: usize = 20;

/// Limit on steps for which offers are computed in addition to steps with findings. Each step takes
/// a few milliseconds.
const MAX_PLACED: usize = 1_000;

/// Turns of the nodes in a limited list of steps. If the list is full, a node with many step names has a
/// tenth of it before the steps of other nodes are left out.
const TURNS: usize = 10;

/// Factor between a larger time limit and the longest attempt, or the limit that attempts reached.
const LARGER_LIMIT: u32 = 2;

/// Factor between a smaller time limit and the longest attempt. The run time depends on storage,
/// network and machines. Two public runs of nf-core/rnaseq had the same inputs and different
/// storage: 15 % of the tasks of one took more than twice the longest of the other.
const SMALLER_LIMIT: u32 = 3;

/// A smaller limit saves less than the risk is worth.
const LEAST_LIMIT: Duration = Duration::from_secs(3_600);

/// The fewest pipeline runs, or days, that show how much the run time varies.
const LIMIT_RUNS: usize = 3;

/// Granularity of time limits in seconds: a quarter of an hour.
const LIMIT_STEP: u64 = 900;

/// A step with its tasks.
#[derive(Debug, Clone, Copy)]
pub struct StepSubject<'a> {
    /// Display name.
    pub name: &'a str,
    /// Relation of the display name to the name in the configuration of the engine.
    pub name_form: NameForm,
    /// Kind of its newest task.
    pub kind: StepKind,
    /// Its tasks.
    pub profile: &'a StepProfile,
    /// Resources that its tasks need.
    pub need: &'a Need,
    /// The tool of the step that derives its memory from the request.
    pub self_sizing: Option<&'a SelfSizing>,
}

/// Derives advice from a profile alone; `None` for a profile without tasks. Owner, offers and money
/// are not filled in.
pub fn advise_step(
    subject: StepSubject<'_>,
    policy: &Policy,
    catalogue: &Catalogue,
) -> Option<StepAdvice> {
    let (profile, need) = (subject.profile, subject.need);
    let runs = profile.by_time();
    let newest = *runs.last()?;
    let telling: Vec<&Run> = runs.iter().copied().filter(|r| r.tells(policy)).collect();
    let many = u32::try_from(telling.len()).unwrap_or(u32::MAX);
    let all: Duration = telling.iter().map(|run| run.wall).sum();
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let present = profile.present_request();
    let asks = present.request;
    let (mut should_ask, risk) = should_ask(&present, need, profile.oom_kills());
    let parallel_tasks = runs.iter().map(|run| run.parallel_tasks()).max()?;
    if parallel_tasks > 1 {
        // Its cores depend on the number of ranks that the user starts.
        should_ask.cores = asks.cores;
    }
    let peaks = peaks(&runs, policy);
    let fewer_cores = should_ask.cores.is_some() && should_ask.cores < asks.cores;
    Some(StepAdvice {
        step: subject.name.to_owned(),
        name_form: subject.name_form,
        region: None,
        account: None,
        kind: subject.kind,
        owner: None,
        origin: runs.iter().map(|run| run.origin).max()?,
        last_seen: newest.observed_at,
        runs: count(runs.len()),
        samples: many,
        failed: count(profile.failed()),
        oom_kills: count(profile.oom_kills()),
        mean_wall: all.checked_div(many),
        mean_cores: mean_cores(&telling),
        peak_memory: peaks.iter().map(|peak| peak.bytes).max(),
        peak_is_upper_bound: (peaks.iter())
            .any(|peak| peak.source == MemorySource::MaxRssUpperBound),
        fullest: fullest(&telling),
        exhausted_memory: profile.exhausted_request(),
        machines: machines(&runs),
        asks,
        present,
        should_ask,
        risk,
        slowdown_ppm: need.slowdown_ppm.filter(|_| fewer_cores),
        time_limit: time_limit(&runs, subject.kind, &policy.sizing),
        parallel_tasks,
        attempts: attempts(&runs),
        self_sizing: subject.self_sizing.cloned(),
        failures: profile.failures().into_iter().take(MAX_FAILURES).collect(),
        usage: None,
        by_input: need.by_input.clone(),
        on_fargate: need.on_fargate,
        bound: find_bottleneck(profile, policy, catalogue),
        offers: Offers::default(),
        saving_a_month: None,
        saving_at_most_a_month: None,
        finding: None,
    })
}

/// The peaks of the tasks that show the needs of the step, and of those that failed.
fn peaks(runs: &[&Run], policy: &Policy) -> Vec<PeakMemory> {
    let shown = runs
        .iter()
        .filter(|run| run.tells(policy) || run.end.is_bad());
    shown.filter_map(|run| run.peak_memory).collect()
}

/// The largest number of attempts of a task.
fn attempts(runs: &[&Run]) -> u32 {
    let records = runs.iter().filter_map(|run| run.record.as_ref());
    records.map(|record| record.attempt).max().unwrap_or(1)
}

fn machines(runs: &[&Run]) -> Vec<InstanceType> {
    let known: BTreeSet<&InstanceType> = runs.iter().filter_map(|r| r.machine.as_ref()).collect();
    known.into_iter().cloned().collect()
}

/// The task that used the greatest share of its own request for memory, by measured peaks.
fn fullest(runs: &[&Run]) -> Option<MemoryUse> {
    let uses = runs.iter().filter_map(|run| {
        let peak = run
            .peak_memory
            .filter(|peak| !peak.source.is_upper_bound())?;
        Some(MemoryUse {
            used: peak.bytes,
            requested: run.requested.memory.filter(|memory| memory.0 > 0)?,
        })
    });
    uses.max_by_key(MemoryUse::share)
}

/// Mean number of busy cores; `None` if the CPU time of one task is unknown.
fn mean_cores(runs: &[&Run]) -> Option<MilliCores> {
    let cpu: Option<Vec<CpuTime>> = runs.iter().map(|run| run.cpu).collect();
    let cpu = cpu?.into_iter().fold(CpuTime(0), CpuTime::saturating_add);
    cpu.cores_over(runs.iter().map(|run| run.wall).sum())
}

/// Current and recommended time limit of first attempts. An attempt lasts as long as the scheduler
/// measures it, including the wait for files. The limit stays the same if this time is unknown. It
/// grows if attempts reached it, or took more than half of it. It shrinks only after several runs of
/// several samples, and not below the time of a failed attempt.
fn time_limit(runs: &[&Run], kind: StepKind, policy: &SizingPolicy) -> Option<TimeLimit> {
    let records = || runs.iter().filter_map(|run| run.record.as_deref());
    let asks = present_limit(records().rev(), kind)?;
    let ended_well = || runs.iter().copied().filter(|run| !run.end.is_bad());
    let has_enough = ended_well().count() >= policy.min_runs as usize;
    let is_known = has_enough && ended_well().all(|run| lasted_at_most(run).is_some());
    // A larger limit of one task alone does not show that the present limit is too low. It does if
    // the task got it because it reached the present limit.
    let has_grown = tasks_beyond(runs, asks);
    let is_grown = |run: &Run| {
        let record = run.record.as_deref();
        record.is_some_and(|record| has_grown.contains(&task_of(record)))
    };
    let limit_of = |run: &Run| run.record.as_ref().and_then(|record| record.time_limit);
    let is_of_present =
        |run: &Run| is_grown(run) || limit_of(run).is_some_and(|limit| limit <= asks);
    let of_present = ended_well().filter(|run| is_grown(run) || has_enough && is_of_present(run));
    let of_present = of_present.map(lasted_at_least).max();
    let larger = |lasted: Duration| limit_for(lasted, LARGER_LIMIT).max(asks);
    let is_long = |lasted: &Duration| lasted.saturating_mul(LARGER_LIMIT) > asks;
    let by_longest = of_present.filter(is_long).map(larger);
    let should_ask = match by_longest.max(reached_limit(runs, is_of_present).map(larger)) {
        Some(larger) => larger,
        None if !is_known || !has_several_runs(ended_well()) => asks,
        None => {
            let longest = runs.iter().filter_map(|run| lasted_at_most(run)).max();
            let smaller = |longest| limit_for(longest, SMALLER_LIMIT).max(LEAST_LIMIT);
            longest.map_or(asks, smaller).min(asks)
        }
    };
    Some(TimeLimit { asks, should_ask })
}

fn lasted_at_most(run: &Run) -> Option<Duration> {
    let record = run.record.as_deref()?;
    record.occupied.or(record.occupied_at_most)
}

fn lasted_at_least(run: &Run) -> Duration {
    let occupied = run.record.as_ref().and_then(|record| record.occupied);
    occupied.unwrap_or(run.wall)
}

/// The pipeline run and the name of a task.
fn task_of(record: &AttemptRecord) -> (&str, &str) {
    (&record.pipeline_run, &record.task)
}

/// The attempts that reached their time limit.
fn reached<'r>(runs: &[&'r Run]) -> impl Iterator<Item = &'r Run> {
    let is_reached = |run: &&Run| {
        let failure = run.record.as_ref().and_then(|record| record.failure);
        failure == Some(FailureKind::TimeLimit)
    };
    runs.iter().copied().filter(is_reached)
}

/// The tasks of which an attempt reached a limit up to `asks`.
fn tasks_beyond<'r>(runs: &[&'r Run], asks: Duration) -> BTreeSet<(&'r str, &'r str)> {
    let records = reached(runs).filter_map(|run| run.record.as_deref());
    let records = records.filter(|record| record.time_limit.is_some_and(|limit| limit <= asks));
    records.map(task_of).collect()
}

/// The largest limit that one of these attempts reached. An attempt does not count if another one of
/// its task took less than half of the limit: it hung, and would hang longer with a larger limit.
fn reached_limit(runs: &[&Run], is_counted: impl Fn(&Run) -> bool) -> Option<Duration> {
    let ended_well = runs.iter().filter(|run| !run.end.is_bad());
    let of_tasks: BTreeMap<(&str, &str), Duration> = ended_well
        .filter_map(|run| Some((task_of(run.record.as_deref()?), lasted_at_least(run))))
        .collect();
    let counted = reached(runs).filter(|run| is_counted(run));
    let limits = counted.filter_map(|run| {
        let record = run.record.as_deref()?;
        let limit = record.time_limit?;
        let hung = of_tasks
            .get(&task_of(record))
            .is_some_and(|lasted| *lasted <= limit / 2);
        (!hung).then_some(limit)
    });
    limits.max()
}

/// Whether these tasks are of several pipeline runs and, if their samples are known, of several samples.
fn has_several_runs<'r>(ended_well: impl Iterator<Item = &'r Run>) -> bool {
    let (mut pipeline_runs, mut samples) = (BTreeSet::new(), BTreeSet::new());
    for record in ended_well.filter_map(|run| run.record.as_deref()) {
        pipeline_runs.insert(record.pipeline_run.as_str());
        samples.extend(record.sample.as_deref());
    }
    let has_samples = samples.is_empty() || samples.len() >= LIMIT_RUNS;
    pipeline_runs.len() >= LIMIT_RUNS && has_samples
}

/// The limit of the first attempts of the newest pipeline run, or of the newest jobs of Slurm, where a
/// run is only a day; `None` if they have different limits, which depend on the task. `records` begin
/// with the newest.
fn present_limit<'r>(
    records: impl Iterator<Item = &'r AttemptRecord>,
    kind: StepKind,
) -> Option<Duration> {
    let is_slurm = kind == StepKind::SlurmJob;
    let mut firsts = records.filter(|record| {
        // A job without a limit has another one.
        record.attempt <= 1 && (is_slurm || record.time_limit.is_some())
    });
    let newest = firsts.next()?;
    let is_recent = |(number, record): &(usize, &AttemptRecord)| match is_slurm {
        true => *number < RECENT_TASKS,
        false => record.pipeline_run == newest.pipeline_run,
    };
    let mut recent = firsts.enumerate().filter(is_recent);
    let is_same = recent.all(|(_, record)| record.time_limit == newest.time_limit);
    newest.time_limit.filter(|_| is_same)
}

/// A multiple of the given time, rounded up to quarters of an hour. An excessive limit only delays
/// the start.
fn limit_for(lasted: Duration, factor: u32) -> Duration {
    let seconds = lasted.saturating_mul(factor).as_secs();
    let steps = seconds.div_ceil(LIMIT_STEP).max(1);
    Duration::from_secs(steps.saturating_mul(LIMIT_STEP))
}

/// Recommended request and its risk. A request shrinks only with enough observed tasks. A request
/// grows only with enough observed tasks, after OOM kills, or if a task used more than it.
///
/// If first attempts have different requests, one value replaces them all. It must then be at most
/// the smallest of them, except after OOM kills of the most frequent one: a task that fills a larger
/// request of its own does not show that the others are too small.
pub(crate) fn should_ask(
    present: &PresentRequest,
    need: &Need,
    oom_kills: usize,
) -> (SizedRequest, Risk) {
    let asks = present.request;
    let is_one = present.basis == RequestBasis::Same;
    // More than the request is no guess: nothing enforces the request, and another scheduler would.
    let is_below = need.held.is_none_or(|held| Some(held) <= asks.memory);
    let is_guess = need.risk.samples_needed > 0 && oom_kills == 0 && is_below;
    let memory = match (asks.memory, need.memory.zip(need.shrink_to)) {
        (now, None) => now,
        (None, Some((_, shrink_to))) => Some(shrink_to).filter(|_| !need.too_few_tasks),
        (Some(now), Some((_, shrink_to))) if shrink_to <= now => {
            let raises_none = is_one || Some(shrink_to) <= present.least.memory;
            let shrinks = is_worth_it(now, shrink_to) && !need.too_few_tasks && raises_none;
            Some(if shrinks { shrink_to } else { now })
        }
        (Some(now), Some((needed, _))) => {
            let is_too_little = match present.basis {
                RequestBasis::Same => need.comes_near(now, oom_kills),
                RequestBasis::Most => present.out_of_memory() > 0,
                RequestBasis::Median => false,
            };
            let grows = !is_guess && is_too_little;
            Some(if grows { needed.max(now) } else { now })
        }
    };
    // Of different requests, the largest was enough for the task that had it.
    let most = present
        .counts
        .iter()
        .filter_map(|count| count.request.memory)
        .max();
    let risk = memory.map_or_else(
        || Risk {
            samples_needed: need.risk.samples_needed,
            ..Risk::default()
        },
        |size| need.risk_instead_of(most.max(asks.memory), size),
    );
    let request = SizedRequest {
        cores: cores_to_ask(present, need),
        memory,
    };
    (request, risk)
}

/// A measured peak can raise the number of cores. An average can only lower it. Different requests
/// are never raised.
fn cores_to_ask(present: &PresentRequest, need: &Need) -> Option<MilliCores> {
    let by_average = need.slowdown_ppm.is_some();
    let is_one = present.basis == RequestBasis::Same;
    match (present.request.cores, need.cores) {
        (now, None) => now,
        (None, Some(needed)) => Some(needed).filter(|_| !need.too_few_tasks && !by_average),
        (Some(now), Some(needed)) if needed < now => {
            let raises_none = is_one || Some(needed) <= present.least.cores;
            let shrinks = !need.too_few_tasks && raises_none;
            Some(if shrinks { needed } else { now })
        }
        (Some(now), Some(needed)) => Some(if by_average || !is_one { now } else { needed }),
    }
}

/// Whether a smaller request is worth a change of the configuration. A tenth is the limit, because
/// packing steps onto machines wastes about as much.
fn is_worth_it(now: Bytes, needed: Bytes) -> bool {
    now.0.saturating_sub(needed.0) >= now.0 / 10
}

/// Returns all steps, the greatest saving or bound of a saving first, then by name and region, and
/// the number of steps left out.
pub(crate) fn steps(
    facts: &Facts<'_>,
    profiles: &Profiles<'_>,
    findings: &[Finding],
) -> (Vec<StepAdvice>, usize) {
    let placed = placed(profiles);
    let mut of_step: BTreeMap<&str, &Finding> = BTreeMap::new();
    for finding in findings.iter().filter(|f| f.kind == OverprovisionedStep) {
        of_step.entry(&finding.id).or_insert(finding);
    }
    let all = profiles.by_step.iter();
    let advised = all.filter_map(|(key, profiled)| {
        let mut advice = describe_step(facts, key, profiled, &of_step)?;
        if advice.offers == Offers::default() && placed.contains(key) {
            let step = (&key.region, profiled.as_ref());
            advice.offers = placement::offers(facts, profiles, step, advice.should_ask);
        }
        leave_out_large_retries(&mut advice, facts.catalogue);
        let wall = profiled.wall();
        Some((profiled.only_node(), RankedStep { advice, wall }))
    });
    greatest(advised, MAX_STEPS)
}

/// Leaves out sizes of retries that fit neither a machine on which the step ran nor a recommended
/// one: such a retry may wait forever. An environment may start larger machines, but the present
/// request was enough. All sizes stay if the memory of one type is unknown.
fn leave_out_large_retries(advice: &mut StepAdvice, catalogue: &Catalogue) {
    let offered = advice.offers.best.iter().map(|offer| &offer.instance_type);
    let types = advice.machines.iter().chain(offered);
    let memory = types.map(|name| Some(usable(catalogue.spec(name)?.memory)));
    let memory: Option<Vec<Bytes>> = memory.collect();
    let Some(most) = memory.and_then(|all| all.into_iter().max()) else {
        return;
    };
    let most = most.max(advice.asks.memory.unwrap_or_default());
    advice.risk.attempts.retain(|size| *size <= most);
}

/// Advice on a step, with the total run time of its tasks.
struct RankedStep {
    advice: StepAdvice,
    wall: Duration,
}

/// The steps with the greatest saving and then the longest run time, and the number of the others. Nodes
/// take turns up to `max` steps. At most twice as many are in memory, because names of steps may be
/// unique to each task.
fn greatest(
    advised: impl Iterator<Item = (Option<NodeId>, RankedStep)>,
    max: usize,
) -> (Vec<StepAdvice>, usize) {
    let (mut steps, mut all) = (Vec::new(), 0);
    for step in advised {
        steps.push(step);
        all += 1;
        if steps.len() >= 2 * max {
            steps = in_turns(steps, max);
        }
    }
    let mut room = MAX_STEPS_BYTES;
    let fits = |step: &StepAdvice| {
        let size = serde_json::to_vec(step).map_or(usize::MAX, |text| text.len());
        let left = room.checked_sub(size);
        room = left.unwrap_or(room);
        left.is_some()
    };
    let steps = in_turns(steps, max).into_iter();
    let mut steps: Vec<StepAdvice> = steps.map(|(_, step)| step.advice).filter(fits).collect();
    steps.sort_by(|a, b| saving(b).cmp(&saving(a)).then_with(|| by_name(a, b)));
    let left_out = all - steps.len();
    (steps, left_out)
}

fn in_turns(
    mut steps: Vec<(Option<NodeId>, RankedStep)>,
    max: usize,
) -> Vec<(Option<NodeId>, RankedStep)> {
    steps.sort_by(|(_, a), (_, b)| {
        let rank = |step: &RankedStep| (saving(&step.advice), step.wall);
        rank(b)
            .cmp(&rank(a))
            .then_with(|| by_name(&a.advice, &b.advice))
    });
    first_in_turns(steps, max / TURNS, max)
}

fn saving(step: &StepAdvice) -> Option<Usd> {
    step.saving_a_month.or(step.saving_at_most_a_month)
}

fn by_name(a: &StepAdvice, b: &StepAdvice) -> Ordering {
    (&a.step, &a.region, &a.account).cmp(&(&b.step, &b.region, &b.account))
}

/// The steps with the longest total run time, in turns of the nodes.
fn placed<'p>(profiles: &'p Profiles<'_>) -> BTreeSet<&'p StepKey> {
    let all = profiles.by_step.iter();
    let mut all: Vec<_> = all
        .map(|(key, profiled)| (profiled.wall(), key, profiled))
        .collect();
    all.sort_by(|(a_wall, a, _), (b_wall, b, _)| (b_wall, b).cmp(&(a_wall, a)));
    let all = all
        .into_iter()
        .map(|(_, key, profiled)| (profiled.only_node(), key));
    let placed = first_in_turns(all, MAX_PLACED / TURNS, MAX_PLACED);
    placed.into_iter().map(|(_, key)| key).collect()
}

fn describe_step(
    facts: &Facts<'_>,
    key: &StepKey,
    profiled: &StepHistory<'_>,
    of_step: &BTreeMap<&str, &Finding>,
) -> Option<StepAdvice> {
    let newest = profiled.newest()?;
    let kind = newest.step.usage.id.kind;
    let subject = StepSubject {
        name: &key.name,
        name_form: newest.name.form,
        kind,
        profile: &profiled.profile,
        need: &profiled.need,
        self_sizing: profiled.self_sizing.as_ref(),
    };
    let mut advice = advise_step(subject, facts.policy, facts.catalogue)?;
    let account = key.account.as_ref();
    let id = Finding::id_in(OverprovisionedStep, account, &key.region, &key.name);
    let finding = of_step.get(id.as_str());
    advice.region = Some(key.region.clone());
    advice.account = key.account.clone();
    advice.owner = newest.owner();
    if let Some(finding) = finding {
        advice.finding = Some(id);
        advice.saving_a_month = finding.known_saving();
        advice.saving_at_most_a_month = finding.saving_bound();
        if let Some(recommendation) = &finding.recommendation {
            advice.offers = recommendation.offers.clone();
        }
    }
    Some(advice)
}

#[cfg(test)]
mod tests {
    use ebb_model::step_profile::tasks::RequestCount;
    use ebb_telemetry::testing::node;

    use super::*;
    use crate::step_history::tests::{profile, run};

    /// Advice without a saving on a step of one task, which failed in `kinds` ways.
    fn ranked(name: &str, kinds: u8, seconds: u64) -> RankedStep {
        let failed = (1..=kinds).map(|status| {
            let mut failed = run(u64::from(status));
            failed.end = ebb_telemetry::step::StepEnd::Exited(status);
            failed
        });
        let profile = profile([run(0)].into_iter().chain(failed));
        let subject = StepSubject {
            name,
            name_form: NameForm::Exact,
            kind: StepKind::Container,
            profile: &profile,
            need: &Need::default(),
            self_sizing: None,
        };
        let advice = advise_step(subject, &Policy::default(), Catalogue::built_in());
        RankedStep {
            advice: advice.expect("it has tasks"),
            wall: Duration::from_secs(seconds),
        }
    }

    #[test]
    fn a_node_with_many_step_names_leaves_out_none_of_another_node_and_the_others_are_counted() {
        let many = (0..3_000).map(|n| (Some(node(1)), ranked(&format!("a{n}"), 0, 9_000)));
        let few = (0..50).map(|n| (Some(node(2)), ranked(&format!("z{n}"), 0, n)));
        let both = (Some(node(1)), ranked("long", 0, 9_001));
        let (steps, left_out) = greatest(many.chain(few).chain([both]), MAX_STEPS);
        assert_eq!((steps.len(), left_out), (MAX_STEPS, 2_051));
        let of_other = steps.iter().filter(|step| step.step.starts_with('z'));
        assert_eq!(of_other.count(), 50);
        assert!(steps.iter().any(|step| step.step == "long"));
    }

    #[test]
    fn reported_steps_have_a_limited_size_with_a_share_for_each_node() {
        let long = |n: usize| format!("{n}{}", "\u{1b}".repeat(255));
        let many = (0..1_000).map(|n| (Some(node(1)), ranked(&long(n), 60, 9_000)));
        let few = (0..100).map(|n| (Some(node(2)), ranked(&format!("z{n}"), 0, n)));
        let (steps, left_out) = greatest(many.chain(few), MAX_STEPS);
        let size = |step: &StepAdvice| serde_json::to_vec(step).expect("JSON").len();
        let sizes: usize = steps.iter().map(size).sum();
        assert!(sizes <= MAX_STEPS_BYTES, "{sizes}");
        assert_eq!(steps.len() + left_out, 1_100);
        assert!(steps.iter().all(|step| step.failures.len() <= MAX_FAILURES));
        let of_other = steps.iter().filter(|step| step.step.starts_with('z'));
        assert_eq!(of_other.count(), 100);
    }

    /// A need of `mib` MiB from 30 tasks with a peak of 900 MiB each.
    fn need(mib: u64) -> Need {
        Need {
            memory: Some(Bytes::mib(mib)),
            shrink_to: Some(Bytes::mib(mib)),
            risk: Risk {
                attempts: vec![Bytes::mib(1_024), Bytes::mib(2_048)],
                ..Risk::default()
            },
            peaks: vec![Bytes::mib(900); 30],
            held: Some(Bytes::mib(900)),
            effective_millis: 30_000,
            ..Need::default()
        }
    }

    fn asks(mib: u64) -> PresentRequest {
        let request = SizedRequest {
            cores: None,
            memory: Some(Bytes::mib(mib)),
        };
        PresentRequest {
            request,
            least: request,
            ..PresentRequest::default()
        }
    }

    #[test]
    fn a_change_for_less_than_a_tenth_is_not_asked_for() {
        let check = |now: u64, needed: u64, expect: u64, attempts: &[u64]| {
            let (request, risk) = should_ask(&asks(now), &need(needed), 0);
            assert_eq!(request.memory, Some(Bytes::mib(expect)), "{now} {needed}");
            let sizes: Vec<Bytes> = attempts.iter().map(|mib| Bytes::mib(*mib)).collect();
            assert_eq!(risk.attempts, sizes, "{now} {needed}");
            let between = risk.oom_between.expect("peaks are known");
            assert!(between.to_ppm < 90_000, "{between:?}");
        };
        check(1_024, 950, 1_024, &[2_048, 3_072]);
        check(1_024, 1_000, 1_024, &[2_048, 3_072]);
        check(1_024, 900, 900, &[1_024, 2_048]);
        // Tasks used all of their request, so a larger request pays off.
        check(900, 950, 950, &[1_024, 2_048]);
        // No task came close to the request.
        check(1_200, 1_300, 1_200, &[1_536, 2_048]);
    }

    #[test]
    fn after_a_smaller_request_a_task_gets_the_present_one() {
        let check = |now: u64, needed: u64, attempts: &[u64]| {
            let (_, risk) = should_ask(&asks(now), &need(needed), 0);
            let sizes: Vec<Bytes> = attempts.iter().map(|mib| Bytes::mib(*mib)).collect();
            assert_eq!(risk.attempts, sizes, "{now} {needed}");
        };
        check(6_144, 900, &[6_144, 9_216]);
        check(1_536, 900, &[1_536, 2_304]);
        // The present machines hold it, but perhaps not the larger size of the models.
        check(1_000, 900, &[1_000, 2_048]);
        check(1_000, 1_000, &[1_024, 2_048]);
    }

    #[test]
    fn a_request_changes_only_by_enough_tasks_or_by_kills() {
        let check = |few: bool, missing: u32, kills, now: u64, needed: u64, expect: u64| {
            let mut need = need(needed);
            need.too_few_tasks = few;
            need.risk.samples_needed = missing;
            let (request, _) = should_ask(&asks(now), &need, kills);
            assert_eq!(request.memory, Some(Bytes::mib(expect)), "{now} {needed}");
        };
        check(true, 19, 0, 4_000, 1_000, 4_000);
        check(false, 15, 0, 4_000, 1_000, 1_000);
        check(false, 15, 0, 900, 1_100, 900);
        check(false, 0, 0, 900, 1_100, 1_100);
        check(true, 19, 1, 900, 1_400, 1_400);
    }

    #[test]
    fn one_value_for_different_requests_raises_none_without_an_oom_kill() {
        let check = |basis, least: u64, killed: u32, needed: u64, expect: u64| {
            let mut present = asks(4_000);
            present.basis = basis;
            present.least.memory = Some(Bytes::mib(least));
            present.counts = vec![RequestCount {
                request: present.request,
                tasks: 30,
                out_of_memory: killed,
            }];
            let mut need = need(needed);
            // One task filled a larger request of its own.
            need.held = Some(Bytes::gib(20));
            let (request, _) = should_ask(&present, &need, killed as usize);
            assert_eq!(
                request.memory,
                Some(Bytes::mib(expect)),
                "{basis:?} {needed}"
            );
        };
        check(RequestBasis::Same, 4_000, 0, 20_000, 20_000);
        check(RequestBasis::Most, 4_000, 0, 20_000, 4_000);
        check(RequestBasis::Most, 4_000, 1, 20_000, 20_000);
        check(RequestBasis::Median, 1_000, 1, 20_000, 4_000);
        check(RequestBasis::Median, 1_000, 0, 1_500, 4_000);
        check(RequestBasis::Median, 1_000, 0, 900, 900);
    }
}
