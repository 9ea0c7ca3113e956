//! The tasks of a group, replayed on machines.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ebb_model::advice::group::{GroupAdvice, Member, Together};
use ebb_model::advice::sized_request::SizedRequest;
use ebb_model::confidence::Level;
use ebb_model::step_profile::most_at_once;
use ebb_sizing::packing::{Packed, Room, Wanted};
use ebb_telemetry::origin::{Origin, labelled};
use ebb_telemetry::units::{Bytes, MilliCores};

use crate::advice::group::members::Group;
use crate::advice::step::should_ask;
use crate::facts::Facts;
use crate::step_history::by_step::StepHistory;

/// Cores and memory that a task occupies on a machine.
type Size = (MilliCores, Bytes);

/// A step of the group.
pub(crate) struct GroupStep<'p, 'a> {
    pub(crate) profiled: &'p StepHistory<'a>,
    pub(crate) member: Member,
    /// Size by which the scheduler places its tasks now; `None` if unknown.
    pub(crate) now: Option<Size>,
    /// Size with the recommended request; `None` if unknown.
    pub(crate) then: Option<Size>,
}

/// A group with its steps, prepared for replays.
pub(crate) struct ReplayGroup<'g, 'p, 'a> {
    pub(crate) group: &'g Group<'p, 'a>,
    pub(crate) steps: Vec<GroupStep<'p, 'a>>,
    /// Index of the step of each task.
    pub(crate) step_of: Vec<usize>,
    /// Greatest number of concurrent tasks.
    pub(crate) at_once: u32,
    /// Time that a machine is kept without tasks.
    kept: Duration,
}

impl<'g, 'p, 'a> ReplayGroup<'g, 'p, 'a> {
    pub(crate) fn at(facts: &Facts<'_>, group: &'g Group<'p, 'a>) -> Self {
        let mut walls: BTreeMap<&str, (u32, Duration, &'p StepHistory<'a>)> = BTreeMap::new();
        for run in &group.runs {
            let total = walls.entry(run.step);
            let total = total.or_insert((0, Duration::ZERO, run.profiled));
            total.0 += 1;
            total.1 += run.run.wall();
        }
        let mut steps: Vec<GroupStep<'p, 'a>> = walls
            .into_iter()
            .map(|(name, (runs, wall, profiled))| {
                GroupStep::new(facts, name, (runs, wall), profiled)
            })
            .collect();
        steps.sort_by(|a, b| {
            let (a, b) = (&a.member, &b.member);
            (b.wall, &a.step).cmp(&(a.wall, &b.step))
        });
        let by_name: BTreeMap<&str, usize> = (steps.iter().enumerate())
            .map(|(at, step)| (step.member.step.as_str(), at))
            .collect();
        let step_of = group.runs.iter();
        let step_of = step_of.filter_map(|run| by_name.get(run.step).copied());
        let minutes = group.environment.and_then(|e| e.scale_down_delay_minutes);
        Self {
            step_of: step_of.collect(),
            at_once: at_once(group),
            group,
            steps,
            kept: Duration::from_secs(60 * u64::from(minutes.unwrap_or(0))),
        }
    }

    /// Advice with the observed values only; `None` for a group without tasks.
    pub(crate) fn advise_group(&self) -> Option<GroupAdvice> {
        let runs = || self.group.runs.iter().map(|run| run.run);
        let newest = runs().max_by_key(|run| run.step.observed_at)?;
        let machines: BTreeSet<_> = runs().map(|run| &run.instance.id).collect();
        let labels = runs().map(|run| run.step.origin.max(labelled(&run.instance.tags)));
        let environment = self.group.environment;
        Some(GroupAdvice {
            name: self.group.name.clone(),
            region: self.group.region.clone(),
            account: self.group.account.clone(),
            owner: newest.owner(),
            origin: labels.max().unwrap_or(Origin::Measured),
            from: runs().map(|run| run.step.started_at).min()?,
            to: newest.step.observed_at,
            runs: count(self.group.runs.len()),
            steps: self.steps.iter().map(|step| step.member.clone()).collect(),
            allowed: environment.map_or_else(Vec::new, |e| e.instance_types.clone()),
            allocation: environment.and_then(|e| e.allocation.clone()),
            now: None,
            resized: None,
            offers: Vec::new(),
            spot: Vec::new(),
            spot_score: None,
            saving_a_month: None,
            seen_by_replayed_ppm: None,
            list_as_of: None,
            confidence: Level::Low,
            assumed: assumed(machines.len()),
            refused: None,
        })
    }

    /// Returns the size and the duration of each task for a replay.
    pub(crate) fn wanted(
        &self,
        size: impl Fn(&GroupStep<'p, 'a>) -> Option<Size>,
        wall: impl Fn(usize, usize) -> Duration,
    ) -> Vec<Wanted> {
        let from = self.group.runs.first().map(|run| run.run.step.started_at);
        let all = self.group.runs.iter().zip(&self.step_of).enumerate();
        let wanted = all.filter_map(|(at, (run, step))| {
            let (cores, memory) = size(self.steps.get(*step)?)?;
            let since = run.run.step.started_at.duration_since(from?);
            Some(Wanted {
                step: *step,
                at: Duration::try_from(since).unwrap_or_default(),
                wall: wall(at, *step),
                cores,
                memory,
            })
        });
        wanted.collect()
    }

    pub(crate) fn room(&self, spec: &ebb_catalog::machine_type::TypeSpec) -> Room {
        Room {
            cores: MilliCores::cores(spec.vcpus.into()),
            memory: ebb_sizing::cheapest_type::usable(spec.memory),
            kept: self.kept,
        }
    }

    /// Number of tasks on the fullest machine, by step name.
    pub(crate) fn together(&self, packed: &Packed) -> Vec<Together> {
        let fullest = packed.fullest.iter();
        let named = fullest.filter_map(|(step, runs)| {
            let step = self.steps.get(*step)?.member.step.clone();
            Some(Together { step, runs: *runs })
        });
        named.collect()
    }
}

impl<'p, 'a> GroupStep<'p, 'a> {
    fn new(
        facts: &Facts<'_>,
        name: &str,
        (runs, wall): (u32, Duration),
        profiled: &'p StepHistory<'a>,
    ) -> Self {
        let asks = profiled.requested();
        let need = &profiled.need;
        let (should, risk) = should_ask(&profiled.present, need, profiled.profile.oom_kills());
        // If a step requests nothing, its measured use is its size.
        let size = |request: SizedRequest| {
            let cores = request.cores.or(need.cores);
            cores.zip(request.memory.or(need.shrink_to))
        };
        let confident = facts.policy.sizing.confident_samples;
        let samples = profiled.profile.samples(facts.policy).len();
        Self {
            profiled,
            now: size(asks),
            then: size(should),
            member: Member {
                step: name.to_owned(),
                runs,
                wall,
                samples_needed: risk
                    .samples_needed
                    .max(confident.saturating_sub(count(samples))),
                asks,
                should_ask: should,
            },
        }
    }
}

fn at_once(group: &Group<'_, '_>) -> u32 {
    let runs = group.runs.iter().map(|run| run.run.step);
    most_at_once(runs.map(|run| (run.started_at, run.observed_at))).max(1)
}

fn assumed(machines: usize) -> Vec<String> {
    vec![
        "tasks start at their observed times and are placed by the ECS binpack strategy".to_owned(),
        format!(
            "each of the {machines} observed machines counts for the time that these tasks ran on \
             it"
        ),
        "recommended types cost their list price".to_owned(),
    ]
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
