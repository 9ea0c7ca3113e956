//! Overprovisioned step: it asked for far more than its runs ever used.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::Verdict;
use crate::catalogue::Architecture;
use crate::finding::{
    Action, Confidence, Cost, Evidence, Finding, FindingKind, Level, Overprovisioned,
    Recommendation, Remedy, Resource, Window,
};
use crate::fleet::{Instance, Job};
use crate::heartbeat::Origin;
use crate::identity::Region;
use crate::judge::{Facts, Price};
use crate::placement::{self, Needs};
use crate::sizing::{self, Sample, SizedRequest};
use crate::step::{PeakMemory, PlacedStep, Requested, StepKind};
use crate::units::{CpuTime, MilliCores, Share, UsdPerHour};

const KIND: FindingKind = FindingKind::OverprovisionedStep;

/// Judges every step that asked for something, its runs taken together by
/// region and name.
pub fn judge(facts: &Facts<'_>) -> Vec<Verdict> {
    let mut by_name: BTreeMap<(Region, String), Vec<Run<'_>>> = BTreeMap::new();
    for run in runs(facts) {
        let region = run.instance.region.clone();
        by_name
            .entry((region, run.name().to_owned()))
            .or_default()
            .push(run);
    }
    by_name
        .into_iter()
        .filter_map(|((_, name), runs)| judge_one(facts, &name, &runs))
        .collect()
}

/// One run of a step, with all that is known around it.
struct Run<'a> {
    step: &'a PlacedStep,
    instance: &'a Instance,
    job: Option<&'a Job>,
}

impl<'a> Run<'a> {
    fn name(&self) -> &'a str {
        let of_job = self
            .job
            .map(|job| job.definition.as_deref().unwrap_or(&job.name));
        of_job.unwrap_or(&self.step.usage.name)
    }

    fn requested(&self) -> Requested {
        self.job
            .map_or(self.step.usage.requested, |job| job.requested)
    }

    fn wall(&self) -> Duration {
        let usage = &self.step.usage;
        usage.observed.since(usage.started).unwrap_or_default()
    }

    fn sample(&self) -> Sample {
        let usage = &self.step.usage;
        Sample {
            peak_cores: usage.peak_cores,
            peak_memory: usage.peak_memory,
            wall: self.wall(),
        }
    }
}

/// Runs that tell what a step needs: long enough, not hung, not failed. Each run
/// counts once, whether the lake or the state has it or both.
fn runs<'a>(facts: &Facts<'a>) -> Vec<Run<'a>> {
    let (state, inventory) = (facts.state, facts.inventory);
    let kept = state.nodes.values().flat_map(|node| node.steps.values());
    let mut newest: BTreeMap<_, &PlacedStep> = BTreeMap::new();
    for step in facts.finished.iter().chain(kept) {
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
    newest
        .into_values()
        .filter(|step| tells(facts, step))
        .filter_map(|step| {
            let job = match step.usage.id.kind {
                StepKind::EcsTask => jobs.get(step.usage.id.key.as_str()).copied(),
                _ => None,
            };
            Some(Run {
                step,
                instance: inventory.instances.get(&step.node)?,
                job,
            })
        })
        .filter(|run| run.requested() != Requested::default())
        .collect()
}

fn tells(facts: &Facts<'_>, step: &PlacedStep) -> bool {
    let usage = &step.usage;
    let wall = usage.observed.since(usage.started).unwrap_or_default();
    let quiet = usage
        .observed
        .since(usage.last_progress)
        .unwrap_or_default();
    wall >= facts.policy.overprovisioned.min_wall()
        && quiet < facts.policy.batch.no_progress()
        && !usage.end.is_bad()
}

fn judge_one(facts: &Facts<'_>, name: &str, runs: &[Run<'_>]) -> Option<Verdict> {
    let newest = runs.iter().max_by_key(|run| run.step.observed_at)?;
    let requested = newest.requested();
    let samples: Vec<Sample> = runs.iter().map(Run::sample).collect();
    let sized = sizing::size(requested, &samples, &facts.policy.sizing);
    if !far_less(facts, requested, sized) {
        return None;
    }
    let Some(price) = facts.price_of(newest.instance) else {
        return Some(Verdict::undetermined(
            KIND,
            name,
            Some(name),
            format!("no price is known for {}", newest.instance.instance_type),
        ));
    };
    let now = share(facts, newest.instance, price, requested.into())?;
    let then = share(facts, newest.instance, price, sized)?;
    let saved = UsdPerHour(now.0 - then.0);
    let saving = price.scaled(saved, price.per_hour);
    let seen = Seen::of(runs)?;
    let cost = seen.cost(saving);
    if cost.saving_a_month < facts.policy.overprovisioned.min_saving() {
        return None;
    }
    let recommendation = Recommendation {
        current: requested.into(),
        recommended: sized,
        samples: seen.samples,
        placement: place(facts, newest.instance, sized),
        current_per_hour: Some(now),
        recommended_per_hour: Some(then),
        assumptions: vec![
            "a step costs the greater of its shares of the machine's cores and memory".into(),
            "it runs as often as in the window observed".into(),
        ],
    };
    Some(Verdict::Waste(Box::new(found(
        facts,
        newest,
        &seen,
        cost,
        recommendation,
    ))))
}

/// True when both cores and memory needed are a small enough part of what was
/// asked for: only then does a machine hold more of such steps.
fn far_less(facts: &Facts<'_>, asked: Requested, needed: SizedRequest) -> bool {
    let bound = Share::from_ppm(facts.policy.overprovisioned.needed_share_ppm);
    let small = |needed: Option<u64>, asked: Option<u64>| match (needed, asked) {
        (Some(needed), Some(asked)) => Share::of(needed, asked).map(|share| share <= bound),
        _ => None,
    };
    let cores = small(needed.cores.map(|c| c.0), asked.cores.map(|c| c.0));
    let memory = small(needed.memory.map(|m| m.0), asked.memory.map(|m| m.0));
    matches!((cores, memory), (Some(true), Some(true)))
}

fn share(
    facts: &Facts<'_>,
    instance: &Instance,
    price: Price,
    request: SizedRequest,
) -> Option<UsdPerHour> {
    let spec = facts.catalogue.spec(&instance.instance_type)?;
    placement::share_of_price(spec, price.per_hour, request)
}

fn place(
    facts: &Facts<'_>,
    instance: &Instance,
    request: SizedRequest,
) -> Option<placement::Placement> {
    let spec = facts.catalogue.spec(&instance.instance_type);
    let architecture = spec.map_or(Architecture::X86_64, |spec| spec.architecture);
    placement::cheapest(
        facts.catalogue,
        &instance.region,
        Needs {
            request,
            architecture,
        },
    )
}

/// What all runs together show.
struct Seen {
    window: Window,
    samples: u32,
    wall: Duration,
    cpu: CpuTime,
    peak_cores: Option<MilliCores>,
    peak_memory: Option<PeakMemory>,
    origin: Origin,
}

impl Seen {
    fn of(runs: &[Run<'_>]) -> Option<Self> {
        let from: Timestamp = runs.iter().map(|run| run.step.started_at).min()?;
        let to = runs.iter().map(|run| run.step.observed_at).max()?;
        Some(Self {
            window: Window { from, to },
            samples: u32::try_from(runs.len()).unwrap_or(u32::MAX),
            wall: runs.iter().map(Run::wall).sum(),
            cpu: runs.iter().fold(CpuTime(0), |sum, run| {
                sum.saturating_add(run.step.usage.cpu)
            }),
            peak_cores: runs
                .iter()
                .filter_map(|run| run.step.usage.peak_cores)
                .max(),
            peak_memory: runs
                .iter()
                .filter_map(|run| run.step.usage.peak_memory)
                .max_by_key(|peak| peak.bytes),
            origin: runs.iter().map(|run| run.step.origin).max()?,
        })
    }

    /// What was wasted while the runs lasted, and in a month of such windows.
    fn cost(&self, saving: Price) -> Cost {
        let whole = saving.wasted_over(self.window);
        let duty = |price: UsdPerHour| {
            let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            price.part(millis(self.wall), millis(self.window.length()))
        };
        Cost {
            per_hour: duty(whole.per_hour),
            list_per_hour: whole.list_per_hour.map(duty),
            spent: saving.per_hour.over(self.wall),
            saving_a_month: duty(whole.per_hour).a_month(),
            ..whole
        }
    }
}

fn found(
    facts: &Facts<'_>,
    run: &Run<'_>,
    seen: &Seen,
    cost: Cost,
    recommendation: Recommendation,
) -> Finding {
    let (name, instance) = (run.name(), run.instance);
    let enough = facts.policy.sizing.confident_samples;
    let level = if seen.samples >= enough {
        Level::High
    } else {
        Level::Low
    };
    let sized = recommendation.recommended;
    Finding {
        id: Finding::id_of(KIND, &instance.region, name),
        kind: KIND,
        window: seen.window,
        coverage: None,
        evidence: Evidence::Overprovisioned(Overprovisioned {
            requested: run.requested(),
            peak_cores: seen.peak_cores,
            mean_cores: seen.cpu.cores_over(seen.wall),
            peak_memory: seen.peak_memory,
            samples: seen.samples,
            observed_for: seen.wall,
        }),
        confidence: Confidence {
            level,
            reason: format!("{} of {enough} runs seen", seen.samples.min(enough)),
        },
        cost: Some(cost),
        remedy: Remedy {
            action: Action::Rightsize,
            advice: format!(
                "Ask for {} vCPU and {} instead.",
                sized
                    .cores
                    .map_or_else(|| "the same".to_owned(), |cores| cores.to_string()),
                sized
                    .memory
                    .map_or_else(|| "the same memory".to_owned(), |m| m.to_string()),
            ),
            command: None,
        },
        recommendation: Some(recommendation),
        resource: Resource {
            id: name.to_owned(),
            name: Some(run.job.map_or(name, |job| job.name.as_str()).to_owned()),
            region: instance.region.clone(),
            node: Some(instance.id.to_string()),
            owner: run
                .job
                .and_then(|job| job.tags.get("Owner").cloned())
                .or_else(|| instance.owner().map(str::to_owned)),
            instance_type: Some(instance.instance_type.clone()),
            market: Some(instance.market),
            controller: facts.controller(instance),
            origin: seen.origin,
        },
    }
}
