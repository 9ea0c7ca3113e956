//! What the rules about steps share: which runs are judged, in which order the rules
//! speak, and how a finding about a step is made. Of one run or step at most one rule
//! speaks, the most pressing first, or the same hours would count twice.

mod memory_pressure;
mod out_of_memory;
mod past;
mod retry_storm;
mod seen;
mod slow;
mod spinning;
mod stalled;
mod starved;
#[cfg(test)]
mod testing;
mod underprovisioned;
mod waiting;

use past::Past;
pub(super) use seen::{NOT_KNOWN, coverage};
pub(super) use stalled::advice;

use std::time::Duration;

use jiff::Timestamp;

use super::{Check, Questions, Verdict, observed};
use crate::finding::{
    Action, Causes, Confidence, Cost, Evidence, Finding, FindingKind, Remedy, Resource,
    StepTrouble, Trouble, Window,
};
use crate::fleet::JobStatus;
use crate::identity::AccountId;
use crate::judge::{Facts, Price};
use crate::profile::gather::{Profiled, Profiles, SeenRun};
use crate::shell;
use crate::sizing::SizedRequest;
use crate::step::{StepEnd, StepKind};
use crate::units::{Share, UsdPerHour};

type Rule<S> = (
    FindingKind,
    fn(&Facts<'_>, &S, &mut Questions) -> Option<Verdict>,
);

/// About all runs of one step, the most pressing first.
fn of_steps<'s>() -> [Rule<Step<'s>>; 3] {
    [
        (FindingKind::OutOfMemoryStep, out_of_memory::judge),
        (FindingKind::RetryStorm, retry_storm::judge),
        (FindingKind::UnderprovisionedStep, underprovisioned::judge),
    ]
}

/// About one run that is under way, the most pressing first.
fn of_runs<'s>() -> [Rule<UnderWay<'s>>; 6] {
    [
        (FindingKind::MemoryPressure, memory_pressure::judge),
        (FindingKind::StalledStep, stalled::judge),
        (FindingKind::StarvedStep, starved::judge),
        (FindingKind::SpinningStep, spinning::judge),
        (FindingKind::SlowStep, slow::judge),
        (FindingKind::WaitingStep, waiting::judge),
    ]
}

/// A step with all its runs.
#[derive(Clone, Copy)]
pub(super) struct Step<'a> {
    pub(super) name: &'a str,
    pub(super) profiled: &'a Profiled<'a>,
    past: Past,
}

/// A run that is under way, with the step that it is one of.
pub(super) struct UnderWay<'a> {
    pub(super) step: Step<'a>,
    pub(super) run: &'a SeenRun<'a>,
}

/// Judges every step of a pipeline.
pub(crate) fn judge(facts: &Facts<'_>, profiles: &Profiles<'_>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for step in all(facts, profiles) {
        verdicts.extend(first(facts, &step, &of_steps()));
        for run in under_way(facts, &step) {
            verdicts.extend(first(facts, &run, &of_runs()));
        }
    }
    verdicts
}

/// The questions of all rules about steps of this name, or about the run with this
/// id.
pub(crate) fn explain(facts: &Facts<'_>, profiles: &Profiles<'_>, id: &str) -> Vec<Check> {
    let mut checks = Vec::new();
    for step in all(facts, profiles) {
        if step.name == id {
            checks.extend(of_steps().iter().flat_map(|rule| asked(facts, &step, rule)));
        }
        for run in under_way(facts, &step).filter(|run| run.id() == id) {
            checks.extend(of_runs().iter().flat_map(|rule| asked(facts, &run, rule)));
        }
    }
    checks
}

fn all<'a>(facts: &Facts<'_>, profiles: &'a Profiles<'a>) -> impl Iterator<Item = Step<'a>> {
    let steps = profiles.by_step.iter();
    steps.map(|(key, profiled)| Step {
        name: &key.name,
        profiled,
        past: Past::of(facts, profiled),
    })
}

fn first<S>(facts: &Facts<'_>, subject: &S, rules: &[Rule<S>]) -> Option<Verdict> {
    let mut verdicts = rules
        .iter()
        .filter_map(|(kind, judge)| judge(facts, subject, &mut Questions::unwritten(*kind)));
    verdicts.next()
}

fn asked<S>(facts: &Facts<'_>, subject: &S, (kind, judge): &Rule<S>) -> Vec<Check> {
    Questions::written(*kind, |q| judge(facts, subject, q))
}

/// Runs that a fresh heartbeat shows under way. Where the Batch rule says that a job
/// makes no progress, it alone speaks.
fn under_way<'a>(facts: &Facts<'_>, step: &Step<'a>) -> impl Iterator<Item = UnderWay<'a>> {
    let fresh = facts.now.checked_sub(facts.policy.idle.after()).ok();
    let patience = facts.policy.batch.no_progress();
    let step = *step;
    let runs = step.profiled.runs.iter().filter(move |run| {
        let is_batchs = run.job.is_some_and(|job| job.status == JobStatus::Running);
        run.step.usage.end == StepEnd::Running
            && Some(run.step.observed_at) >= fresh
            && !(is_batchs && run.quiet() >= patience)
    });
    runs.map(move |run| UnderWay { step, run })
}

impl<'a> Step<'a> {
    /// Earlier runs that ended well, of which a history is made.
    pub(super) fn history(&self) -> impl Iterator<Item = &'a SeenRun<'a>> {
        past::well_ended(self.profiled)
    }

    /// A finding about the step as a whole, from the runs that show it; `None` of none.
    pub(super) fn found(
        &self,
        facts: &Facts<'_>,
        runs: Vec<&'a SeenRun<'a>>,
        mut wrong: Wrong,
    ) -> Option<Verdict> {
        let coverage = coverage(facts, &runs);
        if coverage.is_none() {
            wrong.confidence.reason += NOT_KNOWN;
        }
        let run = *runs.iter().max_by_key(|run| run.step.observed_at)?;
        let about = About {
            id: self.name.to_owned(),
            account: run.instance.account.as_ref(),
            run,
            coverage,
            window: Window {
                from: runs.iter().map(|run| watched_from(facts, run)).min()?,
                to: run.step.observed_at,
            },
            runs,
        };
        Some(found(facts, self, about, wrong))
    }
}

impl UnderWay<'_> {
    /// The Batch job, or the step on its node.
    fn id(&self) -> String {
        match self.run.job {
            Some(job) => job.id.as_str().to_owned(),
            None => format!("{}/{}", self.run.step.node, self.run.step.usage.id),
        }
    }

    /// Of a pipeline, whose steps are there to end. Sessions, services, pods and
    /// containers may be servers, whose rest is no fault.
    pub(super) fn is_there_to_end(&self) -> bool {
        let kind = self.run.step.usage.id.kind;
        self.run.job.is_some()
            || matches!(
                kind,
                StepKind::SlurmJob | StepKind::NextflowTask | StepKind::SnakemakeJob
            )
    }

    /// For how long its node was watched while it ran: what a long run did before the
    /// probe came was not seen, and is not judged.
    pub(super) fn watched(&self, facts: &Facts<'_>) -> Duration {
        let seen = self
            .run
            .step
            .observed_at
            .duration_since(watched_from(facts, self.run));
        let wall = self.run.wall();
        wall.min(Duration::try_from(seen).unwrap_or_default())
    }

    /// Asks whether it is [there to end](Self::is_there_to_end).
    pub(super) fn ends(&self, q: &mut Questions) -> bool {
        let ends = self.is_there_to_end();
        q.holds(
            "is it a step of a pipeline, which is there to end?",
            (if ends { "yes" } else { "no" }, ""),
            ends,
        )
    }

    /// A finding about the run, from when it was first seen.
    pub(super) fn found(&self, facts: &Facts<'_>, wrong: Wrong) -> Verdict {
        self.found_since(facts, watched_from(facts, self.run), wrong)
    }

    /// A finding about the run, from a time on, if it was seen by then.
    pub(super) fn found_since(&self, facts: &Facts<'_>, from: Timestamp, wrong: Wrong) -> Verdict {
        let from = from.max(watched_from(facts, self.run));
        let to = self.run.step.observed_at;
        let node = &self.run.step.node;
        let state = facts.state.nodes.get(node);
        let seen = state.map(|state| observed::observed(facts, node, state, Window { from, to }));
        let about = About {
            coverage: seen.map(|(_, seen)| seen),
            id: self.id(),
            account: None,
            run: self.run,
            runs: vec![self.run],
            window: Window { from, to },
        };
        found(facts, &self.step, about, wrong)
    }
}

/// When a run was first seen: at its start, or when the probe came to its node.
pub(super) fn watched_from(facts: &Facts<'_>, run: &SeenRun<'_>) -> Timestamp {
    let node = facts.state.nodes.get(&run.step.node);
    let came = node.and_then(|node| node.first_seen);
    came.map_or(run.step.started_at, |came| came.max(run.step.started_at))
}

/// What is wrong with a step or a run of it.
pub(super) struct Wrong {
    pub(super) kind: FindingKind,
    pub(super) trouble: Trouble,
    pub(super) causes: Option<Causes>,
    pub(super) confidence: Confidence,
    /// The time of the machine that was lost.
    pub(super) lost: Duration,
    pub(super) action: Action,
    pub(super) advice: String,
}

/// Whom a finding is about.
struct About<'a> {
    id: String,
    /// In whose account, where the id is but a name.
    account: Option<&'a AccountId>,
    /// The run that it is about, or the newest.
    run: &'a SeenRun<'a>,
    /// The runs concerned.
    runs: Vec<&'a SeenRun<'a>>,
    window: Window,
    /// How much of that was seen of its node.
    coverage: Option<Share>,
}

fn found(facts: &Facts<'_>, step: &Step<'_>, about: About<'_>, it: Wrong) -> Verdict {
    let (run, instance, id) = (about.run, about.run.instance, about.id);
    let window = about.window;
    Verdict::Waste(Box::new(Finding {
        id: Finding::id_in(it.kind, about.account, &instance.region, &id),
        kind: it.kind,
        window,
        coverage: about.coverage,
        evidence: Evidence::Step(StepTrouble {
            step: step.name.to_owned(),
            tools: seen::greatest_tools(step, run, &it.trouble),
            trouble: it.trouble,
            causes: it.causes,
        }),
        confidence: it.confidence,
        cost: price(facts, run).map(|price| lost(price, it.lost, window)),
        remedy: remedy(run, it.action, it.advice),
        recommendation: None,
        steps: about
            .runs
            .iter()
            .map(|run| run.link(step.name))
            .take(Finding::MAX_STEPS)
            .collect(),
        resource: Resource {
            tags: Default::default(),
            id,
            name: Some(
                run.job
                    .map_or(step.name, |job| job.name.as_str())
                    .to_owned(),
            ),
            region: instance.region.clone(),
            account: instance.account.clone(),
            node: Some(instance.id.to_string()),
            owner: run.owner(),
            instance_type: Some(instance.instance_type.clone()),
            market: Some(instance.market),
            controller: facts.controller(instance),
            origin: run.step.origin,
        },
    }))
}

/// What the part of its machine costs that a run asked for, or held at most.
fn price(facts: &Facts<'_>, run: &SeenRun<'_>) -> Option<Price> {
    let whole = facts.price_of(run.instance)?;
    let (asked, used) = (run.requested(), &run.step.usage);
    let request = SizedRequest {
        cores: asked.cores.or(used.peak_cores),
        memory: asked.memory.or(used.peak_memory.map(|peak| peak.bytes)),
    };
    let part = run.part_of(facts, whole.per_hour, request)?;
    Some(whole.scaled(part, whole.per_hour))
}

/// A day at least, or one lost hour would be told as a month of such hours.
const LEAST_WINDOW: Duration = Duration::from_secs(24 * 3600);

/// What the time lost costs, and a month with as much of it as the window had.
fn lost(price: Price, time: Duration, window: Window) -> Cost {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let of = millis(window.length().max(LEAST_WINDOW));
    let part = |whole: UsdPerHour| whole.part(millis(time), of);
    let per_hour = part(price.per_hour);
    Cost {
        per_hour,
        basis: price.basis,
        list_per_hour: price.list.map(part),
        spent: price.per_hour.over(time),
        saving_a_month: per_hour.a_month(),
        counted: None,
        price_as_of: price.as_of,
        list_as_of: price.list_as_of,
    }
}

/// The advice with the command that shows the run, where Batch ran it.
fn remedy(run: &SeenRun<'_>, action: Action, advice: String) -> Remedy {
    let region = &run.instance.region;
    Remedy {
        action,
        advice,
        command: Some(match run.job {
            Some(job) => {
                let jobs = shell::option("--jobs", job.id.as_str());
                format!("aws batch describe-jobs --region {region} {jobs}")
            }
            None => {
                let node = &run.step.node;
                format!("aws ssm start-session --region {region} --target {node}")
            }
        }),
    }
}

/// A count as findings tell it.
pub(super) fn many(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
