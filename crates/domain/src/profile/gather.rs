//! Profiles from facts: every run that probes saw, once, under the name that a
//! person would change its request by.

use std::collections::BTreeMap;
use std::time::Duration;

use super::place::{self, Speeds};
use super::{Run, RunKey, StepProfile};
use crate::fleet::{Instance, Job};
use crate::identity::Region;
use crate::judge::Facts;
use crate::sizing::Need;
use crate::step::{PlacedStep, Requested, StepKind};

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

    /// Whom to ask about it.
    pub(crate) fn owner(&self) -> Option<String> {
        self.job
            .and_then(|job| job.tags.get("Owner").cloned())
            .or_else(|| self.instance.owner().map(str::to_owned))
    }
}

/// A step by its runs.
pub(crate) struct Profiled<'a> {
    pub(crate) runs: Vec<SeenRun<'a>>,
    pub(crate) profile: StepProfile,
    pub(crate) need: Need,
}

/// All steps by region and name.
pub(crate) struct Profiles<'a> {
    pub(crate) by_step: BTreeMap<(Region, String), Profiled<'a>>,
    pub(crate) speeds: Speeds,
}

/// Profiles of all steps; sessions and services are no steps of a pipeline.
pub(crate) fn profiles<'a>(facts: &Facts<'a>) -> Profiles<'a> {
    let mut by_name: BTreeMap<(Region, String), Vec<SeenRun<'a>>> = BTreeMap::new();
    for run in seen(facts) {
        let key = (run.instance.region.clone(), run.name().to_owned());
        by_name.entry(key).or_default().push(run);
    }
    let by_step: BTreeMap<_, _> = by_name
        .into_iter()
        .map(|(key, runs)| {
            let mut profile = StepProfile::default();
            for run in &runs {
                profile.add(RunKey::of(run.step), run.profiled());
            }
            let need = profile.need(None, facts.policy);
            let profiled = Profiled {
                runs,
                profile,
                need,
            };
            (key, profiled)
        })
        .collect();
    let all = by_step.iter().map(|((_, name), p)| (name, &p.profile));
    Profiles {
        speeds: place::learned(all, facts.catalogue),
        by_step,
    }
}

/// Every run on a known machine, the newest record of it, whether the lake or the
/// state has it or both.
pub(crate) fn seen<'a>(facts: &Facts<'a>) -> Vec<SeenRun<'a>> {
    let (state, inventory) = (facts.state, facts.inventory);
    let kept = state.nodes.values().flat_map(|node| node.steps());
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
    let jobs: BTreeMap<&str, &Job> = inventory
        .batch
        .jobs
        .values()
        .filter_map(|job| Some((job.task_id()?, job)))
        .collect();
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
