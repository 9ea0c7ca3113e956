//! Profiles from facts: every run that probes saw, once, under the name that a
//! person would change its request by.

mod neighbours;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::failure::FailureKind;
use super::tasks::{AttemptRecord, PresentRequest};
use super::{MAX_RUNS, Run, RunKey, StepProfile, learn};
use crate::catalogue::Architecture;
use crate::finding::StepLink;
use crate::fleet::{Instance, InstanceState, Job, Market, task_id};
use crate::identity::{AccountId, NodeId, Region};
use crate::judge::Facts;
use crate::placement::share_of_price;
use crate::placement::speed::Speeds;
use crate::policy::Policy;
use crate::runs::{self, Families};
use crate::sizing::self_sizing::SelfSizing;
use crate::sizing::{Need, SizedRequest};
use crate::step::{PlacedStep, Requested, StepKind};
use crate::units::UsdPerHour;

use neighbours::Neighbours;

/// One run of a step, with all that is known around it.
pub(crate) struct SeenRun<'a> {
    pub(crate) step: &'a PlacedStep,
    pub(crate) instance: &'a Instance,
    pub(crate) job: Option<&'a Job>,
}

impl<'a> SeenRun<'a> {
    /// The job definition, else the job or what the step calls itself.
    pub(crate) fn name(&self) -> &'a str {
        let of_job = self
            .job
            .map(|job| job.definition.as_deref().unwrap_or(&job.name));
        of_job.unwrap_or(&self.step.usage.name)
    }

    /// Where a finding about the steps of this name points to.
    pub(crate) fn link(&self, name: &str) -> StepLink {
        StepLink::of(self.step, name, self.job)
    }

    pub(crate) fn requested(&self) -> Requested {
        self.job
            .map_or(self.step.usage.requested, |job| job.requested)
    }

    pub(crate) fn wall(&self) -> Duration {
        let usage = &self.step.usage;
        usage.observed.since(usage.started).unwrap_or_default()
    }

    /// For how long it had made no progress when it was seen last.
    pub(crate) fn quiet(&self) -> Duration {
        let usage = &self.step.usage;
        usage
            .observed
            .since(usage.last_progress)
            .unwrap_or_default()
    }

    pub(crate) fn profiled(&self) -> Run {
        Run::of(self.step, self.requested(), &self.instance.instance_type)
    }

    /// The part of its machine's price that such a request of it takes: the greatest of its
    /// shares of cores, memory and GPUs. `None` when the type or the request is not known.
    pub(crate) fn part_of(
        &self,
        facts: &Facts<'_>,
        per_hour: UsdPerHour,
        request: SizedRequest,
    ) -> Option<UsdPerHour> {
        let spec = facts.catalogue.spec(&self.instance.instance_type)?;
        let gpus = self.gpus(facts, spec.gpu_count());
        let part = share_of_price(spec, per_hour, request, gpus)?;
        // Of accelerators no probe sees who computes on them.
        Some(match spec.accelerators {
            Some(_) => per_hour,
            None => part,
        })
    }

    /// GPUs that it takes of so many: all where nobody looked, because another step that
    /// needs one may have found none.
    fn gpus(&self, facts: &Facts<'_>, all: u32) -> u32 {
        let node = facts.state.nodes.get(&self.step.node);
        let latest = node.and_then(|node| node.latest.as_ref());
        let unseen = latest.is_none_or(|latest| latest.coverage.gpu.is_none());
        match self.step.usage.detail.gpu {
            Some(gpu) => gpu.devices.min(all),
            None if unseen => all,
            None => 0,
        }
    }

    /// Whom to ask about it.
    pub(crate) fn owner(&self) -> Option<String> {
        self.job
            .and_then(crate::fleet::Job::owner)
            .or_else(|| self.instance.owner())
            .map(str::to_owned)
    }
}

/// A step by its runs.
pub(crate) struct Profiled<'a> {
    pub(crate) runs: Vec<SeenRun<'a>>,
    pub(crate) profile: StepProfile,
    pub(crate) need: Need,
    /// What its first attempts ask for.
    pub(crate) present: PresentRequest,
    /// The tool of it that takes its memory from its request.
    pub(crate) self_sizing: Option<SelfSizing>,
    /// Executables that it ran, as far as finished runs tell.
    pub(crate) tools: BTreeSet<String>,
}

impl Profiled<'_> {
    pub(crate) fn newest(&self) -> Option<&SeenRun<'_>> {
        self.runs.iter().max_by_key(|run| run.step.observed_at)
    }

    /// What its first attempts ask for.
    pub(crate) fn requested(&self) -> SizedRequest {
        self.present.request
    }

    /// The tags of its newest run's machine and job, of which the job's hold.
    pub(crate) fn tags(&self) -> BTreeMap<String, String> {
        let newest = self.newest();
        let machine = newest.map(|run| run.instance.tags.clone());
        let job = newest.and_then(|run| Some(run.job?.tags.clone()));
        let mut tags = machine.unwrap_or_default();
        tags.extend(job.unwrap_or_default());
        tags
    }

    /// Whether it runs from an image.
    pub(crate) fn in_container(&self) -> bool {
        let in_one = [StepKind::EcsTask, StepKind::Pod, StepKind::Container];
        let kind = self.newest().map(|run| run.step.usage.id.kind);
        kind.is_some_and(|kind| in_one.contains(&kind))
    }
}

/// Whose runs are taken together: two accounts may each have a step of the same name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StepKey {
    pub(crate) region: Region,
    pub(crate) name: String,
    /// `None` where that is not told.
    pub(crate) account: Option<AccountId>,
}

/// All steps.
pub(crate) struct Profiles<'a> {
    pub(crate) by_step: BTreeMap<StepKey, Profiled<'a>>,
    pub(crate) speeds: Speeds,
    /// For each commitment, what an hour of the machines that it could pay for lists at.
    pub(crate) demand: Vec<UsdPerHour>,
    /// Executables that were seen on Arm.
    pub(crate) on_arm: BTreeSet<String>,
}

/// Profiles of all steps, of which the state holds those in `kept`; sessions and services
/// are no steps of a pipeline.
pub(crate) fn profiles<'a>(facts: &Facts<'a>, kept: &'a [PlacedStep]) -> Profiles<'a> {
    let mut by_name: BTreeMap<StepKey, Vec<SeenRun<'a>>> = BTreeMap::new();
    let all = seen(facts, kept);
    let neighbours = Neighbours::of(&all);
    let families = Families::of(facts.inventory.batch.jobs.values());
    for run in all {
        let key = StepKey {
            region: run.instance.region.clone(),
            name: run.name().to_owned(),
            account: run.instance.account.clone(),
        };
        by_name.entry(key).or_default().push(run);
    }
    let by_step: BTreeMap<_, _> = by_name
        .into_iter()
        .map(|(key, runs)| {
            let mut profile = StepProfile::default();
            profile.extend(newest(&runs).into_iter().map(|run| {
                let among_others = neighbours.crowded(run, facts.catalogue);
                let key = RunKey::of(run.step);
                let profiled = Run {
                    among_others,
                    record: record(run, &key, facts.policy, &families),
                    ..run.profiled()
                };
                (key, profiled)
            }));
            let tools = tools(runs.iter());
            let self_sizing = crate::sizing::self_sizing::find_self_sizing(&key.name, tools.iter().map(String::as_str));
            let need = crate::profile::step_need(&profile, None, self_sizing.as_ref(), facts.policy);
            let profiled = Profiled {
                tools,
                runs,
                present: profile.present_request(),
                profile,
                need,
                self_sizing,
            };
            (key, profiled)
        })
        .collect();
    let all = by_step.iter().map(|(key, p)| (&key.name, &p.profile));
    let runs = by_step.values().flat_map(|profiled| &profiled.runs);
    let on_arm = |run: &&SeenRun<'_>| {
        let spec = facts.catalogue.spec(&run.instance.instance_type);
        spec.is_some_and(|spec| spec.architecture == Architecture::Arm64)
    };
    Profiles {
        on_arm: tools(runs.filter(on_arm)),
        demand: demand(facts),
        speeds: learn::learned(all, facts.catalogue),
        by_step,
    }
}

/// The pipeline run and the sample of a task, where something names the run.
fn record(
    seen: &SeenRun<'_>,
    key: &RunKey,
    policy: &Policy,
    families: &Families<'_>,
) -> Option<Box<AttemptRecord>> {
    let (_, pipeline_run) = runs::run_of(seen, policy, families)?;
    Some(Box::new(AttemptRecord {
        pipeline_run,
        task: format!("{} {}", key.seen_on, key.step.key),
        sample: runs::sample_of(seen, policy).map(str::to_owned),
        attempt: 1,
        failure: FailureKind::of_end(seen.step.usage.end),
        ..AttemptRecord::default()
    }))
}

/// The runs that a profile has room for: the newest of each node in turn, so that one node
/// that reports many runs does not displace those of all others.
fn newest<'r, 'a>(runs: &'r [SeenRun<'a>]) -> Vec<&'r SeenRun<'a>> {
    if runs.len() <= MAX_RUNS {
        return runs.iter().collect();
    }
    let mut by_node: BTreeMap<&NodeId, Vec<&SeenRun<'a>>> = BTreeMap::new();
    for run in runs {
        by_node.entry(&run.step.node).or_default().push(run);
    }
    // A run's turn is how many of its node are newer.
    let mut turns = Vec::with_capacity(runs.len());
    for mut of_node in by_node.into_values() {
        of_node.sort_by_key(|run| Reverse(run.step.observed_at));
        turns.extend(of_node.into_iter().take(MAX_RUNS).enumerate());
    }
    turns.sort_by_key(|(turn, run)| (*turn, Reverse(run.step.observed_at)));
    let chosen = turns.into_iter().take(MAX_RUNS);
    chosen.map(|(_, run)| run).collect()
}

/// What the machines list at that run on demand and that each commitment could pay for.
pub(crate) fn demand(facts: &Facts<'_>) -> Vec<UsdPerHour> {
    let running = || {
        let all = facts.inventory.instances.values();
        all.filter(|one| one.state == InstanceState::Running && one.market != Market::Spot)
    };
    let commitments = facts.inventory.markets.commitments.iter();
    let sum = commitments.map(|paid| {
        let paid_for = running().filter(|one| paid.pays_for(&one.region, &one.instance_type));
        let list = |one: &Instance| facts.catalogue.on_demand(&one.region, &one.instance_type);
        UsdPerHour(paid_for.filter_map(list).map(|price| price.0).sum())
    });
    sum.collect()
}

/// Executables that runs started; those of runs that failed may not exist there.
fn tools<'r, 'a: 'r>(runs: impl Iterator<Item = &'r SeenRun<'a>>) -> BTreeSet<String> {
    let well = runs.filter(|run| !run.step.usage.end.is_bad());
    let tools = well.flat_map(|run| &run.step.usage.tools);
    tools.map(|tool| tool.name.clone()).collect()
}

/// A job by the tasks of all its attempts.
pub(crate) fn tasks(job: &Job) -> impl Iterator<Item = (&str, &Job)> {
    let attempts = job.attempts.iter().map(|tried| tried.task_arn.as_deref());
    let arns = attempts.chain([job.task_arn.as_deref()]).flatten();
    arns.filter_map(move |arn| Some((task_id(arn)?, job)))
}

/// Every run on a known machine, the newest record of it, whether the lake or the
/// state has it or both.
fn seen<'a>(facts: &Facts<'a>, kept: &'a [PlacedStep]) -> Vec<SeenRun<'a>> {
    let inventory = facts.inventory;
    let mut newest: BTreeMap<_, &PlacedStep> = BTreeMap::new();
    for step in facts.finished.iter().chain(kept) {
        if matches!(step.usage.id.kind, StepKind::Session | StepKind::Service) {
            continue;
        }
        let entry = newest
            .entry((&step.node, &step.boot, &step.usage.id))
            .or_insert(step);
        if step.usage.observed > entry.usage.observed {
            *entry = step;
        }
    }
    let jobs: BTreeMap<&str, &Job> = inventory.batch.jobs.values().flat_map(tasks).collect();
    let seen = newest.into_values().filter_map(|step| {
        let job = match step.usage.id.kind {
            StepKind::EcsTask => jobs.get(step.usage.id.key.as_str()).copied(),
            _ => None,
        };
        Some(SeenRun {
            step,
            instance: inventory.instances.get(&step.node)?,
            job,
        })
    });
    seen.collect()
}
