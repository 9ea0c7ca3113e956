//! Overprovisioned step: its request is far larger than the use of all its tasks.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::time::Duration;

use ebb_catalog::machine_type::Architecture;
use ebb_model::advice::offer::Offers;
use ebb_model::advice::placement;
use ebb_model::advice::sized_request::SizedRequest;
use ebb_model::confidence::Confidence;
use ebb_model::cost::Cost;
use ebb_model::finding::evidence::{Evidence, Overprovisioned};
use ebb_model::finding::{Action, Finding, Recommendation, Remedy, Resource, StepLink};
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::instance::Instance;
use ebb_sizing::cheapest_type::Needs;
use ebb_sizing::need::Sized;
use ebb_sizing::{cheapest_type, need};
use ebb_telemetry::identity::Region;
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::{PeakMemory, Requested};
use ebb_telemetry::time::Window;
use ebb_telemetry::units::{CpuTime, MilliCores, Share};
use jiff::Timestamp;

use crate::advice::placement::offers;
use crate::facts::Facts;
use crate::hourly_price::Price;
use crate::rules::step::run_coverage;
use crate::rules::trace::{Check, RuleTrace};
use crate::rules::verdict::Verdict;
use crate::shell;
use crate::step_history::by_step::{Profiles, StepEntry, StepHistory};
use crate::step_history::observed_task::ObservedTask as Run;

const KIND: FindingKind = FindingKind::OverprovisionedStep;

/// Evaluates every step with a request; its tasks are grouped by region and name.
pub(crate) fn evaluate(facts: &Facts<'_>, profiles: &Profiles<'_>) -> Vec<Verdict> {
    let steps = profiles.evaluated();
    let steps = steps.map(|entry| sized_step(facts, profiles, entry));
    steps
        .filter_map(|step| evaluate_step(facts, &step, &mut RuleTrace::unwritten(KIND)))
        .collect()
}

/// Questions about one step.
pub(crate) fn explain<'a>(
    facts: &Facts<'_>,
    profiles: &'a Profiles<'a>,
    entry: StepEntry<'a, 'a>,
) -> Vec<Check> {
    let step = sized_step(facts, profiles, entry);
    RuleTrace::written(KIND, |q| evaluate_step(facts, &step, q))
}

fn sized_step<'a>(
    facts: &Facts<'_>,
    profiles: &'a Profiles<'a>,
    (key, profiled): StepEntry<'a, 'a>,
) -> SizedStep<'a> {
    let has_request = |run: &&Run<'_>| run.requested() != Requested::default();
    let tells = |run: &&Run<'_>| run.profiled().tells(facts.policy);
    SizedStep {
        name: &key.name,
        runs: profiled
            .runs
            .iter()
            .filter(has_request)
            .filter(tells)
            .collect(),
        profiled: (&key.region, profiled),
        profiles,
    }
}

/// A step with the tasks that show its need.
struct SizedStep<'a> {
    name: &'a str,
    runs: Vec<&'a Run<'a>>,
    profiled: (&'a Region, &'a StepHistory<'a>),
    profiles: &'a Profiles<'a>,
}

fn evaluate_step(facts: &Facts<'_>, step: &SizedStep<'_>, q: &mut RuleTrace) -> Option<Verdict> {
    let (name, runs) = (step.name, step.runs.as_slice());
    q.holds(
        "How many of its tasks have a request and a measured demand?",
        (
            runs.len(),
            format_args!("at least {}", facts.policy.sizing.min_runs),
        ),
        (!runs.is_empty() && !step.profiled.1.need.too_few_tasks).then_some(true),
    );
    // A machine without a price says nothing about the saving on the others.
    let is_priced = |run: &Run<'_>| facts.price_of(run.instance).is_some();
    let newest = *runs
        .iter()
        .max_by_key(|run| (is_priced(run), run.step.observed_at))?;
    let requested = step.profiled.1.requested();
    let sized = need::within(requested, &step.profiled.1.need);
    let bound = Share::from_ppm(facts.policy.overprovisioned.needed_share_ppm);
    if !q.holds(
        "How much does the step need, with headroom, of its request?",
        (
            format_args!("{} of {}", worded(sized.request), worded(requested)),
            format_args!("at most {bound} of both"),
        ),
        far_less(bound, requested, sized.request),
    ) {
        return None;
    }
    let price = facts.price_of(newest.instance);
    let kind = &newest.instance.instance_type;
    q.holds(
        "Is the price of its machine known?",
        (kind, ""),
        price.map(|_| true),
    );
    let Some(price) = price else {
        let reason = match newest.instance.listed_type() {
            Some(kind) => format!("the price of {kind} is unknown"),
            None => format!(
                "the price of {} is unknown; state it under [[prices]] in the policy",
                newest.instance.id
            ),
        };
        return Some(Verdict::undetermined(KIND, name, Some(name), reason));
    };
    let now = newest.part_of(facts, price.per_hour, requested)?;
    let then = newest.part_of(facts, price.per_hour, sized.request)?;
    let saved = UsdPerHour(now.0 - then.0);
    let saving = price.scaled(saved, price.per_hour);
    let summary = TaskSummary::new(facts, name, runs)?;
    let cost = summary.cost(saving, facts.now);
    if !q.saves_enough(facts, &cost) {
        return None;
    }
    let recommendation = Recommendation {
        current_per_hour: Some(now),
        recommended_per_hour: Some(then),
        ..recommend(facts, step, newest, sized)
    };
    let found = make_finding(facts, newest, &summary, cost, recommendation);
    Some(Verdict::Waste(Box::new(found)))
}

/// The recommended request and machines, without the costs per hour.
fn recommend(
    facts: &Facts<'_>,
    step: &SizedStep<'_>,
    newest: &Run<'_>,
    sized: Sized,
) -> Recommendation {
    let offers = offers(facts, step.profiles, step.profiled, sized.request);
    let fitting = best(facts, &offers);
    Recommendation {
        current: step.profiled.1.requested(),
        recommended: sized.request,
        samples: u32::try_from(step.runs.len()).unwrap_or(u32::MAX),
        placement: fitting.or_else(|| place(facts, newest.instance, sized.request)),
        risk: sized.risk,
        offers,
        current_per_hour: None,
        recommended_per_hour: None,
        assumptions: vec![
            "a task costs the largest of its shares of the machine's cores, memory and GPUs"
                .into(),
            "the step continues to run as often as since its first observed task (at least one day)"
                .into(),
        ],
    }
}

/// Whether both the needed cores and the needed memory are small compared with the request. Only
/// then do more such tasks fit on a machine.
fn far_less(bound: Share, requested: SizedRequest, needed: SizedRequest) -> bool {
    let small = |needed: Option<u64>, requested: Option<u64>| match (needed, requested) {
        (Some(needed), Some(requested)) => {
            Share::from_parts(needed, requested).map(|share| share <= bound)
        }
        _ => None,
    };
    let cores = small(needed.cores.map(|c| c.0), requested.cores.map(|c| c.0));
    let memory = small(needed.memory.map(|m| m.0), requested.memory.map(|m| m.0));
    matches!((cores, memory), (Some(true), Some(true)))
}

fn worded(request: SizedRequest) -> String {
    let cores = request.cores.map(|cores| format!("{cores} vCPU"));
    let memory = request.memory.map(|memory| memory.to_string());
    let [cores, memory] = [cores, memory].map(|one| one.unwrap_or_else(|| "unknown".to_owned()));
    format!("{cores} and {memory}")
}

/// The cheapest suitable type; `None` for a task from a machine with GPUs, because it may need
/// them.
fn place(
    facts: &Facts<'_>,
    instance: &Instance,
    request: SizedRequest,
) -> Option<placement::Placement> {
    let spec = facts.catalogue.spec(&instance.instance_type);
    if spec.is_some_and(|spec| spec.gpus.is_some()) {
        return None;
    }
    let architecture = spec.map_or(Architecture::X86_64, |spec| spec.architecture);
    cheapest_type::cheapest(
        facts.catalogue,
        &instance.region,
        Needs {
            request,
            architecture,
        },
    )
}

fn best(facts: &Facts<'_>, offers: &Offers) -> Option<placement::Placement> {
    let first = offers.best.first()?;
    Some(placement::Placement {
        instance_type: first.instance_type.clone(),
        region: first.region.clone(),
        per_hour: first.per_hour,
        price_as_of: facts
            .catalogue
            .price_as_of(&first.region, &first.instance_type),
    })
}

/// Summary of all tasks.
struct TaskSummary {
    window: Window,
    coverage: Option<Share>,
    samples: u32,
    wall: Duration,
    cpu: CpuTime,
    peak_cores: Option<MilliCores>,
    peak_memory: Option<PeakMemory>,
    origin: Origin,
    /// The newest tasks.
    links: Vec<StepLink>,
}

impl TaskSummary {
    fn new(facts: &Facts<'_>, name: &str, runs: &[&Run<'_>]) -> Option<Self> {
        let from: Timestamp = runs.iter().map(|run| run.step.started_at).min()?;
        let to = runs.iter().map(|run| run.step.observed_at).max()?;
        Some(Self {
            window: Window { from, to },
            coverage: run_coverage::coverage(facts, runs),
            samples: u32::try_from(runs.len()).unwrap_or(u32::MAX),
            wall: runs.iter().map(|run| run.wall()).sum(),
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
            links: newest(runs).map(|run| run.link(name)).collect(),
        })
    }

    /// Cost of the waste during the tasks, and in a month if tasks recur at the same rate as since
    /// the first. A step that ran once does not run 730 hours a month.
    fn cost(&self, saving: Price, now: Timestamp) -> Cost {
        let known = Window {
            from: self.window.from,
            to: now,
        };
        let duty = |price: UsdPerHour| {
            let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            price.part(millis(self.wall), millis(known.at_least_a_day()))
        };
        let per_hour = duty(saving.per_hour);
        Cost {
            per_hour,
            basis: saving.basis,
            list_per_hour: saving.list.map(duty),
            spent: saving.per_hour.over(self.wall),
            saving_a_month: per_hour.a_month(),
            counted: None,
            price_as_of: saving.as_of,
            list_as_of: saving.list_as_of,
        }
    }
}

/// The newest tasks, up to the limit of a finding.
fn newest<'r, 'a>(runs: &[&'r Run<'a>]) -> impl Iterator<Item = &'r Run<'a>> {
    let mut runs = runs.to_vec();
    runs.sort_unstable_by_key(|run| Reverse((run.step.observed_at, &run.step.usage.id)));
    runs.into_iter().take(Finding::MAX_STEPS)
}

fn make_finding(
    facts: &Facts<'_>,
    run: &Run<'_>,
    summary: &TaskSummary,
    cost: Cost,
    recommendation: Recommendation,
) -> Finding {
    let (name, instance) = (run.name(), run.instance);
    let basis = recommendation.risk.basis.unwrap_or_default();
    let sized = recommendation.recommended;
    let not_known = summary.coverage.map_or(run_coverage::NOT_KNOWN, |_| "");
    Finding {
        id: Finding::id_in(KIND, instance.account.as_ref(), &instance.region, name),
        kind: KIND,
        window: summary.window,
        coverage: summary.coverage,
        evidence: Evidence::Overprovisioned(Overprovisioned {
            requested: run.requested(),
            peak_cores: summary.peak_cores,
            mean_cores: summary.cpu.cores_over(summary.wall),
            peak_memory: summary.peak_memory,
            samples: summary.samples,
            observed_for: summary.wall,
        }),
        confidence: Confidence {
            level: basis.confidence(),
            reason: format!("based on {basis}{not_known}{}", run.name.note()),
        },
        cost: Some(cost),
        remedy: Remedy {
            action: Action::Rightsize,
            advice: format!(
                "Request {} vCPU and {} instead.{}",
                sized
                    .cores
                    .map_or_else(|| "the same".to_owned(), |cores| cores.to_string()),
                sized
                    .memory
                    .map_or_else(|| "the same memory".to_owned(), |m| m.to_string()),
                run.name.advice(),
            ),
            command: Some(format!("ebb tune {}", shell::operand(name))),
        },
        recommendation: Some(recommendation),
        steps: summary.links.clone(),
        resource: Resource {
            tags: Default::default(),
            id: name.to_owned(),
            name: Some(run.job.map_or(name, |job| job.name.as_str()).to_owned()),
            region: instance.region.clone(),
            account: instance.account.clone(),
            node: Some(instance.id.to_string()),
            owner: run.owner(),
            instance_type: instance.listed_type(),
            market: instance.billed_market(),
            controller: facts.controller(instance),
            origin: summary.origin,
        },
    }
}
